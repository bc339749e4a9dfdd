"""Lists and numbered columns as (n, K) arrays."""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from counterrank.errors import LogError
from counterrank.readers import text_lists, values
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
        array = text_lists.parse(array, name, start)
    counts = entry_counts(array)
    longest = int(counts.max(initial=0))
    if longest > length:
        row = int(counts.argmax())
        raise LogError(
            f"row {start + row}: '{name}' has {longest} entries, but rankings have {length} positions; "
            "pad shorter rankings with nulls"
        )
    same = len(counts) > 0 and int(counts.min()) == length
    return Lists(array.flatten(), None if same else counts, len(array), length, start)


def entry_counts(array: pa.Array) -> Ints:
    """Return the number of entries (n,) of each list, 0 for a null."""
    counts = pc.fill_null(pc.list_value_length(array), 0)
    return np.asarray(counts.to_numpy(zero_copy_only=False), dtype=np.int64)


def numbers(table: pa.Table, field: Field, spec: LogSpec, start: int) -> tuple[Floats, Ints | None]:
    """Return a field as (n, K) floats with NaN where nothing stands, and the lengths of its lists if they differ."""
    if field.form in ("list", "text"):
        found = lists(table[field.name], field.name, spec.K, start)
        return found.spread(values.floats(found.flat, field.name, found.place), np.nan), found.lengths
    result = np.empty((table.num_rows, len(field.columns)))  # (n, K)
    for k, name in enumerate(field.columns):
        result[:, k] = column_numbers(table, name, start)
    return result, None


def column_numbers(table: pa.Table, name: str, start: int) -> Floats:
    """Return one scalar column as floats (n,)."""
    return values.floats(values.one_chunk(table[name]), name, lambda index: f"row {start + index}")


def actions(table: pa.Table, spec: LogSpec, start: int) -> tuple[Ints, Ints | None]:
    """Return action ids (n, K), -1 where nothing stands, and the lengths of the lists if they differ."""
    field = spec.fields["action"]
    if field.form in ("list", "text"):
        found = lists(table[field.name], field.name, spec.K, start)
        return found.spread(_ids(found.flat, field.name, spec, found.place), -1), found.lengths
    result = np.empty((table.num_rows, len(field.columns)), dtype=np.int64)  # (n, K)
    for k, name in enumerate(field.columns):
        result[:, k] = _ids(values.one_chunk(table[name]), name, spec, lambda index: f"row {start + index}")
    return result, None


def _ids(array: pa.Array, name: str, spec: LogSpec, place: values.Place) -> Ints:
    if spec.action_names is not None:
        return values.codes(array, spec.action_names, name, place)
    result = values.integers(array, name, place)
    if len(result) and int(result.min()) < -1:
        index = int(np.argmax(result < -1))
        raise LogError(
            f"'{name}' is {result[index]} at {place(index)}; ids start at 0 and -1 pads a shorter ranking; "
            "other ids are read with encode_actions=True"
        )
    return result
