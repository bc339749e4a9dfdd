"""The interface of ranking policies: samples, probabilities of items at positions, and their ratios."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from counterrank.common.arrays import Bools, Floats, Ints
from counterrank.common.errors import PolicyError, PropensityError

Rows = slice | Ints

#: The largest catalogue for which a user-defined policy is evaluated at every item.
MAX_EVALUATED_ITEMS = 256
#: The methods that a policy may offer. A missing name means that it has neither a formula nor a sampler.
CAPABILITIES = frozenset({"joint", "prefix", "position", "subset", "sample", "dist"})


@dataclass(frozen=True, slots=True)
class SubsetResult:
    """Log-probabilities of the logged items at subsets of positions.

    `log_prob` (n, J); `rel_var` (n, J) is the squared relative error of a sampled value, 0 where
    exact (sums, or quadrature to 1e-12).
    """

    log_prob: Floats
    rel_var: Floats

    @property
    def method(self) -> str:
        """Return "sampled" if any value was sampled, otherwise "exact"."""
        return "sampled" if self.rel_var.any() else "exact"


def finite_only(items: Ints, values: Floats) -> Floats:
    """Return values of items, NaN where they are infinite and for padding."""
    return np.where((items >= 0) & np.isfinite(values), values, np.nan)


def attraction(policy: object, items: Ints) -> Floats | None:
    """Return `Policy.attraction` of a policy, and None for propensities."""
    return policy.attraction(items) if isinstance(policy, Policy) else None


class Policy(ABC):
    """A distribution over rankings for each of n contexts.

    Policies are bound to rows: row i of the policy belongs to row i of the log. Actions are (n, K)
    integers; -1 pads a shorter ranking and is ignored everywhere. A subclass implements `take`,
    `sample` and `subset_log_prob`. The probabilities of prefixes and positions are derived from
    `subset_log_prob` unless a subclass overrides them with a faster formula.

    Examples
    --------
    >>> import counterrank as cr
    >>> policy = cr.PlackettLuce([[2.0, 1.0, 0.0]])
    >>> isinstance(policy, cr.Policy), policy.n_rows, policy.n_actions
    (True, 1, 3)
    >>> policy.sample(2, np.random.default_rng(0), size=4).shape
    (1, 4, 2)
    """

    #: True if positions are independent given the context (an item may then appear twice).
    factored: bool = False
    #: True if every row has only one possible ranking, so that importance weights are undefined.
    deterministic: bool = False
    capabilities: frozenset[str] = frozenset()
    #: The rule with `bind(log)` that made this policy, or None. Logs that are joined bind it again.
    rule: Any = None

    @property
    def propensity_kind(self) -> str:
        """The kind of propensity that describes this policy most completely."""
        return "factored" if self.factored else "prefix"

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Number of contexts, or 1 for a policy that ignores the context."""

    @property
    @abstractmethod
    def n_actions(self) -> int:
        """Number of actions A; ids are 0..A-1."""

    @abstractmethod
    def take(self, rows: Rows) -> Self:
        """Return the policy of the selected rows."""

    def of_rows(self, n: int) -> Self:
        """Return the policy of n rows; one of a single row serves all of them."""
        return self if self.n_rows == n else self.take(np.zeros(n, dtype=np.int64))

    @abstractmethod
    def sample(self, length: int, rng: np.random.Generator, *, size: int = 1) -> Ints:
        """Draw `size` rankings of `length` positions per row: (n, size, length)."""

    def prefix_log_prob(self, actions: Ints) -> Floats:
        """Return log P(a_1..a_k | x), cumulative over k: (n, K); the last column is the joint."""
        return self.subset_log_prob(actions, np.tri(np.shape(actions)[1], dtype=bool)).log_prob

    def prefix_log_probs(self, rankings: Ints) -> Floats:
        """Return `prefix_log_prob` of several rankings a row (n, S, K): (n, S, K)."""
        by_ranking = rankings.swapaxes(0, 1)
        log_probs = [self.prefix_log_prob(np.ascontiguousarray(ranking)) for ranking in by_ranking]
        return np.stack(log_probs, axis=1)

    def position_log_prob(self, actions: Ints) -> Floats:
        """Return the marginal log P(a_k at position k | x): (n, K)."""
        return self.subset_log_prob(actions, np.eye(np.shape(actions)[1], dtype=bool)).log_prob

    @abstractmethod
    def subset_log_prob(self, actions: Ints, masks: Bools) -> SubsetResult:
        """Return log P(logged items at the masked positions | x) for masks (J, K) or (n, J, K)."""

    def item_scores(self) -> Floats | None:
        """Return the scores of all items (n or 1, A), higher is better; None without scores.

        A policy that users define, such as a callback, has the log-probability of showing each item first:
        for Plackett-Luce it equals the score up to a constant per row.
        """
        n, A = self.n_rows, self.n_actions
        if "prefix" not in self.capabilities or A > MAX_EVALUATED_ITEMS:
            return None
        return self.prefix_log_probs(np.broadcast_to(np.arange(A)[:, None], (n, A, 1)))[:, :, 0]

    def attraction(self, items: Ints) -> Floats | None:
        """Return the scores of items (n, S, K) minus the mean of the row, or None without scores.

        The scores of a target are usually the best single feature of a reward model, because they were
        made to predict the reward.
        """
        table = self.item_scores()
        if table is None:
            return None
        rows = np.arange(len(items)) % len(table)
        values = table[rows[:, None, None], np.maximum(items, 0)]
        finite = np.isfinite(table)
        mean = np.where(finite, table, 0.0).sum(axis=1) / np.maximum(finite.sum(axis=1), 1)
        return finite_only(items, values - mean[rows, None, None])

    def dist(self) -> Floats:
        """Return the item distributions of a factored policy: (n, A), or (n, K, A) by position."""
        raise PolicyError(
            f"{type(self).__name__} has no per-position distribution: its positions depend on "
            "each other"
        )

    def __repr__(self) -> str:
        """Return the class and size of the policy; its arrays are too large to print."""
        return f"{type(self).__name__}(rows={self.n_rows}, actions={self.n_actions})"

    def require(self, capability: str) -> None:
        """Raise unless the policy offers `capability`."""
        if capability not in self.capabilities:
            available = ", ".join(sorted(self.capabilities)) or "nothing"
            raise PolicyError(
                f"{type(self).__name__} cannot give '{capability}' probabilities "
                f"(it has: {available})"
            )


#: Upper limit of the correction for a sampled denominator; larger ones are too noisy to apply.
MAX_CORRECTION = 0.5


def subset_log_ratio(
    logging: Policy,
    target: Policy,
    actions: Ints,
    masks: Bools,
    *,
    below: SubsetResult | None = None,
) -> tuple[Floats, Floats]:
    """Return log w (n, J) = log P_target(L) - log P_logging(L) and the squared relative error of w (n, J).

    Masks are (J, K) or (n, J, K). One call for many masks is faster than several, because single
    positions share a quadrature. If the denominator is sampled with squared relative error v0, its
    reciprocal is too large by v0 on average, so log(1 - min(v0, 1/2)) is added (second-order delta
    method). A probability of zero under the target gives a weight of zero (-inf). A probability of
    zero under the logging policy contradicts the log and raises PropensityError.
    """
    logging.require("subset")
    target.require("subset")
    below = logging.subset_log_prob(actions, masks) if below is None else below
    if (below.log_prob == -np.inf).any():
        i, j = np.argwhere(below.log_prob == -np.inf)[0]
        mask = masks[j] if masks.ndim == 2 else masks[i, j]
        positions = np.flatnonzero(mask & (actions[i] >= 0))
        raise PropensityError(
            f"row {i}: the logging policy never shows items {actions[i, positions].tolist()} at "
            f"positions {(positions + 1).tolist()}, yet they were logged; check that policy and "
            "log belong together"
        )
    above = target.subset_log_prob(actions, masks)
    correction = np.log1p(-np.minimum(below.rel_var, MAX_CORRECTION))
    # Equal policies use equal draws, so their ratio is exactly one and needs no correction.
    alike = (above.log_prob == below.log_prob) & (above.rel_var == below.rel_var)
    log_w = above.log_prob - below.log_prob + np.where(alike, 0.0, correction)
    return log_w, np.where(alike, 0.0, above.rel_var + below.rel_var)


def position_matrix(policy: Policy, actions: Ints) -> Floats:
    """Return (n, K, K): the probability that the item logged at position k is shown at position l.

    Each of the K cyclic shifts of the ranking gives K entries in one call. A ranking of L < K items
    is shifted within its L positions.
    """
    policy.require("position")
    n, K = actions.shape
    lengths = (actions >= 0).sum(axis=1)
    out = np.zeros((n, K, K))
    for length in np.unique(lengths):
        rows, k = np.flatnonzero(lengths == length), np.arange(length)
        policy_of_length = policy.take(rows)
        for turn in range(length):
            places = (k + turn) % length
            turned = np.roll(actions[rows, :length], turn, axis=1)
            chances = np.exp(policy_of_length.position_log_prob(turned))
            out[rows[:, None], k, places] = chances[:, places]
    return out
