"""The models of one position: features of the context, logistic regression, boosted trees,
frequencies.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from counterrank.errors import require
from counterrank.log import RankingLog

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: Categories beyond this many share a column.
MAX_CATEGORIES = 50


@dataclass(frozen=True, slots=True)
class Features:
    """How to turn context into features: means, scales and the categorical columns, learnt once."""

    mean: Floats
    scale: Floats
    categories: tuple[tuple[int, int], ...]
    missing: tuple[int, ...]

    @classmethod
    def learn(cls, log: RankingLog) -> Self:
        """Return the features of a log's context; none but a constant when there is no context."""
        context = np.empty((log.n, 0)) if log.context is None else log.context
        gaps = np.isnan(context)
        filled = np.where(gaps, 0.0, context)
        count = np.maximum((~gaps).sum(axis=0), 1)
        mean = filled.sum(axis=0) / count
        scale = np.sqrt(np.where(gaps, 0.0, (context - mean) ** 2).sum(axis=0) / count)
        categories = tuple(
            (j, min(len(log.categories[name]), MAX_CATEGORIES))
            for j, name in enumerate(log.context_names)
            if name in log.categories
        )
        return cls(
            mean,
            np.where(scale > 0, scale, 1.0),
            categories,
            tuple(np.flatnonzero(gaps.any(axis=0)).tolist()),
        )

    def of(self, log: RankingLog) -> Floats:
        """Return (n, d) features, the first of which is 1."""
        context = np.empty((log.n, 0)) if log.context is None else log.context
        gaps = np.isnan(context)
        scaled = np.where(gaps, 0.0, (context - self.mean) / self.scale)
        coded = {j for j, _ in self.categories}
        columns = [
            np.ones((log.n, 1)),
            scaled[:, [j for j in range(context.shape[1]) if j not in coded]],
        ]
        for j, size in self.categories:
            codes = np.where(gaps[:, j], -1, np.minimum(np.nan_to_num(context[:, j]), size - 1))
            columns.append((codes[:, None] == np.arange(size)).astype(np.float64))
        columns.append(gaps[:, list(self.missing)].astype(np.float64))
        return np.concatenate(columns, axis=1)


PENALTY = 1.0


@dataclass(frozen=True, slots=True)
class Logistic:
    """P(a | x) = exp(theta_a' x) / sum over available b of exp(theta_b' x); theta is (A, d)."""

    theta: Floats

    def log_prob(self, x: Floats, available: Bools | None = None) -> Floats:
        """Return log-probabilities (n, A), minus infinity where an item is not available."""
        return log_softmax(x @ self.theta.T, available)


def log_softmax(scores: Floats, available: Bools | None = None) -> Floats:
    """Return scores less the log of their summed exponentials.

    >>> np.exp(log_softmax(np.zeros((1, 2)))).tolist()
    [[0.5, 0.5]]
    """
    if available is not None:
        scores = np.where(available, scores, -np.inf)
    top = scores.max(axis=1, keepdims=True)
    shifted = scores - top
    result: Floats = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return result


def fit_logistic(
    x: Floats,
    action: Ints,
    size: int,
    *,
    weight: Floats,
    available: Bools | None = None,
    start: Floats | None = None,
) -> Logistic:
    """Return the penalised maximum-likelihood model by L-BFGS; items never shown keep a score from
    the penalty.

    Loss: -sum_i w_i log P(a_i | x_i) + PENALTY/2 |theta without the constant|^2, a little on the
    constant.
    """
    from scipy import optimize

    n, d = x.shape
    penalty = np.full((size, d), PENALTY)
    penalty[:, 0] = 1e-3 * PENALTY
    scale = 1.0 / max(float(weight.sum()), 1.0)

    def loss(flat: Floats) -> tuple[float, Floats]:
        theta = flat.reshape(size, d)
        log_p = log_softmax(x @ theta.T, available)
        residual = weight[:, None] * np.exp(log_p)
        residual[np.arange(n), action] -= weight
        value = -float(weight @ log_p[np.arange(n), action]) + 0.5 * float(
            (penalty * theta**2).sum()
        )
        return value * scale, ((residual.T @ x + penalty * theta) * scale).ravel()

    first = np.zeros(size * d) if start is None else start.ravel()
    found = optimize.minimize(
        loss, first, jac=True, method="L-BFGS-B", options={"maxiter": 200, "ftol": 1e-10}
    )
    return Logistic(np.asarray(found.x).reshape(size, d))


@dataclass(frozen=True, slots=True, eq=False)
class Boosting:
    """A fitted classifier whose classes are a part of the items."""

    classifier: Any
    size: int

    def log_prob(self, x: Floats, available: Bools | None = None) -> Floats:
        """Return log-probabilities (n, A), renormalised over what is available."""
        table = np.full((len(x), self.size), 1e-12)
        table[:, self.classifier.classes_] = np.maximum(self.classifier.predict_proba(x), 1e-12)
        return log_softmax(np.log(table), available)


def fit_boosting(x: Floats, action: Ints, size: int, *, weight: Floats, seed: int) -> Boosting:
    """Return shallow boosted trees: their defaults are calibrated well enough for the temperature
    to finish.
    """
    ensemble = require("sklearn.ensemble", extra="models")
    classifier = ensemble.HistGradientBoostingClassifier(
        max_iter=60, learning_rate=0.1, max_leaf_nodes=8, l2_regularization=1.0, random_state=seed
    )
    return Boosting(classifier.fit(x, action, sample_weight=weight), size)


@dataclass(frozen=True, slots=True)
class Certain:
    """A position that showed one item only."""

    item: int
    size: int

    def log_prob(self, x: Floats, available: Bools | None = None) -> Floats:
        """Return zero for the item, a very small probability for all others."""
        scores = np.full((len(x), self.size), -30.0)
        scores[:, self.item] = 0.0
        return log_softmax(scores, available)


#: A group's frequencies count as much as this many rows of the whole log.
PRIOR_ROWS = 5.0


@dataclass(frozen=True, slots=True)
class Frequency:
    """Probabilities (G, A) by group; the group of a row is the only feature, its second column."""

    table: Floats

    def log_prob(self, x: Floats, available: Bools | None = None) -> Floats:
        """Return log-probabilities (n, A); a group never seen gets those of the whole, in the last
        row.
        """
        group = x[:, 1].astype(np.int64)
        return log_softmax(
            np.log(self.table[np.where(group < 0, len(self.table) - 1, group)]), available
        )


def fit_frequency(x: Floats, action: Ints, size: int, *, weight: Floats) -> Frequency:
    """Return (count + m p) / (n + m) for each group, with p the frequencies in all rows and m =
    PRIOR_ROWS.
    """
    group = x[:, 1].astype(np.int64)
    groups = int(group.max(initial=-1)) + 1
    counts = np.bincount(
        np.maximum(group, 0) * size + action, weights=weight, minlength=max(groups, 1) * size
    )
    counts = counts.reshape(-1, size)
    whole = counts.sum(axis=0) + 0.5
    whole /= whole.sum()
    table = (counts + PRIOR_ROWS * whole) / (counts.sum(axis=1, keepdims=True) + PRIOR_ROWS)
    return Frequency(np.vstack([table, whole]))
