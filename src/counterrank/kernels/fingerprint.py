"""A checksum of rows that adds: the same rows give the same sum in any order and any chunking."""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.hashing import mix
from counterrank.kernels.jit import jit


@jit
def sum_of_row_hashes(action: NDArray[np.int64], reward: NDArray[np.float64], propensity: NDArray[np.float64]) -> int:
    """Return the sum modulo 2**64 of a hash of each row's actions, rewards and propensities."""
    total = np.uint64(0)
    length, width = action.shape[1], propensity.shape[1]
    reward_bits, propensity_bits = reward.view(np.uint64), propensity.view(np.uint64)
    for i in range(action.shape[0]):
        state = np.uint64(0x243F6A8885A308D3)
        for k in range(length):
            state = mix(state ^ np.uint64(action[i, k] + 1))
            state = mix(state ^ reward_bits[i, k])
        for k in range(width):
            state = mix(state ^ propensity_bits[i, k])
        total += state
    return total
