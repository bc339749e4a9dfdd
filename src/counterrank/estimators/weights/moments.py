"""Moments: all an estimate, its interval and its diagnostics need, in arrays that add.

`standard` makes moments of the weights of IPS, RIPS, IIPS and two interaction orders in one compiled pass: ratios,
weights and moments of a block never leave the cache. Rows are turned position-major in scratch, block by block, so
that every inner loop runs over consecutive rankings and vectorises; blocks stay in the first-level cache.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from counterrank.common.arrays import Bools, Floats, Ints, Summed
from counterrank.kernels.jit import fill, helper, jit, vector_helper, vector_jit
from counterrank.statistics import spread

#: Rows handled at a time, the best of 64 to 2048 at K = 8: shorter loops pay for their calls, longer
#: ones for cache.
BLOCK = 512

#: Weights are counted in bins of an eighth of an octave from 2**-40 to 2**64; bin 0 holds what is
#: below.
BINS_PER_OCTAVE = 8
LOWEST_EXPONENT = -40
HIGHEST_EXPONENT = 64
BINS = (HIGHEST_EXPONENT - LOWEST_EXPONENT) * BINS_PER_OCTAVE + 1
_SHIFT = 49  # 52 bits of mantissa less the 3 that name the eighth of an octave
_FIRST_BIN = (1023 + LOWEST_EXPONENT) * BINS_PER_OCTAVE - 1
_WITHOUT_SIGN = 0x7FFFFFFFFFFFFFFF

#: Which product of ratios is the weight: one for the whole ranking, one for the items so far, one
#: for the own item; or the own item's times sums of products of one, or of one and two, of the
#: others' (less 1).
KINDS = ("joint", "prefix", "position", "order-2", "order-3")

# Rows of `positions` and entries of `rows`, in the order the kernel fills them.
POSITION_SUMS = ("y", "w", "r", "yy", "ww", "rr", "yw", "yr")
ROW_SUMS = ("total", "base", "weight", "total2", "base2", "weight2", "total_base")


@dataclass(frozen=True, slots=True, eq=False)
class Moments(Summed):
    """Additive statistics of contributions y, weights w, rewards r (n, K) and position weights alpha.

    A row's total is T = sum_k alpha_k y_k; the logger earned b = sum_k alpha_k r_k; its mean weight
    is sum_k alpha_k w_k / sum_k alpha_k. `positions` (8, K) and `rows` (7,) hold the sums named in
    POSITION_SUMS and ROW_SUMS; `peaks` (K+1,) the largest |w_k| and |T|; `histogram` (2, BINS) counts and
    sums rows by mean weight. `m1 + m2` are the moments of both parts. `weight` is the sum of the rows'
    weights v where they have some; then y, w and r stand for v y, v w and v r. `units` and `by_unit` (K,),
    the number of independent units and the standard errors of the mean w_k over them, are known once all
    rows are summed.
    """

    n: int
    alpha: Floats
    positions: Floats
    rows: Floats
    peaks: Floats
    histogram: Floats
    weight: float | None = None
    units: int | None = None
    by_unit: Floats | None = None

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
    def weight_errors(self) -> Floats:
        """Standard errors of mean w_k (K,); NaN from one row or unit."""
        if self.by_unit is not None:
            return self.by_unit
        if self.n < 2:
            return np.full(self.K, np.nan)
        variance = spread(self.mean("ww"), self.mean("w") ** 2, self.n)
        return np.sqrt(np.maximum(variance, 0.0) / self.n)


def moments_of(
    y: Floats,
    w: Floats,
    reward: Floats,
    alpha: Floats,
    *,
    weight: Floats | None = None,
) -> tuple[Moments, Floats]:
    """Return the moments of one batch and its row totals sum_k alpha_k y_k (n,).

    Arrays are (n, K); Fortran order (positions contiguous) is the fast layout. Of rows with a `weight` (n,)
    the arrays are weighted already.

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
            np.einsum("kn,kn->k", left, right)
            for left, right in (
                (tall_y, tall_y),
                (tall_w, tall_w),
                (tall_r, tall_r),
                (tall_y, tall_w),
                (tall_y, tall_r),
            )
        ]
        rows = np.stack([alpha @ tall_y, alpha @ tall_r, alpha @ tall_w / alpha.sum()])
        square, totals = rows @ rows.T, rows[0]
        moments = Moments(
            len(totals),
            alpha,
            np.stack([*(table.sum(axis=1) for table in (tall_y, tall_w, tall_r)), *products]),
            np.concatenate([rows.sum(axis=1), square.diagonal(), square[0, 1:2]]),
            np.append(_largest(tall_w), _largest(totals)),
            counted(rows[2]),
            weight=None if weight is None else float(weight.sum()),
        )
    return moments, totals


def _largest(values: Floats) -> Floats:
    """Return the largest |value| along the last axis, without an array of absolute values."""
    largest: Floats = np.maximum(
        values.max(axis=-1, initial=0.0), -values.min(axis=-1, initial=0.0)
    )
    return largest


#: Moments of a kind of standard weight, and columns of its rows (n,): the total, of the joint one also the weight.
KindMoments = tuple[Moments, list[Floats]]


def moments_of_ratios(
    target: Floats,
    logging: Floats,
    lengths: Ints,
    rewards: Sequence[Floats],
    *,
    alpha: Floats,
    kinds: Collection[str],
) -> list[dict[str, KindMoments]]:
    """Return the moments of weights that are products of target / logging by kind, of each reward, made in one pass.

    `kinds` of weight: "joint" prod_l rho_l, "prefix" prod_{l<=k} rho_l, "position" rho_k, and
    interaction orders "order-2" and "order-3". Arrays (n, K), C order.

    >>> one, two = np.array([[1.0, 0.9]]), np.array([[0.5, 0.3]])
    >>> alone, = moments_of_ratios(one, two, np.array([2]), [one], alpha=np.ones(2), kinds=["prefix"])
    >>> alone["prefix"][0].mean("w").round(9).tolist()
    [2.0, 6.0]
    """
    (n, length), M = target.shape, len(rewards)
    requested = np.array([kind in kinds for kind in KINDS])
    sums = np.zeros((M, len(KINDS), length, len(POSITION_SUMS)))
    rows = np.zeros((M, len(KINDS), len(ROW_SUMS)))
    top = np.zeros((M, len(KINDS), length + 1), dtype=np.int64)
    counts = np.zeros((len(KINDS), BINS, 2))
    base, joint, totals = np.empty(n), np.empty(n), np.empty((M, len(KINDS), n))
    pi, pi_0 = (np.ascontiguousarray(a).reshape(-1) for a in (target, logging))
    table = rewards[0].reshape(1, -1) if M == 1 else np.stack(rewards).reshape(M, -1)
    standard(
        pi,
        pi_0,
        lengths,
        np.ascontiguousarray(table),
        alpha,
        requested,
        sums,
        rows,
        top,
        counts,
        base,
        joint,
        totals,
    )
    # Rewards are those of every kind, and weights those of every reward.
    sums[..., [2, 5]] = sums[:, :1, :, [2, 5]]
    sums[..., [1, 4]], rows[..., [2, 5]] = sums[0][..., [1, 4]], rows[0][..., [2, 5]]
    top[..., :length] = top[0, :, :length]
    # The kernel keeps maxima as the bits of |w|: those of numbers >= 0 order like whole numbers.
    peaks = top.view(np.float64)
    return [
        {
            KINDS[i]: (
                Moments(n, alpha, sums[m, i].T, rows[m, i], peaks[m, i], counts[i].T),
                [totals[m, i], joint] if i == 0 else [totals[m, i]],
            )
            for i in np.flatnonzero(requested)
        }
        for m in range(M)
    ]


@helper
def multiply(values: Floats, out: Floats) -> None:
    """Multiply `out` by `values`, entry by entry."""
    for i in range(out.shape[0]):
        out[i] *= values[i]


@vector_jit
def weighted_sums(
    w: Floats, r: Floats, alpha: float, share: float, total: Floats, weight: Floats, out: Floats
) -> None:
    """Add alpha w r to the totals, share w to the mean weights, and sums of y, w, yy, ww, yw, yr to `out`."""
    sy, sw, syy, sww, syw, syr = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(w.shape[0]):
        a, c = w[i], r[i]
        y = a * c
        sy += y
        sw += a
        syy += y * y
        sww += a * a
        syw += y * a
        syr += y * c
        total[i] += alpha * y
        weight[i] += share * a
    out[0] += sy
    out[1] += sw
    out[3] += syy
    out[4] += sww
    out[6] += syw
    out[7] += syr


@vector_jit
def rewarded_sums(w: Floats, r: Floats, alpha: float, total: Floats, out: Floats) -> None:
    """Add alpha w r to the totals, and sums of y, yy, yw and yr to `out`."""
    sy, syy, syw, syr = 0.0, 0.0, 0.0, 0.0
    for i in range(w.shape[0]):
        y = w[i] * r[i]
        sy += y
        syy += y * y
        syw += y * w[i]
        syr += y * r[i]
        total[i] += alpha * y
    out[0] += sy
    out[3] += syy
    out[6] += syw
    out[7] += syr


@vector_helper
def _sum(values: Floats) -> float:
    total = 0.0
    for i in range(values.shape[0]):
        total += values[i]
    return total


@vector_helper
def _dot(left: Floats, right: Floats) -> float:
    total = 0.0
    for i in range(left.shape[0]):
        total += left[i] * right[i]
    return total


@jit
def largest(values: Floats, floor: Any) -> Any:
    """Return max(floor, bits of the largest |value|): integers order like floats, and maxima of them vectorise."""
    bits = values.view(np.int64)
    for i in range(values.shape[0]):
        floor = max(floor, bits[i] & _WITHOUT_SIGN)
    return floor


@jit
def _count(weight: Floats, histogram: Floats) -> None:
    bits = weight.view(np.int64)
    for i in range(weight.shape[0]):
        row = histogram[min(max(((bits[i] & _WITHOUT_SIGN) >> _SHIFT) - _FIRST_BIN, 0), BINS - 1)]
        row[0] += 1.0
        row[1] += abs(weight[i])


def counted(weight: Floats) -> Floats:
    """Return the counts and sums of |weights| (n,) by bin (2, BINS)."""
    size = np.abs(weight)
    bins = np.clip((size.view(np.int64) >> _SHIFT) - _FIRST_BIN, 0, BINS - 1)
    return np.stack([np.bincount(bins, minlength=BINS), np.bincount(bins, size, BINS)])


@helper
def close_block(total: Floats, base: Floats, rows: Floats) -> None:
    """Add a block's row totals and logger's totals to `rows` (7,)."""
    for i, values in enumerate((total, base)):
        rows[i] += _sum(values)
        rows[3 + i] += _dot(values, values)
    rows[6] += _dot(total, base)


@jit
def _turn(values: Floats, out: Floats) -> None:
    """Fill the first columns of out (K, BLOCK) from rows of flat values, row by row."""
    length = out.shape[0]
    for k in range(length):
        row = out[k]
        for i in range(values.shape[0] // length):
            row[i] = values[i * length + k]


@helper
def _turn_ratios(
    target: Floats, logging: Floats, lengths: Ints, quotient: Floats, out: Floats
) -> None:
    """Fill out (K, BLOCK) with target / logging of some rows, one in the padding."""
    for i in range(target.shape[0]):
        quotient[i] = target[i] / logging[i]
    _turn(quotient[: target.shape[0]], out)
    for i in range(lengths.shape[0]):
        for k in range(lengths[i], out.shape[0]):
            out[k, i] = 1.0


@vector_helper
def reward_sums(values: Floats, alpha: float, base: Floats, out: Floats) -> None:
    """Add alpha r to what the logger earned, and sums of r and rr to `out`."""
    for i in range(values.shape[0]):
        base[i] += alpha * values[i]
    out[2] += _sum(values)
    out[5] += _dot(values, values)


@helper
def _before(rho: Floats, singles: Floats, pairs: Floats, second: Floats, third: Floats) -> None:
    """Turn what stands after an item into the weights of both orders.

    Then take the item among those before it (`singles`, `pairs`).
    """
    for i in range(singles.shape[0]):
        single, after, excess = singles[i], second[i], rho[i] - 1.0
        without_item = 1.0 + (single + after)
        third[i] = rho[i] * (without_item + (pairs[i] + single * after + third[i]))
        second[i] = rho[i] * without_item
        pairs[i] += excess * single
        singles[i] = single + excess


@helper
def _after(rho: Floats, singles: Floats, pairs: Floats, above: Floats, above_pairs: Floats) -> None:
    for i in range(above.shape[0]):
        excess = rho[i] - 1.0
        above_pairs[i] = pairs[i] + excess * singles[i]
        above[i] = singles[i] + excess


@helper
def _orders(rho: Floats, used: int, room: Floats, out: Floats) -> None:
    """Fill out (2, K, used) with rho_k (1 + e_1) and rho_k (1 + e_1 + e_2).

    e_1 and e_2 are the elementary symmetric polynomials of rho_l - 1 over l != k.

    From those of the items before and after k: sums alone, so that no digit is lost by taking a
    large ratio out again.
    """
    length = rho.shape[0]
    second, third, singles, pairs = out[0], out[1], room[0, :used], room[1, :used]
    for row in (second[length - 1], third[length - 1], singles, pairs):
        fill(row, 0.0)
    for k in range(length - 1, 0, -1):
        _after(rho[k], second[k], third[k], second[k - 1, :used], third[k - 1, :used])
    for k in range(length):
        _before(rho[k], singles, pairs, second[k], third[k])


@helper
def _prefixes(rho: Floats, out: Floats) -> None:
    """Fill out (K, BLOCK) with the products of ratios down to each position, or (1, BLOCK) with that of all."""
    last = out.shape[0] - 1
    fill(out[0], 1.0)
    for k in range(rho.shape[0]):
        if 0 < k <= last:
            fill(out[k], 1.0)
            multiply(out[k - 1], out[k])
        multiply(rho[k], out[min(k, last)])


@helper
def _by_position(
    weights: Floats,
    reward: Floats,
    alpha: Floats,
    weight: Floats,
    total: Floats,
    sums: Floats,
    top: Ints,
    first: bool,
) -> None:
    """Add the sums of weights (K or 1, BLOCK), and fill the rows' totals and, of the first reward, mean weights."""
    length, count, used = reward.shape[0], weights.shape[0], weight.shape[0]
    scale = 1.0 / alpha.sum()
    fill(total, 0.0)
    if first:
        fill(weight, 0.0)
    for k in range(length):
        w = weights[min(k, count - 1), :used]
        if not first:
            rewarded_sums(w, reward[k, :used], alpha[k], total, sums[k])
            continue
        weighted_sums(w, reward[k, :used], alpha[k], alpha[k] * scale, total, weight, sums[k])
        # One weight of all positions has one peak.
        top[k] = largest(w, top[k]) if k < count else top[0]
    top[length] = largest(total, top[length])


@jit
def standard(  # noqa: PLR0913 - a kernel in one piece
    target: Floats,
    logging: Floats,
    lengths: Ints,
    rewards: Floats,
    alpha: Floats,
    requested: Bools,
    sums: Floats,
    rows: Floats,
    top: Ints,
    histogram: Floats,
    base: Floats,
    joint: Floats,
    totals: Floats,
) -> None:
    """Fill the moments of each wanted kind of weight, for M rewards.

    IN  target, logging (n K,) and rewards (M, n K), row by row; lengths (n,); alpha (K,); requested (5,) in
        the order of KINDS: whether moments are asked for.
    OUT (zeros) sums (M, 5, K, 8): POSITION_SUMS over rows at each position, those of rewards alone in the
        first kind, those of weights alone in the first reward; rows (M, 5, 7): ROW_SUMS of the
        row total sum_k alpha_k y_k, what the logger earned and the mean weight; histogram (5, BINS, 2):
        count and sum of the mean |weights|; top (M, 5, K+1): the largest |w_k|, last the largest |row
        total|, as bits; base (n,) what the logger earned, of the last reward; joint (n,) the joint weight;
        totals (M, 5, n) the totals of each reward and kind.
    """
    n, length, kinds = lengths.shape[0], alpha.shape[0], requested.shape[0]
    tall = np.empty((length, BLOCK))
    quotient, room = np.empty(length * BLOCK), np.empty((2, BLOCK))
    # Weights of all kinds but the joint one, which is the last of the prefixes; those of positions are the ratios.
    tables = np.empty((4, length, BLOCK))
    rho, last = tables[1], tables[0, length - 1 :]
    for start in range(0, n, BLOCK):
        stop = min(start + BLOCK, n)
        used, cells = stop - start, slice(start * length, stop * length)
        earned, weight = base[start:stop], room[0, :used]
        _turn_ratios(target[cells], logging[cells], lengths[start:stop], quotient, rho)
        if requested[0] or requested[1]:
            _prefixes(rho, tables[0] if requested[1] else last)
            for i in range(used):
                joint[start + i] = last[0, i]
        if requested[3] or requested[4]:
            _orders(rho, used, room, tables[2:])
        for m in range(rewards.shape[0]):
            _turn(rewards[m, cells], tall)
            fill(earned, 0.0)
            for k in range(length):
                reward_sums(tall[k, :used], alpha[k], earned, sums[m, 0, k])
            for kind in range(kinds):
                if not requested[kind]:
                    continue
                total = totals[m, kind, start:stop]
                table = tables[kind - 1] if kind else last
                _by_position(table, tall, alpha, weight, total, sums[m, kind], top[m, kind], m == 0)
                close_block(total, earned, rows[m, kind])
                if m == 0:
                    rows[0, kind, 2] += _sum(weight)
                    rows[0, kind, 5] += _dot(weight, weight)
                    _count(weight, histogram[kind])
