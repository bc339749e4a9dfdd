"""Rewards as each class of users would give them: own effects, and effects of the items that the class sees.

Letters: n rankings, K positions, A actions, p context columns (the first is 1), Z classes, F folds. `sight` (Z, K, K)
is how far class z sees the item at l from position k. Three-way effects of b and c are those of c and b. Padding is
passed over.
"""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import vector_jit
from counterrank.kernels.sigmoid import exponential
from counterrank.models.kernels.visibility_rows import LARGEST

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


#: A class this rare for a row is passed over.
RARE = 1e-4


@vector_jit
def softmax(scores: Floats) -> None:
    """Replace every row (n, Z) by its softmax."""
    n, Z = scores.shape
    for i in range(n):
        most = scores[i, 0]
        for z in range(1, Z):
            most = max(most, scores[i, z])
        for z in range(Z):
            scores[i, z] -= most
    exponential(scores.reshape(n * Z), n * Z)
    for i in range(n):
        total = 0.0
        for z in range(Z):
            total += scores[i, z]
        for z in range(Z):
            scores[i, z] /= total


@vector_jit
def own_values(action: Ints, fold: Ints, x: Floats, own: Floats, shift: Floats, out: Floats) -> None:
    """Fill out (n, K) with x' own[f, a_k] + shift[f, k], zero in the padding."""
    n, K = action.shape
    for i in range(n):
        for k in range(K):
            out[i, k] = 0.0
            if action[i, k] < 0:
                continue
            effect = own[fold[i], action[i, k]]
            total = shift[fold[i], k]
            for j in range(x.shape[1]):
                total += x[i, j] * effect[j]
            out[i, k] = total


@vector_jit
def class_values(
    curved: bool, action: Ints, fold: Ints, own: Floats, pair: Floats, sight: Floats, triple: Floats, out: Floats,
    part_out: Floats,
) -> None:  # fmt: skip
    """Fill out (n, Z, K) with the reward of every class, own + part or, curved, own exp(part).

    part = sum_l s_zkl pair[f, a_k, a_l] + sum_{l < m} s_zkl s_zkm triple[f, a_k, a_l, a_m], kept in part_out where it
    is curved. Zero in the padding.
    """
    n, K = action.shape
    Z = sight.shape[0]
    effect = np.empty(K)
    for i in range(n):
        f = fold[i]
        for k in range(K):
            u = action[i, k]
            for other in range(K):
                hidden = u < 0 or other == k or action[i, other] < 0
                effect[other] = 0.0 if hidden else pair[f, u, action[i, other]]
            for z in range(Z):
                row = sight[z, k]
                total = 0.0
                for other in range(K):
                    total += row[other] * effect[other]
                if u >= 0 and triple.shape[1] > 0:
                    total += three_way(action[i], k, row, triple[f, u])
                if curved:
                    part_out[i, z, k] = total
                    out[i, z, k] = own[i, k] * np.exp(min(max(total, -LARGEST), LARGEST))
                else:
                    out[i, z, k] = own[i, k] + total


@vector_jit
def class_errors(action: Ints, reward: Floats, q: Floats, out: Floats) -> None:
    """Fill out (2, n, Z) with the sum of squared errors of each ranking and class, and the square of their sum."""
    n, Z, K = q.shape
    for i in range(n):
        for z in range(Z):
            square, total = 0.0, 0.0
            for k in range(K):
                if action[i, k] >= 0:
                    error = reward[i, k] - q[i, z, k]
                    square += error * error
                    total += error
            out[0, i, z] = square
            out[1, i, z] = total * total


@vector_jit
def three_way(action: Ints, k: int, seen: Floats, effect: Floats) -> float:
    """Return sum over l < m, both shown and not k, of s_l s_m effect[a_l, a_m]."""
    K = action.shape[0]
    total = 0.0
    for one in range(K):
        b = action[one]
        if one == k or b < 0 or seen[one] == 0.0:
            continue
        row, inner = effect[b], 0.0
        for two in range(one + 1, K):
            c = action[two]
            if two != k and c >= 0:
                inner += seen[two] * row[c]
        total += seen[one] * inner
    return total


@vector_jit
def mixed_values(
    action: Ints, fold: Ints, own: Floats, chance: Floats, pair: Floats, sight: Floats, triple: Floats, out: Floats
) -> None:
    """Fill out (n, K) with own + sum_z chance_z (pair part of class z): what is seen on average, where parts add."""
    n, K = action.shape
    Z = sight.shape[0]
    flat, seen = sight.reshape((Z, K * K)), np.empty(K * K)
    for i in range(n):
        f = fold[i]
        seen[:] = 0.0
        for z in range(Z):
            weight, row = chance[i, z], flat[z]
            if weight > RARE:
                for j in range(K * K):
                    seen[j] += weight * row[j]
        for k in range(K):
            u = action[i, k]
            out[i, k] = 0.0
            if u < 0:
                continue
            total, effect = own[i, k], pair[f, u]
            for other in range(K):
                if other != k and action[i, other] >= 0:
                    total += seen[k * K + other] * effect[action[i, other]]
            if triple.shape[1] > 0:
                for z in range(Z):
                    if chance[i, z] > RARE:
                        total += chance[i, z] * three_way(action[i], k, sight[z, k], triple[f, u])
            out[i, k] = total
