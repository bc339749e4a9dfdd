"""Columns as arrays: (n, K) items and numbers, whole distributions, context, units."""

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from counterrank.errors import LogError
from counterrank.readers import values
from counterrank.readers.spec import Field, LogSpec

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Number = TypeVar("Number", np.float64, np.int64)


@dataclass(frozen=True, slots=True)
class Lists:
    """Lists of a column, flattened: `flat` values, `lengths` (n,), or None when all have K entries."""

    flat: pa.Array
    lengths: Ints | None
    n: int
    K: int
    start: int

    def place(self, index: int) -> str:
        """Return where the value at `index` of `flat` stands."""
        if self.lengths is None:
            row, position = divmod(index, self.K)
        else:
            ends = np.cumsum(self.lengths)
            row = int(np.searchsorted(ends, index, side="right"))
            position = index - int(ends[row] - self.lengths[row])
        return f"row {self.start + row}, position {position + 1}"

    def spread(self, flat: NDArray[Number], pad: float) -> NDArray[Number]:
        """Return (n, K) with `pad` behind shorter lists; always a fresh, writable array."""
        if self.lengths is None:
            return flat.reshape(self.n, self.K).copy()
        result = np.full((self.n, self.K), pad, dtype=flat.dtype)  # (n, K)
        result[np.arange(self.K) < self.lengths[:, None]] = flat
        return result


def lists(column: pa.ChunkedArray, name: str, length: int, start: int) -> Lists:
    """Return the lists of a column, none longer than `length`."""
    array = values.one_chunk(column)
    if not values.is_list(array.type):
        array = values.parse_lists(array, name, start)
    counts = entry_counts(array)
    longest = int(counts.max(initial=0))
    if longest > length:
        row = int(counts.argmax())
        raise LogError(
            f"row {start + row}: '{name}' has {longest} entries, but rankings have {length} "
            "positions; pad shorter rankings with nulls"
        )
    same = len(counts) > 0 and int(counts.min()) == length
    return Lists(array.flatten(), None if same else counts, len(array), length, start)


def entry_counts(array: pa.Array) -> Ints:
    """Return the number of entries (n,) of each list, 0 for a null."""
    counts = pc.fill_null(pc.list_value_length(array), 0)
    return np.asarray(counts.to_numpy(zero_copy_only=False), dtype=np.int64)


def numbers(table: pa.Table, field: Field, spec: LogSpec, start: int) -> tuple[Floats, Ints | None]:
    """Return a field as (n, K) floats with NaN where nothing stands, and the lengths of its lists
    if they differ.
    """
    if field.form in ("list", "text"):
        found = lists(table[field.name], field.name, spec.K, start)
        return found.spread(
            values.floats(found.flat, field.name, found.place), np.nan
        ), found.lengths
    result = np.empty((table.num_rows, len(field.columns)))  # (n, K)
    for k, name in enumerate(field.columns):
        result[:, k] = column_numbers(table, name, start)
    return result, None


def column_numbers(table: pa.Table, name: str, start: int) -> Floats:
    """Return one scalar column as floats (n,)."""
    return values.floats(values.one_chunk(table[name]), name, lambda index: f"row {start + index}")


def action_ids(table: pa.Table, spec: LogSpec, start: int) -> tuple[Ints, Ints | None]:
    """Return action ids (n, K), -1 where nothing stands, and the lengths of the lists if they
    differ.
    """
    field = spec.fields["action"]
    if field.form in ("list", "text"):
        found = lists(table[field.name], field.name, spec.K, start)
        return found.spread(item_ids(found.flat, field.name, spec, found.place), -1), found.lengths
    result = np.empty((table.num_rows, len(field.columns)), dtype=np.int64)  # (n, K)
    for k, name in enumerate(field.columns):
        result[:, k] = item_ids(
            values.one_chunk(table[name]), name, spec, lambda index: f"row {start + index}"
        )
    return result, None


def item_ids(array: pa.Array, name: str, spec: LogSpec, place: values.Place) -> Ints:
    """Return item ids (m,), -1 where null: codes of names, or the numbers themselves."""
    if spec.action_names is not None:
        return values.codes(array, spec.action_names, name, place)
    result = values.integers(array, name, place)
    if len(result) and int(result.min()) < -1:
        index = int(np.argmax(result < -1))
        raise LogError(
            f"'{name}' is {result[index]} at {place(index)}; ids start at 0 and -1 pads a shorter "
            "ranking; other ids are read with --encode-actions (encode_actions=True in Python)"
        )
    return result


def distributions(
    table: pa.Table, spec: LogSpec, used: Ints | None, start: int
) -> dict[str, Floats]:
    """Return the distribution of each policy that has one, by policy name."""
    return {
        name: _distribution(table, field, spec, used, start) for name, field in spec.dists.items()
    }


def _distribution(
    table: pa.Table, field: Field, spec: LogSpec, used: Ints | None, start: int
) -> Floats:
    if field.form in ("wide", "scalar"):
        return numbers(table, field, spec, start)[0]
    array = values.one_chunk(table[field.name])
    if not values.is_list(array.type):
        array = values.parse_lists(array, field.name, start)
    if not values.is_list(array.type.value_type):
        return _rows(array, field, lambda row: f"row {start + row}")
    outer = entry_counts(array)
    items = np.full(len(array), spec.K) if used is None else used
    wrong = (outer != items) & (outer != spec.K)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise LogError(
            f"row {start + row}: '{field.name}' has {outer[row]} lists, the ranking has "
            f"{items[row]} items"
        )
    return _by_position(array.flatten(), field, outer, items, start)


def _rows(array: pa.Array, field: Field, place: values.Place) -> Floats:
    counts = entry_counts(array)
    if (counts != field.size).any():
        row = int(np.argmax(counts != field.size))
        raise LogError(
            f"'{field.name}' has {counts[row]} probabilities at {place(row)}, elsewhere "
            f"{field.size}"
        )
    flat = values.floats(
        array.flatten(), field.name, lambda index: place(index // max(field.size, 1))
    )
    return flat.reshape(len(array), field.size).copy()


def _by_position(inner: pa.Array, field: Field, outer: Ints, items: Ints, start: int) -> Floats:
    row = np.repeat(np.arange(len(outer)), outer)
    position = np.arange(len(row)) - np.repeat(np.cumsum(outer) - outer, outer)
    shown = position < items[row]

    def place(index: int) -> str:
        at = int(np.flatnonzero(shown)[index])
        return f"row {start + row[at]}, position {position[at] + 1}"

    # Behind a shorter ranking nothing is drawn; a uniform row keeps every row a distribution.
    length = int(max(outer.max(initial=0), items.max(initial=0)))
    result = np.full((len(outer), length, field.size), 1.0 / max(field.size, 1))  # (n, K, A)
    result[row[shown], position[shown]] = _rows(inner.filter(pa.array(shown)), field, place)
    return result


def context(table: pa.Table, spec: LogSpec, start: int) -> NDArray[np.float64] | None:
    """Return the context (n, d), NaN where a value is missing."""
    if not spec.context:
        return None
    result = np.empty((table.num_rows, len(spec.context)))  # (n, d)
    for j, name in enumerate(spec.context):
        array = values.one_chunk(table[name])

        def place(index: int) -> str:
            return f"row {start + index}"

        if name in spec.categories:
            found = values.codes(array, spec.categories[name], name, place)
            result[:, j] = np.where(found < 0, np.nan, found)
        elif pa.types.is_temporal(array.type):
            result[:, j] = _seconds(array, name)
        else:
            result[:, j] = values.floats(array, name, place)
    infinite = np.isinf(result)
    if infinite.any():
        row, j = np.argwhere(infinite)[0]
        raise LogError(
            f"context '{spec.context[j]}' is infinite at row {start + row}; use null for missing "
            "values"
        )
    return result


def _seconds(array: pa.Array, name: str) -> NDArray[np.float64]:
    """Points in time as seconds since 1970."""
    if not (pa.types.is_timestamp(array.type) or pa.types.is_date(array.type)):
        raise LogError(
            f"context column '{name}' holds {array.type}; numbers, categories or times are wanted"
        )
    stamps = array.cast(pa.timestamp("us")).cast(pa.int64())
    return np.asarray(stamps.to_numpy(zero_copy_only=False), dtype=np.float64) / 1e6


def units(
    table: pa.Table, name: str | None, start: int, bucket: Ints | None
) -> tuple[NDArray[Any] | None, Ints | None]:
    """Return the units (n,) and their buckets (n,); without units, the given buckets."""
    if name is None:
        return None, bucket
    array = values.plain(values.one_chunk(table[name]))
    if array.null_count:
        row = pc.index(pc.is_null(array), True).as_py()
        raise LogError(
            f"unit '{name}' is missing at row {start + row}; each ranking needs its user or "
            "session (give anonymous ones an id of their own)"
        )
    return values.objects(array), _buckets(array)


def _buckets(array: pa.Array) -> Ints | None:
    from counterrank.kernels import hashing

    result = np.empty(len(array), dtype=np.int64)
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        offsets, data = _text_buffers(array)
        hashing.string_buckets(offsets, data, result)
        return result
    return None


def _text_buffers(array: pa.Array) -> tuple[Ints, NDArray[np.uint8]]:
    wide = pa.types.is_large_string(array.type)
    _, offsets, data = array.buffers()
    kind = np.int64 if wide else np.int32
    # Copies: views of Arrow memory are read-only, and the kernel would be compiled a second time
    # for them.
    ends = np.frombuffer(offsets, dtype=kind)[array.offset : array.offset + len(array) + 1].astype(
        np.int64
    )
    first = int(ends[0]) if len(ends) else 0
    content = (
        np.frombuffer(data, dtype=np.uint8)
        if data is not None and data.size
        else np.empty(0, dtype=np.uint8)
    )
    return ends - first, content[first : int(ends[-1])].copy()
