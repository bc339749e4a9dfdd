"""Sums of weights by group of rows."""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@jit
def grouped_sums(w: Floats, lengths: Ints, code: Ints, out: Floats) -> None:
    """Add count, w and w^2 by group and position to out (G, 3, K), for weights (K, n) and groups
    `code` (n,).
    """
    length, n = w.shape
    for k in range(length):
        for i in range(n):
            if k < lengths[i]:
                g, value = code[i], w[k, i]
                out[g, 0, k] += 1.0
                out[g, 1, k] += value
                out[g, 2, k] += value * value
