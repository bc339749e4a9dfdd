"""What an estimator says of each row of a log, each number under a key, and the sums over rows.

Every number is summed once: columns with equal keys are one column, whichever estimator, metric or target
asks for them. A group of rows is a sum over the same columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterrank.common.arrays import Floats, Ints, Summed
from counterrank.data.log import RankingLog
from counterrank.statistics import ColumnSums, Key, PositionSums, sums_of

#: All rows of a batch, or some by number.
Rows = slice | Ints
ALL = slice(None)
#: The number of items shown in a row.
SHOWN: Key = "shown"


def logged(metric: str) -> Key:
    """Return the key of what the logger earned of a metric: of the row's total, and at each position."""
    return "logged", metric


@dataclass(frozen=True, slots=True, eq=False)
class PositionColumns:
    """Columns at each position, of which the first is the logged reward.

    ============  ==================================================================================
    `keys`        their names
    `rows`        makes a table of them (K, p, n)
    `sums`        makes their sums over all rows of the batch, where these are known without products
    `row_keys`    keys of row totals whose products with the columns are needed
    `by_unit`     whether they are summed by unit where the log has units
    `in_groups`   whether groups of rows need their means
    ============  ==================================================================================
    """

    keys: tuple[Key, ...]
    rows: Callable[[], Floats]
    sums: Callable[[], PositionSums] | None = None
    row_keys: tuple[Key, ...] = ()
    by_unit: bool = True
    in_groups: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """What an estimator says of the rows of a batch.

    `totals` are row totals (n,) by key, not multiplied by the rows' weights. `extras` returns what is no mean
    of a column, for some of the rows: anything that adds.
    """

    totals: Mapping[Key, Floats]
    positions: PositionColumns
    extras: Callable[[Rows], Any]


@dataclass(frozen=True, slots=True, eq=False)
class LogSums(Summed):
    """Sums over rows of a log: of all columns, and by key of a fit what is no mean of a column."""

    sums: ColumnSums
    extras: Mapping[Key, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Position columns that stand together, for the covariance between them."""

    parts: tuple[PositionColumns, ...]

    @property
    def keys(self) -> tuple[Key, ...]:
        """The keys, of the logged reward once."""
        first, *further = self.parts
        return (*first.keys, *(key for columns in further for key in columns.keys[1:]))

    @property
    def row_keys(self) -> tuple[Key, ...]:
        """Keys of the row totals beside them."""
        return tuple(key for columns in self.parts for key in columns.row_keys)

    def summed(
        self, totals: Mapping[Key, Floats], rows: Rows, bucket: Ints | None, weight: Floats | None
    ) -> PositionSums:
        """Return the sums over some rows; `bucket` and `weight` (n,) are those of these rows."""
        first, all_rows = self.parts[0], isinstance(rows, slice)
        bucket = bucket if first.by_unit else None
        if (
            all_rows
            and len(self.parts) == 1
            and first.sums is not None
            and bucket is None
            and weight is None
        ):
            return first.sums()
        keys, table = first.keys, first.rows()
        if len(self.parts) > 1:
            named = dict(zip(keys, table.swapaxes(0, 1), strict=True))
            for columns in self.parts[1:]:
                named |= dict(zip(columns.keys, columns.rows().swapaxes(0, 1), strict=True))
            keys, table = tuple(named), np.stack([*named.values()], axis=1)
        table = _weighted(table[:, :, rows], weight)
        row_totals = {key: _weighted(totals[key][rows], weight) for key in self.row_keys}
        return PositionSums.from_columns(keys, table, bucket, row_totals, products=all_rows)


def _weighted(column: Floats, weight: Floats | None) -> Floats:
    return column if weight is None else column * weight


def summed(
    batch: RankingLog,
    totals: Mapping[Key, Floats],
    columns: Mapping[Key, Columns],
    rows: Rows = ALL,
    *,
    by_unit: bool = False,
    together: Iterable[Sequence[Key]] = (),
) -> LogSums:
    """Return the sums of columns over some rows of a batch.

    Parameters
    ----------
    batch
        The batch.
    totals
        Row totals (n,) that belong to no estimator.
    columns
        What estimators say, by key of the fit.
    rows
        The rows.
    by_unit
        Whether errors are clustered by unit.
    together
        Fits whose columns at positions are compared with each other.
    """
    all_totals = dict(totals)
    for fit_columns in columns.values():
        all_totals |= fit_columns.totals
    bucket = batch.bucket[rows] if by_unit else None
    weight = None if batch.weight is None else batch.weight[rows]
    blocks = {}
    grouped = [[key for key in keys if key in columns] for keys in together] or [
        [k] for k in columns
    ]
    for keys in grouped:
        parts = tuple(columns[key].positions for key in keys)
        if not parts or not (isinstance(rows, slice) or parts[0].in_groups):
            continue
        block = Block(parts)
        if (block.keys, block.row_keys) not in blocks:
            blocks[block.keys, block.row_keys] = block.summed(all_totals, rows, bucket, weight)
    table = [_weighted(column[rows], weight) for column in all_totals.values()]
    sums = ColumnSums(tuple(all_totals), sums_of(table, bucket, weight), tuple(blocks.values()))
    return LogSums(sums, {key: fit_columns.extras(rows) for key, fit_columns in columns.items()})
