"""What visibility may depend on, and the normal equations of how it does: sums over a ranking before products."""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.gram_products import dot, four_by_four
from counterrank.kernels.jit import jit, vector_jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Rankings of one block, held column by column.
_ROWS = 128


@vector_jit
def fill_moods(z: Floats, left: Ints, right: Ints, out: Floats) -> None:
    """Fill out (n, d + c) with columns z (n, d), then products z_left z_right, less one where both are the same."""
    n, d = z.shape
    for i in range(n):
        for j in range(d):
            out[i, j] = z[i, j]
        for j in range(left.shape[0]):
            less = 1.0 if left[j] == right[j] else 0.0
            out[i, d + j] = z[i, left[j]] * z[i, right[j]] - less


@vector_jit
def _row_sums(
    first: int, last: int, parts: Floats, slope: Floats, weight: Floats, error: Floats, shared: Floats, sums: Floats
) -> None:  # fmt: skip
    """Fill sums (5, R): for pairs a above and b below, of a a, b a, b b, a error and b error over each ranking."""
    K, moving = weight.shape[1], slope.shape[0] > 1
    for i in range(first, last):
        aa, ba, bb, ae, be = 0.0, 0.0, 0.0, 0.0, 0.0
        a_all, b_all, e_all = 0.0, 0.0, 0.0
        at = i if moving else 0
        for k in range(K):
            w, e = weight[i, k], error[i, k]
            a, b = parts[1, i, k] * slope[at, k], parts[2, i, k] * slope[at, k]
            aa += w * a * a
            ba += w * b * a
            bb += w * b * b
            ae += w * a * e
            be += w * b * e
            a_all += a
            b_all += b
            e_all += e
        c = shared[i]
        sums[0, i - first] = aa - c * a_all * a_all
        sums[1, i - first] = ba - c * b_all * a_all
        sums[2, i - first] = bb - c * b_all * b_all
        sums[3, i - first] = ae - c * e_all * a_all
        sums[4, i - first] = be - c * e_all * b_all


@jit
def _add_block(columns: Floats, sums: Floats, count: int, weighed: Floats, gram: Floats, right: Floats) -> None:
    """Add a block's columns (M, R), M a multiple of four, times its sums."""
    out = np.empty((4, 4))
    for j in range(right.shape[1]):
        right[0, j] += dot(columns[j], sums[3], count)
        right[1, j] += dot(columns[j], sums[4], count)
    for which in range(3):
        for p in range(0, columns.shape[0], 4):
            for s in range(4):
                for i in range(count):
                    weighed[s, i] = columns[p + s, i] * sums[which, i]
            for q in range(0, p + 1, 4):
                four_by_four(weighed, columns[q : q + 4], count, out)
                for s in range(4):
                    for t in range(4):
                        gram[which, p + s, q + t] += out[s, t]


@jit
def add_tilt(
    moods: Floats, parts: Floats, slope: Floats, weight: Floats, error: Floats, shared: Floats, gram: Floats,
    right: Floats,
) -> None:  # fmt: skip
    """Add to the lower triangles of gram (3, M, M), M >= m a multiple of four, and to right (2, m).

    gram holds moods' diag(s) moods for s the sums over a ranking of above^2, below x above and below^2, with the
    noise c = `shared` (n,) of its rewards taken away; `parts` (3, n, K), `slope` (n or 1, K) of the pair part,
    `weight` and `error` (n, K) as in a Gauss-Newton step.
    """
    n, m = moods.shape
    columns, weighed, sums = np.zeros((gram.shape[1], _ROWS)), np.empty((4, _ROWS)), np.empty((5, _ROWS))
    for first in range(0, n, _ROWS):
        last = min(first + _ROWS, n)
        for i in range(first, last):
            for j in range(m):
                columns[j, i - first] = moods[i, j]
        _row_sums(first, last, parts, slope, weight, error, shared, sums)
        _add_block(columns, sums, last - first, weighed, gram, right)
