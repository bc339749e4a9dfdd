"""Whatever holds a log becomes a Source: memory, files, frames, clusters."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from counterrank.engines.local import MemorySource
from counterrank.errors import ConfigError
from counterrank.log import RankingLog
from counterrank.source import Source

#: Files up to this size are read once into memory; larger ones are streamed, pass by pass.
IN_MEMORY_BYTES = 256 * 2**20


def open_source(
    log: Any, targets: Any, *, position_weights: Any = None, segments: Sequence[str] = (), **reading: Any
) -> tuple[Source, tuple[str, ...]]:
    """Return the source and the names of its targets."""
    names = _names(targets)
    if isinstance(log, RankingLog):
        return _in_memory(log, targets, position_weights), names or tuple(log.targets)
    if isinstance(log, (str, os.PathLike)):
        return _from_path(log, names, position_weights, segments, reading), names
    if hasattr(log, "reduce") and hasattr(log, "first"):
        source: Source = log
        return source, names or tuple(source.first.targets)
    found = RankingLog.from_frame(log, targets=names, **reading)
    return _in_memory(found, targets if isinstance(targets, Mapping) else None, position_weights), names


def _names(targets: Any) -> tuple[str, ...]:
    if targets is None:
        return ()
    if isinstance(targets, str):
        return (targets,)
    return tuple(targets)


def _in_memory(log: RankingLog, targets: Any, position_weights: Any) -> MemorySource:
    if isinstance(targets, Mapping):
        log = log.with_targets(targets)
    for name in _names(targets):
        log.target(name)
    if not log.targets:
        raise ConfigError("name at least one target policy: evaluate(log, {'new': probabilities})")
    if position_weights is not None:
        log = log.with_position_weights(position_weights)
    return MemorySource(log)


def _from_path(
    path: Any, names: tuple[str, ...], weights: Any, segments: Sequence[str], reading: dict[str, Any]
) -> Source:
    from counterrank.readers import read_log, scan_log

    options = {**reading, "targets": names}
    if weights is not None:
        options["position_weights"] = weights
    if os.path.isfile(path) and os.path.getsize(path) <= IN_MEMORY_BYTES:
        return MemorySource(read_log(path, **options))
    source: Source = scan_log(path, segments=segments, **options)
    return source
