"""`counterrank check`: the audit of whatever holds a log, readable or not."""

import os
from collections.abc import Sequence
from typing import Any

from counterrank.diagnostics import FAILED, PASSED, Finding, audit
from counterrank.errors import ConfigError, CounterrankError, LogError, MissingExtraError, PropensityError
from counterrank.log import RankingLog
from counterrank.source import Source
from counterrank.sources import IN_MEMORY_BYTES, MemorySource, open_source

Row = dict[str, Any]


def audit_log(
    log: Any, targets: Any = None, *, segments: Sequence[str] | None = None, time: str | None = None, **reading: Any
) -> list[Row]:
    """Return the findings about a log in memory, a frame, a path or a source; targets may be left out."""
    source, names = _opened(log, targets or None, [*(segments or ()), *([time] if time else [])], reading)
    return [one.to_dict() for one in audit(source, names, segments=segments or None, time=time)]


def _opened(log: Any, targets: Any, carried: list[str], reading: dict[str, Any]) -> tuple[Source, tuple[str, ...]]:
    if targets is not None or not isinstance(log, (str, os.PathLike, RankingLog)):
        return open_source(log, targets, segments=tuple(carried), **reading)
    if isinstance(log, RankingLog):
        return MemorySource(log), tuple(log.targets)
    from counterrank.readers import read_log
    from counterrank.sources import scan_log

    if os.path.isfile(log) and os.path.getsize(log) <= IN_MEMORY_BYTES:
        found = read_log(log, **reading)
        return MemorySource(found), tuple(found.targets)
    reading.setdefault("segments", tuple(carried))
    return scan_log(log, **reading), ()


def audit_file(
    path: "str | os.PathLike[str]",
    targets: Sequence[str] = (),
    *,
    segments: Sequence[str] | None = None,
    time: str | None = None,
    **reading: Any,
) -> list[Row]:
    """Return the findings about a file, also one that cannot be read as a log: then all that can be said about it.

    What is wrong with single numbers is counted on the raw columns; the rest of the audit then runs on the rows that
    can be used, and says how many those are.
    """
    reading = {"require_propensity": False, **reading}
    try:
        found = audit_log(path, tuple(targets), segments=segments, time=time, **reading)
    except (LogError, PropensityError) as problem:
        return _dirty(path, tuple(targets), problem, segments=segments, time=time, **reading)
    return [Finding("readable", PASSED, "the log can be read").to_dict(), *found]


def _dirty(
    path: "str | os.PathLike[str]", targets: tuple[str, ...], problem: CounterrankError, *,
    segments: Sequence[str] | None, time: str | None, **reading: Any,
) -> list[Row]:  # fmt: skip
    from counterrank.evaluation.repair import repaired

    what, _, remedy = str(problem).rpartition("; ")
    what = what or str(problem)
    failed = Finding("readable", FAILED, what, remedy=remedy if remedy != what else "correct the file")
    try:
        numbers, log = repaired(path, targets, **reading)
    except (ConfigError, MissingExtraError):
        raise
    except (CounterrankError, OSError) as deeper:
        # A file that cannot be opened at all says the same twice, with and without its name.
        cause = "" if str(deeper) in str(problem) else f"a second look did not help: {deeper}"
        return [Finding("readable", FAILED, what, cause=cause, remedy=failed.remedy).to_dict()]
    rows = [failed.to_dict(), *(one.to_dict() for one in numbers)]
    if log is None:
        return rows
    known = [name for name in targets if name in log.targets]
    return rows + audit_log(log, known or None, segments=segments, time=time)
