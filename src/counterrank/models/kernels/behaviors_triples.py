"""Three-way effects of the behaviour fit: too many for normal equations, so products with them are taken instead.

They are fitted where parts add: a product of exponentials has interactions of all orders anyway.
"""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import vector_jit
from counterrank.models.kernels.behaviors import three_way
from counterrank.models.kernels.behaviors_grams import LEAST

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@vector_jit
def _scatter(action: Ints, k: int, amount: float, seen: Floats, out: Floats) -> None:
    """Add amount s_l s_m to out[a_l, a_m], larger action first, for all l < m, both shown and not k."""
    for one in range(action.shape[0]):
        b = action[one]
        part = amount * seen[one]
        if one == k or b < 0 or part == 0.0:
            continue
        for two in range(one + 1, action.shape[0]):
            c = action[two]
            if two != k and c >= 0:
                out[max(b, c), min(b, c)] += part * seen[two]


@vector_jit
def gradient(
    action: Ints, reward: Floats, weight: Floats, shared: Floats, q: Floats, sight: Floats, right: Floats,
    diagonal: Floats,
) -> None:  # fmt: skip
    """Add to right (A, A, A) the J' M e of a sum, and to diagonal the J' M J's with shared = 0.

    In the diagonal items shown twice count as two columns: it only preconditions, and scales uncertainty.
    """
    n, Z, K = q.shape
    for i in range(n):
        for z in range(Z):
            w = weight[i, z]
            if w < LEAST:
                continue
            total = 0.0
            for k in range(K):
                total += reward[i, k] - q[i, z, k] if action[i, k] >= 0 else 0.0
            for k in range(K):
                u = action[i, k]
                if u >= 0:
                    rest = w * (reward[i, k] - q[i, z, k] - shared[i] * total)
                    _scatter(action[i], k, rest, sight[z, k], right[u])
                    _scatter(action[i], k, w, sight[z, k] ** 2, diagonal[u])


@vector_jit
def curvature(action: Ints, weight: Floats, shared: Floats, sight: Floats, step: Floats, out: Floats) -> None:
    """Add J' M J step to out (A, A, A), b >= c; step has both orders of b and c."""
    n, Z = weight.shape
    K = action.shape[1]
    change = np.empty(K)
    for i in range(n):
        for z in range(Z):
            if weight[i, z] < LEAST:
                continue
            total = 0.0
            for k in range(K):
                change[k] = 0.0
                if action[i, k] >= 0:
                    change[k] = three_way(action[i], k, sight[z, k], step[action[i, k]])
                total += change[k]
            for k in range(K):
                if action[i, k] >= 0:
                    rest = weight[i, z] * (change[k] - shared[i] * total)
                    _scatter(action[i], k, rest, sight[z, k], out[action[i, k]])
