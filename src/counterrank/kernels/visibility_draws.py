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
def _seen(action: Ints, row: int, used: int, seen: Floats, out: Floats) -> None:
    """Fill out (A, K): how much of each action of the drawn ranking is seen from each position; seen (K, K)."""
    out[:] = 0.0
    for other in range(used):
        b = action[row, other]
        for k in range(out.shape[1]):
            out[b, k] += seen[other, k]


@vector_jit
def _values(
    product: bool, plain: Floats, shift: Floats, f: int, pair: Floats, mixed: Floats, values: Floats
) -> None:  # fmt: skip
    """Fill values (A, K) with the model for each own action at each position; plain (A,)."""
    A, K = mixed.shape
    for u in range(A):
        for k in range(K):
            values[u, k] = 0.0 if product else plain[u] + shift[f, k]
        for b in range(A):
            effect = pair[f, u, b]
            for k in range(K):
                values[u, k] += effect * mixed[b, k]


@jit
def _curve(product: bool, plain: Floats, shift: Floats, f: int, values: Floats) -> None:
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
            values[u, k] *= plain[u] + shift[f, k]


@jit
def curved_means(
    product: bool, draws: Ints, lengths: Ints, fold: Ints, x: Floats, scale: Floats, wanted: Floats, own: Floats,
    shift: Floats, sight: Floats, pair: Floats, out: Floats,
) -> None:  # fmt: skip
    """Fill out (n, K) with averages over drawn rankings (n, S, K), the own action summed out over wanted (n, ., A)."""
    n, size, K = draws.shape
    places, A = wanted.shape[1], wanted.shape[2]
    flat = draws.reshape(n * size, K)
    plain, seen, mixed, values = np.empty(A), np.zeros((K, K)), np.empty((A, K)), np.empty((A, K))
    for i in range(n):
        f, used = fold[i], min(K, lengths[i])
        for u in range(A):
            plain[u] = 0.0
            for j in range(x.shape[1]):
                plain[u] += x[i, j] * own[f, u, j]
        for other in range(used):
            for k in range(K):
                side = scale[i, 0] if other < k else scale[i, 1]
                seen[other, k] = 0.0 if other == k else sight[k, other] * side
        for s in range(size):
            _seen(flat, i * size + s, used, seen, mixed)
            _values(product, plain, shift, f, pair, mixed, values)
            _curve(product, plain, shift, f, values)
            for k in range(used):
                for u in range(A):
                    out[i, k] += wanted[i, min(k, places - 1), u] * values[u, k] / size
