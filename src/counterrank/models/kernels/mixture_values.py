"""Rewards as each class of users would give them: own effects, and effects of the items that the
class examines.

Letters: n rankings, K positions, A actions, p context columns (the first is 1), Z classes, F folds.
`examined` (Z, K, K) is how far class z examines the item at l when it gives the reward at k,
`scale` (n, 2) how much of the items above and below a row's user examines. Three-way effects of b
and c are those of c and b. Padding (action -1) is passed over. Arrays are in C order.
"""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit, vector_jit
from counterrank.models.kernels.sigmoid import exponential, sigmoid
from counterrank.models.settings import LARGEST_EXPONENT as LARGEST
from counterrank.models.settings import LEAST_CHANCE

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Links as `state.Link` numbers them: q = own + part, its sigmoid, or own exp(part).
SUM, LOGISTIC, PRODUCT = 0, 1, 2
#: Rows whose rewards go through the link while they are in the cache.
_ROWS = 128
#: Chances multiplied before one logarithm is taken of them: 1e-9^16 is still far from underflow.
_AT_ONCE = 16


@vector_jit
def softmax(scores: Floats) -> None:
    """Replace every row (n, Z) by its softmax."""
    n, Z = scores.shape
    for i in range(n):
        most = scores[i, 0]
        for z in range(1, Z):
            most = max(most, scores[i, z])
        for z in range(Z):
            # exp of differences to the largest cannot overflow.
            scores[i, z] -= most
    exponential(scores.reshape(n * Z), n * Z)
    for i in range(n):
        total = 0.0
        for z in range(Z):
            total += scores[i, z]
        for z in range(Z):
            scores[i, z] /= total


@vector_jit
def own_values(
    action: Ints, fold: Ints, x: Floats, own: Floats, shift: Floats, out: Floats
) -> None:
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
def pair_values(
    action: Ints,
    fold: Ints,
    scale: Floats,
    pair: Floats,
    examined: Floats,
    triple: Floats,
    out: Floats,
) -> None:
    """Fill out (n, Z, K) with the pair part of every class, zero in the padding.

    With s_zkl = examined x scale of l's side: sum_l s_zkl pair[f, a_k, a_l], and, where triple (F,
    A, A, A) is not empty, sum_{l < m} s_zkl s_zkm triple[f, a_k, a_l, a_m].
    """
    n, K = action.shape
    Z = examined.shape[0]
    effect, seen = np.empty(K), np.empty(K)
    for i in range(n):
        f, above, below = fold[i], scale[i, 0], scale[i, 1]
        for k in range(K):
            u = action[i, k]
            if u < 0:
                out[i, :, k] = 0.0
                continue
            of_own = pair[f, u]
            for other in range(K):
                b = action[i, other]
                effect[other] = of_own[b] if b >= 0 else 0.0
            effect[k] = 0.0
            for other in range(k):
                effect[other] *= above
            for other in range(k + 1, K):
                effect[other] *= below
            for z in range(Z):
                row = examined[z, k]
                total = 0.0
                for other in range(K):
                    total += row[other] * effect[other]
                if triple.shape[1] > 0:
                    for other in range(K):
                        seen[other] = row[other] * (above if other < k else below)
                    total += three_way(action[i], k, seen, triple[f, u])
                out[i, z, k] = total


@vector_jit
def link_values(link: int, own: Floats, part: Floats, q: Floats) -> None:
    """Fill q (n, Z, K) with the link of own part (n, K) and pair part (n, Z, K)."""
    n, Z, K = part.shape
    flat = q.reshape(n * Z * K)
    for first in range(0, n, _ROWS):
        last = min(first + _ROWS, n)
        for i in range(first, last):
            for z in range(Z):
                for k in range(K):
                    value = part[i, z, k]
                    q[i, z, k] = (
                        min(max(value, -LARGEST), LARGEST) if link == PRODUCT else value + own[i, k]
                    )
        block = flat[first * Z * K : last * Z * K]
        if link == LOGISTIC:
            sigmoid(block, block.shape[0])
        if link == PRODUCT:
            exponential(block, block.shape[0])
            for i in range(first, last):
                for z in range(Z):
                    for k in range(K):
                        q[i, z, k] *= own[i, k]


@vector_jit
def class_errors(action: Ints, reward: Floats, q: Floats, out: Floats) -> None:
    """Fill out (2, n, Z) with the sum of squared errors of each ranking and class, and the square
    of their sum.
    """
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


@jit
def logistic_loss(q: Floats, reward: Floats, present: Floats) -> float:
    """Return -2 sum of the log of the chance that each present reward (above a half or not) is what
    it is.
    """
    total = 0.0
    for i in range(q.shape[0]):
        chance = 1.0
        for k in range(q.shape[1]):
            # A chance of exactly 0 or 1 would let one surprising click decide the fit.
            one = min(max(q[i, k], LEAST_CHANCE), 1.0 - LEAST_CHANCE)
            if present[i, k] > 0.0:
                chance *= one if reward[i, k] > 0.5 else 1.0 - one
            if k % _AT_ONCE == _AT_ONCE - 1:
                total += np.log(chance)
                chance = 1.0
        total += np.log(chance)
    return -2.0 * total
