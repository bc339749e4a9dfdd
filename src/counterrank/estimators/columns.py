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
    all_totals = {key: _weighted(column[rows], weight) for key, column in all_totals.items()}
    blocks: dict[tuple[Key, ...], PositionSums] = {}
    for keys in together or [[key] for key in columns]:
        members = [columns[key].positions for key in keys if key in columns]
        if not members or not (rows is ALL or members[0].in_groups):
            continue
        # The first key of each is the logged reward, which they share.
        named = (*members[0].keys, *(key for member in members[1:] for key in member.keys[1:]))
        row_keys = tuple(key for member in members for key in member.row_keys)
        if (*named, *row_keys) not in blocks:
            row_totals = {key: all_totals[key] for key in row_keys}
            by_bucket = bucket if members[0].by_unit else None
            blocks[*named, *row_keys] = _summed(members, named, row_totals, rows, by_bucket, weight)
    sums = sums_of([*all_totals.values()], bucket, weight)
    return LogSums(
        ColumnSums(tuple(all_totals), sums, tuple(blocks.values())),
        {key: fit_columns.extras(rows) for key, fit_columns in columns.items()},
    )


def _summed(
    members: Sequence[PositionColumns],
    keys: tuple[Key, ...],
    row_totals: Mapping[Key, Floats],
    rows: Rows,
    bucket: Ints | None,
    weight: Floats | None,
) -> PositionSums:
    """Return the sums at each position of columns that stand together, for the covariance between them."""
    first, alone = members[0], len(members) == 1
    if first.sums is not None and alone and rows is ALL and bucket is None and weight is None:
        return first.sums()
    table = first.rows()
    if not alone:
        table = np.concatenate([table, *(member.rows()[:, 1:] for member in members[1:])], axis=1)
    table = _weighted(table[:, :, rows], weight)
    return PositionSums.from_columns(keys, table, bucket, row_totals, products=rows is ALL)
