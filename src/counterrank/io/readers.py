"""A log whole in memory or part by part: from files, from tables of other libraries, from pieces."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, Unpack

import numpy as np
import pyarrow as pa

from counterrank.common import plugins
from counterrank.common.arrays import Ints
from counterrank.common.errors import ConfigError, LogError
from counterrank.common.options import LogOptions
from counterrank.common.texts import suggestion
from counterrank.data.events import JoinedScores
from counterrank.data.log import RankingLog
from counterrank.io import tables
from counterrank.io.arrow_log import decode
from counterrank.io.files import ALIASES, FORMATS, expand, guard
from counterrank.io.options import LogLike, ReadOptions, refuse_unread
from counterrank.io.prepare import plain_types
from counterrank.io.roles import no_column
from counterrank.io.schema import LogSpec, resolve
from counterrank.io.score_join import listed_teams, with_scores, with_team_scores
from counterrank.io.survey import (
    BATCH_ROWS,
    FilePart,
    Survey,
    batch_rows,
    examined,
    no_match,
    prepared,
    selecting,
)
from counterrank.io.warehouses import Query
from counterrank.io.where import Where

Path = str | os.PathLike[str]


def read_log(path: Path, *, format: str | None = None, **options: Unpack[LogOptions]) -> RankingLog:
    """Return the log in a file, folder or pattern of Parquet, Arrow, CSV or JSON Lines files.

    Parameters
    ----------
    path
        A file, a folder or a pattern.
    format
        "parquet", "arrow", "csv", "jsonl" or the name of another tool's format, such as
        "ubi"; None goes by the ending.
    **options
        `columns`: what columns are called here, {"action": "items"} or "action=items"; a list where
        a role has a column per position. Keys: action, reward, propensity, ranking, position, unit,
        behavior, candidates, names of targets, NAME_scores, NAME_dist, z_ features.
        `context`, `unit`, `behavior`: columns of context (default: those that start with x_), of
        users, of known behaviour.
        `targets`, `segments`, `keep`: target policies to read, columns to split results by, further
        columns to carry along. Without `targets`, list columns of probabilities are taken for
        targets; without `segments`, up to 100 columns of single values are carried along. `scan_log`
        reads neither unasked.
        `propensity_kind`: "factored" (default), "prefix", "position" or "joint".
        `weight`: the column with one over the probability that a row was kept, where some rows were
        left out of the log on purpose.
        `logger`, `policies`: how scores became rankings, "plackett-luce:temperature=1"; the same for
        targets by name, {"new": "top"}, from their columns NAME_scores.
        `items`: a file of features by item.
        `where`: rows to keep, "day >= '2026-10-01' and country = 'DE'".
        `position_weights`: how much positions count, "uniform" (default), "dcg" or numbers.
        `missing_reward`: "error" (default) or "zero", which reads an absent reward as 0.
        `require_propensity`: False reads a log that has no propensities.
        `dists`: False leaves whole distributions unread.
        `renumber`: True closes gaps in positions (slots of ads, items that were filtered out).
        `encode_actions`: True gives integer ids the codes 0..A-1, as names always get; None does so
        for huge ids.
        `drop_ties`: True leaves out rows in which equal scores decide what the logger would show.
        `depth`: how many positions from the top are read, where the log supports no more.
        `decimal`: "." (default) or ",", which reads 0,5 as a half in text and CSV.
        `version`: of a Delta table.
        `target_lists`: files of rankers' lists (query, rank, document) by the name of the target; the
        log's column `query` says which list is meant.
        `rewards`: several rewards, their columns by name, {"clicks": "click"}; the first is `reward`.
        `events`: rewards from a table of events, counterrank.Events(path, on=[...], rewards={...}).
        `scores`: scores of rankers in a table of their own, counterrank.Scores(path, on=[...]), or
        several of them; a target that they score ranks like the logger, unless `policies` says
        otherwise.

    Returns
    -------
    RankingLog
        The whole log in memory; `scan_log` streams it instead.

    Raises
    ------
    LogError
        A column is missing, or a value cannot be used; the message names row and column.
    ConfigError
        An option is unknown or makes no sense.

    Examples
    --------
    >>> import counterrank as cr
    >>> log = cr.read_log("log.parquet", targets="new", unit="user")  # doctest: +SKIP
    """
    return read(path, ReadOptions.from_keywords(**options), format)


def read(path: Path, options: ReadOptions, format: str | None = None) -> RankingLog:
    """Return the log at `path`; the form of `read_log` for ready-made options."""
    if format is not None and (reader := adapter_of(format)) is not None:
        return reader(path, options)
    files = expand(path, format, decimal=options.decimal, version=options.version)
    with guard(os.fspath(path), prefix=True):
        files, sample, spec, options = examined(files, options, in_memory=True)
        columns = spec.to_read(options.events, options.where)
        if len(files) > 1:
            # What nobody asked for is null where a file does not have it.
            unasked = spec.unasked - {*(() if options.where is None else options.where.columns)}
            unasked_types = pa.schema([sample.schema.field(name) for name in unasked])
            files = [replace(file, table=file.table or unasked_types) for file in files]
        table = whole([tables.read_table(file, columns) for file in files])
        return _decoded_whole(table, options, spec.scores)


#: What an adapter makes of a path: rows, the options they are read with, notes for the log.
Converted = tuple[pa.Table, ReadOptions, tuple[str, ...]]


#: A reader of another format: takes a path, and options ready-made or by name.
Adapter = Callable[..., RankingLog]


def adapter(convert: Callable[[Path, ReadOptions], Converted]) -> Adapter:
    """Make a reader of a function that converts another format to our own columns."""

    @wraps(convert)
    def read(path: Path, options: ReadOptions | None = None, **named: Any) -> RankingLog:
        stated = ReadOptions.from_keywords(**named) if options is None else options
        with guard(os.fspath(path), prefix=True):
            table, table_options, notes = convert(path, stated)
            log = from_table(table, table_options)
        return log.changed(notes=(*log.notes, *notes))

    # Who asks for help sees what may be given by name.
    del read.__dict__["__wrapped__"]
    return read


#: Formats of other tools that `tracking` reads; those of other packages come as plug-ins.
TRACKING = ("ubi", "ga4", "metarank")


def adapter_of(name: str | None) -> Adapter | None:
    """Return the reader of another tool's format; None for a plain file format.

    >>> adapter_of("csv") is None
    True
    """
    if name is None or name in FORMATS or name in ALIASES:
        return None
    reader: Adapter
    if name in TRACKING:
        from counterrank.io import tracking_exports

        reader = getattr(tracking_exports, f"read_{name}")
        return reader
    plugged = plugins.plugins_of(plugins.FORMATS, _TAKEN)
    if name not in plugged:
        names = [*_TAKEN, *plugged]
        raise ConfigError(
            f"format '{name}' is unknown{suggestion(name, names)}; use one of {', '.join(names)}"
        )
    reader = plugins.load(plugged[name], ConfigError)
    return reader


_TAKEN = (*FORMATS, *ALIASES, *TRACKING)


def in_memory(log: LogLike, segments: Sequence[str], reading: Mapping[str, Any]) -> RankingLog:
    """Return a log in memory: the given one, that of a table, or that of a file."""
    if isinstance(log, RankingLog):
        refuse_unread(reading)
        return log
    options = {**({"segments": tuple(segments)} if segments else {}), **reading}
    if isinstance(log, (str, os.PathLike)):
        return read_log(log, **options)
    return from_frame(log, **options)


def from_frame(frame: object, **options: Any) -> RankingLog:
    """Return the log in a pandas, polars or pyarrow table, or in a dict of arrays.

    Parameters
    ----------
    frame
        The table, one row per ranking or one row per position.
    **options
        `columns`, `context`, `unit`, `weight`, `behavior`, `targets`, `segments`, `keep`,
        `propensity_kind`, `logger`, `policies`, `items`, `where`, `position_weights`, `missing_reward`,
        `require_propensity`, `dists`, `renumber`, `encode_actions`, `drop_ties`, `depth`, `decimal`,
        `version`, `target_lists`, `rewards`, `events`, `scores`; `help(counterrank.read_log)` explains each.

    Examples
    --------
    >>> log = from_frame({"action": [[0, 1], [2]], "reward": [[1, 0], [1]], "propensity": [[0.5, 0.5], [0.2]]})
    >>> log.action.tolist(), log.K
    ([[0, 1], [2, -1]], 2)
    """
    stated = ReadOptions.from_keywords(**options)
    with guard("the table"):
        return from_table(as_table(frame), stated)


def from_table(table: pa.Table, options: ReadOptions) -> RankingLog:
    """Return the log in an Arrow table that is all of the data."""
    if options.decimal != ".":
        table = tables.with_points(table)
    joined: tuple[JoinedScores, ...] = ()
    if teams := listed_teams(table.column_names, options):
        table = with_team_scores(table, teams)
    if options.scores and table.num_rows:
        files = tables.written([(plain_types(table), "")])
        files, options, joined = with_scores(files, options)
        table = whole([tables.read_table(file) for file in files])
    if options.where is not None and table.num_rows:
        options = selecting(options, options.where, table)
    return _decoded_whole(table, options, joined)


def _decoded_whole(
    table: pa.Table, options: ReadOptions, joined: tuple[JoinedScores, ...]
) -> RankingLog:
    """Return the log in a table that has its scores."""
    if table.num_rows == 0:
        raise LogError("the log is empty: there are no rows")
    if options.decimal != ".":
        table = tables.with_points(table)
    spec = resolve(table, options, in_memory=True)
    survey = Survey.begin(spec, options, table)
    if spec.layout == "long" or options.events is not None:
        columns = table.column_names
        for name in spec.to_read(options.events):
            if name not in columns:
                raise no_column("the log", name, "to join by", columns)
        files = prepared(tables.written([(plain_types(table), "")]), survey, "", options)
        pieces = [tables.read_table(file) for file in files]
        # Guessed segments that differ within a ranking were left out.
        names = set.intersection(*({*piece.column_names} for piece in pieces))
        table = whole(pieces)
        segments = tuple(name for name in spec.segments if name in names)
        survey.spec = replace(survey.spec, segments=segments)
    else:
        survey.absorb(table)
    spec = replace(survey.finish(table.slice(0, 1000)), scores=joined)
    log = decode(table, spec) if options.where is None else _decoded(table, spec, 0, options.where)
    if log is None:
        raise no_match(options.where)
    return log


def as_table(frame: Any) -> pa.Table:
    """Return any known table as an Arrow table, without a copy where the library allows it."""
    if isinstance(frame, pa.Table):
        table = frame
    elif isinstance(frame, pa.RecordBatch):
        table = pa.Table.from_batches([frame])
    elif isinstance(frame, Mapping):
        table = pa.table({str(name): _column(name, values) for name, values in frame.items()})
    # By module name, not by type: importing pandas or polars only to ask would take longer than
    # most conversions.
    elif type(frame).__module__.partition(".")[0] == "pandas":
        if not hasattr(frame, "columns"):
            raise LogError(f"a pandas {type(frame).__name__} is not a table; give a DataFrame")
        columns = [_column(name, frame.iloc[:, j]) for j, name in enumerate(frame.columns)]
        table = pa.table(columns, names=list(map(str, frame.columns)))
    elif is_stream(frame):
        table = whole(list(tables_of(frame)))
    elif hasattr(frame, "__arrow_c_stream__"):
        table = pa.RecordBatchReader.from_stream(frame).read_all()
    else:
        raise LogError(
            f"a {type(frame).__name__} is not a table; give pandas, polars, pyarrow or a dict of "
            "arrays, or a path to read_log"
        )
    tables.refuse_twice(table.column_names, "")
    return table


def is_stream(log: Any) -> bool:
    """Whether a log hands over batches rather than holding a table in memory."""
    if type(log).__name__ == "LazyFrame" or isinstance(log, Query):
        return True
    if isinstance(log, (pa.Table, pa.RecordBatch)) or hasattr(log, "reduce"):
        return False
    # Frames in memory can hand over batches too, and know how many rows they hold; those of
    # clusters are read where they are.
    is_frame = type(log).__module__.partition(".")[0] in ("pandas", "polars", "pyspark", "dask")
    return not is_frame and hasattr(log, "__arrow_c_stream__")


def tables_of(log: Any) -> Iterator[pa.Table]:
    """Yield the batches of anything that has some, as tables of plain types."""
    if isinstance(log, Query):
        pieces = log.tables()
    elif type(log).__name__ == "LazyFrame":
        batches = log.collect_batches(chunk_size=BATCH_ROWS, maintain_order=True)
        pieces = (piece.to_arrow() for piece in batches)
    else:
        reader = pa.RecordBatchReader.from_stream(log)
        pieces = (pa.Table.from_batches([batch], reader.schema) for batch in reader)
    for table in pieces:
        if table.num_rows:
            # Files and older kernels do not know views of text.
            kinds = [
                (
                    field.name,
                    pa.large_string() if pa.types.is_string_view(field.type) else field.type,
                )
                for field in table.schema
            ]
            yield table.cast(pa.schema(kinds, metadata=table.schema.metadata))


def whole(pieces: Sequence[pa.Table]) -> pa.Table:
    """Return one table of all pieces."""
    if not pieces:
        raise LogError("the log is empty: there are no rows")
    pieces = [piece for piece in pieces if piece.num_rows] or pieces
    if len(pieces) == 1:
        return pieces[0]
    try:
        return pa.concat_tables(pieces, promote_options="permissive")
    except (pa.ArrowTypeError, pa.ArrowInvalid) as problem:
        raise LogError(f"the files disagree about the types of their columns: {problem}") from None


def _column(name: object, entries: Any) -> pa.Array:
    try:
        if isinstance(entries, np.ndarray) and entries.ndim > 1:
            inner = _column(name, entries.reshape(-1, *entries.shape[2:]))
            return pa.FixedSizeListArray.from_arrays(inner, entries.shape[1])
        if isinstance(entries, (pa.Array, pa.ChunkedArray)):
            return entries
        return pa.array(entries, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError) as problem:
        raise LogError(f"column '{name}' mixes types that do not go together: {problem}") from None


#: Which of the next so many rankings to keep.
Pick = Callable[[int], Ints]


def read_part(
    file_part: FilePart,
    spec: LogSpec,
    *,
    where: Where | None = None,
    rows: int | None = None,
    pick: Pick | None = None,
) -> Iterator[RankingLog]:
    """Yield the rankings of a part in batches; `where` keeps one segment, `pick` some rows of it.

    Memory is that of a batch or two.
    """
    start = file_part.start
    columns = spec.to_read(None, where)
    for table in tables.row_groups(
        file_part.file, file_part.groups, columns, rows=rows or batch_rows(spec)
    ):
        with guard(file_part.file.title, prefix=True):
            log = _decoded(table, spec, start, where, pick)
        start += table.num_rows
        # A suspended generator keeps its variables alive: let go of each batch before the next is
        # read.
        del table
        if log is not None:
            yield log
        del log


def _decoded(
    table: pa.Table, spec: LogSpec, start: int, where: Where | None, pick: Pick | None = None
) -> RankingLog | None:
    """Return the rankings of a piece that are wanted, if there are any."""
    if where is None and pick is None:
        return decode(table, spec, start=start)
    rows = np.arange(table.num_rows) if where is None else where.rows(table)
    rows = rows if pick is None else rows[pick(len(rows))]
    if not len(rows):
        return None
    return decode(table.take(pa.array(rows)), spec, start=start, numbers=start + rows)
