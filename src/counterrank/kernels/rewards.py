"""What every estimator needs of the rewards of a batch, in one pass over them."""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.fill import fill
from counterrank.kernels.jit import jit, vector_helper

Floats = NDArray[np.float64]

#: Rows handled at a time: a block of both layouts fits the first-level cache.
_BLOCK = 128


@vector_helper
def reward_sums(values: Floats, alpha: float, base: Floats, out: Floats) -> None:
    """Add alpha r to what the logger earned, and sums of r and r^2 to `out`."""
    first, second = 0.0, 0.0
    for i in range(values.shape[0]):
        first += values[i]
        second += values[i] * values[i]
        base[i] += alpha * values[i]
    out[0] += first
    out[1] += second


@jit
def rewards(values: Floats, alpha: Floats, tall: Floats, sums: Floats, base: Floats) -> None:
    """Fill tall (K, n) with the transpose of values (n, K), sums (K, 2) with those of r and r^2,
    base (n,).

    base = sum_k alpha_k r_k is what the logger earned.
    """
    n, length = values.shape
    flat = values.reshape(-1)
    sums[:] = 0.0
    for first in range(0, n, _BLOCK):
        stop = min(first + _BLOCK, n)
        earned = base[first:stop]
        fill(earned, 0.0)
        for k in range(length):
            row = tall[k, first:stop]
            for i in range(stop - first):
                row[i] = flat[(first + i) * length + k]
            reward_sums(row, alpha[k], earned, sums[k])
