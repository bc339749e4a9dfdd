"""The curved visibility model's mean under a target: all positions and own actions of a drawn ranking at once."""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit, vector_jit
from counterrank.kernels.sigmoid import exponential, sigmoid

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: The largest exponent of a pair part that counts.
_LARGEST = 20.0


@vector_jit
def _linear(
    product: bool, row: Ints, plain: Floats, shift: Floats, pair: Floats, seen: Floats, mixed: Floats, values: Floats
) -> None:  # fmt: skip
    """Fill values (A, K) for each own action at each position before the link; seen (K, K) by other, then position.

    mixed (A, K) becomes how much of each action of the drawn ranking is seen from each position.
    """
    A, K = mixed.shape
    mixed[:] = 0.0
    for other in range(K):
        if row[other] >= 0:
            for k in range(K):
                mixed[row[other], k] += seen[other, k]
    for u in range(A):
        for k in range(K):
            values[u, k] = 0.0 if product else plain[u] + shift[k]
        for b in range(A):
            effect = pair[u, b]
            for k in range(K):
                values[u, k] += effect * mixed[b, k]


@jit
def _curve(product: bool, plain: Floats, shift: Floats, values: Floats) -> None:
    A, K = values.shape
    flat = values.reshape(A * K)
    if not product:
        sigmoid(flat, A * K)
        return
    for j in range(A * K):
        flat[j] = min(max(flat[j], -_LARGEST), _LARGEST)
    exponential(flat, A * K)
    for u in range(A):
        for k in range(K):
            values[u, k] *= plain[u] + shift[k]


@jit
def curved_means(
    product: bool, draws: Ints, lengths: Ints, fold: Ints, x: Floats, scale: Floats, wanted: Floats, own: Floats,
    shift: Floats, sight: Floats, pair: Floats, out: Floats,
) -> None:  # fmt: skip
    """Fill out (n, K) with averages over drawn rankings (n, S, K), the own action summed out over wanted (n, ., A)."""
    n, size, K = draws.shape
    places, A = wanted.shape[1], wanted.shape[2]
    plain, seen, mixed, values = np.empty(A), np.empty((K, K)), np.empty((A, K)), np.empty((A, K))
    above, below = np.triu(sight.T, 1).copy(), np.tril(sight.T, -1).copy()  # by other, then position
    for i in range(n):
        f = fold[i]
        for u in range(A):
            plain[u] = 0.0
            for j in range(x.shape[1]):
                plain[u] += x[i, j] * own[f, u, j]
        for other in range(K):
            for k in range(K):
                seen[other, k] = scale[i, 0] * above[other, k] + scale[i, 1] * below[other, k]
        for s in range(size):
            _linear(product, draws[i, s], plain, shift[f], pair[f], seen, mixed, values)
            _curve(product, plain, shift[f], values)
            for k in range(min(K, lengths[i])):
                for u in range(A):
                    out[i, k] += wanted[i, min(k, places - 1), u] * values[u, k] / size
