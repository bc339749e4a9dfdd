"""Mixtures: one of several policies is drawn for the whole ranking, and the log does not record which."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from counterrank.common.arrays import Bools, Floats, Ints
from counterrank.common.errors import PolicyError
from counterrank.policies.arrays import ArrayPolicy, not_distribution
from counterrank.policies.base import Policy, Rows
from counterrank.policies.factored import Uniform
from counterrank.policies.ranked import UniformPermutation


class Mixture(ArrayPolicy):
    """P(L) = sum over components c of weight_c P_c(L), for any set L of positions.

    A mixture of factored policies is not factored, because one component is drawn for all positions
    of a ranking.

    Parameters
    ----------
    components
        The policies, over the same rows and actions.
    weights
        Their probabilities (C,), or (n, C) by row.

    Raises
    ------
    PolicyError
        The weights are no distribution, or the components differ in rows or actions.

    Examples
    --------
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
        bad = not_distribution(self.weights)
        if bad.any():
            i = int(np.argmax(bad))
            raise PolicyError(
                f"row {i}: mixture weights {self.weights[i].tolist()} must be a distribution"
            )
        if len({component.n_actions for component in self.components}) > 1:
            raise PolicyError(
                f"components differ in actions: {[component.n_actions for component in self.components]}"
            )
        if len({component.n_rows for component in self.components} - {1, self.n_rows}) > 0:
            raise PolicyError(
                f"components differ in rows: {[component.n_rows for component in self.components]}"
            )
        self.capabilities = frozenset.intersection(
            *(component.capabilities for component in self.components)
        ) - {"dist"}

    @property
    def n_rows(self) -> int:
        return max(len(self.weights), *(component.n_rows for component in self.components))

    @property
    def n_actions(self) -> int:
        return self.components[0].n_actions

    def take(self, rows: Rows) -> Self:
        chosen = copy.copy(self)
        chosen.weights = self.weights if len(self.weights) == 1 else self.weights[rows]
        chosen.components = tuple(component.take(rows) for component in self.components)
        return chosen

    def attraction(self, items: Ints) -> Floats | None:
        """Return that of the first component whose scores differ."""
        for component in self.components:
            scores = component.attraction(items)
            if scores is not None and np.nanmax(np.abs(scores), initial=0.0) > 0:
                return scores
        return None

    def prefix_log_prob(self, actions: Ints) -> Floats:
        return _log_sum(
            self._weighted([component.prefix_log_prob(actions) for component in self.components])
        )

    def solve(self, items: Ints, sets: Bools, first: int) -> tuple[Floats, Floats]:
        results = [component.subset_log_prob(items, sets) for component in self.components]
        terms = self._weighted([result.log_prob for result in results])
        log_prob = _log_sum(terms)
        # If all components are impossible, -inf minus -inf would be NaN; the share is then 0.
        share = np.exp(terms - np.where(log_prob > -np.inf, log_prob, 0.0))  # (C, n, J)
        # The errors of the components are treated as independent, so the variances of weight_c P_c add.
        rel_var = (share**2 * np.stack([result.rel_var for result in results])).sum(axis=0)
        return log_prob, rel_var

    def _weighted(self, log_probs: list[Floats]) -> Floats:
        """Return log(weight_c P_c) of log-probabilities (n, J) by component: (C, n, J)."""
        with np.errstate(divide="ignore"):
            return np.log(self.weights.T)[:, :, None] + np.stack(log_probs)

    def sample(self, length: int, rng: np.random.Generator, *, size: int = 1) -> Ints:
        from counterrank.policies.kernels.rows import categorical

        n = self.n_rows
        chosen = categorical(np.cumsum(self.weights, axis=1), rng.random((n, size)))
        out = np.full((n, size, length), -1, np.int64)
        # Every component draws for every row, so that the random numbers of a row do not depend on
        # the components drawn for other rows (`RowRandom`).
        for c, component in enumerate(self.components):
            times = size if component.n_rows == n else n * size
            drawn = component.sample(length, rng, size=times).reshape(n, size, length)
            out = np.where((chosen == c)[:, :, None], drawn, out)
        return out


def _log_sum(terms: Floats) -> Floats:
    total: Floats = np.logaddexp.reduce(terms)
    return np.minimum(total, 0.0)  # weights may exceed one by a rounding error


def epsilon_mixture(policy: Policy, epsilon: float) -> Mixture:
    """Return the policy that shows a uniformly random ranking with probability epsilon.

    Parameters
    ----------
    policy
        The policy that shows the ranking otherwise.
    epsilon
        Probability of the random ranking, 0 to 1.

    Returns
    -------
    Mixture
        The two policies with their weights.

    Raises
    ------
    PolicyError
        Epsilon is not in [0, 1].

    Examples
    --------
    >>> import counterrank as cr
    >>> mixed = cr.epsilon_mixture(cr.PlackettLuce([[2.0, 1.0, 0.0]]), 0.1)
    >>> mixed.weights.tolist()
    [[0.9, 0.1]]
    """
    # The random rankings repeat items if and only if the policy may.
    noise = Uniform(policy.n_actions) if policy.factored else UniformPermutation(policy.n_actions)
    return Mixture([policy, noise], [1 - epsilon, epsilon])


def pooled(policies: Sequence[Policy], counts: ArrayLike) -> Mixture:
    """Return the logging policy of pooled A/B arms: a mixture with the weights counts_c / n.

    It gives the balanced weights of Agarwal, Basu, Schnabel, Joachims (2017): a row is divided by
    the probability that any of the arms shows it, instead of the probability under its own arm.

    Parameters
    ----------
    policies
        The policy of each arm, bound to all pooled rows.
    counts
        Number of rows that each arm served.

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
