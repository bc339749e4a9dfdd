"""What of a JSON document is pinned, and how two documents differ."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "numbers"
#: Rounding of sums in another order, by as many threads as a machine has.
TOLERANCE = 1e-9
#: Cases in which a flat likelihood makes 1e-6 of such a rounding: their numbers were compared between
#: kernels of BLAS for several processors (OPENBLAS_CORETYPE) and differed by up to 1.6e-6.
FLAT = {"metrics-baseline": 1e-5, "segments-baseline": 1e-5}
#: Versions, paths, times, and what has tests with exact texts elsewhere.
LEFT_OUT = {
    "provenance",
    "fingerprint",
    "rows_fingerprint",
    "schema",
    "version",
    "survival",
    "top_rows",
    # What a finding says beside its code, its status and its kind.
    "remedies",
    "examples",
    "explains",
    "pattern",
    "where",
}
#: What the primary metric has at the top of the document, too.
ABOVE = {"estimates", "lift", "verdict"}
#: Which keys say what a row of a list is about.
IDENTITY = ("target", "estimator", "name", "code", "check", "column", "label", "from", "to", "better", "than",
            "metric", "kind", "expression", "item", "target_name")  # fmt: skip


def pinned(value: Any) -> Any:
    """Return the numbers, marks and words of a document; sentences are for people, and may be improved.

    >>> pinned({"value": 0.1 + 0.2, "text": "What this means.", "status": "passed"})
    {'value': 0.3, 'status': 'passed'}
    """
    if isinstance(value, dict):
        out = LEFT_OUT | ABOVE if value.get("primary") is True else LEFT_OUT
        found = {key: pinned(one) for key, one in value.items() if key not in out}
        return {key: one for key, one in found.items() if one is not ...}
    if isinstance(value, (list, tuple)):
        return [one for one in map(pinned, value) if one is not ...]
    if isinstance(value, float) and math.isfinite(value):
        return float(f"{value:.11g}")
    if isinstance(value, str) and (" " in value or len(value) > 40):
        return ...
    return value


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the path and the value of each number of a document; a row's path says what it is about.

    >>> dict(leaves({"lift": [{"target": "new", "value": 1.0}], "flags": []}))
    {'lift[new].target': 'new', 'lift[new].value': 1.0, 'flags': 0}
    """
    if isinstance(value, dict):
        for key, one in value.items():
            yield from leaves(one, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        if not value:
            yield path, 0
        seen: dict[str, int] = {}
        for index, one in enumerate(value):
            name = ",".join(
                str(one[key])
                for key in IDENTITY
                if isinstance(one, dict) and one.get(key) is not None
            ) or str(index)
            again = seen[name] = seen.get(name, 0) + 1
            yield from leaves(one, f"{path}[{name}{'' if again == 1 else f'#{again}'}]")
    else:
        yield path, value


def same(before: Any, after: Any, tolerance: float) -> bool:
    """Return whether two values are the same but for rounding."""
    pair = (before, after)
    if not all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in pair):
        return bool(before == after)
    return math.isclose(before, after, rel_tol=tolerance, abs_tol=tolerance)


def differences(stored: Any, now: Any, tolerance: float = TOLERANCE) -> list[str]:
    """Return a line for each value that changed or is gone, and for each row that came.

    A key that is new in a row that was there before is no difference.
    """
    before, after = dict(leaves(stored)), dict(leaves(now))
    rows = {path.rpartition(".")[0] for path in before}
    changed = [
        f"{path}: {value!r} -> {after.get(path, 'gone')!r}"
        for path, value in before.items()
        if path not in after or not same(value, after[path], tolerance)
    ]
    came = [path for path in after if path not in before and path.rpartition(".")[0] not in rows]
    lists = {path.rpartition("[")[0] for path in before if "[" in path}
    lists |= {path for path, value in before.items() if value == 0}
    new = [path for path in came if any(path.startswith(f"{one}[") for one in lists)]
    return [*changed, *(f"{path}: new, {after[path]!r}" for path in new)]


def written(value: Any, depth: int = 2) -> str:
    """Return JSON with a line for each row, so that a change shows in a few lines."""
    if depth and isinstance(value, (dict, list)) and value:
        rows = (
            [f"{json.dumps(key)}:{written(one, depth - 1)}" for key, one in value.items()]
            if isinstance(value, dict)
            else [written(one, depth - 1) for one in value]
        )
        first, last = "{}" if isinstance(value, dict) else "[]"
        return f"{first}\n" + ",\n".join(rows) + f"\n{last}"
    return json.dumps(value, separators=(",", ":"))
