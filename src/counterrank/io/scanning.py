"""Logs in files, passed over in batches; and whatever else holds a log, opened as a source."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import methodcaller
from typing import Any, NamedTuple, Unpack

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from counterrank import stores
from counterrank.data.log import RankingLog
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
from counterrank.errors import ConfigError
from counterrank.io import tables
from counterrank.io.files import DataFile, TooLargeError, guard, refuse_version
from counterrank.io.options import ReadKeywords, ReadOptions, columns_of, refuse_unread
from counterrank.io.reading import (
    adapter_of,
    concat,
    from_frame,
    from_table,
    is_stream,
    read_log,
    read_part,
    tables_of,
    whole,
)
from counterrank.io.schema import LogSpec, resolve
from counterrank.io.survey import (
    FilePart,
    batch_rows,
    no_match,
    plan,
    sample_rows,
)
from counterrank.io.target_lists import read_lists
from counterrank.io.where import Where

#: At most this many parts are opened for a sample.
_SAMPLED_PARTS = 64
#: Rankings of a sample to look at, for which about so many are read; so many are kept of a larger one, to fit on.
_KEPT_ROWS, _READ_ROWS = 20_000, 1 << 20


def scan_log(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    workers: int = 2,
    **options: Unpack[ReadKeywords],
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
    return scan(path, ReadOptions.of(**options), format=format, workers=workers)


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
    if options.target_lists:
        raise ConfigError("lists of a ranker go with evaluate or read_log, not with scan_log")
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
    #: Some of the rankings of a large sample, once one was drawn: smaller ones are drawn from it.
    _drawn: list[RankingLog] = field(default_factory=list, init=False, repr=False)

    @property
    def first(self) -> RankingLog:
        """The first rankings, a few thousand at most."""
        if not self._first:
            found = next(self.batches(rows=min(4096, batch_rows(self.spec))), None)
            if found is None:
                raise no_match(self.where)
            self._first.append(found)
        return self._first[0]

    def read_part(self, part: FilePart, *, rows: int | None = None) -> Iterator[RankingLog]:
        """Yield the rankings of one part in batches."""
        return read_part(part, self.spec, where=self.where, rows=rows)

    def batches(self, *, rows: int | None = None) -> Iterator[RankingLog]:
        """Yield all rankings in batches, in order."""
        for part in self.parts:
            yield from self.read_part(part, rows=rows)

    def close(self) -> None:
        """Remove the files that were made for this source."""
        for room in {part.file.room for part in self.parts} - {None}:
            room.close()

    def reduce(self, partial: Partial[State], *, label: str = "") -> State:
        """Return the sum of `partial(batch)` over all batches, added in the order of the rows."""
        _give_back()
        # Many parts: workers read and sum their own. One part: this thread reads, workers sum.
        each = (
            (self.read_part(part) for part in self.parts)
            if len(self.parts) > 1
            else ([batch] for batch in self.batches())
        )
        total: State | None = None
        report = reporter()
        report.begin(label, self.n)
        for state, rows in map_in_order(
            each, lambda some: summed(some, partial), threads=self.workers
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
        asked for where a ranking has tens of thousands of numbers. A small sample is drawn from a
        large one, where there was one: that saves a pass.
        """
        parts, rows = self.parts, sample_rows(self.spec, rows)
        if self._drawn and rows <= self._drawn[0].n:
            return _some(self._drawn[0], rows, rng)
        # Opening every part of a long log for a sample would be a pass over it.
        most = _SAMPLED_PARTS
        if self.n is not None and rows <= _KEPT_ROWS:
            most = min(most, -(-len(parts) * _READ_ROWS // max(self.n, 1)))
        if len(parts) > most:
            spread = (np.arange(most) + rng.random()) * (len(parts) / most)
            parts = tuple(parts[i] for i in spread.astype(int))
        sample = self._chosen(parts, rows, rng)
        _give_back()
        if sample.n > _KEPT_ROWS:
            self._drawn[:] = [_some(sample, _KEPT_ROWS, rng)]
        return sample

    def _chosen(self, parts: Sequence[FilePart], rows: int, rng: np.random.Generator) -> RankingLog:
        """Return rankings by their numbers, so that workers know theirs before they read."""
        lengths = np.array(list(map_in_order(parts, self._length, threads=self.workers)))
        if not lengths.any():
            raise no_match(self.where)
        # Sorted, and as they are drawn from a log in memory.
        n = int(lengths.sum())
        wanted = np.arange(n) if rows >= n else np.sort(rng.choice(n, rows, replace=False))
        pairs = zip(parts, np.cumsum(lengths) - lengths, strict=True)

        def read(pair: tuple[FilePart, int]) -> list[RankingLog]:
            part, seen = pair

            def pick(n: int) -> NDArray[np.int64]:
                """Return which of the next n rankings are wanted."""
                nonlocal seen
                first, last = np.searchsorted(wanted, [seen, seen + n])
                picked: NDArray[np.int64] = wanted[first:last] - seen
                seen += n
                return picked

            return list(read_part(part, self.spec, where=self.where, pick=pick))

        found = map_in_order(pairs, read, threads=self.workers)
        return concat([log for logs in found for log in logs])

    def _length(self, part: FilePart) -> int:
        """Return how many rankings of a part are read: those that fit the condition."""
        where = self.where
        if where is None:
            return part.rows
        pieces = tables.row_groups(
            part.file, part.groups, where.columns, rows=batch_rows(self.spec)
        )
        return sum(len(where.rows(piece)) for piece in pieces)


def _some(log: RankingLog, rows: int, rng: np.random.Generator) -> RankingLog:
    return log.take(np.sort(rng.choice(log.n, rows, replace=False)))


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
ENGINES = ("local", "dask", "spark")
_NO_TARGET = (
    "name at least one target policy: evaluate(log, {'new': probabilities}) or "
    "evaluate(log, ['new'])"
)

Opened = tuple[Source, tuple[str, ...]]


@contextlib.contextmanager
def opened(log: Any, targets: Any, **options: Any) -> Iterator[Opened]:
    """Open a source as `open_source` does, and stop at the end what was started for it."""
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
    where: Where | Mapping[str, Any] | str | None = None,
    needs_targets: bool = True,
    **reading: Any,
) -> Opened:
    """Return the source and the names of its targets.

    `engine` is "local", "dask" or "spark", or a Dask client or Spark session to use; `where` keeps
    the rows that fit a condition; `needs_targets` False opens a log that has none; further options
    go to the reader.
    """
    where = None if where is None else Where.of(where)
    names, columns = _names(targets)
    given = targets if isinstance(targets, Mapping) else {}
    arrays = {name: value for name, value in given.items() if not isinstance(value, str)}
    kind = _kind_of(log)
    if kind in ("log", "source"):
        refuse_unread({name: value for name, value in reading.items() if name != "target_lists"})
    if columns:
        reading["columns"] = {**(reading.get("columns") or {}), **columns}
    if position_weights is not None:
        reading["position_weights"] = position_weights
    _check_engine(engine, kind)
    lists = ReadOptions.of(target_lists=reading.pop("target_lists", None)).target_lists
    if needs_targets and not (names or lists) and kind not in ("log", "source", "frame", "stream"):
        raise ConfigError(_NO_TARGET)
    own = tuple(name for name in names if name not in {*lists, *arrays})
    query = str(columns_of(reading.get("columns") or {}).get("query", "query"))
    segments = (*segments, query) if lists else tuple(segments)
    columns = {name: column for name, column in columns.items() if name not in lists}
    wanted = _Wanted(own, columns, arrays, guess=targets is None)
    source = _source(log, kind, wanted, segments, engine, where, reading)
    for name, path in lists.items():
        source = mapped(source, read_lists(name, path, query))
    # Only when none were named: the first rows of a source may take a pass to read.
    names = names or tuple(source.first.targets)
    if needs_targets and not names:
        raise ConfigError(_NO_TARGET)
    return source, names


class _Wanted(NamedTuple):
    """The targets that were asked for."""

    #: Those that stand in the log, but for lists and arrays.
    names: tuple[str, ...]
    #: Columns by the names of targets, where both differ.
    columns: Mapping[str, str]
    arrays: Mapping[str, Any]
    guess: bool


def _source(
    log: Any, kind: str, wanted: _Wanted, segments: tuple[str, ...], engine: Any,
    where: Where | None, reading: dict[str, Any],
) -> Source:  # fmt: skip
    if kind == "source":
        if where is not None:
            raise ConfigError("this log has been opened; give where to scan_log, which opens it")
        weights = reading.get("position_weights")
        return (
            log if weights is None else mapped(log, methodcaller("with_position_weights", weights))
        )
    if kind in ("dask", "spark"):
        names = (*wanted.names, *wanted.arrays)
        options = {"segments": segments, "targets": names, "where": where, **reading}
        return _engine(kind).frame_source(log, ReadOptions.of(**options))  # type: ignore[no-any-return]
    if kind in ("log", "frame") or wanted.arrays:
        return MemorySource(_in_memory(log, kind, wanted, where, reading))
    if kind == "stream":
        refuse_version(reading.pop("version", None))
        targets = None if wanted.guess else wanted.names
        return stream_source(log, ReadOptions.of(targets=targets, where=where, **reading), segments)
    return _from_path(log, engine, segments=segments, where=where, targets=wanted.names, **reading)


def _in_memory(
    log: Any, kind: str, wanted: _Wanted, where: Where | None, reading: dict[str, Any]
) -> RankingLog:  # fmt: skip
    """Return a log in memory with its targets: columns, or arrays beside them, each of them checked."""
    names, columns, arrays, _ = wanted
    found: RankingLog
    if kind == "log":
        weights = reading.get("position_weights")
        found = log if weights is None else log.with_position_weights(weights)
        # A text names one of the log's targets, which may get another name here.
        arrays = {**{name: log.target(column) for name, column in columns.items()}, **arrays}
    else:
        if where is not None and arrays:
            # Arrays have a row for each ranking of the log: they are put beside it before any is
            # left out.
            reading["keep"] = (*reading.get("keep", ()), *where.columns)
        elif where is not None:
            reading["where"], where = where, None
        read = read_log if kind == "path" else from_frame
        # None lets the reader guess targets; beside arrays a guess would be evaluated unasked.
        found = read(log, targets=names or (() if arrays else None), **reading)
    found = found.with_targets(arrays) if arrays else found
    for name in names:
        found.target(name)
    if where is None:
        return found
    known = pa.table({name: pa.array(values) for name, values in found.columns.items()})
    rows = where.rows(known)
    if not len(rows):
        raise no_match(where)
    return found.where(np.isin(np.arange(found.n), rows))


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
    if engine in (None, "local") or kind == engine:
        return
    if isinstance(engine, str) and engine not in ENGINES:
        raise ConfigError(f"there is no engine '{engine}'; use {', '.join(ENGINES)}")
    if kind != "path":
        raise ConfigError(
            f"an engine is chosen for logs in files; this is a {kind}, which is summed where it "
            "is. Write it to Parquet, or pass a Dask or Spark frame"
        )


def _names(targets: Any) -> tuple[tuple[str, ...], dict[str, str]]:
    """The names of targets, and the columns of those that are given by column."""
    if targets is None:
        return (), {}
    if isinstance(targets, str):
        return (targets,), {}
    if isinstance(targets, Mapping):
        return tuple(targets), {
            name: value for name, value in targets.items() if isinstance(value, str)
        }
    names = tuple(targets) if isinstance(targets, Iterable) else (targets,)
    if not all(isinstance(name, str) for name in names):
        raise ConfigError(
            f"targets is a {type(targets).__name__}; give each policy a name, evaluate(log, "
            "{'new': probabilities}), or name columns of the log, evaluate(log, ['new'])"
        )
    return names, {}


def _from_path(
    path: Any, engine: Any, *, where: Any, segments: Sequence[str], targets: Any, **reading: Any
) -> Source:
    here = engine in (None, "local")
    by_adapter = adapter_of(reading.get("format")) is not None
    if here and (by_adapter or is_small(path)):
        kept = {"keep": tuple(segments), "where": where, **reading}
        try:
            return MemorySource(read_log(path, targets=targets, **kept))
        except TooLargeError:
            # Packed files say how large they are only while they are read.
            if by_adapter:
                raise
    reading.setdefault("segments", tuple(segments))
    files = scan_log(path, targets=targets, where=where, workers=default_threads(), **reading)
    if where is not None:
        # A segment that nobody is in is told before a cluster is started for it.
        assert files.first.n
    return files if here else _on_cluster(files, engine)


def is_small(path: str | os.PathLike[str]) -> bool:
    """Whether a path is one file that is read into memory rather than streamed."""
    path = os.fspath(path)
    return stores.kind_of(path) == "file" and stores.stamp(path)[0] <= IN_MEMORY_BYTES


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


def stream_source(log: Any, options: ReadOptions, segments: tuple[str, ...]) -> Source:
    """Return a stream as a source: in memory if it is small, else from a file made of it."""
    with guard("the table"):
        pieces: list[pa.Table] = []
        taken, rest = 0, tables_of(log)
        for table in rest:
            pieces.append(table)
            taken += table.nbytes
            if taken > IN_MEMORY_BYTES:
                return _kept_on_disk(pieces, rest, options, segments)
        carried = replace(options, keep=(*options.keep, *segments))
        return MemorySource(from_table(whole(pieces), carried))


def _kept_on_disk(
    pieces: list[pa.Table], rest: Iterator[pa.Table], options: ReadOptions,
    segments: tuple[str, ...],
) -> Source:  # fmt: skip
    if options.segments is None:
        options = replace(options, segments=segments)
    spec = resolve(pieces[0].slice(0, 1000), options, in_memory=False)
    columns = list(spec.to_read(options.events, options.where))

    def every() -> Iterator[tuple[pa.Table, str]]:
        while pieces:
            yield pieces.pop(0).select(columns), "the table"
        for table in rest:
            yield table.select(columns), "the table"

    return scan(tables.written(every()), options, workers=default_threads())
