"""Candidates: the items that each row could have shown, with features of candidates and of items.

Row i has the candidates `items[offsets[i]:offsets[i+1]]`. Scores and features of candidates are flat
arrays parallel to `items`, so that memory grows with the number of candidates, not with the catalogue.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from counterrank.common.arrays import Floats, Ints, changed
from counterrank.common.errors import PolicyError
from counterrank.common.messages import item_name, row_name
from counterrank.policies.base import Rows

#: The labels of codes, by feature.
Labels = Mapping[str, tuple[str, ...]]

#: Number of candidates processed at once: a padded block of scores of this size fits the last-level cache.
BLOCK = 200_000


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The items that each row could have shown.

    Parameters
    ----------
    offsets
        Where the candidates of each row start in `items`: (n + 1,).
    items
        Item ids 0..n_items-1 of all rows, one row after the other: (N,).
    features
        Named arrays (N,) of numbers (NaN if missing) or of category codes (-1 if missing).
    categories
        The labels of the codes, by feature.
    n_items
        Size of the catalogue; at least the largest id plus one.
    start
        Number of the first row, for error messages.

    Raises
    ------
    PolicyError
        The offsets do not fit the items, a row is empty, or an item is negative or listed twice.

    Examples
    --------
    >>> sets = Candidates.from_lists([[3, 1, 7], [1, 2]])
    >>> sets.counts.tolist(), sets.locate(np.array([[7, 3], [2, 5]])).tolist()
    ([3, 2], [[2, 0], [1, -2]])
    """

    offsets: Ints
    items: NDArray[np.int32]
    features: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    categories: Labels = field(default_factory=dict)
    n_items: int = 0
    start: int = 0

    def __post_init__(self) -> None:
        from counterrank.policies.kernels.rows import first_bad_candidate

        put = object.__setattr__
        offsets, items = np.ascontiguousarray(self.offsets, dtype=np.int64), np.asarray(self.items)
        if items.ndim != 1 or items.dtype.kind not in "iu":
            raise PolicyError(
                f"candidates must be one flat array of integer ids, got {items.dtype} {items.shape}"
            )
        size = len(items)
        if offsets.ndim != 1 or len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != size:
            raise PolicyError(
                f"offsets must run from 0 to the number of candidates ({size}), one more than rows"
            )
        empty = np.diff(offsets) <= 0
        if empty.any():
            raise PolicyError(
                f"{row_name(self.start + int(np.argmax(empty)))} has no candidate",
                remedy="drop the row, or list what could have been shown",
            )
        put(self, "offsets", offsets)
        # Four bytes are enough for an id: catalogues have fewer than 2^31 items.
        put(self, "items", np.ascontiguousarray(items, dtype=np.int32))
        put(self, "n_items", max(self.n_items, int(items.max(initial=-1)) + 1))
        row, place = first_bad_candidate(self.offsets, self.items, self.n_items)
        if row >= 0:
            item, named = int(self.items[offsets[row] + place]), row_name(self.start + row)
            if item < 0:
                raise PolicyError(
                    f"{named}, candidate {place + 1}: {item} is no item", remedy="ids start at 0"
                )
            raise PolicyError(
                f"{named}: item {item_name(item)} is listed twice among the candidates",
                remedy="list each item once",
            )
        features = {name: self._feature(name, values) for name, values in self.features.items()}
        put(self, "features", features)

    @classmethod
    def from_lists(
        cls,
        lists: Sequence[Sequence[int]],
        features: Mapping[str, Sequence[Sequence[Any]]] | None = None,
        *,
        categories: Labels | None = None,
        n_items: int = 0,
    ) -> Self:
        """Return the candidates of ragged lists; features are ragged in the same way."""
        offsets = np.concatenate([[0], np.cumsum([len(row) for row in lists])])
        flat = {
            name: flat_values(values, offsets, name) for name, values in (features or {}).items()
        }
        items = np.array([*chain(*lists)], dtype=np.int64)
        return cls(offsets, items.astype(np.int32), flat, categories or {}, n_items)

    @classmethod
    def all_items(cls, n: int, n_items: int) -> Self:
        """Return candidates of n rows, each with all `n_items` items."""
        return cls(np.arange(n + 1) * n_items, np.tile(np.arange(n_items, dtype=np.int32), n))

    @classmethod
    def concat(cls, parts: Sequence[Candidates]) -> Candidates:
        """Return the rows of all parts in order; the parts must have the same features."""
        names = parts[0].features
        return changed(
            parts[0],
            offsets=np.concatenate([[0], np.cumsum(np.concatenate([p.counts for p in parts]))]),
            items=np.concatenate([block.items for block in parts]),
            features={n: np.concatenate([block.features[n] for block in parts]) for n in names},
            n_items=max(block.n_items for block in parts),
        )

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.offsets) - 1

    @property
    def counts(self) -> Ints:
        """Number of candidates of each row (n,)."""
        return np.diff(self.offsets)

    def take(self, rows: Rows) -> Candidates:
        """Return the candidates of the selected rows; a slice of rows is a view."""
        offsets, where = self._cut(rows)
        first = rows.indices(self.n)[0] if isinstance(rows, slice) else 0
        return changed(
            self,
            offsets=offsets,
            items=self.items[where],
            features={name: values[where] for name, values in self.features.items()},
            start=self.start + first,
        )

    def take_values(self, values: NDArray[Any], rows: Rows) -> NDArray[Any]:
        """Return the entries of the selected rows of an array parallel to `items` (N,)."""
        chosen: NDArray[Any] = values[self._cut(rows)[1]]
        return chosen

    def blocks(self, cells: int = BLOCK) -> Iterator[slice]:
        """Yield slices of rows whose lists, padded to the longest of them, have about `cells` entries."""
        first, counts = 0, self.counts
        while first < self.n:
            # An upper limit of the rows: all are padded to at least the length of the first.
            window = counts[first : first + max(1, cells // int(counts[first]))]
            padded = np.maximum.accumulate(window) * np.arange(1, len(window) + 1)
            step = max(1, int((padded <= cells).sum()))
            yield slice(first, first + step)
            first += step

    def locate(self, items: Ints) -> Ints:
        """Return the place of items (n, ...) in their row's list: -1 for padding, -2 if not a candidate."""
        from counterrank.policies.kernels.rows import locate

        flat = np.ascontiguousarray(items, dtype=np.int64).reshape(self.n, -1)
        ends = np.column_stack([self.offsets[:-1], self.offsets[1:]])
        return locate(ends, self.items, flat, self.n_items).reshape(np.shape(items))

    def features_of(self, items: Ints) -> list[Floats]:
        """Return an array (n, ...) for each feature, with its values for items (n, ...).

        The value is NaN for padding, missing codes and items that are not candidates.
        """
        places = self.locate(items)
        columns = []
        for values in self.features.values():
            shown = self.values_at(values, places)
            # A code of -1 is a missing label, and a number may be negative.
            columns.append(
                shown if values.dtype.kind == "f" else np.where(shown < 0, np.nan, shown)
            )
        return columns

    def values_at(self, values: NDArray[Any], places: Ints) -> Floats:
        """Return an array's values (N,) at places (n, ...) in each row's list, NaN where they are negative."""
        first = self.offsets[:-1].reshape((-1,) + (1,) * (places.ndim - 1))
        return np.where(places < 0, np.nan, values[np.where(places < 0, 0, first + places)])

    def dense(self, values: NDArray[Any], fill: float, width: int = 0) -> Floats:
        """Return values (N,) as a table with a row for each list, padded with `fill` to at least `width`."""
        counts = self.counts
        columns = max(width, int(counts.max(initial=0)))
        table = np.full((self.n, columns), fill)
        table[np.arange(columns) < counts[:, None]] = values
        return table

    def global_items(self, places: Ints) -> Ints:
        """Return item ids for places (n, ...) in each row's list; negative places become -1."""
        flat = places.reshape(self.n, -1)
        # Clamped, because a place beyond the list has no item.
        entries = np.minimum(self.offsets[:-1, None] + flat, len(self.items) - 1)
        return np.where(flat < 0, -1, self.items[entries]).astype(np.int64).reshape(places.shape)

    def _cut(self, rows: Rows) -> tuple[Ints, Any]:
        """Return the offsets of the selected rows, and an index of their entries."""
        if isinstance(rows, slice):
            first, last, step = rows.indices(self.n)
            if step == 1:
                last = max(first, last)
                offsets = self.offsets[first : last + 1]
                return offsets - offsets[0], slice(int(offsets[0]), int(offsets[-1]))
            rows = np.arange(first, last, step)
        chosen = np.arange(self.n)[rows]
        counts = self.counts[chosen]
        offsets = np.concatenate([[0], np.cumsum(counts)])
        # Entries keep their distance from the start of their row, so no loop is needed.
        return offsets, np.repeat(self.offsets[chosen] - offsets[:-1], counts) + np.arange(
            offsets[-1]
        )

    def _feature(self, name: str, values: Any) -> NDArray[Any]:
        array = np.asarray(values)
        if array.shape != self.items.shape:
            raise PolicyError(
                f"feature '{name}' has {(array.shape[0] if array.ndim else 0)} values for "
                f"{len(self.items)} candidates",
                remedy="give one value per candidate",
            )
        if array.dtype.kind not in "fiub":
            raise PolicyError(
                f"feature '{name}' holds {array.dtype} values",
                remedy="give numbers, or codes with `categories`",
            )
        if array.dtype.kind == "f" and np.isinf(array).any():
            entry = int(np.argmax(np.isinf(array)))
            row = int(np.searchsorted(self.offsets, entry, side="right")) - 1
            raise PolicyError(
                f"{row_name(self.start + row)}: feature '{name}' is infinite",
                remedy="use NaN for a missing value",
            )
        return np.ascontiguousarray(array)


def flat_values(values: Sequence[Sequence[Any]], offsets: Ints, name: str) -> NDArray[Any]:
    """Return ragged values as one array; raise PolicyError if a row's length differs from the candidates'."""
    sizes = np.array([len(row) for row in values])
    counts = np.diff(offsets)
    if len(sizes) != len(counts):
        raise PolicyError(
            f"'{name}' has {len(sizes)} rows, the candidates {len(counts)}",
            remedy="they must match row by row",
        )
    if (sizes != counts).any():
        row = int(np.argmax(sizes != counts))
        raise PolicyError(
            f"{row_name(row)}: '{name}' has {sizes[row]} values for {counts[row]} candidates",
            remedy="give one value per candidate",
        )
    return np.array([*chain(*values)])


@dataclass(frozen=True, slots=True, eq=False)
class ItemFeatures:
    """Features of items that are the same in every row.

    Parameters
    ----------
    values
        A table (A, d) of numbers and category codes, NaN if missing.
    names
        The name of each column.
    categories
        The labels of the codes, by feature.

    Raises
    ------
    PolicyError
        The values are no table of numbers, are infinite, or do not fit the names.

    Examples
    --------
    >>> table = [[0.5, 1.0], [0.2, 0.0]]
    >>> ItemFeatures(table, ("price", "brand"), {"brand": ("acme", "bolt")}).n_items
    2
    """

    values: Floats
    names: tuple[str, ...]
    categories: Labels = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            table = np.ascontiguousarray(self.values, dtype=np.float64)
        except (TypeError, ValueError) as problem:
            raise PolicyError(
                f"item features must be numbers or codes of categories: {problem}"
            ) from None
        if table.ndim != 2 or len(table) == 0:
            raise PolicyError(
                f"item features must be (A, d): one row per item; got shape {table.shape}"
            )
        object.__setattr__(self, "values", table)
        object.__setattr__(self, "names", tuple(self.names))
        if table.shape[1] != len(self.names):
            raise PolicyError(
                f"item features have {table.shape[1]} columns but {len(self.names)} names"
            )
        if np.isinf(table).any():
            item, column = np.argwhere(np.isinf(table))[0]
            raise PolicyError(
                f"item {item}: feature '{self.names[column]}' is infinite",
                remedy="use NaN for a missing value",
            )

    @property
    def n_items(self) -> int:
        """Number of items A."""
        return len(self.values)

    def lookup(self, items: Ints) -> Floats:
        """Return the features (..., d) of items (...,), NaN for padding and unknown items."""
        # A log may show items that are newer than the feature file.
        in_table = (items >= 0) & (items < self.n_items)
        return np.where(in_table[..., None], self.values[np.where(in_table, items, 0)], np.nan)
