"""Contributions w r of every position and behaviour model at once, for factored policies."""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Outcome = Floats | NDArray[np.float32]

#: Positions whose products are tabulated together (2^4 of them), and rows worked on at once: their
#: tables fit into the first cache, and every loop over them is one over neighbouring numbers.
_GROUP = 4
_BLOCK = 64


def contributions(ratio: Floats, reward: Floats, masks: NDArray[np.bool_], out: Outcome) -> None:
    """Fill out (K, M, n): reward[i, k] times the product of ratio[i, l] over the items l in
    masks[m, k].

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
    table = np.ones((groups, 1 << _GROUP, _BLOCK))
    own, product = np.empty(_BLOCK), np.empty(_BLOCK)
    for start in range(0, n, _BLOCK):
        rows = min(_BLOCK, n - start)
        for k in range(K):
            group, size = k // _GROUP, 1 << (k % _GROUP)
            for j in range(rows):
                own[j] = ratio[start + j, k]
            for b in range(size):
                _multiply(table[group, b], own, table[group, size + b])
        for k in range(K):
            for j in range(rows):
                own[j] = reward[start + j, k]
            for m in range(M):
                _multiply(table[0, codes[k, m, 0]], own, product)
                for g in range(1, groups):
                    _multiply(table[g, codes[k, m, g]], product, product)
                part = out[k, m, start : start + rows]
                for j in range(rows):
                    part[j] = product[j]


@jit
def _multiply(a: Floats, b: Floats, out: Floats) -> None:
    for j in range(_BLOCK):
        out[j] = a[j] * b[j]
