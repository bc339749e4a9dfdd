"""Rankings drawn from independent positions, the same however rows are chunked."""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.hashing import mix
from counterrank.kernels.jit import jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@jit
def draw_rankings(dist: Floats, lengths: Ints, row_id: Ints, seed: int, out: Ints) -> None:
    """Fill out (n, S, K) with draws from dist (n, 1 or K, A); the randomness is a hash of seed, row, draw, position.

    Chunks and threads therefore do not change the draws.
    """
    n, draws, length = out.shape
    A = dist.shape[2]
    shared = dist.shape[1] == 1
    scale = 1.0 / 9007199254740992.0
    for i in range(n):
        # A counter-based stream a row: rows can be drawn in any order, by any thread.
        state = mix(np.uint64(row_id[i]) ^ mix(np.uint64(seed)))
        for s in range(draws):
            for k in range(length):
                if k >= lengths[i]:
                    out[i, s, k] = -1
                    continue
                state = mix(state)
                left = float(state >> np.uint64(11)) * scale
                row = dist[i, 0 if shared else k]
                choice = A - 1
                for a in range(A):
                    left -= row[a]
                    if left < 0.0:
                        choice = a
                        break
                # Rounding can leave a sliver above the sum: it belongs to the last possible action.
                while row[choice] <= 0.0 and choice > 0:
                    choice -= 1
                out[i, s, k] = choice
