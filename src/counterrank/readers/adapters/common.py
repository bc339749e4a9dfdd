"""What adapters share: tables with known columns, JSON lines, features of nested events."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from counterrank.errors import LogError
from counterrank.readers import bounds, tables
from counterrank.readers.files import DataFile, expand
from counterrank.readers.options import ReadOptions
from counterrank.texts import listed

#: A target policy that needs no column: every candidate equally likely.
UNIFORM = "uniform"


def merged(
    options: ReadOptions, columns: Mapping[str, str], context: Sequence[str], kind: str
) -> ReadOptions:
    """Return the user's options over what the format implies."""
    return replace(
        options,
        columns={**columns, **options.columns},
        context=tuple(context) if options.context is None else options.context,
        propensity_kind=options.propensity_kind or kind,
    )


def wanted(options: ReadOptions, known: Sequence[str]) -> list[str]:
    """Return the columns to read: those of the format and those the user names."""
    named = [
        name
        for value in options.columns.values()
        for name in ([value] if isinstance(value, str) else value)
    ]
    extra = [
        *(options.context or ()),
        *(options.segments or ()),
        *options.keep,
        *(options.targets or ()),
    ]
    return list(dict.fromkeys([*known, *named, *extra]))


def read_columns(
    files: Sequence[DataFile], columns: Sequence[str], needed: Sequence[str], what: str
) -> pa.Table:
    """Return the files' rows, the columns that are there of those asked for; `needed` must be."""
    pieces = []
    for file in files:
        names = tables.sample(file, 1).column_names
        refuse_missing(file, names, needed, what)
        pieces.append(tables.read_table(file, [name for name in columns if name in names]))
    return pa.concat_tables(pieces, promote_options="permissive")


def refuse_missing(file: DataFile, names: Sequence[str], needed: Sequence[str], what: str) -> None:
    """Raise unless a file has every column of its format."""
    missing = [name for name in needed if name not in names]
    if missing:
        raise LogError(
            f"{file.path} is not {what}: there is no column '{missing[0]}'; columns are "
            f"{listed(names)}"
        )


def json_lines(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield ("file, line 3", object) for each line that is not empty."""
    for file in expand(path, "jsonl"):
        number, rest = 0, b""
        with bounds.Unpacked(file) as stream:
            while chunk := stream.read(1 << 22):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    number += 1
                    if line.strip():
                        yield _parsed(line, f"{file.path}, line {number}")
        if rest.strip():
            yield _parsed(rest, f"{file.path}, line {number + 1}")


def _parsed(line: bytes, place: str) -> tuple[str, dict[str, Any]]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as problem:
        raise LogError(f"{place} is not JSON: {str(problem)[:200]}") from None
    if not isinstance(found, dict):
        raise LogError(f"{place} is not a JSON object, but {str(found)[:40]!r}")
    return place, found


#: Text with more values than this is an id, not a category; it stays a segment.
MOST_CATEGORIES = 50
MOST_COLUMNS = 200


def feature_columns(events: Sequence[dict[str, Any]]) -> tuple[dict[str, list[Any]], list[str]]:
    """Return scalar features by dotted name, None where absent, and the names fit for context.

    >>> feature_columns([{"User": {"age": 3, "_x": 1}, "_multi": []}, {"User": {"age": 4}}])
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
