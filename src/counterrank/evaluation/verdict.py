"""How far the evidence can be believed, kept apart from what it says."""

from collections.abc import Sequence
from typing import Any

from counterrank.errors import ConfigError
from counterrank.evaluation.checks import Reason, reasons
from counterrank.evaluation.evidence import Evidence
from counterrank.evaluation.thresholds import FAIL, PASS, WARN

LEVELS = ("insufficient", "directional", "reliable")


def verdict(evidence: Sequence[Evidence]) -> dict[str, Any]:
    """Return the evidence level of each target and of all, every reason for it, and a sentence.

    A failed check makes a target's evidence insufficient, a warning makes it directional; the level of all is the
    lowest. Nothing here depends on whether a lift is up or down.
    """
    found = {one.estimate.target: reasons(one) for one in evidence}
    levels = {target: level_of(rows) for target, rows in found.items()}
    lowest = min(levels.values(), key=LEVELS.index)
    return {
        "level": lowest,
        "summary": " ".join(_sentence(target, levels[target], found[target]) for target in found),
        "targets": levels,
        "reasons": [row for rows in found.values() for row in rows],
    }


def level_of(rows: Sequence[Reason]) -> str:
    """Return the evidence level that checks add up to."""
    statuses = {row["status"] for row in rows}
    return LEVELS[0] if FAIL in statuses else LEVELS[1] if WARN in statuses else LEVELS[2]


def meets(level: str, required: str) -> bool:
    """Return whether an evidence level is at least the required one.

    >>> meets("directional", "reliable"), meets("reliable", "directional")
    (False, True)
    """
    for name in (level, required):
        if name not in LEVELS:
            raise ConfigError(f"'{name}' is no evidence level; use one of {', '.join(reversed(LEVELS))}")
    return LEVELS.index(level) >= LEVELS.index(required)


def _sentence(target: str, level: str, rows: Sequence[Reason]) -> str:
    if level == LEVELS[2]:
        return f"The evidence on '{target}' is reliable: all {len(rows)} checks passed."
    worst = FAIL if level == LEVELS[0] else WARN
    blamed = [row for row in rows if row["status"] == worst]
    others = sum(row["status"] != PASS for row in rows) - 1
    more = f" (and {others} more)" if others else ""
    return f"The evidence on '{target}' is {level}: {blamed[0]['reason']}{more}. What would help: {blamed[0]['help']}."
