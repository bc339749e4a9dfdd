"""Moments: all an estimate, its interval and its diagnostics need, in arrays that add."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from counterrank.arrays import Floats, Ints, Summed
from counterrank.estimators.weights.kernels import accumulate as kernels
from counterrank.estimators.weights.kernels.accumulate import KINDS, POSITION_SUMS, ROW_SUMS
from counterrank.statistics import Sums, spread, unit_sums

_GRAM_ROWS = 1024


@dataclass(frozen=True, slots=True, eq=False)
class Moments(Summed):
    """Additive statistics of contributions y, weights w, rewards r (n, K) and position weights alpha.

    A row's total is T = sum_k alpha_k y_k; the logger earned b = sum_k alpha_k r_k; its mean weight
    is sum_k alpha_k w_k / sum_k alpha_k. `positions` (8, K) and `rows` (7,) hold the sums named in
    `kernels.accumulate`; `peaks` (K+1,) the largest |w_k| and |T|; `histogram` (2, BINS) counts and
    sums rows by mean weight. Only when asked for: `gram` (2K+1, 2K+1) of the columns y, w, b;
    `buckets` (1024, 2K+2), those columns and the number of rows summed by unit, and `earned` (1024,
    K), rewards summed by unit. `m1 + m2` are the moments of both parts. `weight` is the sum of the rows'
    weights v where they have some; then y, w and r stand for v y, v w and v r.
    """

    n: int
    alpha: Floats
    positions: Floats
    rows: Floats
    peaks: Floats
    histogram: Floats
    gram: Floats | None = None
    buckets: Floats | None = None
    earned: Floats | None = None
    weight: float | None = None

    def __add__(self, other: Self) -> Self:
        # The parts that do not add; a maximum is as free of order.
        peaks = np.maximum(self.peaks, other.peaks)
        return replace(Summed.__add__(self, other), alpha=self.alpha, peaks=peaks)

    @property
    def size(self) -> float:
        """What means divide by: the number of rows, or the sum of their weights."""
        return self.n if self.weight is None else self.weight

    @property
    def K(self) -> int:  # noqa: N802 - the letter of the papers
        """Number of positions."""
        return int(self.alpha.shape[0])

    def mean(self, name: str) -> Floats:
        """Return the mean over rows at each position (K,) of y, w, r, yy, ww, rr, yw or yr."""
        row: Floats = self.positions[POSITION_SUMS.index(name)]
        return row / self.size

    def row_mean(self, name: str) -> float:
        """Return the mean over rows of total, base, weight, total2, base2, weight2 or total_base."""
        return float(self.rows[ROW_SUMS.index(name)] / self.size)

    @property
    def columns(self) -> Floats:
        """Means of the columns y_1..y_K, w_1..w_K, b (2K+1,)."""
        return np.concatenate([self.mean("y"), self.mean("w"), [self.row_mean("base")]])

    @property
    def lean(self) -> bool:
        """Only products of row totals are known, not those of y and w by position."""
        return self.gram is None and self.buckets is None

    @property
    def sums(self) -> Sums:
        """Sums of the columns y, w, b (2K+1); of lean moments those of T and b."""
        if not self.lean:
            total = self.columns * self.size
            return Sums(self.n, total, self.gram, self.buckets, weight=self.weight)
        total, base, _, total2, base2, _, cross = self.rows
        gram = np.array([[total2, cross], [cross, base2]])
        return Sums(self.n, np.array([total, base]), gram)

    def variances(self, gradients: Floats) -> Floats:
        """Return the variances (m,) of combinations (m, 2K+1) of the column means.

        Lean moments know those of single y_k and w_k.
        """
        if not self.lean:
            return np.maximum(self.sums.covariance(gradients).diagonal(), 0.0)
        if self.n < 2:
            return np.full(len(gradients), np.nan)
        y, w = gradients[:, : self.K], gradients[:, self.K : 2 * self.K]
        each = ((y * y, "yy", "y", "y"), (2 * y * w, "yw", "y", "w"), (w * w, "ww", "w", "w"))
        terms = [
            square @ spread(self.mean(ab), self.mean(a) * self.mean(b), self.n)
            for square, ab, a, b in each
        ]
        return np.maximum(sum(terms), 0.0) / self.n

    @property
    def covariance(self) -> Floats:
        """Covariance of the columns y, w, b (2K+1, 2K+1); needs the Gram matrix."""
        if self.gram is None:
            raise ValueError("these moments were made without the Gram matrix")
        return spread(self.gram / self.n, np.outer(self.columns, self.columns), self.n)


def moments_of(
    y: Floats,
    w: Floats,
    reward: Floats,
    alpha: Floats,
    *,
    full: bool = False,
    bucket: Ints | None = None,
    weight: Floats | None = None,
) -> tuple[Moments, Floats]:
    """Return the moments of one batch and its row totals sum_k alpha_k y_k (n,).

    Arrays are (n, K); Fortran order (positions contiguous) is the fast layout. `full` adds the Gram
    matrix, `bucket` (n,) the sums by unit. Of rows with a `weight` (n,) the arrays are weighted already.

    >>> one = np.ones((4, 2))
    >>> m, totals = moments_of(one, one, one, np.ones(2))
    >>> m.mean("y").tolist(), m.row_mean("total2"), totals.tolist()
    ([1.0, 1.0], 4.0, [2.0, 2.0, 2.0, 2.0])
    """
    # Free in Fortran order.
    tall_y, tall_w, tall_r = (np.ascontiguousarray(a.T) for a in (y, w, reward))
    # Weights too large to be squared make a variance that is none: the estimate says so.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        products = [
            np.einsum("kn,kn->k", one, other)
            for one, other in (
                (tall_y, tall_y), (tall_w, tall_w), (tall_r, tall_r), (tall_y, tall_w), (tall_y, tall_r),
            )
        ]  # fmt: skip
        rows = np.stack([alpha @ tall_y, alpha @ tall_r, alpha @ tall_w / alpha.sum()])
        square, totals = rows @ rows.T, rows[0]
        found = Moments(
            len(totals),
            alpha,
            np.stack([*(part.sum(axis=1) for part in (tall_y, tall_w, tall_r)), *products]),
            np.concatenate([rows.sum(axis=1), square.diagonal(), square[0, 1:2]]),
            np.append(_largest(tall_w), _largest(totals)),
            kernels.counted(rows[2]),
            gram=_gram(tall_y, tall_w, rows[1]) if full else None,
            weight=None if weight is None else float(weight.sum()),
        )
    if bucket is None:
        return found, totals
    table = unit_sums(np.concatenate([tall_y, tall_w, rows[1:2]]), bucket, weight=weight)
    return replace(found, buckets=table, earned=unit_sums(tall_r, bucket)[:, :-1]), totals


def _largest(values: Floats) -> Floats:
    """Return the largest |value| along the last axis, without an array of absolute values."""
    found: Floats = np.maximum(values.max(axis=-1, initial=0.0), -values.min(axis=-1, initial=0.0))
    return found


#: Moments of a kind of standard weight, and columns of its rows (n,): the total, of the joint one also the weight.
KindMoments = tuple[Moments, list[Floats]]


def moments_of_ratios(
    target: Floats,
    logging: Floats,
    lengths: Ints,
    reward: Floats,
    *,
    alpha: Floats,
    kinds: Mapping[str, bool],
) -> dict[str, KindMoments]:
    """Return the moments of weights that are products of target / logging by kind, made in one pass.

    `kinds` of weight: "joint" prod_l rho_l, "prefix" prod_{l<=k} rho_l, "position" rho_k, and
    interaction orders "order-2" and "order-3"; each with whether the Gram matrix is wanted too.
    Arrays (n, K), C order.

    >>> one, two = np.array([[1.0, 0.9]]), np.array([[0.5, 0.3]])
    >>> found = moments_of_ratios(one, two, np.array([2]), np.ones((1, 2)), alpha=np.ones(2), kinds={"prefix": False})
    >>> found["prefix"][0].mean("w").round(9).tolist()
    [2.0, 6.0]
    """
    n, length = reward.shape
    wanted = np.array([kind in kinds for kind in KINDS])
    full = np.array([kinds.get(kind, False) for kind in KINDS])
    sums = np.zeros((len(KINDS), length, len(POSITION_SUMS)))
    rows = np.zeros((len(KINDS), len(ROW_SUMS)))
    top = np.zeros((len(KINDS), length + 1), dtype=np.int64)
    counts = np.zeros((len(KINDS), kernels.BINS, 2))
    totals = np.empty((len(KINDS) + 2, n))
    half = np.zeros((len(KINDS), 2 * length + 1, 2 * length + 1))
    one, two, rewards = (np.ascontiguousarray(a) for a in (target, logging, reward))
    kernels.standard(
        one, two, lengths, rewards, alpha, wanted, full, sums, rows, top, counts, totals, half
    )
    # The kernel keeps maxima as the bits of |w|: those of numbers >= 0 order like whole numbers.
    peaks = top.view(np.float64)
    found: dict[str, KindMoments] = {}
    for i in np.flatnonzero(wanted):
        # One joint weight stands for those of all positions.
        places = (
            np.r_[:length, [length] * length, length + 1] if i == 0 else np.arange(len(half[i]))
        )
        gram = (half[i] + np.tril(half[i], -1).T)[np.ix_(places, places)] if full[i] else None
        own = Moments(n, alpha, sums[i].T, rows[i], peaks[i], counts[i].T, gram)
        found[KINDS[i]] = own, [totals[2 + i], totals[1]][: 1 + (i == 0)]
    return found


def _gram(y: Floats, w: Floats, base: Floats) -> Floats:
    out = np.zeros((2 * len(y) + 1, 2 * len(y) + 1))
    # In parts that stay in the cache; BLAS sees that both factors are one.
    for first in range(0, len(base), _GRAM_ROWS):
        rows = slice(first, first + _GRAM_ROWS)
        columns = np.concatenate([y[:, rows], w[:, rows], base[None, rows]])
        out += columns @ columns.T
    return out
