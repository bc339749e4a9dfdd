"""Training rows as the steps read them."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from counterrank.log import RankingLog
from counterrank.models.layout import Scale, context_columns
from counterrank.models.settings import TRAIT_PRODUCTS, TRAIT_SQUARES

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """x (n, p) with a leading 1, traits (n, m), actions, rewards and presence (n, K), folds (n,)."""

    x: Floats
    traits: Floats
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
        return Rows(
            *(np.ascontiguousarray(getattr(self, field.name)[keep]) for field in fields(self))
        )

    def thinned(self, count: int) -> "Rows":
        """Return every j-th row, such that about `count` are left."""
        return self.take(slice(None, None, max(self.n // count, 1)))


def rows_of(log: RankingLog, scale: Scale, folds: int) -> Rows:
    """Return the rows of a log, its context standardised."""
    x = scale.apply(context_columns(log))
    present = (log.action >= 0).astype(np.float64)
    return Rows(
        x,
        traits_of(x),
        np.ascontiguousarray(log.action),
        log.reward * present,
        present,
        log.bucket % folds,
    )


def traits_of(x: Floats) -> Floats:
    """Return what examination may depend on (n, m): context columns, and products (or squares) less
    their mean.

    A user's patience is rarely monotone in a feature, so second-order terms are part of it.

    >>> traits_of(np.array([[1.0, 2.0]])).tolist()
    [[2.0, 3.0]]
    """
    z = x[:, 1:]
    d = z.shape[1]
    if d > TRAIT_SQUARES:
        return np.ascontiguousarray(z)
    # The context is standardised, so a square has mean 1: (left == right) takes it off, and traits
    # have mean zero.
    left, right = np.triu_indices(d) if d <= TRAIT_PRODUCTS else (np.arange(d),) * 2
    return np.ascontiguousarray(
        np.concatenate([z, z[:, left] * z[:, right] - (left == right)], axis=1)
    )
