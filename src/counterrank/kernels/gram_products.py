"""Sums of products of columns, in tiles that stay in registers."""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit, vector_jit

Floats = NDArray[np.float64]


@vector_jit
def dot(left: Floats, right: Floats, count: int) -> float:
    """Return the sum of products of the first `count` entries."""
    total = 0.0
    for i in range(count):
        total += left[i] * right[i]
    return total


@vector_jit
def add_scaled(values: Floats, scale: float, count: int, out: Floats) -> None:
    """Add scale * values to the first `count` entries of out."""
    for j in range(count):
        out[j] += scale * values[j]


@vector_jit
def four_by_four(left: Floats, right: Floats, count: int, out: Floats) -> None:
    """Fill out (4, 4) with left (4, R) @ right (4, R)': eight loads serve sixteen sums."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    e, f, g, h = 0.0, 0.0, 0.0, 0.0
    j, k, m, n = 0.0, 0.0, 0.0, 0.0
    o, p, q, r = 0.0, 0.0, 0.0, 0.0
    for i in range(count):
        t, u, v, w = left[0, i], left[1, i], left[2, i], left[3, i]
        x, y, z, s = right[0, i], right[1, i], right[2, i], right[3, i]
        a += t * x
        b += t * y
        c += t * z
        d += t * s
        e += u * x
        f += u * y
        g += u * z
        h += u * s
        j += v * x
        k += v * y
        m += v * z
        n += v * s
        o += w * x
        p += w * y
        q += w * z
        r += w * s
    out[0, 0], out[0, 1], out[0, 2], out[0, 3] = a, b, c, d
    out[1, 0], out[1, 1], out[1, 2], out[1, 3] = e, f, g, h
    out[2, 0], out[2, 1], out[2, 2], out[2, 3] = j, k, m, n
    out[3, 0], out[3, 1], out[3, 2], out[3, 3] = o, p, q, r


@jit
def add_products(columns: Floats, count: int, matrix: Floats) -> None:
    """Add columns @ columns' over the first `count` rows (D, R) to the lower triangle of matrix (D, D).

    The number of columns must be a multiple of four.
    """
    tile = np.empty((4, 4))
    for p in range(0, columns.shape[0], 4):
        left = columns[p : p + 4]
        for q in range(0, p + 1, 4):
            four_by_four(left, columns[q : q + 4], count, tile)
            for s in range(4):
                for t in range(4):
                    matrix[p + s, q + t] += tile[s, t]
