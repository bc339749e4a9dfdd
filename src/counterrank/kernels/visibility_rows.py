"""The loss by which steps of the visibility model are judged."""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import vector_jit

Floats = NDArray[np.float64]


@vector_jit
def squared_loss(q: Floats, reward: Floats, present: Floats, shared: Floats) -> float:
    """Return sum_i (sum_k e_ik^2 - c_i (sum_k e_ik)^2), e = (reward - q) present, all (n, K)."""
    total = 0.0
    for i in range(q.shape[0]):
        square, summed = 0.0, 0.0
        for k in range(q.shape[1]):
            error = (reward[i, k] - q[i, k]) * present[i, k]
            square += error * error
            summed += error
        total += square - shared[i] * summed * summed
    return total
