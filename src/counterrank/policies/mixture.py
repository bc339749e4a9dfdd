"""Mixtures: one of several policies is chosen for the whole ranking, unseen by the log."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from counterrank.arrays import Bools, Floats, Ints
from counterrank.errors import PolicyError
from counterrank.policies.arrays import ArrayPolicy, no_distribution
from counterrank.policies.base import Policy, Rows, SubsetResult
from counterrank.policies.factored import Uniform
from counterrank.policies.ranked import UniformPermutation


class Mixture(ArrayPolicy):
    """P(L) = sum over components c of weight_c P_c(L): probabilities of the set are mixed, never ratios per slot.

    Weights are (C,) or, per row, (n, C). A mixture of factored policies is not factored: one coin
    serves all positions of a ranking.

    >>> policy = Mixture([Uniform(2), Uniform(2)], [0.25, 0.75])
    >>> np.exp(policy.prefix_log_prob(np.array([[0, 1]]))).round(3).tolist()
    [[0.5, 0.25]]
    """

    row_fields = ("weights",)
    shared_fields = ("components",)

    def __init__(self, components: Sequence[Policy], weights: ArrayLike) -> None:
        self.components = tuple(components)
        self.weights: Floats = np.atleast_2d(np.asarray(weights, dtype=np.float64))
        self.check()

    def check(self) -> None:
        C = len(self.components)
        if C == 0 or self.weights.ndim != 2 or self.weights.shape[1] != C:
            raise PolicyError(
                f"{C} components need weights ({C},) or (n, {C}), got {self.weights.shape}"
            )
        bad = no_distribution(self.weights)
        if bad.any():
            i = int(np.argmax(bad))
            raise PolicyError(
                f"row {i}: mixture weights {self.weights[i].tolist()} must be a distribution"
            )
        if len({part.n_actions for part in self.components}) > 1:
            raise PolicyError(
                f"components differ in actions: {[part.n_actions for part in self.components]}"
            )
        if len({part.n_rows for part in self.components} - {1, self.n_rows}) > 0:
            raise PolicyError(
                f"components differ in rows: {[part.n_rows for part in self.components]}"
            )
        self.capabilities = frozenset.intersection(
            *(part.capabilities for part in self.components)
        ) - {"dist"}

    @property
    def n_rows(self) -> int:
        return max(len(self.weights), *(part.n_rows for part in self.components))

    @property
    def n_actions(self) -> int:
        return self.components[0].n_actions

    def take(self, rows: Rows) -> Self:
        chosen = copy.copy(self)
        chosen.weights = self.weights if len(self.weights) == 1 else self.weights[rows]
        chosen.components = tuple(part.take(rows) for part in self.components)
        return chosen

    def prefix_log_prob(self, actions: Ints) -> Floats:
        return _added(self._terms([part.prefix_log_prob(actions) for part in self.components]))

    def position_log_prob(self, actions: Ints) -> Floats:
        return _added(self._terms([part.position_log_prob(actions) for part in self.components]))

    def subset_log_prob(self, actions: Ints, masks: Bools) -> SubsetResult:
        parts = [part.subset_log_prob(actions, masks) for part in self.components]
        terms = self._terms([part.log_prob for part in parts])
        log_prob = _added(terms)
        # Where all components are impossible, -inf minus -inf would be NaN; the share is 0 there.
        share = np.exp(terms - np.where(log_prob > -np.inf, log_prob, 0.0))  # (C, n, J)
        # Errors of components taken as independent: variances of weight_c P_c add, relative to the whole's square.
        rel_var = (share**2 * np.stack([part.rel_var for part in parts])).sum(axis=0)
        return SubsetResult(log_prob, rel_var)

    def _terms(self, each: list[Floats]) -> Floats:
        """Return log(weight_c P_c) of log-probabilities (n, J) by component: (C, n, J)."""
        with np.errstate(divide="ignore"):
            return np.log(self.weights.T)[:, :, None] + np.stack(each)

    def sample(self, length: int, rng: np.random.Generator, *, size: int = 1) -> Ints:
        from counterrank.policies.kernels.rows import categorical

        n = self.n_rows
        chosen = categorical(np.cumsum(self.weights, axis=1), rng.random((n, size)))
        out = np.full((n, size, length), -1, np.int64)
        # Every component draws for every row, so that the random numbers of a row do not depend on the
        # coins of others (`RowRandom`).
        for c, part in enumerate(self.components):
            times = size if part.n_rows == n else n * size
            drawn = part.sample(length, rng, size=times).reshape(n, size, length)
            out = np.where((chosen == c)[:, :, None], drawn, out)
        return out


def _added(terms: Floats) -> Floats:
    total: Floats = np.logaddexp.reduce(terms)
    return np.minimum(total, 0.0)  # weights may sum to one plus a rounding


def epsilon_mixture(policy: Policy, epsilon: float) -> Mixture:
    """Return the policy that shows a uniformly random ranking with probability epsilon.

    Parameters
    ----------
    policy
        What shows the whole ranking otherwise.
    epsilon
        The probability, 0 to 1.

    Returns
    -------
    Mixture
        Both policies with their weights.

    Raises
    ------
    PolicyError
        Epsilon is no probability.

    Examples
    --------
    >>> import counterrank as cr
    >>> mixed = cr.epsilon_mixture(cr.PlackettLuce([[2.0, 1.0, 0.0]]), 0.1)
    >>> mixed.weights.tolist()
    [[0.9, 0.1]]
    """
    # The noise must be of the policy's kind: with repeats, or without.
    noise = Uniform(policy.n_actions) if policy.factored else UniformPermutation(policy.n_actions)
    return Mixture([policy, noise], [1 - epsilon, epsilon])


def pooled(policies: Sequence[Policy], counts: ArrayLike) -> Mixture:
    """Return the logging policy of pooled A/B arms: arm c weighs its share of the rows, counts_c / n.

    These are the balanced weights of Agarwal, Basu, Schnabel, Joachims (2017): a row is divided by the
    probability that any arm would have shown it, not only its own.

    Parameters
    ----------
    policies
        The policy of each arm, bound to all pooled rows.
    counts
        How many rows each arm served.

    Returns
    -------
    Mixture
        The policies with their shares.

    Raises
    ------
    PolicyError
        The numbers of policies and counts differ, or a count is negative.

    Examples
    --------
    >>> import counterrank as cr
    >>> arms = [cr.PlackettLuce([[1.0, 0.0]]), cr.PlackettLuce([[0.0, 1.0]])]
    >>> cr.pooled(arms, [300, 100]).weights.tolist()
    [[0.75, 0.25]]
    """
    sizes = np.asarray(counts, dtype=np.float64)
    if sizes.ndim != 1 or not (sizes >= 0).all() or not sizes.sum() > 0:
        raise PolicyError(
            f"counts must be one non-negative number per policy, got {sizes.tolist()}"
        )
    return Mixture(policies, sizes / sizes.sum())
