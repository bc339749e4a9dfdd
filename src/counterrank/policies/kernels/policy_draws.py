"""Draws from tables of probabilities, given uniform numbers."""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@jit
def categorical(cumulative: Floats, uniforms: Floats) -> Ints:
    """Return (n, D) indices drawn by inversion from cumulative tables (n or 1, A) and uniforms (n, D).

    The first entry above u times the total is taken, so an action of probability zero is never drawn.
    """
    n, D = uniforms.shape
    A = cumulative.shape[1]
    out = np.empty((n, D), np.int64)
    for i in range(n):
        table = cumulative[i if cumulative.shape[0] > 1 else 0]
        for j in range(D):
            goal = uniforms[i, j] * table[A - 1]
            low, high = 0, A - 1
            while low < high:
                middle = (low + high) // 2
                if table[middle] > goal:
                    high = middle
                else:
                    low = middle + 1
            out[i, j] = low
    return out
