"""Sums of columns over rows, which add, and the covariance of their means, by row or by unit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from counterrank.common.arrays import Floats, Ints, Summed
from counterrank.kernels import hashing

#: Below this multiple of the mean square, a difference of two large sums is rounding, not spread.
_ROUNDING = 8 * np.finfo(np.float64).eps


#: Rows of columns that stand beside each other at a time.
_BESIDE = 8192


class Sample(Protocol):
    """Means of columns that were estimated together."""

    @property
    def n(self) -> int:
        """Number of rows."""

    @property
    def units(self) -> int:
        """Number of independent pieces: rows, or buckets of units."""

    def covariance(self, gradients: Floats) -> Floats:
        """Return the covariance (m, m) of combinations (m, T) of the means; NaN from one unit."""

    def freedom(self, gradient: Floats) -> float:
        """Return the degrees of freedom of the error of a combination (T,) of the means."""


class Pieces:
    """Independent pieces, one of which the mean takes."""

    __slots__ = ()

    def freedom(self: Sample, _: Floats) -> float:
        """Return the degrees of freedom: one less than there are units."""
        return max(self.units - 1, 1)


@dataclass(frozen=True, slots=True, eq=False)
class Sums(Summed, Pieces):
    """Sums of T columns over n rows; `one + other` are the sums of both parts.

    `total` (T,); `gram` (T, T), the sums of products; `by_unit` (1024, T + 1), sums by bucket of units
    with the number of rows last, where errors are clustered; `absolute` (T,), sums of |x|; `weight`,
    the sum of the rows' weights where they have some: then x is weighted, the last column of `by_unit`
    sums weights, and a mean is a ratio of sums.
    """

    n: int
    total: Floats
    gram: Floats | None = None
    by_unit: Floats | None = None
    absolute: Floats | None = None
    weight: float | None = None

    @property
    def size(self) -> float:
        """What means divide by: the number of rows, or the sum of their weights."""
        return self.n if self.weight is None else self.weight

    @property
    def units(self) -> int:
        """Number of independent pieces: rows, or at most 1024 buckets of units."""
        return self.n if self.by_unit is None else int(np.count_nonzero(self.by_unit[:, -1]))

    def covariance(self, gradients: Floats) -> Floats:
        """Return the covariance (m, m) of combinations (m, T) of the means; NaN from one row or unit.

        Rows: G Cov(x) G' / n. Where sums by unit are there, rows of one unit belong together, and
        `clustered_covariance` applies.
        """
        m = len(gradients)
        if self.units < 2:
            return np.full((m, m), np.nan)
        # Columns that do not count may hold no numbers: weights too large to be squared.
        used = np.flatnonzero(gradients.any(axis=0))
        chosen = gradients[:, used]
        with np.errstate(over="ignore", invalid="ignore"):
            if self.by_unit is not None:
                return clustered_covariance(self.by_unit[:, used] @ chosen.T, self.by_unit[:, -1])
            mean, second = self.total[used] / self.n, self.products[used[:, None], used] / self.n
            return chosen @ spread(second, mean[:, None] * mean, self.n) @ chosen.T / self.n

    @property
    def products(self) -> Floats:
        """The Gram matrix, where it was summed."""
        if self.gram is None:
            raise ValueError("these sums were made without products")
        return self.gram

    def effective(self, columns: Sequence[int]) -> float:
        """Return the least (sum |x|)^2 / sum x^2 of some columns: of even 0/1 numbers, how many are 1."""
        if self.absolute is None:
            raise ValueError("these sums were made without absolute values")
        square, absolute = self.products.diagonal()[[*columns]], self.absolute[[*columns]]
        return float(
            np.divide(absolute**2, square, out=np.zeros_like(square), where=square > 0).min()
        )


@dataclass(frozen=True, slots=True, eq=False)
class UnitScores(Pieces):
    """What independent units add to the error of a mean: gradients are scores, whose squares add up."""

    n: int
    units: int

    def covariance(self, gradients: Floats) -> Floats:
        """Return the covariance (m, m) of means with scores (m, units)."""
        return np.asarray(gradients @ gradients.T)


def sums_of(
    columns: Sequence[Floats],
    bucket: Ints | None = None,
    weight: Floats | None = None,
) -> Sums:
    """Return the sums of columns (n,) of one batch, by unit too where `bucket` (n,) says whose rows they are.

    Of rows with a `weight` (n,) the columns are weighted already.

    >>> found = sums_of([np.array([1.0, 3.0])])
    >>> found.total.tolist(), found.covariance(np.ones((1, 1))).tolist()
    ([4.0], [[1.0]])
    """
    T, n = len(columns), len(columns[0])
    total, gram, absolute = np.zeros(T), np.zeros((T, T)), np.zeros(T)
    room = np.empty(T * min(n, _BESIDE))
    # Weights too large for a number are reported by the estimator they belong to.
    with np.errstate(over="ignore", invalid="ignore"):
        # In parts that stay in the cache while they are read three times.
        for first in range(0, n, _BESIDE):
            count = min(_BESIDE, n - first)
            rows = room[: T * count].reshape(T, count)
            for column, row in zip(columns, rows, strict=True):
                row[:] = column[first : first + count]
            total += rows.sum(axis=1)
            gram += rows @ rows.T
            absolute += np.abs(rows, out=rows).sum(axis=1)
        table = None if bucket is None else unit_sums(columns, bucket, weight=weight)
        size = None if weight is None else float(weight.sum())
        return Sums(n, total, gram, table, absolute, size)


def unit_sums(
    rows: Iterable[Floats],
    bucket: Ints,
    buckets: int = hashing.BUCKETS,
    weight: Floats | None = None,
) -> Floats:
    """Return the sums by bucket (buckets, T + 1) of T columns (n,), with the number of rows or their weight last."""
    counted = (*rows, np.ones(len(bucket)) if weight is None else weight)
    return np.stack([np.bincount(bucket, column, buckets) for column in counted], axis=1).astype(
        float
    )


def clustered_covariance(sums: Floats, counts: Floats) -> Floats:
    """Return the covariance (m, m) of means over rows from sums by unit (U, m) and the units' rows (U,).

    With psi_u = sums - rows x means of unit u: U/(U-1) sum_u psi_u psi_u' / n^2 (Liang & Zeger 1986);
    NaN from one unit.

    >>> clustered_covariance(np.array([[0.0], [4.0]]), np.array([2.0, 2.0])).tolist()
    [[1.0]]
    """
    sums, counts = sums[counts > 0], counts[counts > 0]
    units, n = len(counts), counts.sum()
    if units < 2:
        return np.full((sums.shape[1], sums.shape[1]), np.nan)
    scores = sums - np.outer(counts, sums.sum(axis=0) / n)
    covariance: Floats = scores.T @ scores * (units / (units - 1) / n**2)
    return covariance


def spread(second: Floats, squared_mean: Floats, n: int) -> Floats:
    """Return second - squared_mean as a variance with n-1 in the divisor, zero where it is rounding.

    >>> spread(np.array(2.0), np.array(1.0), 11).item()
    1.1
    """
    difference = np.asarray(second - squared_mean)
    noise = _ROUNDING * np.maximum(np.abs(second), np.abs(squared_mean))
    rounding = (np.abs(difference) <= noise) & np.isfinite(difference)
    return np.where(rounding, 0.0, difference) * (n / max(n - 1, 1))


def fold_deviations(values: Floats) -> Floats:
    """Return deviations (F, ...) of estimates by fits that left a fold out each; their squares add up to the variance.

    The delete-a-fold jackknife: fits share most of their rows, hence the factor on the deviations.

    >>> fold_deviations(np.array([1.0, 3.0])).round(6).tolist()
    [-0.707107, 0.707107]
    """
    F = len(values)
    return np.asarray((values - values.mean(axis=0)) * math.sqrt((F - 1) / F))
