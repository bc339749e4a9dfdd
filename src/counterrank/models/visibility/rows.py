"""Training rows as the steps read them."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from counterrank.log import RankingLog
from counterrank.models.layout import Scale, context_columns

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: All products of context columns up to this many columns, else squares, else the columns alone.
_PRODUCTS, _SQUARES = 6, 20


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """x (n, p) with a leading 1, moods (n, m), actions, rewards and presence (n, K), folds (n,)."""

    x: Floats
    moods: Floats
    action: Ints
    reward: Floats
    present: Floats
    fold: Ints

    @property
    def n(self) -> int:
        """Number of rankings."""
        return len(self.action)

    def take(self, keep: NDArray[np.bool_] | slice) -> "Rows":
        """Return some of the rows."""
        return Rows(*(np.ascontiguousarray(getattr(self, field.name)[keep]) for field in fields(self)))


def rows_of(log: RankingLog, scale: Scale, folds: int) -> Rows:
    """Return the rows of a log, its context standardised."""
    x = scale.apply(context_columns(log))
    present = (log.action >= 0).astype(np.float64)
    return Rows(x, moods(x), np.ascontiguousarray(log.action), log.reward * present, present, log.bucket % folds)


def moods(x: Floats) -> Floats:
    """Return what visibility may depend on (n, m): context columns, and products (or squares) less their mean.

    A user's patience is rarely monotone in a feature, so second-order terms are part of it.

    >>> moods(np.array([[1.0, 2.0]])).tolist()
    [[2.0, 3.0]]
    """
    z = x[:, 1:]
    d = z.shape[1]
    if d > _SQUARES:
        return z
    from counterrank.models.kernels.visibility_tilt import fill_moods

    left, right = np.triu_indices(d) if d <= _PRODUCTS else (np.arange(d),) * 2
    out = np.empty((len(z), d + len(left)))
    fill_moods(np.ascontiguousarray(z), left, right, out)
    return out
