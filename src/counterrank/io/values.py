"""Arrow arrays to NumPy arrays: numbers, ids, codes of names, lists.

CSV has no lists of its own: "[1, 2, 3]", "1 2 3" and "a|b|c" are read as such. What is no number is
refused with the place of the first.
"""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from counterrank.common.arrays import Floats, Ints
from counterrank.common.errors import LogError
from counterrank.common.messages import row_name, say

#: Ids count things (tables with a row for each item are made); larger ones are hashes, to be
#: encoded.
LARGEST_ID = 100_000_000

#: No feature is larger.
_LARGEST_FEATURE = 1e100

#: How SQL, Python, R and pandas write in text that there is nothing.
_NOTHING = ("", "null", "none", "na", "nan")

#: Turns the index of a value into words: "row 17, position 2".
Place = Callable[[int], str]


def is_list(kind: pa.DataType) -> bool:
    """Whether a column holds lists."""
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def is_text(kind: pa.DataType) -> bool:
    """Whether a column holds text, also as a dictionary."""
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def is_scalar(kind: pa.DataType) -> bool:
    """Whether a column can be carried along as a segment: one plain value per row."""
    return (
        not pa.types.is_nested(kind)
        and not pa.types.is_binary(kind)
        and not pa.types.is_large_binary(kind)
    )


def plain(array: pa.Array) -> pa.Array:
    """Return the array without dictionary or view encodings."""
    if pa.types.is_dictionary(array.type):
        return plain(array.dictionary).take(array.indices)
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    return array


def floats(array: pa.Array, name: str, place: Place) -> Floats:
    """Return float64 values (m,), NaN where null; text is refused unless every entry is a number."""
    array = plain(array)
    kind = array.type
    if pa.types.is_null(kind):
        return np.full(len(array), np.nan)
    if pa.types.is_boolean(kind):
        array = array.cast(pa.uint8())
    elif is_text(kind):
        array = _parsed(array, name, place)
    elif not is_number(kind):
        raise LogError(
            f"column '{name}' holds {kind}, numbers are wanted ({_shown(array)} at {place(0)})"
        )
    array = array.cast(pa.float64(), safe=False)
    return np.asarray(as_numpy(array), dtype=np.float64)


def integers(array: pa.Array, name: str, place: Place) -> Ints:
    """Return int64 ids (m,), -1 where null."""
    array = plain(array)
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    if pa.types.is_integer(array.type):
        try:
            ids = array.cast(pa.int64())
        except pa.ArrowInvalid:
            raise _too_large(name) from None
        if len(ids) > ids.null_count and pc.max(ids).as_py() > LARGEST_ID:
            raise _too_large(name)
        return np.asarray(as_numpy(ids, -1), dtype=np.int64)
    values = floats(array, name, place)
    missing = np.isnan(values)
    # A null turns pandas' integers into floats, which hold every whole number up to 2**53 only.
    bad = ~missing & ((values != np.rint(values)) | (np.abs(values) > 2.0**53))
    if bad.any():
        index = int(np.argmax(bad))
        raise LogError(
            f"'{name}' is {values[index]} at {place(index)}",
            remedy="ids must be whole numbers or names",
        )
    return np.where(missing, -1.0, values).astype(np.int64)


def _too_large(name: str) -> LogError:
    return LogError(
        f"column '{name}' holds ids above {LARGEST_ID:,}",
        remedy=(
            "they are encoded when they stand in the first rows: say "
            f"{say('--encode-actions', python='encode_actions=True')}"
        ),
    )


def codes(
    array: pa.Array, labels: Sequence[str], name: str = "", place: Place | None = None
) -> Ints:
    """Return the index (m,) of each value among `labels`, -1 where null.

    Without `place`, values that are no label are -1 too.
    """
    text = as_text(array)
    indices = pc.index_in(text, value_set=pa.array(labels, type=text.type))
    if place is not None and indices.null_count > text.null_count:
        unknown = pc.and_(pc.is_valid(text), pc.is_null(indices))
        index = pc.index(unknown, True).as_py()
        raise LogError(
            f"'{name}' is '{text[index].as_py()}' at {place(index)}, which was not there when the "
            f"vocabulary of {len(labels)} was collected",
            remedy="read the data again from the start",
        )
    return np.asarray(as_numpy(indices, -1), dtype=np.int64)


def as_text(array: pa.Array) -> pa.Array:
    """Return the values as strings."""
    array = plain(array)
    return array if is_text(array.type) else array.cast(pa.string())


def distinct(array: pa.Array) -> set[str]:
    """Return the different values of an array as strings, without null."""
    return set(as_text(pc.unique(plain(array))).drop_null().to_pylist())


def objects(array: pa.Array) -> NDArray[Any]:
    """Return a column as NumPy: numbers as they are, text as shared Python strings, None where null."""
    if is_text(array.type) or pa.types.is_dictionary(array.type):
        encoded = plain(array).dictionary_encode()
        labels = np.array([*encoded.dictionary.to_pylist(), None], dtype=object)
        return np.asarray(labels[as_numpy(encoded.indices, len(labels) - 1)])
    if pa.types.is_null(array.type):
        return np.full(len(array), None, dtype=object)
    if pa.types.is_decimal(array.type):
        array = array.cast(pa.float64())
    # A copy: views of Arrow memory are read-only, and every kernel would be compiled a second time
    # for them.
    return np.array(as_numpy(array))


def as_numpy(array: pa.Array, missing: int | None = None) -> NDArray[Any]:
    """Return what pyarrow's `to_numpy` does, with a value for nulls; numbers without nulls as they lie in memory.

    Its own conversion imports pandas where that is installed: a third of a second. So does a number of
    Python that is to fill nulls which are not there.
    """
    if array.null_count and missing is not None:
        array = pc.fill_null(array, missing)
    kind = array.type
    if not array.null_count and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return np.from_dlpack(array)
    return np.asarray(array.to_numpy(zero_copy_only=False))


def one_chunk(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    if column.num_chunks == 1:
        return column.chunk(0)
    chunks = column.chunks
    if pa.types.is_dictionary(column.type):
        chunks = [plain(chunk) for chunk in chunks]
    return pa.concat_arrays(chunks) if chunks else pa.array([], type=column.type)


def is_number(kind: pa.DataType) -> bool:
    """Whether a column holds numbers."""
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _parsed(array: pa.Array, name: str, place: Place) -> pa.Array:
    trimmed = _or_null(pc.utf8_trim_whitespace(array))
    try:
        return trimmed.cast(pa.float64())
    except pa.ArrowInvalid:
        for index, text in enumerate(trimmed.to_pylist()):
            if text is not None and not _is_float(text):
                comma = (
                    f"; {say('--decimal', ',')} reads decimals with a comma"
                    if _is_float(text.replace(",", "."))
                    else ""
                )
                raise LogError(
                    f"column '{name}' holds text: '{text[:60]}' at {place(index)}",
                    remedy=f"numbers are wanted{comma}",
                ) from None
        raise LogError(f"column '{name}' holds text where numbers are wanted") from None


def all_numbers(words: pa.Array) -> bool:
    """Whether every text is a number or nothing."""
    return all(word is None or _is_float(word) for word in words.to_pylist())


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _shown(array: pa.Array) -> str:
    value = array[0].as_py() if len(array) else None
    return str(value)[:60]


_BRACKETED = re.compile(r"^\s*[\[(].*[\])]\s*$", re.DOTALL)
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_SEVERAL_NUMBERS = re.compile(rf"^\s*{_NUMBER}(?:\s*[\s,;|]\s*{_NUMBER})+\s*$")


def looks_like_list(cell: str) -> bool:
    """Whether a cell is in brackets or holds several numbers.

    >>> [looks_like_list(cell) for cell in ("[1,2]", "1 2 3", ".5;.25", "red shoes", "17")]
    [True, True, True, False, False]
    """
    return bool(_BRACKETED.match(cell) or _SEVERAL_NUMBERS.match(cell))


def as_lists(column: pa.ChunkedArray, name: str, start: int = 0) -> pa.Array:
    """Return a column of lists as one array, also where they are written as text."""
    array = one_chunk(column)
    return array if is_list(array.type) else parse_lists(array, name, start)


def parse_lists(array: pa.Array, name: str, start: int) -> pa.Array:
    """Return lists of text (or of lists of numbers, when nested) from cells of text."""
    text = plain(array)
    if not is_text(text.type):
        # A file in which every ranking has one item reads as plain numbers.
        text = text.cast(pa.string())
    if pc.any(pc.match_substring_regex(text, r"^\s*\[\s*\[")).as_py():
        return _nested(text, name, start)
    bare = pc.replace_substring_regex(text, r"^\s*[\[(]|[\])]\s*$|[\"']", "")
    bare = pc.utf8_trim_whitespace(bare)
    opened, closed = (pc.match_substring_regex(text, sign) for sign in (r"^\s*[\[(]", r"[\])]\s*$"))
    row = pc.index(pc.not_equal(opened, closed), True).as_py()
    if row >= 0:
        raise LogError(
            f"{row_name(start + row)}: '{name}' is {text[row].as_py()[:60]!r}, which is not a whole "
            "list",
            remedy="write [1, 2, 3] or 1 2 3",
        )
    parts = pc.split_pattern_regex(bare, r"\s*[,;|]\s*|\s+")
    words = _or_null(parts.values)
    result = type(parts).from_arrays(parts.offsets, words)
    empty = pc.fill_null(pc.equal(bare, ""), True)
    return pc.if_else(empty, pa.scalar(None, type=result.type), result)


def _or_null(words: pa.Array) -> pa.Array:
    """Return texts with null for what says that there is nothing."""
    nothing = pc.is_in(pc.utf8_lower(words), value_set=pa.array(_NOTHING, type=words.type))
    return pc.if_else(nothing, pa.scalar(None, type=words.type), words)


def _nested(text: pa.Array, name: str, start: int) -> pa.Array:
    rows = []
    for row, cell in enumerate(text.to_pylist()):
        try:
            rows.append(None if cell is None else json.loads(cell))
        except (ValueError, RecursionError):
            raise LogError(
                f"{row_name(start + row)}: '{name}' is {cell[:60]!r}, which is not a list of lists"
            ) from None
    try:
        return pa.array(rows, type=pa.list_(pa.list_(pa.float64())))
    except (pa.ArrowInvalid, pa.ArrowTypeError) as problem:
        raise LogError(f"'{name}' is not a list of lists of numbers: {problem}") from None


def place_in_lists(counts: Ints, start: int, what: str = "position") -> Place:
    """Return what says where an entry of lists stands, by its number among those of all lists.

    >>> place_in_lists(np.array([2, 0, 1]), 10)(2)
    'row 12, position 1'
    """

    def place(index: int) -> str:
        ends = np.cumsum(counts)
        row = int(np.searchsorted(ends, index, side="right"))
        return f"{row_name(start + row)}, {what} {index - int(ends[row] - counts[row]) + 1}"

    return place


def entry_counts(array: pa.Array) -> Ints:
    """Return the number of entries (n,) of each list, 0 for a null."""
    return np.asarray(as_numpy(pc.list_value_length(array), 0), dtype=np.int64)


def places(counts: Ints) -> tuple[Ints, Ints]:
    """Return row and place of each entry of ragged lists.

    >>> [found.tolist() for found in places(np.array([2, 0, 1]))]
    [[0, 0, 2], [0, 1, 0]]
    """
    row = np.repeat(np.arange(len(counts)), counts)
    return row, np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)


def refuse_huge(numbers: Floats, what: str, place: Place) -> None:
    """Raise for a feature whose square would be infinite: a mark for what is missing, not a number."""
    huge = np.abs(numbers) > _LARGEST_FEATURE
    if huge.any():
        index = int(np.argmax(huge))
        size = "infinite" if np.isinf(numbers[index]) else f"{numbers[index]:g}"
        raise LogError(f"{what} is {size} at {place(index)}", remedy="use null for missing values")
