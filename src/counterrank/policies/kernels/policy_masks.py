"""Equal masks within a row are worked on once."""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit

Ints = NDArray[np.int64]


@jit
def first_equal(codes: Ints) -> Ints:
    """Return (n, J): for each mask of codes (n, J, W), the number of the first equal mask in its row."""
    n, J, W = codes.shape
    out = np.empty((n, J), np.int64)
    for i in range(n):
        for j in range(J):
            out[i, j] = j
            for m in range(j):
                same = out[i, m] == m
                for w in range(W):
                    same = same and codes[i, m, w] == codes[i, j, w]
                if same:
                    out[i, j] = m
                    break
    return out
