"""The passes that turn weights and contributions of a batch into additive moments.

Arrays are position-major, (K, n), so that every inner loop runs over consecutive rankings and vectorises.
"""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit, max_jit, vector_jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Rows handled at a time, so that a block of every column stays in the first-level cache.
_BLOCK = 256

#: Weights are counted in bins of an eighth of an octave from 2**-40 to 2**64; bin 0 holds what is below.
BINS_PER_OCTAVE = 8
LOWEST_EXPONENT = -40
HIGHEST_EXPONENT = 64
BINS = (HIGHEST_EXPONENT - LOWEST_EXPONENT) * BINS_PER_OCTAVE + 1
_SHIFT = 49  # 52 bits of mantissa less the 3 that name the eighth of an octave
_FIRST_BIN = (1023 + LOWEST_EXPONENT) * BINS_PER_OCTAVE - 1

# Rows of `positions` and entries of `rows`, in the order the kernel fills them.
POSITION_SUMS = ("y", "w", "r", "yy", "ww", "rr", "yw", "yr")
ROW_SUMS = ("total", "base", "weight", "total2", "base2", "weight2", "total_base")

# Slices of a 2-d array lose the promise of contiguity and with it vectorisation, so the helpers take whole rows
# (1-d, contiguous) with a first index and a count.


@vector_jit
def _position_sums(y: Floats, w: Floats, r: Floats, first: int, used: int, out: Floats) -> None:
    sy, sw, sr, syy, sww, srr, syw, syr = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(first, first + used):
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


@vector_jit
def _add_scaled(values: Floats, first: int, used: int, scale: float, out: Floats) -> None:
    for i in range(used):
        out[i] += scale * values[first + i]


@vector_jit
def _row_sums(total: Floats, base: Floats, weight: Floats, used: int, out: Floats) -> None:
    st, sb, sw, stt, sbb, sww, stb = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(used):
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


@max_jit
def _largest(values: Floats, first: int, used: int, floor: float) -> float:
    for i in range(first, first + used):
        floor = max(floor, abs(values[i]))
    return floor


@jit
def _count_weights(weight: Floats, used: int, histogram: Floats) -> None:
    bits = weight.view(np.int64)
    for i in range(used):
        weight[i] = abs(weight[i])
        bin_index = min(max((bits[i] >> _SHIFT) - _FIRST_BIN, 0), BINS - 1)
        histogram[0, bin_index] += 1.0
        histogram[1, bin_index] += weight[i]


@jit
def accumulate(
    y: Floats, w: Floats, reward: Floats, alpha: Floats, positions: Floats, rows: Floats,
    peaks: Floats, histogram: Floats, totals: Floats,
) -> None:  # fmt: skip
    """Add the moments of a batch to the outputs.

    IN  y, w, reward (K, n); alpha (K,).
    OUT positions (8, K): sums over rows of POSITION_SUMS at each position; rows (7,): ROW_SUMS of the row total
        sum_k alpha_k y_k, the logger's b = sum_k alpha_k r_k and the mean weight; peaks (K+1,): largest |w_k|,
        last the largest |row total|; histogram (2, BINS): count and sum of the mean weights; totals (n,).
    """
    length, n = y.shape
    total, base, weight = np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK)
    by_position = np.zeros((length, 8))
    scale = 1.0 / alpha.sum()
    for first in range(0, n, _BLOCK):
        used = min(_BLOCK, n - first)
        total[:] = 0.0
        base[:] = 0.0
        weight[:] = 0.0
        for k in range(length):
            _position_sums(y[k], w[k], reward[k], first, used, by_position[k])
            _add_scaled(y[k], first, used, alpha[k], total)
            _add_scaled(w[k], first, used, alpha[k] * scale, weight)
            _add_scaled(reward[k], first, used, alpha[k], base)
            peaks[k] = _largest(w[k], first, used, peaks[k])
        for i in range(used):
            totals[first + i] = total[i]
        _row_sums(total, base, weight, used, rows)
        peaks[length] = _largest(total, 0, used, peaks[length])
        _count_weights(weight, used, histogram)
    positions += by_position.T


@vector_jit
def _dots_of_four(left: Floats, columns: Floats, first: int, used: int, out: Floats) -> None:
    """Add left . columns[first + j] to out[first + j] for j = 0..3: `left` is read once for four products."""
    one, two, three, four = 0.0, 0.0, 0.0, 0.0
    a, b, c, d = columns[first], columns[first + 1], columns[first + 2], columns[first + 3]
    for i in range(used):
        value = left[i]
        one += value * a[i]
        two += value * b[i]
        three += value * c[i]
        four += value * d[i]
    out[first] += one
    out[first + 1] += two
    out[first + 2] += three
    out[first + 3] += four


@jit
def gram(y: Floats, w: Floats, base: Floats, out: Floats) -> None:
    """Add the Gram matrix of the columns y_1..y_K, w_1..w_K, b to the lower triangle of out (2K+1, 2K+1).

    Rows and columns of `out` beyond 2K+1 (to the next multiple of four) are scratch.
    """
    length, n = y.shape
    width = 2 * length + 1
    columns = np.zeros((out.shape[1], _BLOCK))
    for first in range(0, n, _BLOCK):
        used = min(_BLOCK, n - first)
        for i in range(used):
            columns[2 * length, i] = base[first + i]
        for k in range(length):
            for i in range(used):
                columns[k, i] = y[k, first + i]
                columns[length + k, i] = w[k, first + i]
        for a in range(width):
            for b in range(0, a + 1, 4):
                _dots_of_four(columns[a], columns, b, used, out[a])


@jit
def add_buckets(y: Floats, w: Floats, base: Floats, bucket: Ints, table: Floats) -> None:
    """Add each row's columns (y, w, b) and a count to its bucket: table (BUCKETS, 2K+2), the count last."""
    length, n = y.shape
    for i in range(n):
        row = table[bucket[i]]
        for k in range(length):
            row[k] += y[k, i]
            row[length + k] += w[k, i]
        row[2 * length] += base[i]
        row[2 * length + 1] += 1.0
