"""Logs in files, passed over in batches; and whatever else holds a log, opened as a source."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import methodcaller
from typing import Any

import numpy as np
import pyarrow as pa

from counterrank.common import stores
from counterrank.common.arrays import Ints
from counterrank.common.errors import ConfigError
from counterrank.data.log import RankingLog, concat
from counterrank.data.source import (
    MemorySource,
    Partial,
    Source,
    State,
    default_threads,
    map_in_order,
    mapped,
    reporter,
    summed,
)
from counterrank.io import tables
from counterrank.io.files import DataFile, TooLargeError, expand, guard, refuse_version
from counterrank.io.options import ReadOptions, columns_of, refuse_unread
from counterrank.io.readers import (
    adapter_of,
    as_table,
    from_table,
    is_stream,
    read,
    read_part,
    tables_of,
    whole,
)
from counterrank.io.schema import LogSpec, resolve
from counterrank.io.score_join import LogColumns, log_columns, targets_of
from counterrank.io.survey import (
    FilePart,
    batch_rows,
    no_match,
    plan,
    sample_rows,
)
from counterrank.io.where import Where

#: At most this many parts are opened for a sample.
_SAMPLED_PARTS = 64
#: Rankings of a sample to look at, for which about so many are read.
_LOOK_ROWS, _READ_ROWS = 20_000, 1 << 20


def scan_log(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    workers: int = 2,
    **options: Any,
) -> FileSource:
    """Return the log in a file, folder or pattern as a source of batches; only its start is read yet.

    Names of actions and of categories, and the length of ragged rankings, need one pass over those
    columns. Columns that are neither roles nor context are read only when named as `segments`, target
    policies only when named.

    Parameters
    ----------
    path
        A file, a folder or a pattern.
    format
        "parquet", "arrow", "csv" or "jsonl"; None goes by the ending.
    workers
        Threads that read ahead.
    **options
        How to read: `columns`, `context`, `targets`, `unit`, `logger`, `where`, ...;
        `help(counterrank.read_log)` explains each.

    Returns
    -------
    FileSource
        A source that `evaluate`, `learn` and estimators take as a log.

    Raises
    ------
    LogError
        A column is missing, or the files do not fit together.
    ConfigError
        An option is unknown or makes no sense.

    Examples
    --------
    >>> import counterrank as cr
    >>> source = cr.scan_log("log/*.parquet", targets="new", where="day >= 3")  # doctest: +SKIP
    """
    return scan(path, ReadOptions.from_keywords(**options), format=format, workers=workers)


def scan(
    path: str | os.PathLike[str] | list[DataFile],
    options: ReadOptions,
    *,
    format: str | None = None,
    workers: int = 2,
) -> FileSource:
    """Return the source at `path`; the form of `scan_log` for ready-made options."""
    if adapter_of(format) is not None:
        raise ConfigError(
            f"the format '{format}' is read whole, not as a stream; convert it to Parquet to "
            "stream it"
        )
    return FileSource(*plan(path, options, format=format), options.where, workers)


@dataclass(frozen=True, slots=True, eq=False)
class FileSource:
    """A log in files: a `counterrank.data.source.Source`. `parts` are what an engine hands to its workers."""

    spec: LogSpec
    parts: tuple[FilePart, ...]
    n: int | None
    where: Where | None = None
    workers: int = 2
    #: The first rankings, once they were read.
    _first: list[RankingLog] = field(default_factory=list, init=False, repr=False)

    @property
    def first(self) -> RankingLog:
        """The first rankings, a few thousand at most."""
        if not self._first:
            rows = next(self.batches(rows=min(4096, batch_rows(self.spec))), None)
            if rows is None:
                raise no_match(self.where)
            self._first.append(rows)
        return self._first[0]

    def read_part(self, file_part: FilePart, *, rows: int | None = None) -> Iterator[RankingLog]:
        """Yield the rankings of one part in batches."""
        return read_part(file_part, self.spec, where=self.where, rows=rows)

    def batches(self, *, rows: int | None = None) -> Iterator[RankingLog]:
        """Yield all rankings in batches, in order."""
        for file_part in self.parts:
            yield from self.read_part(file_part, rows=rows)

    def close(self) -> None:
        """Remove the files that were made for this source."""
        for room in {file_part.file.room for file_part in self.parts} - {None}:
            room.close()

    def reduce(self, partial: Partial[State], *, label: str = "") -> State:
        """Return the sum of `partial(batch)` over all batches, added in the order of the rows."""
        _give_back()
        # Many parts: workers read and sum their own. One part: this thread reads, workers sum.
        batches = (
            (self.read_part(file_part) for file_part in self.parts)
            if len(self.parts) > 1
            else ([batch] for batch in self.batches())
        )
        total: State | None = None
        report = reporter()
        report.begin(label, self.n)
        for state, rows in map_in_order(
            batches, lambda logs: summed(logs, partial), threads=self.workers
        ):
            if state is not None:
                total = state if total is None else total + state
            report.advance(rows)
        if total is None:
            raise no_match(self.where)
        return total

    def sample(self, rows: int, rng: np.random.Generator) -> RankingLog:
        """Return at most `rows` rankings drawn without replacement, in the order of the log.

        Uniform over all rankings; of a log with more than 64 parts, or more than a million rankings
        for a sample of no more than 20,000, uniform over parts that lie evenly in it. Fewer than
        asked for where a ranking has tens of thousands of numbers.
        """
        parts, rows = self.parts, sample_rows(self.spec, rows)
        # Opening every part of a long log for a sample would be a pass over it.
        limit = _SAMPLED_PARTS
        if self.n is not None and rows <= _LOOK_ROWS:
            limit = min(limit, -(-len(parts) * _READ_ROWS // max(self.n, 1)))
        if len(parts) > limit:
            spread = (np.arange(limit) + rng.random()) * (len(parts) / limit)
            parts = tuple(parts[i] for i in spread.astype(int))
        sample = self._chosen(parts, rows, rng)
        _give_back()
        return sample

    def _chosen(self, parts: Sequence[FilePart], rows: int, rng: np.random.Generator) -> RankingLog:
        """Return rankings by their numbers, so that workers know theirs before they read."""
        lengths = np.array(list(map_in_order(parts, self._length, threads=self.workers)))
        if not lengths.any():
            raise no_match(self.where)
        # Sorted, and as they are drawn from a log in memory.
        n = int(lengths.sum())
        drawn = np.arange(n) if rows >= n else np.sort(rng.choice(n, rows, replace=False))
        pairs = zip(parts, np.cumsum(lengths) - lengths, strict=True)

        def read(pair: tuple[FilePart, int]) -> list[RankingLog]:
            file_part, before = pair

            def pick(n: int) -> Ints:
                """Return which of the next n rankings are wanted."""
                nonlocal before
                first, last = np.searchsorted(drawn, [before, before + n])
                picked: Ints = drawn[first:last] - before
                before += n
                return picked

            return list(read_part(file_part, self.spec, where=self.where, pick=pick))

        pieces = map_in_order(pairs, read, threads=self.workers)
        return concat([log for logs in pieces for log in logs])

    def _length(self, file_part: FilePart) -> int:
        """Return how many rankings of a part are read: those that fit the condition."""
        where = self.where
        if where is None:
            return file_part.rows
        pieces = tables.row_groups(
            file_part.file, file_part.groups, where.columns, rows=batch_rows(self.spec)
        )
        return sum(len(where.rows(piece)) for piece in pieces)


def _give_back() -> None:
    """Return freed memory to the system, where the C library can be asked to.

    Each thread has a pool of its own, and Arrow has another: what a sample or a fit has freed, hundreds
    of megabytes, the next would not use.
    """
    pa.default_memory_pool().release_unused()
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


#: Files and streams up to this size are read once into memory; larger files are streamed, pass by
#: pass, and larger streams are kept in a file.
IN_MEMORY_BYTES = 256 * 2**20
_CLUSTERS = ("dask", "spark")
ENGINES = ("local", *_CLUSTERS)
_NO_TARGET = (
    "name at least one target policy: evaluate(log, {'new': probabilities}) or "
    "evaluate(log, ['new'])"
)

Opened = tuple[Source, tuple[str, ...]]


@contextlib.contextmanager
def opened(log: Any, targets: Any, **options: Any) -> Iterator[Opened]:
    """Open a source as `open_source` does, and stop at the end what was started for it."""
    reporter().begin("reading", None)
    source, names = open_source(log, targets, **options)
    try:
        yield source, names
    finally:
        close = getattr(source, "close", None)
        if close is not None and _kind_of(log) != "source":
            close()


def open_source(
    log: Any,
    targets: Any,
    *,
    position_weights: Any = None,
    segments: Sequence[str] = (),
    engine: Any = None,
    where: Where | str | None = None,
    needs_targets: bool = True,
    baseline: str | None = None,
    **reading: Any,
) -> Opened:
    """Return the source and the names of its targets.

    `engine` is "local", "dask" or "spark", or a Dask client or Spark session to use; `where` keeps
    the rows that fit a condition; `needs_targets` False opens a log that has none; `baseline` is the
    target that messages call so; further options go to the reader. Without `targets`, what is read
    into memory has those that it seems to have.
    """
    condition = None if where is None else Where.parse(where)
    kind, (names, columns, arrays) = _kind_of(log), _targets(targets)
    _check_engine(engine, kind)
    source: Source
    if kind in ("log", "source"):
        refuse_unread(reading)
        source = already = _weighted(log, kind, position_weights)
        if kind == "source" and condition is not None:
            raise ConfigError("this log has been opened; give where to scan_log, which opens it")
        if kind == "log":
            # A text names one of the log's targets, which may get another name here.
            renamed = {name: log.target(column) for name, column in columns.items()}
            source = _in_memory(already, names, renamed | arrays, condition)
    else:
        named = names or reading.get("target_lists") or reading.get("scores")
        if needs_targets and kind == "path" and not named:
            raise ConfigError(_NO_TARGET)
        format = reading.pop("format", None) if kind == "path" else None
        if reading.get("scores") and not names:
            names = _scored_targets(log, kind, format, reading)
            targets = names or None
        if columns:
            reading["columns"] = {**columns_of(reading.get("columns") or {}), **columns}
        outside = {*(reading.get("target_lists") or ()), *(() if kind in _CLUSTERS else arrays)}
        options = ReadOptions.from_keywords(
            targets=None if targets is None else tuple(n for n in names if n not in outside),
            position_weights=position_weights,
            where=None if arrays else condition,
            **reading,
        )
        options = replace(options.carrying(segments) if segments else options, baseline=baseline)
        if kind == "path" and not arrays:
            source = _from_path(log, options, format, engine)
        else:
            source = _read(log, kind, options, format, names, arrays, condition)
    # Only when none were named: the first rows of a source may take a pass to read.
    if not (names := names or tuple(source.first.targets)) and needs_targets:
        raise ConfigError(_NO_TARGET)
    return source, names


def _weighted(log: Any, kind: str, position_weights: Any) -> Any:
    """Return an opened log or source with other position weights, where these are given."""
    if position_weights is None:
        return log
    weighted = methodcaller("with_position_weights", position_weights)
    return mapped(log, weighted) if kind == "source" else weighted(log)


def _scored_targets(
    log: Any, kind: str, format: str | None, reading: Mapping[str, Any]
) -> tuple[str, ...]:
    """Return the targets of tables of scores and those described; none where only the whole log could tell."""
    options = ReadOptions.from_keywords(**reading)
    if kind == "path" and adapter_of(format) is None:
        files = expand(log, format, decimal=options.decimal, version=options.version)
        columns = log_columns([tables.parquet(file) for file in files], options)
    elif kind == "frame":
        columns = LogColumns(tuple(as_table(log).column_names), options)
    else:
        return ()
    scored = targets_of(options, columns)
    return tuple(dict.fromkeys([*scored, *options.policies, *options.target_lists]))


def _read(
    log: Any,
    kind: str,
    options: ReadOptions,
    format: str | None,
    names: Sequence[str],
    arrays: Mapping[str, Any],
    where: Where | None,
) -> Source:
    """Return the source of what has not been read yet and is no file, or has targets beside it."""
    if kind != "path" and options.version is not None:
        refuse_version(options.version)
    if kind in _CLUSTERS:
        return _engine(kind).frame_source(log, options)  # type: ignore[no-any-return]
    if kind == "stream" and not arrays:
        return stream_source(log, options)
    if arrays:
        # They have a row for each ranking of the log, and stand beside it before any is left out.
        options = options.carrying(where.columns if where else ())
    loaded = read(log, options, format) if kind == "path" else from_table(as_table(log), options)
    return _in_memory(loaded, names, arrays, where if arrays else None)


def _in_memory(
    log: RankingLog, names: Sequence[str], arrays: Mapping[str, Any], where: Where | None
) -> Source:
    """Return a log in memory with further targets, each name checked, and the rows of a condition."""
    log = log.with_targets(arrays) if arrays else log
    for name in names:
        log.target(name)
    if where is None:
        return MemorySource(log)
    rows = where.rows(pa.table({name: pa.array(values) for name, values in log.columns.items()}))
    if not len(rows):
        raise no_match(where)
    return MemorySource(log.where(np.isin(np.arange(log.n), rows)))


def _kind_of(log: Any) -> str:
    """Tell what a log is, by module name where importing the library would be slow."""
    if isinstance(log, RankingLog):
        return "log"
    if is_stream(log):
        return "stream"
    if isinstance(log, (str, os.PathLike)):
        return "path"
    home = type(log).__module__.split(".")
    if home[:2] == ["pyspark", "sql"]:
        return "spark"
    if home[0] in ("dask", "dask_expr"):
        return "dask"
    return "source" if hasattr(log, "reduce") and hasattr(log, "first") else "frame"


def _check_engine(engine: Any, kind: str) -> None:
    if engine in (None, "local", kind):
        return
    if isinstance(engine, str) and engine not in ENGINES:
        raise ConfigError(f"there is no engine '{engine}'; use {', '.join(ENGINES)}")
    if kind != "path":
        raise ConfigError(
            f"an engine is chosen for logs in files; this is a {kind}, which is summed where it "
            "is. Write it to Parquet, or pass a Dask or Spark frame"
        )


def _targets(targets: Any) -> tuple[tuple[str, ...], dict[str, str], dict[str, Any]]:
    """Return the names of targets, the columns of those given by column, and the others' probabilities."""
    if isinstance(targets, Mapping):
        columns = {name: value for name, value in targets.items() if isinstance(value, str)}
        arrays = {name: value for name, value in targets.items() if name not in columns}
        return tuple(targets), columns, arrays
    names = (targets,) if isinstance(targets, str) else () if targets is None else targets
    names = tuple(names) if isinstance(names, Iterable) else (names,)
    if not all(isinstance(name, str) for name in names):
        raise ConfigError(
            f"targets is a {type(targets).__name__}; give each policy a name, evaluate(log, "
            "{'new': probabilities}), or name columns of the log, evaluate(log, ['new'])"
        )
    return names, {}, {}


def _from_path(path: Any, options: ReadOptions, format: str | None, engine: Any) -> Source:
    local, path = engine in (None, "local"), os.fspath(path)
    by_adapter = format is not None and adapter_of(format) is not None
    # One small file is read into memory; anything else is streamed.
    small = stores.kind_of(path) == "file" and stores.stamp(path)[0] <= IN_MEMORY_BYTES
    if local and (by_adapter or small):
        try:
            return MemorySource(read(path, options, format))
        except TooLargeError:
            # Packed files say how large they are only while they are read.
            if by_adapter:
                raise
    files = scan(path, options, format=format, workers=default_threads())
    if options.where is not None:
        # A segment that nobody is in is told before a cluster is started for it.
        assert files.first.n
    return files if local else _on_cluster(files, engine)


def _on_cluster(files: FileSource, engine: Any) -> Source:
    if isinstance(engine, str):
        return _engine(engine).file_source(files)  # type: ignore[no-any-return]
    package = type(engine).__module__.partition(".")[0]
    name = {"pyspark": "spark", "distributed": "dask"}.get(package)
    if name is None:
        raise ConfigError(
            f"engine is {engine!r}; use {', '.join(ENGINES)}, a Dask client or a Spark session"
        )
    return _engine(name).file_source(files, engine)  # type: ignore[no-any-return]


def _engine(name: str) -> Any:
    """Return the module of an engine; both read files as this one does."""
    from counterrank.io import dask, spark

    return {"dask": dask, "spark": spark}[name]


def stream_source(log: Any, options: ReadOptions) -> Source:
    """Return a stream as a source: in memory if it is small, else from a file made of it.

    A stream is read once, so that every pass sees the same rows.
    """
    with guard("the table"):
        pieces: list[pa.Table] = []
        memory, batches = 0, tables_of(log)
        for table in batches:
            pieces.append(table)
            memory += table.nbytes
            if memory > IN_MEMORY_BYTES:
                return _kept_on_disk(pieces, batches, options)
        return MemorySource(from_table(whole(pieces), options))


def _kept_on_disk(
    pieces: list[pa.Table], batches: Iterator[pa.Table], options: ReadOptions
) -> FileSource:
    columns = pieces[0].column_names
    if not options.scores:
        spec = resolve(pieces[0].slice(0, 1000), options, in_memory=False)
        columns = list(spec.to_read(options.events, options.where))

    def all_pieces() -> Iterator[tuple[pa.Table, str]]:
        while pieces:
            yield pieces.pop(0).select(columns), "the table"
        for table in batches:
            yield table.select(columns), "the table"

    return scan(tables.written(all_pieces()), options, workers=default_threads())
