"""Uniform numbers by counting: a function of the key of a row and of how many were drawn before."""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.hashing import mix
from counterrank.kernels.jit import jit


@jit
def row_keys(rows: NDArray[np.int64], seed: np.uint64) -> NDArray[np.uint64]:
    """Return a key for each row number (n,)."""
    keys = np.empty(rows.size, np.uint64)
    for i in range(rows.size):
        keys[i] = mix(mix(np.uint64(rows[i])) ^ seed)
    return keys


@jit
def fill_uniforms(keys: NDArray[np.uint64], first: int, out: NDArray[np.float64]) -> None:
    """Fill `out` (n, m) with numbers in [0, 1): of row i those from `first` on."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = (
                np.float64(mix(keys[i] + mix(np.uint64(first + j))) >> np.uint64(11)) * 2.0**-53
            )
