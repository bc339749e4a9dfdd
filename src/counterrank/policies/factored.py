"""Factored policies: every position draws its item independently from a table of probabilities.

P(L) = prod over the masked positions of p_k(a_k | x), so log-probabilities are sums.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from counterrank.common.arrays import Bools, Floats, Ints
from counterrank.common.errors import PolicyError
from counterrank.policies.arrays import EVERYTHING, SUM_TOLERANCE, ClosedFormPolicy, as_actions


class Factored(ClosedFormPolicy):
    """A policy given by a table of item probabilities.

    Parameters
    ----------
    probs
        Probabilities (n, A), the same at every position, or (n, K, A). A table with one row
        serves every row of a log.

    Raises
    ------
    PolicyError
        The table has another shape, or a row is no distribution.

    Examples
    --------
    >>> policy = Factored([[0.2, 0.8], [0.5, 0.5]])
    >>> np.exp(policy.prefix_log_prob(np.array([[1, 1], [0, 1]]))).round(2).tolist()
    [[0.8, 0.64], [0.5, 0.25]]
    """

    row_fields = ("log_table",)
    factored = True
    capabilities = EVERYTHING | {"dist"}

    def __init__(self, probs: ArrayLike) -> None:
        table = _as_table(probs, "probabilities")
        if (table < 0).any() or np.isnan(table).any():
            where = np.argwhere((table < 0) | np.isnan(table))[0]
            raise PolicyError(
                f"row {where[0]}: probability {table[tuple(where)]} of action {where[-1]}"
            )
        with np.errstate(divide="ignore"):
            self.log_table: Floats = np.log(table)
        self.check()

    def check(self) -> None:
        sums = np.exp(self.log_table).sum(axis=-1)
        # Written as "not close to 1", so that a sum of NaN is refused.
        bad = ~(np.abs(sums - 1) <= SUM_TOLERANCE)
        if bad.any():
            where = tuple(np.argwhere(bad)[0])
            raise PolicyError(
                f"row {where[0]}: probabilities sum to {sums[where]:.9g}, not 1; "
                "divide each row by its sum, or use Softmax for scores"
            )

    def prepare(self, items: Ints) -> Floats:
        """Return log p_k(a_k | x) of the items (n, K), 0 for padding."""
        n, K = items.shape
        table = self.log_table
        rows = np.arange(n)[:, None] % len(table)
        if table.ndim == 2:
            values = table[rows, items]
        else:
            self._check_length(K)
            values = table[rows, np.arange(K), items]
        # The index -1 of padding has read the last action's value.
        return np.where(items < 0, 0.0, values)

    def prefix_log_prob(self, actions: Ints) -> Floats:
        return np.cumsum(self.position_log_prob(actions), axis=1)

    def position_log_prob(self, actions: Ints) -> Floats:
        return self.prepare(as_actions(actions, self))

    def event(self, items: Floats, mask: Bools) -> Floats:
        # `where` rather than a product with the mask, because 0 times -inf is NaN.
        return np.asarray(items.sum(axis=1, where=mask))

    def sample(self, length: int, rng: np.random.Generator, *, size: int = 1) -> Ints:
        from counterrank.policies.kernels.rows import categorical

        n, tables = self.n_rows, 1
        if self.log_table.ndim == 3:
            self._check_length(length)
            tables = length
        cumulative = np.cumsum(np.exp(self.log_table.reshape(n, -1, self.n_actions)), axis=2)
        drawn = categorical(
            cumulative[:, :tables].reshape(n * tables, -1),
            rng.random((n * tables, size * length // tables)),
        )
        by_table = drawn.reshape(n, tables, size, -1)
        return np.ascontiguousarray(by_table.swapaxes(1, 2)).reshape(n, size, length)

    def dist(self) -> Floats:
        return np.exp(self.log_table)

    def _check_length(self, length: int) -> None:
        if length > self.log_table.shape[1]:
            raise PolicyError(
                f"the table describes {self.log_table.shape[1]} positions, {length} were asked "
                "for; give probabilities for every position, or (n, A) for the same at each"
            )


class Softmax(Factored):
    """p(a | x) proportional to exp(score / temperature).

    Parameters
    ----------
    scores
        Scores (n, A) or (n, K, A). A score of -inf makes an action unavailable.
    temperature
        A positive number; a larger one makes the distribution flatter.

    Raises
    ------
    PolicyError
        A score is NaN or too large, a row has no available action, or the temperature is not
        positive.

    Examples
    --------
    >>> Softmax([[0.0, np.log(3.0)]]).dist().round(2).tolist()
    [[0.25, 0.75]]
    """

    def __init__(self, scores: ArrayLike, temperature: float = 1.0) -> None:
        table = as_scores(scores, temperature)
        shifted = table - table.max(axis=-1, keepdims=True)
        self.log_table = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


class EpsilonGreedy(Factored):
    """The best action with probability 1 - epsilon, a uniformly drawn action with probability epsilon.

    p(a | x) = epsilon / A + (1 - epsilon) 1[a is best] / (number of best). Negate the scores to
    minimise them.

    Parameters
    ----------
    scores
        Scores (n, A) or (n, K, A). A score of -inf makes an action unavailable.
    epsilon
        Probability of the uniform draw, 0 to 1.

    Raises
    ------
    PolicyError
        A score is NaN or too large, or epsilon is no probability.

    Examples
    --------
    >>> EpsilonGreedy([[1.0, 2.0, 2.0]], epsilon=0.3).dist().round(2).tolist()
    [[0.1, 0.45, 0.45]]
    """

    def __init__(self, scores: ArrayLike, epsilon: float = 0.3) -> None:
        if not 0 <= epsilon <= 1:
            raise PolicyError(f"epsilon must lie in [0, 1], got {epsilon}")
        table = as_scores(scores)
        best = table == table.max(axis=-1, keepdims=True)
        available = table > -np.inf
        greedy = best / best.sum(axis=-1, keepdims=True)
        # Only available actions are explored: an action of score -inf must stay impossible.
        explore = available / available.sum(axis=-1, keepdims=True)
        with np.errstate(divide="ignore"):
            self.log_table = np.log(epsilon * explore + (1 - epsilon) * greedy)


class Uniform(Factored):
    """Every action with probability 1/A at every position of every row.

    Parameters
    ----------
    n_actions
        Number of actions A.

    Raises
    ------
    PolicyError
        There is no action.

    Examples
    --------
    >>> Uniform(4).dist().tolist()
    [[0.25, 0.25, 0.25, 0.25]]
    """

    def __init__(self, n_actions: int) -> None:
        if n_actions < 1:
            raise PolicyError(f"a policy needs at least one action, got n_actions={n_actions}")
        self.log_table = np.full((1, n_actions), -np.log(n_actions))


#: Sums and squares of larger scores overflow.
LARGEST_SCORE = 1e100


def not_scores(values: Floats) -> Bools:
    """Return True for values that are neither a finite score nor -inf (not eligible)."""
    scores: Bools = (np.abs(values) <= LARGEST_SCORE) | (values == -np.inf)
    return ~scores


def best_first(scores: Floats) -> Ints:
    """Return the columns (n, C) by descending score, -1 if not eligible; ties keep their order."""
    order = np.argsort(-scores, axis=1, kind="stable")
    return np.where(np.take_along_axis(scores, order, axis=1) > -np.inf, order, -1)


def as_scores(
    scores: ArrayLike, temperature: float = 1.0, *, ndims: tuple[int, ...] = (2, 3)
) -> Floats:
    """Return scores / temperature as a float64 table with at least one finite entry per row."""
    if not (temperature > 0 and np.isfinite(temperature)):
        raise PolicyError(f"temperature must be positive and finite, got {temperature}")
    table = _as_table(scores, "scores", ndims)
    bad = not_scores(table)
    if bad.any():
        where = np.argwhere(bad)[0]
        raise PolicyError(
            f"row {where[0]}: score {table[tuple(where)]:.6g} of action {where[-1]} is not a number "
            f"between -{LARGEST_SCORE:.0e} and {LARGEST_SCORE:.0e}, nor -inf"
        )
    empty = ~(table > -np.inf).any(axis=-1)
    if empty.any():
        raise PolicyError(
            f"row {np.argwhere(empty)[0][0]}: every score is -inf, no action is available"
        )
    return table / temperature


def _as_table(values: ArrayLike, what: str, ndims: tuple[int, ...] = (2, 3)) -> Floats:
    table = np.asarray(values, dtype=np.float64)
    if table.ndim not in ndims or table.shape[-1] == 0:
        shapes = "(n, A) or (n, K, A)" if 3 in ndims else "(n, A)"
        raise PolicyError(f"{what} must have shape {shapes}, got {table.shape}")
    return table
