"""Where logged items stand in a base ranking."""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit

Ints = NDArray[np.int64]


@jit
def places(items: Ints, ranking: Ints) -> Ints:
    """Return (n, K) positions of items (n, K) in ranking (n or 1, R): -1 for padding, -2 when absent."""
    n, K = items.shape
    out = np.full((n, K), -2, np.int64)
    for i in range(n):
        base = ranking[i if ranking.shape[0] > 1 else 0]
        for k in range(K):
            if items[i, k] < 0:
                out[i, k] = -1
                continue
            for r in range(base.size):
                if base[r] == items[i, k]:
                    out[i, k] = r
                    break
    return out
