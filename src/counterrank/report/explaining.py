"""What a result says and does not say, to paste into a message; and what a report of a fault needs, without data."""

import platform
from collections import Counter
from collections.abc import Iterator
from typing import Any

from counterrank._version import __version__
from counterrank.common.findings import TITLES
from counterrank.common.options import OPTIONS
from counterrank.common.records import Json, Result

MOST_LINES = 10
#: What no result of a kind can say, by schema.
LIMITS = {
    "counterrank/evaluation/2": "It does not say how users change once they are used to a policy, what "
    "other seasons bring, or what rankings earn that today's policy never shows.",
    "counterrank/audit/2": "It does not say that the log is right: only that these checks found no more.",
    "counterrank/abtest/1": "It does not say what the policies earn later or for other users than those of "
    "the test.",
    "counterrank/validation/1": "It does not say that predictions of other policies, or of other times, are "
    "as good.",
    "counterrank/plan/1": "It does not say what rankers will earn: costs and detectable lifts are predictions "
    "from this log.",
    "counterrank/learning/1": "It does not say what the policy earns once users or items have changed.",
}


def explained(result: Result) -> list[str]:
    """Return at most ten lines: what the result says, and at last what it does not say."""
    lines = [line for line in result.summary().splitlines() if line.strip()]
    if len(lines) > MOST_LINES - 1:
        left = len(lines) - MOST_LINES + 2
        lines = [*lines[: MOST_LINES - 2], f"{left} more lines are in the report."]
    return [*lines, LIMITS[result.SCHEMA]]


def repro(result: Result) -> Json:
    """Return versions, options, shapes and codes of findings: nothing that stands in the log, no names, no paths."""
    found = result.to_dict()
    made = found.get("provenance") or {}
    log = found.get("log") or {}
    return {
        "schema": result.SCHEMA,
        "counterrank": made.get("counterrank", __version__),
        "python": made.get("python", platform.python_version()),
        "platform": platform.platform(),
        "libraries": made.get("libraries", {}),
        "options": {name: _harmless(name, one) for name, one in made.get("options", {}).items()},
        "estimators": made.get("estimators", []),
        "log": {name: log[name] for name in ("n", "K", "units") if name in log},
        "rows": {name: len(one) for name, one in found.items() if isinstance(one, (list, dict))},
        "findings": dict(sorted(Counter(_codes(found)).items())),
    }


def _harmless(name: str, value: Any) -> Any:
    """Return a number or a word of ours; of what the user wrote only that, and how much."""
    words = OPTIONS[name].words if name in OPTIONS else ()
    if value is None or isinstance(value, (bool, int, float)) or value in words:
        return value
    return "given" if isinstance(value, str) else f"{len(value)} given"


def _codes(found: Any) -> Iterator[str]:
    """Yield the code and status of every finding, wherever it stands."""
    if isinstance(found, dict):
        code = found.get("code")
        if isinstance(code, str) and "status" in found:
            # Checks by a column carry its name in their code.
            known = code if code in TITLES else f"{code.partition('-by-')[0]}-by-a-column"
            yield f"{known}: {found['status']}"
        yield from map(str, found.get("flag_codes") or ())
        for one in found.values():
            yield from _codes(one)
    elif isinstance(found, list):
        for one in found:
            yield from _codes(one)
