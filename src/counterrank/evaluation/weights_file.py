"""The weights of an evaluation, row by row, for those who train on them."""

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from counterrank.common.arrays import Floats
from counterrank.common.atomic import replacing
from counterrank.common.errors import ConfigError
from counterrank.data.log import RankingLog
from counterrank.estimators import View
from counterrank.evaluation.fit import Fit

#: Rankings of a row group.
_ROWS = 65_536


def write_weights(source: Any, fits: Sequence[Fit], path: str | os.PathLike[str]) -> None:
    """Write the weights of every estimator that is weights alone, a row per ranking.

    Columns are `row`, the ranking's number in the log from 0, `unit` where there is one, and for
    each target and estimator a list `TARGET/ESTIMATOR` with a weight for each shown item: what its
    reward counts. The file appears whole or not at all. The source is one of this process, with
    `batches`; others say so themselves.
    """
    weighing = _weighing(fits)
    with replacing(path) as temporary:
        writer: pq.ParquetWriter | None = None
        try:
            for table in _tables(source.batches(), weighing):
                writer = writer or pq.ParquetWriter(temporary, table.schema, compression="zstd")
                writer.write_table(table, row_group_size=_ROWS)
        finally:
            if writer is not None:
                writer.close()


def refuse_weights(fits: Sequence[Fit], path: str | os.PathLike[str]) -> None:
    """Raise before the pass over the log where no weights could be written after it."""
    if not os.fspath(path).endswith((".parquet", ".pq")):
        raise ConfigError(
            f"weights are written as Parquet; '{os.fspath(path)}' does not end in .parquet"
        )
    if not _weighing(fits):
        raise ConfigError(
            "no estimator of this evaluation is weights alone; name one that is, such as ips, iips "
            "or rips, with --estimators (estimators= in Python)"
        )


def _weighing(fits: Sequence[Fit]) -> list[Fit]:
    return [fit for fit in fits if not fit.diagnostic_only and fit.traits.weighs_alone]


def _tables(batches: Iterator[RankingLog], fits: Sequence[Fit]) -> Iterator[pa.Table]:
    for batch in batches:
        columns: dict[str, object] = {"row": pa.array(batch.numbers)}
        if batch.unit is not None:
            columns["unit"] = pa.array(batch.unit)
        views = {fit.target: View(batch, fit.target) for fit in fits}
        for fit in fits:
            weights = fit.fitted.weights(views[fit.target])
            columns[f"{fit.target}/{fit.name}"] = _lists(np.asarray(weights), batch)
        yield pa.table(columns)


def _lists(weights: Floats, batch: RankingLog) -> pa.Array:
    shown = np.ascontiguousarray(weights)[np.arange(batch.K) < batch.lengths[:, None]]
    offsets = np.concatenate([[0], np.cumsum(batch.lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(shown))
