"""The rankings that move an estimate most: a list of ten that adds like everything else."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: How many rows are kept.
KEPT = 10


@dataclass(frozen=True, slots=True, eq=False)
class TopRows:
    """Indices in the whole log and totals of the rows with the largest |total|, the largest first; m <= 10 each."""

    rows: Ints
    totals: Floats

    def __add__(self, other: Self) -> Self:
        rows = np.concatenate([self.rows, other.rows])
        return type(self)(*_largest(rows, np.concatenate([self.totals, other.totals])))


def top_rows_of(rows: slice | Ints, totals: Floats) -> TopRows:
    """Return the top of one batch: `rows` as `RankingLog.rows` gives them, `totals` (n,) as a plan's partial does.

    >>> a = top_rows_of(slice(0, 3), np.array([1.0, -5.0, 2.0]))
    >>> both = a + top_rows_of(slice(3, 5), np.array([3.0, 0.0]))
    >>> both.rows.tolist(), both.totals.tolist()
    ([1, 3, 2, 0, 4], [-5.0, 3.0, 2.0, 1.0, 0.0])
    """
    indices = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
    if len(totals) > KEPT:
        # All that tie with the tenth go on, so that ties are settled by row number and not by the cut of the log.
        least = np.partition(np.abs(totals), -KEPT)[-KEPT]
        near = np.abs(totals) >= least
        indices, totals = indices[near], totals[near]
    return TopRows(*_largest(indices, totals))


def _largest(rows: Ints, totals: Floats) -> tuple[Ints, Floats]:
    order = np.lexsort((rows, -np.abs(totals)))[:KEPT]
    return rows[order], totals[order]
