"""The pass that turns contributions and weights of a batch into additive moments.

Arrays are position-major, (K, n), so that every inner loop runs over consecutive rankings and
vectorises. Rows come in blocks that stay in the first-level cache. Contributions that are products
y = w r need not be stored.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.fill import fill
from counterrank.kernels.jit import helper, jit, vector_helper, vector_jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Rows handled at a time, so that a block of every column stays in the first-level cache.
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

# Rows of `positions` and entries of `rows`, in the order the kernel fills them.
POSITION_SUMS = ("y", "w", "r", "yy", "ww", "rr", "yw", "yr")
ROW_SUMS = ("total", "base", "weight", "total2", "base2", "weight2", "total_base")


@vector_helper
def _position_sums(y: Floats, w: Floats, r: Floats, out: Floats) -> None:
    sy, sw, sr, syy, sww, srr, syw, syr = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(y.shape[0]):
        a, b, c = y[i], w[i], r[i]
        sy += a
        sw += b
        sr += c
        syy += a * a
        sww += b * b
        srr += c * c
        syw += a * b
        syr += a * c
    out[0] += sy
    out[1] += sw
    out[2] += sr
    out[3] += syy
    out[4] += sww
    out[5] += srr
    out[6] += syw
    out[7] += syr


@vector_helper
def multiply(values: Floats, out: Floats) -> None:
    """Multiply `out` by `values`, entry by entry."""
    for i in range(out.shape[0]):
        out[i] *= values[i]


@vector_jit
def weighted_sums(
    w: Floats, r: Floats, alpha: float, share: float, total: Floats, weight: Floats, out: Floats
) -> None:
    """Add alpha w r to the totals, share w to the mean weights, and sums of y, w, yy, ww, yw, yr to
    `out`.
    """
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
def _add_scaled(values: Floats, scale: float, out: Floats) -> None:
    for i in range(out.shape[0]):
        out[i] += scale * values[i]


@vector_helper
def _row_sums(total: Floats, base: Floats, weight: Floats, out: Floats) -> None:
    st, sb, sw, stt, sbb, sww, stb = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(total.shape[0]):
        t, b, w = total[i], base[i], weight[i]
        st += t
        sb += b
        sw += w
        stt += t * t
        sbb += b * b
        sww += w * w
        stb += t * b
    out[0] += st
    out[1] += sb
    out[2] += sw
    out[3] += stt
    out[4] += sbb
    out[5] += sww
    out[6] += stb


@jit
def largest(values: Floats, floor: Any) -> Any:
    """Return max(floor, bits of the largest |value|): integers order like floats, and maxima of
    them vectorise.
    """
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


@helper
def close_block(
    total: Floats, base: Floats, weight: Floats, rows: Floats, histogram: Floats
) -> None:
    """Add a block's row totals, logger's totals and mean weights to `rows` (7,) and `histogram`
    (BINS, 2).
    """
    _row_sums(total, base, weight, rows)
    _count(weight, histogram)


@jit
def accumulate(
    y: Floats, w: Floats, reward: Floats, base: Floats, alpha: Floats, products: bool, sums: Floats, rows: Floats,
    histogram: Floats, totals: Floats,
) -> None:  # fmt: skip
    """Fill the moments of a batch; where contributions are `products` w r, y is not read and r is
    not summed alone.

    IN  y, w, reward (K, n); base (n,) what the logger earned, sum_k alpha_k r_k; alpha (K,).
    OUT (zeros) sums (K, 8): over rows, POSITION_SUMS at each position; rows (7,): ROW_SUMS of the
        row total sum_k alpha_k y_k, the base and the mean weight; histogram (BINS, 2): count and
        sum of the mean |weights|; totals (n,).
    """
    length, n = y.shape
    block = np.empty(BLOCK)
    whole = 0.0
    for k in range(length):
        whole += alpha[k]
    for first in range(0, n, BLOCK):
        stop = min(first + BLOCK, n)
        total, weight = totals[first:stop], block[: stop - first]
        fill(total, 0.0)
        fill(weight, 0.0)
        for k in range(length):
            w_k, r_k = w[k, first:stop], reward[k, first:stop]
            if products:
                weighted_sums(w_k, r_k, alpha[k], alpha[k] / whole, total, weight, sums[k])
            else:
                y_k = y[k, first:stop]
                _position_sums(y_k, w_k, r_k, sums[k])
                _add_scaled(y_k, alpha[k], total)
                _add_scaled(w_k, alpha[k] / whole, weight)
        close_block(total, base[first:stop], weight, rows, histogram)
