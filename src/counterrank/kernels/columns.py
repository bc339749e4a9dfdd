"""Gram matrix and bucket sums of the columns y_1..y_K, w_1..w_K, b of a batch; arrays are (K, n)."""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.accumulate import BLOCK
from counterrank.kernels.jit import jit, vector_helper

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@vector_helper
def _dots_of_four(left: Floats, columns: Floats, first: int, used: int, out: Floats) -> None:
    """Add left . columns[first + j] to out[first + j] for j = 0..3: `left` is read once for four
    products.
    """
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
    """Add the Gram matrix of the columns y_1..y_K, w_1..w_K, b to the lower triangle of out (2K+1,
    2K+1).

    Rows and columns of `out` beyond 2K+1 (to the next multiple of four) are scratch.
    """
    length, n = y.shape
    width = 2 * length + 1
    columns = np.zeros((out.shape[1], BLOCK))
    for first in range(0, n, BLOCK):
        stop = min(first + BLOCK, n)
        used = stop - first
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
    """Add each row's columns (y, w, b) and a count to its bucket: table (BUCKETS, 2K+2), the count
    last.
    """
    length, n = y.shape
    for i in range(n):
        row = table[bucket[i]]
        for k in range(length):
            row[k] += y[k, i]
            row[length + k] += w[k, i]
        row[2 * length] += base[i]
        row[2 * length + 1] += 1.0
