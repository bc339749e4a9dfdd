"""Shared features of nested JSON events as columns."""

from collections.abc import Iterator, Sequence
from typing import Any

#: Text with more values than this is an id, not a category; it stays a segment.
MOST_CATEGORIES = 50
MOST_COLUMNS = 200


def columns(events: Sequence[dict[str, Any]]) -> tuple[dict[str, list[Any]], list[str]]:
    """Return scalar features by dotted name, None where absent, and the names fit for context.

    >>> columns([{"User": {"age": 3, "_x": 1}, "_multi": []}, {"User": {"age": 4}}])
    ({'User.age': [3, 4]}, ['User.age'])
    """
    found: dict[str, list[Any]] = {}
    for i, event in enumerate(events):
        for name, value in _scalars(event, ""):
            if name in found or len(found) < MOST_COLUMNS:
                found.setdefault(name, [None] * len(events))[i] = value
    for name, values in found.items():
        if any(isinstance(value, str) for value in values):
            found[name] = [None if value is None else str(value) for value in values]
    return found, [name for name, values in found.items() if _is_context(values)]


def _scalars(event: dict[str, Any], above: str) -> Iterator[tuple[str, Any]]:
    for key, value in event.items():
        if key.startswith("_"):
            continue
        if isinstance(value, dict):
            if above.count(".") < 5:
                yield from _scalars(value, f"{above}{key}.")
        elif isinstance(value, (str, int, float)):
            yield f"{above}{key}", float(value) if isinstance(value, bool) else value


def _is_context(values: Sequence[Any]) -> bool:
    labels = {value for value in values if value is not None}
    return not any(isinstance(value, str) for value in labels) or len(labels) <= MOST_CATEGORIES
