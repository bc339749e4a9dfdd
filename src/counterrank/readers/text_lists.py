"""Lists written as text in a cell, "[1, 2, 3]", "1 2 3" or "a|b|c": CSV has no lists of its own."""

import json
import re

import pyarrow as pa
import pyarrow.compute as pc

from counterrank.errors import LogError
from counterrank.readers import values

_BRACKETED = re.compile(r"^\s*[\[(].*[\])]\s*$", re.DOTALL)
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_SEVERAL_NUMBERS = re.compile(rf"^\s*{_NUMBER}(?:\s*[\s,;|]\s*{_NUMBER})+\s*$")
_NOTHING = ("", "null", "none", "na", "nan")


def looks_like_list(cell: str) -> bool:
    """Whether a cell is in brackets or holds several numbers.

    >>> [looks_like_list(cell) for cell in ("[1,2]", "1 2 3", ".5;.25", "red shoes", "17")]
    [True, True, True, False, False]
    """
    return bool(_BRACKETED.match(cell) or _SEVERAL_NUMBERS.match(cell))


def parse(array: pa.Array, name: str, start: int) -> pa.Array:
    """Return lists of text (or of lists of numbers, when nested) from cells of text."""
    text = values.plain(array)
    if not values.is_text(text.type):
        # A file in which every ranking has one item reads as plain numbers.
        text = text.cast(pa.string())
    if _is_nested(text):
        return _nested(text, name, start)
    bare = pc.replace_substring_regex(text, r"^\s*[\[(]|[\])]\s*$|[\"']", "")
    bare = pc.utf8_trim_whitespace(bare)
    if (broken := _first_broken(text)) is not None:
        row, cell = broken
        raise LogError(
            f"row {start + row}: '{name}' is {cell[:60]!r}, which is not a whole list; write [1, 2, 3] or 1 2 3"
        )
    parts = pc.split_pattern_regex(bare, r"\s*[,;|]\s*|\s+")
    return _without_nothing(parts, bare)


def _first_broken(text: pa.Array) -> tuple[int, str] | None:
    opened = pc.match_substring_regex(text, r"^\s*[\[(]")
    closed = pc.match_substring_regex(text, r"[\])]\s*$")
    row = pc.index(pc.not_equal(opened, closed), True).as_py()
    return None if row < 0 else (row, text[row].as_py())


def _without_nothing(parts: pa.Array, bare: pa.Array) -> pa.Array:
    words = parts.values
    words = pc.if_else(pc.is_in(pc.utf8_lower(words), value_set=pa.array(_NOTHING, type=words.type)), None, words)
    empty = pc.fill_null(pc.equal(bare, ""), True)
    result = type(parts).from_arrays(parts.offsets, words)
    return pc.if_else(empty, pa.scalar(None, type=result.type), result)


def _is_nested(text: pa.Array) -> bool:
    return bool(pc.any(pc.match_substring_regex(text, r"^\s*\[\s*\[")).as_py())


def _nested(text: pa.Array, name: str, start: int) -> pa.Array:
    rows = []
    for row, cell in enumerate(text.to_pylist()):
        try:
            rows.append(None if cell is None else json.loads(cell))
        except (ValueError, RecursionError):
            raise LogError(f"row {start + row}: '{name}' is {cell[:60]!r}, which is not a list of lists") from None
    try:
        return pa.array(rows, type=pa.list_(pa.list_(pa.float64())))
    except (pa.ArrowInvalid, pa.ArrowTypeError) as problem:
        raise LogError(f"'{name}' is not a list of lists of numbers: {problem}") from None
