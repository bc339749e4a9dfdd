"""Tables in memory (pandas, polars, pyarrow, a dict of arrays) as a RankingLog."""

from collections.abc import Mapping
from typing import Any, Unpack

import numpy as np
import pyarrow as pa

from counterrank.errors import LogError
from counterrank.log import RankingLog
from counterrank.readers import decode as decoding
from counterrank.readers.guard import guard
from counterrank.readers.options import Options, ReadOptions
from counterrank.readers.resolve import resolve
from counterrank.readers.survey import Survey


def from_frame(frame: object, **options: Unpack[Options]) -> RankingLog:
    """Return the log in a pandas, polars or pyarrow table, or in a dict of arrays; options as in `ReadOptions`.

    >>> log = from_frame({"action": [[0, 1], [2]], "reward": [[1, 0], [1]], "propensity": [[0.5, 0.5], [0.2]]})
    >>> log.action.tolist(), log.K
    ([[0, 1], [2, -1]], 2)
    """
    with guard("the table"):
        return from_table(as_table(frame), ReadOptions.of(**options))


def from_table(table: pa.Table, options: ReadOptions) -> RankingLog:
    """Return the log in an Arrow table that is all of the data."""
    if table.num_rows == 0:
        raise LogError("the log is empty: there are no rows")
    survey = Survey(resolve(table, options, in_memory=True), options.encode_actions)
    survey.absorb(table)
    return decoding.decode(table, survey.finish(table.slice(0, 1000)))


def as_table(frame: Any) -> pa.Table:
    """Return any known table as an Arrow table, without a copy where the library allows it."""
    if isinstance(frame, pa.Table):
        table = frame
    elif isinstance(frame, pa.RecordBatch):
        table = pa.Table.from_batches([frame])
    elif isinstance(frame, Mapping):
        table = pa.table({str(name): _column(name, values) for name, values in frame.items()})
    elif type(frame).__module__.partition(".")[0] == "pandas":
        table = _from_pandas(frame)
    elif type(frame).__name__ == "LazyFrame":
        table = pa.table(frame.collect())
    elif hasattr(frame, "__arrow_c_stream__"):
        table = pa.RecordBatchReader.from_stream(frame).read_all()
    else:
        raise LogError(
            f"a {type(frame).__name__} is not a table; give pandas, polars, pyarrow or a dict of arrays, "
            "or a path to read_log"
        )
    if len(set(table.column_names)) < table.num_columns:
        twice = next(name for name in table.column_names if table.column_names.count(name) > 1)
        raise LogError(f"there are two columns called '{twice}'; names must differ")
    return table


def _from_pandas(frame: Any) -> pa.Table:
    if not hasattr(frame, "columns"):
        raise LogError(f"a pandas {type(frame).__name__} is not a table; give a DataFrame")
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        raise LogError(f"there are two columns called '{twice[0]}'; names must differ")
    arrays = {}
    for name in frame.columns:
        try:
            arrays[str(name)] = pa.Array.from_pandas(frame[name])
        except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError) as problem:
            raise LogError(f"column '{name}' mixes types that do not go together: {problem}") from None
    return pa.table(arrays)


def _column(name: object, given: Any) -> pa.Array:
    try:
        if isinstance(given, np.ndarray) and given.ndim > 1:
            inner = _column(name, given.reshape(-1, *given.shape[2:]))
            return pa.FixedSizeListArray.from_arrays(inner, given.shape[1])
        if isinstance(given, (pa.Array, pa.ChunkedArray)):
            return given
        return pa.array(given, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError) as problem:
        raise LogError(f"column '{name}' mixes types that do not go together: {problem}") from None
