"""What one pass over the log leaves behind: the states of all plans, and how their row totals vary together."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from counterrank.diagnostics import TopRows
from counterrank.readers import Fingerprint

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Totals:
    """Sums and Gram matrix of per-row totals: column 0 is what the logger earned, then those of each plan.

    `absolute` sums |total|; `buckets` (1024, T+1) holds the sums by unit, with row counts last, when errors are
    clustered.
    """

    n: int
    sums: Floats
    gram: Floats
    absolute: Floats
    buckets: Floats | None = None

    def __add__(self, other: Self) -> Self:
        buckets = None if self.buckets is None or other.buckets is None else self.buckets + other.buckets
        absolute = self.absolute + other.absolute
        return type(self)(self.n + other.n, self.sums + other.sums, self.gram + other.gram, absolute, buckets)

    @property
    def units(self) -> int:
        """Number of independent pieces: rows, or used buckets of units (at most 1024) when clustered."""
        return self.n if self.buckets is None else int((self.buckets[:, -1] > 0).sum())

    def variance(self, combination: Floats) -> float:
        """Return the variance of the mean of a combination of the columns (T,); NaN from one row or unit."""
        if self.units < 2:
            return float("nan")
        mean = self.sums / self.n
        if self.buckets is not None:
            used = self.buckets[:, -1] > 0
            units = int(used.sum())
            table = self.buckets[used]
            scores = table[:, :-1] @ combination - table[:, -1] * float(mean @ combination)
            return units / (units - 1) * float(scores @ scores) / self.n**2
        spread = self.gram / self.n - np.outer(mean, mean)
        return max(float(combination @ spread @ combination), 0.0) / (self.n - 1)


def totals_of(columns: Floats, bucket: NDArray[np.int64] | None) -> Totals:
    """Return the sums of one batch of totals (n, T)."""
    table = None
    if bucket is not None:
        from counterrank.kernels.hashing import BUCKETS

        table = np.zeros((BUCKETS, columns.shape[1] + 1))
        np.add.at(table[:, :-1], bucket, columns)
        table[:, -1] = np.bincount(bucket, minlength=BUCKETS)
    return Totals(len(columns), columns.sum(axis=0), columns.T @ columns, np.abs(columns).sum(axis=0), table)


@dataclass(frozen=True, slots=True, eq=False)
class PassState:
    """The sum over batches of everything an evaluation needs."""

    states: tuple[Any, ...]
    totals: Totals
    segments: Mapping[tuple[str, str], tuple[Any, ...]]
    fingerprint: Fingerprint
    #: The rows that move each plan's estimate most, where its total is one number a row.
    tops: tuple[TopRows | None, ...] = ()

    def __add__(self, other: Self) -> Self:
        return type(self)(
            tuple(a + b for a, b in zip(self.states, other.states, strict=True)),
            self.totals + other.totals,
            _merged(self.segments, other.segments),
            self.fingerprint + other.fingerprint,
            tuple(None if a is None or b is None else a + b for a, b in zip(self.tops, other.tops, strict=True)),
        )


def _merged(
    left: Mapping[tuple[str, str], tuple[Any, ...]], right: Mapping[tuple[str, str], tuple[Any, ...]]
) -> dict[tuple[str, str], tuple[Any, ...]]:
    joined = dict(left)
    for key, states in right.items():
        mine = joined.get(key)
        joined[key] = states if mine is None else tuple(a + b for a, b in zip(mine, states, strict=True))
    return joined
