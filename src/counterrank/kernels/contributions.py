"""Contributions w r of every position and behaviour model at once, for factored policies."""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Outcome = Floats | NDArray[np.float32]

#: Positions whose products are tabulated together: 2^4 of them.
_GROUP = 4


def contributions(ratio: Floats, reward: Floats, masks: NDArray[np.bool_], out: Outcome) -> None:
    """Fill out (K, n, M): reward[i, k] times the product of ratio[i, l] over the items l in masks[m, k].

    >>> out = np.empty((2, 1, 1))
    >>> contributions(np.array([[2.0, 3.0]]), np.ones((1, 2)), np.array([[[True, True], [False, True]]]), out)
    >>> out.ravel().tolist()
    [6.0, 3.0]
    """
    K = masks.shape[1]
    groups = -(-K // _GROUP)
    padded = np.zeros((*masks.shape[:2], groups * _GROUP), dtype=np.int64)
    padded[:, :, :K] = masks
    codes = padded.reshape(*masks.shape[:2], groups, _GROUP) @ (1 << np.arange(_GROUP))
    _fill(ratio, reward, np.ascontiguousarray(codes.transpose(1, 0, 2)), out)


@jit
def _fill(ratio: Floats, reward: Floats, codes: Ints, out: Outcome) -> None:
    n, K = ratio.shape
    _, M, groups = codes.shape
    table = np.ones((groups, 1 << _GROUP))
    for i in range(n):
        for k in range(K):
            group, size = k // _GROUP, 1 << (k % _GROUP)
            for b in range(size):
                table[group, size + b] = table[group, b] * ratio[i, k]
        for k in range(K):
            for m in range(M):
                product = reward[i, k]
                for g in range(groups):
                    product *= table[g, codes[k, m, g]]
                out[k, i, m] = product
