"""Whatever holds a log becomes a Source: memory, files, frames, clusters."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from counterrank.errors import ConfigError
from counterrank.log import RankingLog
from counterrank.source import MemorySource, Source, default_threads

#: Files up to this size are read once into memory; larger ones are streamed, pass by pass.
IN_MEMORY_BYTES = 256 * 2**20
ENGINES = ("local", "dask", "spark")
_NO_TARGET = (
    "name at least one target policy: evaluate(log, {'new': probabilities}) or "
    "evaluate(log, ['new'])"
)

Opened = tuple[Source, tuple[str, ...]]


@contextmanager
def opened(log: Any, targets: Any, **options: Any) -> Iterator[Opened]:
    """Open a source as `open_source` does, and stop at the end what was started for it."""
    source, names = open_source(log, targets, **options)
    try:
        yield source, names
    finally:
        close = getattr(source, "close", None)
        if close is not None and source is not log:
            close()


def open_source(
    log: Any,
    targets: Any,
    *,
    position_weights: Any = None,
    segments: Sequence[str] = (),
    engine: Any = None,
    where: Mapping[str, Any] | None = None,
    **reading: Any,
) -> Opened:
    """Return the source and the names of its targets.

    `engine` is "local", "dask" or "spark", or a Dask client or Spark session to use; `where` keeps
    one segment, {"device": "mobile"}; further options go to the reader.
    """
    names, columns = _names(targets)
    if columns:
        reading["columns"] = {**(reading.get("columns") or {}), **columns}
    if position_weights is not None:
        reading["position_weights"] = position_weights
    kind = _kind_of(log)
    _check_engine(engine, kind)
    if not names and kind not in ("log", "source", "frame"):
        raise ConfigError(_NO_TARGET)
    if kind == "path" and not _has_arrays(targets):
        return _from_path(
            log, engine, segments=segments, where=where, targets=names, **reading
        ), names
    if kind in ("dask", "spark"):
        return _from_cluster(
            kind, log, segments=segments, where=where, targets=names, **reading
        ), names
    if kind == "source":
        source: Source = log
        return source, _some(names or tuple(source.first.targets))
    found = _read(log, kind, targets, names, reading)
    found = _selected(found, where)
    return MemorySource(found), _some(names or tuple(found.targets))


def _some(names: tuple[str, ...]) -> tuple[str, ...]:
    if not names:
        raise ConfigError(_NO_TARGET)
    return names


def _kind_of(log: Any) -> str:
    """Tell what a log is, by module name where importing the library would be slow."""
    if isinstance(log, RankingLog):
        return "log"
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


def _has_arrays(targets: Any) -> bool:
    return isinstance(targets, Mapping) and not all(
        isinstance(value, str) for value in targets.values()
    )


def _read(
    log: Any, kind: str, targets: Any, names: tuple[str, ...], reading: dict[str, Any]
) -> RankingLog:
    """Return a log in memory with its targets, each of them checked."""
    given = dict(targets) if isinstance(targets, Mapping) else {}
    if kind == "log":
        found: RankingLog = log
        given = {
            name: log.target(value) if isinstance(value, str) else value
            for name, value in given.items()
        }
        if reading.get("position_weights") is not None:
            found = found.with_position_weights(reading["position_weights"])
    else:
        given = {name: value for name, value in given.items() if not isinstance(value, str)}
        named = tuple(name for name in names if name not in given)
        read = RankingLog.read if kind == "path" else RankingLog.from_frame
        found = read(log, targets=named or (() if given else None), **reading)
    found = found.with_targets(given) if given else found
    for name in names:
        found.target(name)
    if not found.targets:
        raise ConfigError(_NO_TARGET)
    return found


def _selected(log: RankingLog, where: Mapping[str, Any] | None) -> RankingLog:
    if not where:
        return log
    from counterrank.sources.cluster import filtered_names

    keep = [np.isin(_column(log, name), allowed) for name, allowed in filtered_names(where).items()]
    if not np.all(keep, axis=0).any():
        raise ConfigError(f"no ranking matches {dict(where)}")
    return log.where(np.all(keep, axis=0))


def _column(log: RankingLog, name: str) -> Any:
    if name in log.columns:
        return log.columns[name]
    known = ", ".join(log.columns) or "none"
    raise ConfigError(f"there is no column '{name}' to select by; known: {known}")


def _from_path(
    path: Any, engine: Any, *, where: Any, segments: Sequence[str], targets: Any, **reading: Any
) -> Source:
    from counterrank.readers import ADAPTERS, TooLargeError, read_log
    from counterrank.sources.files import scan_log

    here = engine in (None, "local")
    small = os.path.isfile(path) and os.path.getsize(path) <= IN_MEMORY_BYTES
    whole = reading.get("format") in ADAPTERS
    if here and (whole or (small and not where)):
        kept = {"keep": tuple(segments), **reading}
        try:
            return MemorySource(read_log(path, targets=targets, **kept))
        except TooLargeError:
            # Packed files say how large they are only while they are read.
            if whole:
                raise
    reading.setdefault("segments", tuple(segments))
    files = scan_log(path, targets=targets, where=where, workers=default_threads(), **reading)
    if where:
        # A segment that nobody is in is told before a cluster is started for it.
        assert files.first.n
    if here:
        source: Source = files
        return source
    if _is(engine, "spark", "pyspark"):
        from counterrank.sources import spark

        return spark.file_source(files, None if engine == "spark" else engine)
    if _is(engine, "dask", "distributed"):
        from counterrank.sources import dask

        return dask.file_source(files, None if engine == "dask" else engine)
    raise ConfigError(
        f"engine is {engine!r}; use {', '.join(ENGINES)}, a Dask client or a Spark session"
    )


def _is(engine: Any, name: str, package: str) -> bool:
    return (
        engine == name
        if isinstance(engine, str)
        else type(engine).__module__.split(".")[0] == package
    )


def _from_cluster(
    kind: str, frame: Any, *, where: Any, segments: Sequence[str], targets: Any, **reading: Any
) -> Source:
    from counterrank.readers import ReadOptions

    options = ReadOptions.of(targets=targets, **{"segments": tuple(segments), **reading})
    if kind == "spark":
        from counterrank.sources import spark

        return spark.frame_source(frame, options, where=where)
    from counterrank.sources import dask

    return dask.frame_source(frame, options, where=where)
