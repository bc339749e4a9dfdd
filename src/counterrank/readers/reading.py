"""A log whole in memory: from files, from tables of other libraries, from pieces."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeGuard, Unpack

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from counterrank.errors import LogError
from counterrank.log import Probabilities, RankingLog
from counterrank.policies import Candidates, Policy, Scored
from counterrank.propensity import Propensity
from counterrank.readers import tables
from counterrank.readers.decoding import decode
from counterrank.readers.files import DataFile, expand
from counterrank.readers.messages import guard
from counterrank.readers.options import Options, ReadOptions
from counterrank.readers.parts import opening, refuse_folders
from counterrank.readers.schema import resolve
from counterrank.readers.survey import Survey


def read_log(
    path: str | os.PathLike[str], *, format: str | None = None, **options: Unpack[Options]
) -> RankingLog:
    """Return the log in a file, folder or pattern of Parquet, Arrow, CSV or JSON Lines files.

    `format` names one of these or an adapter (`counterrank.readers.ADAPTERS`); options as in
    `ReadOptions`.
    """
    return load(path, ReadOptions.of(**options), format=format)


def load(
    path: str | os.PathLike[str], options: ReadOptions, *, format: str | None = None
) -> RankingLog:
    """Return the log at `path`; the form of `read_log` for ready-made options."""
    if format is not None:
        from counterrank.readers.adapters import adapter

        if (reader := adapter(format)) is not None:
            return reader(path, options)
    files = expand(path, format, decimal=options.decimal)
    with guard(os.fspath(path), prefix=True):
        return from_table(_everything(files, options), options)


def _everything(files: list[DataFile], options: ReadOptions) -> pa.Table:
    files, found = opening(files)
    spec = resolve(found, options, in_memory=True)
    refuse_folders(spec, files)
    read = [tables.read_table(file, spec.columns) for file in files]
    pieces = [piece for piece in read if piece.num_rows] or read
    try:
        return (
            pieces[0]
            if len(pieces) == 1
            else pa.concat_tables(pieces, promote_options="permissive")
        )
    except (pa.ArrowTypeError, pa.ArrowInvalid) as problem:
        raise LogError(f"the files disagree about the types of their columns: {problem}") from None


def from_frame(frame: object, **options: Unpack[Options]) -> RankingLog:
    """Return the log in a pandas, polars or pyarrow table, or in a dict of arrays; options as in
    `ReadOptions`.

    >>> log = from_frame({"action": [[0, 1], [2]], "reward": [[1, 0], [1]], "propensity": [[0.5, 0.5], [0.2]]})
    >>> log.action.tolist(), log.K
    ([[0, 1], [2, -1]], 2)
    """
    with guard("the table"):
        given = ReadOptions.of(**options)
        return from_table(tables.with_points(as_table(frame), given.decimal), given)


def from_table(table: pa.Table, options: ReadOptions) -> RankingLog:
    """Return the log in an Arrow table that is all of the data."""
    if table.num_rows == 0:
        raise LogError("the log is empty: there are no rows")
    survey = Survey.of(resolve(table, options, in_memory=True), options, table)
    survey.absorb(table)
    return decode(table, survey.finish(table.slice(0, 1000)))


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
            f"a {type(frame).__name__} is not a table; give pandas, polars, pyarrow or a dict of "
            "arrays, or a path to read_log"
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
            raise LogError(
                f"column '{name}' mixes types that do not go together: {problem}"
            ) from None
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


def concat(pieces: Sequence[RankingLog]) -> RankingLog:
    """Return one log of all rows, in order; the pieces come from the same source and keep their
    buckets.
    """
    if not pieces:
        raise LogError("there is no ranking to put together")
    first = pieces[0]
    if len(pieces) == 1:
        return first
    sets = _candidates([piece.candidates for piece in pieces])
    rules = {name: policy.rule for name, policy in first.targets.items() if _to_bind_again(policy)}
    joined = replace(
        first,
        candidates=sets,
        action=np.concatenate([piece.action for piece in pieces]),
        reward=np.concatenate([piece.reward for piece in pieces]),
        propensity=_joined([piece.propensity for piece in pieces], sets),
        context=_arrays([piece.context for piece in pieces]),
        unit=_arrays([piece.unit for piece in pieces]),
        behavior=_arrays([piece.behavior for piece in pieces]),
        targets={
            name: _joined([piece.targets[name] for piece in pieces], sets)
            for name in first.targets
            if name not in rules
        },
        dists={name: _arrays([piece.dists[name] for piece in pieces]) for name in first.dists},
        columns={
            name: _arrays([piece.columns[name] for piece in pieces]) for name in first.columns
        },
        bucket=np.concatenate([piece.bucket for piece in pieces]),
        selected=_places(pieces),
        notes=tuple(dict.fromkeys(note for piece in pieces for note in piece.notes)),
    )
    return (
        joined.with_targets({name: rule.bind(joined) for name, rule in rules.items()})
        if rules
        else joined
    )


def _to_bind_again(policy: Probabilities) -> TypeGuard[Policy]:
    """Whether a rule made a policy that cannot be put together row by row."""
    return isinstance(policy, Policy) and policy.rule is not None and not isinstance(policy, Scored)


def _places(pieces: Sequence[RankingLog]) -> NDArray[np.int64] | None:
    """Where the rows stand in the whole log; None when they are one stretch of it."""
    places = np.concatenate([_place(piece) for piece in pieces])
    stretch = np.arange(pieces[0].start, pieces[0].start + len(places))
    return None if np.array_equal(places, stretch) else places


def _place(piece: RankingLog) -> NDArray[np.int64]:
    rows = piece.rows
    return np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows


def _arrays(parts: Sequence[Any]) -> Any:
    return None if parts[0] is None else np.concatenate(parts)


def _candidates(parts: Sequence[Candidates | None]) -> Candidates | None:
    listed = [part for part in parts if part is not None]
    return Candidates.concat(listed) if len(listed) == len(parts) else None


def _joined(parts: Sequence[Probabilities], sets: Candidates | None) -> Probabilities:
    scored = [part for part in parts if isinstance(part, Scored)]
    if len(scored) == len(parts):
        return Scored.concat(scored, sets)
    values = [part.values for part in parts if isinstance(part, Propensity)]
    if len(values) != len(parts):
        raise LogError("policies given as objects cannot be put together; use their probabilities")
    kind = parts[0].kind if isinstance(parts[0], Propensity) else "factored"
    return Propensity(kind, np.concatenate(values))
