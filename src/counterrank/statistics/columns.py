"""Sums of named columns: row totals of a page, and columns at each of its positions.

    sums.mean(key)            the mean of a row total, as a quantity
    sums.position(key, k)     the mean of a column at position k

Quantities of one log have gradients over the same row totals, so that values of several targets, metrics and
estimators can be subtracted and divided. Quantities at one position have gradients over the columns of that
position, followed by the row totals.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from counterrank.common.arrays import Floats, Ints
from counterrank.statistics.quantity import Quantity, mean
from counterrank.statistics.sums import Pieces, Sums, unit_sums

#: The name of a column; columns with equal keys are one column.
Key = Hashable


@dataclass(frozen=True, eq=False)
class PositionSums:
    """Sums over rows of p columns at each of K positions; `a + b` are the sums of both parts.

    `total` (K, p); `gram` (K, p, p), the sums of products; `by_unit` (K, U, p), sums by bucket of units, where
    errors are clustered; `cross` (K, p, h), the sums of products with the h row totals named in `row_keys`.
    """

    keys: tuple[Key, ...]
    total: Floats
    gram: Floats | None = None
    by_unit: Floats | None = None
    row_keys: tuple[Key, ...] = ()
    cross: Floats | None = None

    @classmethod
    def from_columns(
        cls,
        keys: tuple[Key, ...],
        table: Floats,
        bucket: Ints | None = None,
        row_totals: Mapping[Key, Floats] | None = None,
        *,
        products: bool = True,
    ) -> Self:
        """Return the sums of columns of one batch, weighted already where rows have weights.

        Parameters
        ----------
        keys
            The names of the columns.
        table
            The columns (K, p, n).
        bucket
            (n,) the bucket of each row's unit, where sums by unit take the place of products.
        row_totals
            Row totals (n,) whose products with the columns are needed.
        products
            Whether products of the columns are needed.
        """
        K, p, n = table.shape
        by_unit = gram = cross = None
        # Weights too large for a number are reported by the estimator they belong to.
        with np.errstate(over="ignore", invalid="ignore"):
            if bucket is not None:
                sums = unit_sums(table.reshape(K * p, n), bucket)[:, :-1]
                by_unit = sums.reshape(-1, K, p).swapaxes(0, 1)
            elif products:
                gram = table @ table.transpose(0, 2, 1)
            if row_totals:
                cross = table @ np.stack([*row_totals.values()]).T
            return cls(keys, table.sum(axis=2), gram, by_unit, tuple(row_totals or ()), cross)

    def __add__(self, other: Self) -> Self:
        return replace(
            self,
            total=self.total + other.total,
            gram=_sum(self.gram, other.gram),
            by_unit=_sum(self.by_unit, other.by_unit),
            cross=_sum(self.cross, other.cross),
        )


def _sum(left: Floats | None, right: Floats | None) -> Floats | None:
    return None if left is None or right is None else left + right


@dataclass(frozen=True, eq=False)
class ColumnSums:
    """Sums of every row total, by key, and of the columns at each position, over some rows of a log."""

    keys: tuple[Key, ...]
    rows: Sums
    blocks: tuple[PositionSums, ...] = ()

    def __add__(self, other: Self) -> Self:
        if self.keys != other.keys:
            raise ValueError("sums of different columns cannot be added")
        blocks = tuple(a + b for a, b in zip(self.blocks, other.blocks, strict=True))
        return replace(self, rows=self.rows + other.rows, blocks=blocks)

    @cached_property
    def column(self) -> dict[Key, int]:
        """The number of each row total."""
        return {key: number for number, key in enumerate(self.keys)}

    @cached_property
    def block_of(self) -> dict[Key, PositionSums]:
        """The sums by position that hold a column."""
        # Where two blocks hold a column, the one with more row totals beside it knows more.
        ordered = sorted(self.blocks, key=lambda block: len(block.row_keys))
        return {key: block for block in ordered for key in block.keys}

    @cached_property
    def _samples(self) -> dict[tuple[int, int], PositionSample]:
        return {}

    def numbers(self, keys: Iterable[Key]) -> list[int]:
        """Return the numbers of row totals."""
        return [self.column[key] for key in keys]

    def mean(self, key: Key) -> Quantity:
        """Return the mean of a row total."""
        return mean(self.rows, self.column[key])

    def without(self, quantity: Quantity, keys: Collection[Key]) -> Quantity:
        """Return a quantity of these sums as if some row totals did not vary."""
        gradient, first = quantity.gradient.copy(), 0
        if isinstance(quantity.sample, PositionSample):
            block, first = quantity.sample.block, quantity.sample.local
            numbered = enumerate(block.row_keys, len(block.keys))
            gradient[[number for number, key in numbered if key in keys]] = 0.0
        gradient[[first + number for number in self.numbers(keys)]] = 0.0
        return replace(quantity, gradient=gradient)

    def position(self, key: Key, k: int, block: PositionSums | None = None) -> Quantity:
        """Return the mean of a column at position k; `block` says which one, for a column of several."""
        block = block or self.block_of[key]
        sample = self._samples.setdefault((id(block), k), PositionSample(self, block, k))
        number, gradient = block.keys.index(key), np.zeros(sample.width)
        gradient[number] = 1.0
        return Quantity(sample, float(block.total[k, number] / self.rows.size), gradient)


@dataclass(frozen=True, eq=False)
class PositionSample(Pieces):
    """Means of the columns of one position, of the row totals beside them, and of all row totals.

    A gradient has an entry for each of the p columns, for each of the h totals beside them, and for each of
    the T totals of the page. What a position takes from the page through the last is taken as uncorrelated
    with its own columns.
    """

    sums: ColumnSums
    block: PositionSums
    k: int

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.sums.rows.n

    @property
    def units(self) -> int:
        """Number of independent pieces."""
        return self.sums.rows.units

    @property
    def local(self) -> int:
        """Number of entries that belong to the position."""
        return len(self.block.keys) + len(self.block.row_keys)

    @property
    def width(self) -> int:
        """Length of a gradient."""
        return self.local + len(self.sums.keys)

    @cached_property
    def columns(self) -> Sums:
        """The sums of the position's columns and of the row totals beside them."""
        k, block, rows = self.k, self.block, self.sums.rows
        numbers = self.sums.numbers(block.row_keys)
        total, gram, table = np.append(block.total[k], rows.total[numbers]), None, None
        if block.gram is not None:
            gram = block.gram[k]
            if block.cross is not None:
                corner = rows.products[np.ix_(numbers, numbers)]
                gram = np.block([[gram, block.cross[k]], [block.cross[k].T, corner]])
        if block.by_unit is not None and rows.by_unit is not None:
            table = np.column_stack([block.by_unit[k], rows.by_unit[:, [*numbers, -1]]])
        return Sums(rows.n, total, gram, table, weight=rows.weight)

    def covariance(self, gradients: Floats) -> Floats:
        """Return the covariance (m, m) of combinations (m, p + h + T) of the means."""
        page = gradients[:, self.local :]
        matrix = self.columns.covariance(gradients[:, : self.local])
        return matrix + self.sums.rows.covariance(page) if page.any() else matrix
