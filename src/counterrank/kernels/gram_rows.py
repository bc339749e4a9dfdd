"""Gram matrices by fold, position and own action: all that ridge and projected weights need, in one pass."""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit, vector_jit
from counterrank.kernels.regress_features import expected, logged

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@vector_jit
def add_scaled(values: Floats, scale: float, count: int, out: Floats) -> None:
    """Add scale * values to the first `count` entries of out."""
    for j in range(count):
        out[j] += scale * values[j]


@jit
def add_grams(
    action: Ints, lengths: Ints, fold: Ints, reward: Floats, weight: Floats,
    x: Floats, centre: Floats, logging: Floats, slots: Ints, cross: bool, squares: int,
    gram: Floats, cover: Floats, square: Floats,
) -> None:  # fmt: skip
    """Add weighted second moments of the features to lower triangles.

    IN  action, reward, weight (n, K); fold (n,); x (n, d+1); centre (n, A); logging (n, 1 or K, A).
    OUT gram (F, K, A, D, D): sum v z z' over rows of the fold with a_k = u; cover (F, K, A, D): sum v z r_k;
        square (F, K, A): sum v r_k^2.
    """
    n, length = action.shape
    A, width = centre.shape[1], gram.shape[3]
    dense = width - (slots.max() + 1) * A
    z, scratch, where = np.zeros(width), np.zeros((A + 2, A)), np.zeros(width, np.int64)
    for i in range(n):
        f = fold[i]
        for k in range(lengths[i]):
            v = weight[i, k]
            if v == 0.0:
                continue
            u, r = action[i, k], reward[i, k]
            logged(action[i], x[i], centre[i], logging[i], k, lengths[i], slots, cross, squares, z, scratch)
            matrix, vector = gram[f, k, u], cover[f, k, u]
            # The leading columns are dense and contiguous; indicators are few among many.
            for p in range(dense):
                add_scaled(z, v * z[p], p + 1, matrix[p])
            add_scaled(z, v * r, dense, vector)
            filled = 0
            for p in range(dense, width):
                if z[p] != 0.0:
                    where[filled] = p
                    filled += 1
                    row = matrix[p]
                    value = v * z[p]
                    vector[p] += value * r
                    add_scaled(z, value, dense, row)
                    for q in range(filled):
                        row[where[q]] += value * z[where[q]]
            square[f, k, u] += v * r * r


@jit
def add_means(
    lengths: Ints, fold: Ints, x: Floats, centre: Floats, logging: Floats, target: Floats,
    slots: Ints, cross: bool, squares: int, out: Floats,
) -> None:  # fmt: skip
    """Add pi(u at k|x) E_pi[z | a_k = u] to out (F, K, A, D): what balancing weights must reproduce."""
    n = lengths.shape[0]
    A, width = centre.shape[1], out.shape[3]
    z, scratch = np.zeros(width), np.zeros((A + 2, A))
    shared = target.shape[1] == 1
    for i in range(n):
        for k in range(lengths[i]):
            expected(target[i], x[i], centre[i], logging[i], k, lengths[i], slots, cross, squares, z, scratch)
            p = target[i, 0 if shared else k]
            for u in range(A):
                add_scaled(z, p[u], width, out[fold[i], k, u])


@jit
def mirror(gram: Floats) -> None:
    """Copy the lower triangles of gram (..., D, D) to the upper ones."""
    flat = gram.reshape(-1, gram.shape[-2], gram.shape[-1])
    for m in range(flat.shape[0]):
        for p in range(flat.shape[1]):
            for q in range(p):
                flat[m, q, p] = flat[m, p, q]
