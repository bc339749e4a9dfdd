"""Relative frequencies of items within groups of rows, shrunk towards the whole."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterrank.propensity_models.logistic import log_softmax

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: A group's frequencies count as much as this many rows of the whole log.
PRIOR_ROWS = 5.0


@dataclass(frozen=True, slots=True)
class Frequency:
    """Probabilities (G, A) by group; the group of a row is the only feature, its second column."""

    table: Floats

    def log_prob(self, x: Floats, available: Bools | None = None) -> Floats:
        """Return log-probabilities (n, A); a group never seen gets those of the whole, in the last row."""
        group = x[:, 1].astype(np.int64)
        return log_softmax(np.log(self.table[np.where(group < 0, len(self.table) - 1, group)]), available)


def fit_frequency(x: Floats, action: Ints, size: int, *, weight: Floats) -> Frequency:
    """Return (count + m p) / (n + m) for each group, with p the frequencies in all rows and m = PRIOR_ROWS."""
    group = x[:, 1].astype(np.int64)
    groups = int(group.max(initial=-1)) + 1
    counts = np.bincount(np.maximum(group, 0) * size + action, weights=weight, minlength=max(groups, 1) * size)
    counts = counts.reshape(-1, size)
    whole = counts.sum(axis=0) + 0.5
    whole /= whole.sum()
    table = (counts + PRIOR_ROWS * whole) / (counts.sum(axis=1, keepdims=True) + PRIOR_ROWS)
    return Frequency(np.vstack([table, whole]))
