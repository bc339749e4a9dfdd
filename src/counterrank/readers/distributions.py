"""Whole distributions of policies: (n, A), or (n, K, A) where positions differ."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from counterrank.errors import LogError
from counterrank.readers import matrices, text_lists, values
from counterrank.readers.spec import Field, LogSpec

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def read(table: pa.Table, spec: LogSpec, used: Ints | None, start: int) -> dict[str, Floats]:
    """Return the distribution of each policy that has one, by policy name."""
    return {name: _read(table, field, spec, used, start) for name, field in spec.dists.items()}


def _read(table: pa.Table, field: Field, spec: LogSpec, used: Ints | None, start: int) -> Floats:
    if field.form in ("wide", "scalar"):
        return matrices.numbers(table, field, spec, start)[0]
    array = values.one_chunk(table[field.name])
    if not values.is_list(array.type):
        array = text_lists.parse(array, field.name, start)
    if not values.is_list(array.type.value_type):
        return _rows(array, field, lambda row: f"row {start + row}")
    outer = matrices.entry_counts(array)
    items = np.full(len(array), spec.K) if used is None else used
    wrong = (outer != items) & (outer != spec.K)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise LogError(f"row {start + row}: '{field.name}' has {outer[row]} lists, the ranking has {items[row]} items")
    return _by_position(array.flatten(), field, outer, items, start)


def _rows(array: pa.Array, field: Field, place: values.Place) -> Floats:
    counts = matrices.entry_counts(array)
    if (counts != field.size).any():
        row = int(np.argmax(counts != field.size))
        raise LogError(f"'{field.name}' has {counts[row]} probabilities at {place(row)}, elsewhere {field.size}")
    flat = values.floats(array.flatten(), field.name, lambda index: place(index // max(field.size, 1)))
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
