"""The pass that turns ratios and rewards of a batch into additive moments of the standard weights.

It makes the weights of IPS, RIPS, IIPS and two interaction orders on its way: ratios, weights and moments
of a block never leave the cache. Rows are turned position-major in scratch, block by block, so that every
inner loop runs over consecutive rankings and vectorises; blocks stay in the first-level cache.
"""

from typing import Any

import numpy as np

from counterrank.arrays import Bools, Floats, Ints
from counterrank.kernels.jit import fill, helper, jit, vector_helper, vector_jit

#: Rows handled at a time, the best of 32 to 1024 at K = 8: shorter loops pay for their ends, longer
#: ones for cache.
BLOCK = 256

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


@vector_helper
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


@vector_helper
def common_sums(w: Floats, r: Floats, out: Floats) -> None:
    """The same for a weight common to all positions, whose own sums are made once."""
    sy, syy, syw, syr = 0.0, 0.0, 0.0, 0.0
    for i in range(w.shape[0]):
        a, c = w[i], r[i]
        y = a * c
        sy += y
        syy += y * y
        syw += y * a
        syr += y * c
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
def _dot(one: Floats, other: Floats) -> float:
    total = 0.0
    for i in range(one.shape[0]):
        total += one[i] * other[i]
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
def close_block(
    total: Floats, base: Floats, weight: Floats, rows: Floats, histogram: Floats
) -> None:
    """Add a block's row totals, logger's totals and mean weights to `rows` (7,) and `histogram` (BINS, 2)."""
    rows[0] += _sum(total)
    rows[1] += _sum(base)
    rows[2] += _sum(weight)
    rows[3] += _dot(total, total)
    rows[4] += _dot(base, base)
    rows[5] += _dot(weight, weight)
    rows[6] += _dot(total, base)
    _count(weight, histogram)


@jit
def _turn(values: Floats, first: int, used: int, out: Floats) -> None:
    """Fill out (K, used) from rows first .. first + used of flat row-major values."""
    length = out.shape[0]
    block = values[first * length : (first + used) * length]
    for k in range(length):
        row = out[k]
        for i in range(used):
            row[i] = block[i * length + k]


@helper
def _turn_ratios(
    target: Floats, logging: Floats, lengths: Ints, first: int, quotient: Floats, out: Floats
) -> None:
    """Fill out (K, used) with target / logging of the rows from `first` on, one in the padding."""
    length, used = out.shape[0], lengths.shape[0]
    above, below = (
        target[first * length : (first + used) * length],
        logging[first * length : (first + used) * length],
    )
    shortest = length
    for i in range(used * length):
        quotient[i] = above[i] / below[i]
    for i in range(used):
        shortest = min(shortest, lengths[i])
    _turn(quotient, 0, used, out)
    if shortest < length:
        for i in range(used):
            for k in range(lengths[i], length):
                out[k, i] = 1.0


@vector_helper
def reward_sums(values: Floats, alpha: float, base: Floats, out: Floats) -> None:
    """Add alpha r to what the logger earned, and sums of r and r^2 to `out`."""
    for i in range(values.shape[0]):
        base[i] += alpha * values[i]
    out[0] += _sum(values)
    out[1] += _dot(values, values)


@helper
def _joint(
    rho: Floats, reward: Floats, base: Floats, w: Floats, total: Floats, sums: Floats, top: Ints
) -> None:
    length, used = rho.shape[0], w.shape[0]
    fill(w, 1.0)
    for k in range(length):
        multiply(rho[k, :used], w)
    for k in range(length):
        common_sums(w, reward[k, :used], sums[k])
    for i in range(used):
        total[i] = base[i] * w[i]
    top[0] = largest(w, top[0])
    top[length] = largest(total, top[length])


@helper
def _add_products(
    weights: Floats, reward: Floats, base: Floats, columns: Floats, gram: Floats
) -> None:
    """Add the products of the columns w_k r_k, w_k and what the logger earned to the lower half of gram.

    `weights` (1 or K, BLOCK): one weight of all positions is one column.
    """
    length, count, used = reward.shape[0], weights.shape[0], base.shape[0]
    for k in range(length):
        y, w, r = columns[k], weights[min(k, count - 1)], reward[k]
        for i in range(used):
            y[i] = w[i] * r[i]
    for k in range(count):
        for i in range(used):
            columns[length + k, i] = weights[k, i]
    for i in range(used):
        columns[length + count, i] = base[i]
    for a in range(length + count + 1):
        for b in range(a + 1):
            gram[a, b] += _dot(columns[a, :used], columns[b, :used])


@helper
def _before(rho: Floats, singles: Floats, pairs: Floats, second: Floats, third: Floats) -> None:
    """Turn what stands after an item into the weights of both orders.

    Then take the item among those before it (`singles`, `pairs`).
    """
    for i in range(singles.shape[0]):
        one, after, excess = singles[i], second[i], rho[i] - 1.0
        others = 1.0 + (one + after)
        third[i] = rho[i] * (others + (pairs[i] + one * after + third[i]))
        second[i] = rho[i] * others
        pairs[i] += excess * one
        singles[i] = one + excess


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
    second, third = out[0], out[1]
    fill(second[length - 1], 0.0)
    fill(third[length - 1], 0.0)
    for k in range(length - 1, 0, -1):
        _after(rho[k], second[k], third[k], second[k - 1, :used], third[k - 1, :used])
    singles, pairs = room[0, :used], room[1, :used]
    fill(singles, 0.0)
    fill(pairs, 0.0)
    for k in range(length):
        _before(rho[k], singles, pairs, second[k], third[k])


@helper
def _prefixes(rho: Floats, out: Floats) -> None:
    """Fill out (K, BLOCK) with the products of ratios down to each position."""
    for k in range(rho.shape[0]):
        fill(out[k], 1.0)
        if k > 0:
            multiply(out[k - 1], out[k])
        multiply(rho[k], out[k])


@helper
def _by_position(
    weights: Floats, reward: Floats, alpha: Floats, weight: Floats, total: Floats, sums: Floats, top: Ints
) -> None:  # fmt: skip
    length, used = weights.shape[0], weight.shape[0]
    scale = 1.0 / alpha.sum()
    fill(total, 0.0)
    fill(weight, 0.0)
    for k in range(length):
        w = weights[k, :used]
        weighted_sums(w, reward[k, :used], alpha[k], alpha[k] * scale, total, weight, sums[k])
        top[k] = largest(w, top[k])
    top[length] = largest(total, top[length])


@jit
def standard(
    target: Floats, logging: Floats, lengths: Ints, reward: Floats, alpha: Floats, wanted: Bools, full: Bools,
    sums: Floats, rows: Floats, top: Ints, histogram: Floats, totals: Floats, gram: Floats,
) -> None:  # fmt: skip
    """Fill the moments of each wanted kind of weight.

    IN  target, logging, reward (n, K); lengths (n,); alpha (K,); wanted and full (5,) in the order of
        KINDS: whether moments, and whether products of columns are asked for.
    OUT (zeros) sums (5, K, 8): POSITION_SUMS over rows at each position; rows (5, 7): ROW_SUMS of the
        row total sum_k alpha_k y_k, what the logger earned and the mean weight; histogram (5, BINS, 2):
        count and sum of the mean |weights|; top (5, K+1): the largest |w_k|, last the largest |row
        total|, as bits; totals (7, n): what the logger earned, the joint weight, and the totals of each
        kind; gram (5, 2K+1, 2K+1): the lower half of the products of y_1..y_K, w_1..w_K and what the
        logger earned, of the joint weight (K+2, K+2) with one w.
    """
    n, length = target.shape
    flat_target, flat_logging, flat_reward = (
        target.reshape(-1),
        logging.reshape(-1),
        reward.reshape(-1),
    )
    kinds = wanted.shape[0]
    rho, tall = np.empty((length, BLOCK)), np.empty((length, BLOCK))
    quotient, room = np.empty(length * BLOCK), np.empty((2, BLOCK))
    of_rewards = np.zeros((length, 2))
    columns, whole = np.empty((2 * length + 1, BLOCK)), np.empty((1, BLOCK))
    # Weights of prefixes and of both orders.
    tables = np.empty((3, length, BLOCK))
    for first in range(0, n, BLOCK):
        stop = min(first + BLOCK, n)
        used = stop - first
        base, weight = totals[0, first:stop], room[0, :used]
        _turn_ratios(flat_target, flat_logging, lengths[first:stop], first, quotient, rho)
        _turn(flat_reward, first, used, tall)
        fill(base, 0.0)
        for k in range(length):
            reward_sums(tall[k, :used], alpha[k], base, of_rewards[k])
        if wanted[1]:
            _prefixes(rho, tables[0])
        if wanted[3] or wanted[4]:
            _orders(rho, used, room, tables[1:])
        for kind in range(kinds):
            if not wanted[kind]:
                continue
            total = totals[2 + kind, first:stop]
            table = rho if kind == 2 else tables[max(kind - 2, 0)]
            if kind == 0:
                joint = totals[1, first:stop]
                _joint(rho, tall, base, joint, total, sums[0], top[0])
                for i in range(used):
                    weight[i] = whole[0, i] = joint[i]
                table = whole
            else:
                _by_position(table, tall, alpha, weight, total, sums[kind], top[kind])
            if full[kind]:
                _add_products(table, tall, base, columns, gram[kind])
            close_block(total, base, weight, rows[kind], histogram[kind])
    for kind in range(kinds):
        # The joint weight is the same at every position: its sums and its peak were made once.
        if kind == 0:
            for k in range(length):
                sums[0, k, 1], sums[0, k, 4], top[0, k] = rows[0, 2], rows[0, 5], top[0, 0]
        for k in range(length):
            sums[kind, k, 2], sums[kind, k, 5] = of_rewards[k, 0], of_rewards[k, 1]
