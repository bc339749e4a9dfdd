"""What could have been shown: ragged lists of candidates by row, with features of candidates and of items.

Row i owns `items[offsets[i]:offsets[i+1]]`. Everything else that is known of a candidate (scores,
features) is a flat array beside `items`, so that 1 million rows of 50 candidates stay 50 million
numbers whatever the size of the catalogue.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from counterrank.arrays import Floats, Ints, changed
from counterrank.errors import PolicyError
from counterrank.messages import item_name, row_name
from counterrank.policies.base import Rows

#: Candidates worked on at once: a padded block of scores of this size stays in the last-level
#: cache.
BLOCK = 200_000


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The items that each row could have shown: `offsets` (n+1,), `items` (N,) of ids 0..n_items-1.

    `features` are named arrays (N,): numbers (NaN missing), or codes of a category (-1 missing)
    with the labels in `categories`. `start` is the number of the first row, for messages.

    >>> sets = Candidates.from_lists([[3, 1, 7], [1, 2]])
    >>> sets.counts.tolist(), sets.locate(np.array([[7, 3], [2, 5]])).tolist()
    ([3, 2], [[2, 0], [1, -2]])
    """

    offsets: Ints
    items: NDArray[np.int32]
    features: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
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
        # Once flat and checked, four bytes an id are enough: catalogues have fewer than 2^31 items.
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
        categories: Mapping[str, tuple[str, ...]] | None = None,
        n_items: int = 0,
    ) -> Self:
        """Return the candidates of ragged lists; features are ragged in the same way."""
        offsets = np.concatenate([[0], np.cumsum([len(row) for row in lists])])
        flat = {
            name: flat_values(values, offsets, name) for name, values in (features or {}).items()
        }
        items = np.array([item for row in lists for item in row], dtype=np.int64)
        return cls(offsets, items.astype(np.int32), flat, categories or {}, n_items)

    @classmethod
    def every(cls, n: int, n_items: int) -> Self:
        """Return n rows that could have shown any item."""
        return cls(np.arange(n + 1) * n_items, np.tile(np.arange(n_items, dtype=np.int32), n))

    @classmethod
    def concat(cls, parts: Sequence[Candidates]) -> Candidates:
        """Return the rows of all parts, in order; they come from one source and have the same features."""
        ends = np.cumsum([len(part.items) for part in parts])
        starts = zip(parts, [0, *ends[:-1]], strict=True)
        names = parts[0].features
        return changed(
            parts[0],
            offsets=np.concatenate([[0], *(part.offsets[1:] + before for part, before in starts)]),
            items=np.concatenate([part.items for part in parts]),
            features={n: np.concatenate([part.features[n] for part in parts]) for n in names},
            n_items=max(part.n_items for part in parts),
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
        """Return the candidates of the selected rows; a stretch of rows is a view."""
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
        """Return what belongs to the selected rows of an array beside `items` (N,)."""
        chosen: NDArray[Any] = values[self._cut(rows)[1]]
        return chosen

    def blocks(self, cells: int = BLOCK) -> Iterator[slice]:
        """Yield stretches of rows whose lists, padded to the longest of them, hold about `cells` entries."""
        first, counts = 0, self.counts
        while first < self.n:
            # More rows cannot fit: all are padded to at least the first one's length.
            window = counts[first : first + max(1, cells // int(counts[first]))]
            padded = np.maximum.accumulate(window) * np.arange(1, len(window) + 1)
            step = max(1, int((padded <= cells).sum()))
            yield slice(first, first + step)
            first += step

    def locate(self, items: Ints) -> Ints:
        """Return the place of items (n, ...) in their row's list: -1 for padding, -2 where it is no candidate."""
        from counterrank.policies.kernels.rows import locate

        flat = np.ascontiguousarray(items, dtype=np.int64).reshape(self.n, -1)
        ends = np.column_stack([self.offsets[:-1], self.offsets[1:]])
        return locate(ends, self.items, flat, self.n_items).reshape(np.shape(items))

    def features_of(self, items: Ints) -> list[Floats]:
        """Return one array (n, ...) a feature for items (n, ...).

        NaN for padding, missing codes and no candidates.
        """
        places = self.locate(items)
        first = self.offsets[:-1].reshape((-1,) + (1,) * (places.ndim - 1))
        at = np.where(places < 0, 0, first + places)
        found = []
        for values in self.features.values():
            known = places >= 0 if values.dtype.kind == "f" else (places >= 0) & (values[at] >= 0)
            found.append(np.where(known, values[at], np.nan))
        return found

    def dense(self, values: NDArray[Any], fill: float, width: int = 0) -> Floats:
        """Return values (N,) as a table (n, longest list or `width`), the rest filled with `fill`."""
        counts = self.counts
        columns = max(width, int(counts.max(initial=0)))
        table = np.full((self.n, columns), fill)
        table[np.arange(columns) < counts[:, None]] = values
        return table

    def global_items(self, places: Ints) -> Ints:
        """Return item ids for places (n, ...) in each row's list; negative places become -1."""
        flat = places.reshape(self.n, -1)
        # A place beyond the list is one of no item either.
        at = np.minimum(self.offsets[:-1, None] + flat, len(self.items) - 1)
        return np.where(flat < 0, -1, self.items[at]).astype(np.int64).reshape(places.shape)

    def _cut(self, rows: Rows) -> tuple[Ints, Any]:
        """Return the offsets of the selected rows, and where their entries stand."""
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
        # An entry is as far from its row's old start as from its new one, so no loop is needed.
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
            at = int(np.argmax(np.isinf(array)))
            row = int(np.searchsorted(self.offsets, at, side="right")) - 1
            raise PolicyError(
                f"{row_name(self.start + row)}: feature '{name}' is infinite",
                remedy="use NaN for a missing value",
            )
        return np.ascontiguousarray(array)


def flat_values(values: Sequence[Sequence[Any]], offsets: Ints, name: str) -> NDArray[Any]:
    """Return ragged values as one array, or name the row whose length differs from the candidates'."""
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
    return np.array([value for row in values for value in row])


@dataclass(frozen=True, slots=True, eq=False)
class ItemFeatures:
    """What is known of items whatever the row: values (A, d), NaN missing, and their names.

    Categories are codes, with their labels in `categories`.

    >>> ItemFeatures([[0.5, 1.0], [0.2, 0.0]], ("price", "brand"), {"brand": ("acme", "bolt")}).n_items
    2
    """

    values: Floats
    names: tuple[str, ...]
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

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

    def of(self, items: Ints) -> Floats:
        """Return the features of items (...,): (..., d), NaN for padding and unknown items."""
        # A log may show items that are newer than the file about them.
        known = (items >= 0) & (items < self.n_items)
        return np.where(known[..., None], self.values[np.where(known, items, 0)], np.nan)
