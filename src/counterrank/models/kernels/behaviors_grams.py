"""Normal equations of the behaviour fit's steps, summed over rankings and classes.

`weight` (n, Z) is how far a ranking counts for a class, q (n, Z, K) what its rewards would be, `part` the exponents of
a product, whose slopes by own and pair part are exp(part) and q; those of a sum are 1. Errors of one ranking share
noise: every sum is J' M J with M = weight (I - shared 11'). Only lower triangles are filled.
"""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import vector_jit
from counterrank.models.kernels.visibility_rows import LARGEST

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: A class with less of a ranking than this adds nothing to its sums.
LEAST = 1e-2


@vector_jit
def _rests(action: Ints, reward: Floats, q: Floats, weight: float, shared: float, out: Floats) -> None:
    """Fill out (K,) with M e of one ranking and class."""
    total = 0.0
    for k in range(action.shape[0]):
        out[k] = reward[k] - q[k] if action[k] >= 0 else 0.0
        total += out[k]
    for k in range(action.shape[0]):
        out[k] = weight * (out[k] - shared * total)


@vector_jit
def _subtract_square(vector: Floats, factor: float, gram: Floats) -> None:
    """Subtract factor vector vector' from the lower triangle."""
    for a in range(vector.shape[0]):
        scaled, row = factor * vector[a], gram[a]
        if scaled != 0.0:
            for b in range(a + 1):
                row[b] -= scaled * vector[b]


@vector_jit
def _with_third(action: Ints, k: int, other: int, seen: Floats, effect: Floats) -> float:
    """Return the sum over third items m, shown and neither k nor l, of s_m effect[a_l, a_m]."""
    total, row = 0.0, effect[action[other]]
    for third in range(action.shape[0]):
        if third != k and third != other and action[third] >= 0:
            total += seen[third] * row[action[third]]
    return total


@vector_jit
def add_sight(
    curved: bool, action: Ints, reward: Floats, weight: Floats, shared: Floats, q: Floats, pair: Floats,
    sight: Floats, triple: Floats, gram: Floats, right: Floats,
) -> None:  # fmt: skip
    """Add to gram (Z, K^2, K^2) and right (Z, K^2): columns of how far l is seen at k.

    They are slope (pair[a_k, a_l] + sum_m s_zkm triple[a_k, a_l, a_m]).
    """
    n, K = action.shape
    column, rest = np.empty(K * K), np.empty(K)
    for i in range(n):
        for z in range(weight.shape[1]):
            if weight[i, z] < LEAST:
                continue
            _rests(action[i], reward[i], q[i, z], weight[i, z], shared[i], rest)
            for k in range(K):
                slope = q[i, z, k] if curved else 1.0
                for other in range(K):
                    column[k * K + other] = 0.0
                    if other == k or action[i, k] < 0 or action[i, other] < 0:
                        continue
                    effect = pair[action[i, k], action[i, other]]
                    if triple.shape[0] > 0:
                        effect += _with_third(action[i], k, other, sight[z, k], triple[action[i, k]])
                    column[k * K + other] = slope * effect
                for a in range(k * K, (k + 1) * K):
                    right[z, a] += rest[k] * column[a]
                    scaled, row = weight[i, z] * column[a], gram[z, a]
                    for b in range(k * K, a + 1):
                        row[b] += scaled * column[b]
            if shared[i] > 0.0:
                _subtract_square(column, weight[i, z] * shared[i], gram[z])


@vector_jit
def _columns(action: Ints, k: int, x: Floats, seen: Floats, own: float, others: float, out: Floats) -> None:
    """Fill out (p + A,) with the columns of one reward: own slope times context, pair slope times items seen."""
    p = x.shape[0]
    for j in range(p):
        out[j] = own * x[j]
    out[p:] = 0.0
    for other in range(action.shape[0]):
        if other != k and action[other] >= 0:
            out[p + action[other]] += others * seen[other]


@vector_jit
def add_effects(
    curved: bool, action: Ints, fold: Ints, x: Floats, reward: Floats, weight: Floats, shared: Floats, q: Floats,
    part: Floats, sight: Floats, actions: int, gram: Floats, right: Floats,
) -> None:  # fmt: skip
    """Add to gram (F, S, S) and right (F, S), S = A (p + A) + K: own and pair columns by own action, then shifts."""
    n, K = action.shape
    width = x.shape[1] + actions
    column, rest, sums = np.empty(width), np.empty(K), np.empty(actions * width + K)
    for i in range(n):
        to, on = gram[fold[i]], right[fold[i]]
        for z in range(weight.shape[1]):
            w = weight[i, z]
            if w < LEAST:
                continue
            _rests(action[i], reward[i], q[i, z], w, shared[i], rest)
            sums[:] = 0.0
            for k in range(K):
                if action[i, k] < 0:
                    continue
                own, others = 1.0, 1.0
                if curved:
                    own, others = np.exp(min(max(part[i, z, k], -LARGEST), LARGEST)), q[i, z, k]
                _columns(action[i], k, x[i], sight[z, k], own, others, column)
                begin, last = action[i, k] * width, actions * width + k
                shift = to[last, begin : begin + width]
                for a in range(width):
                    scaled, row = w * column[a], to[begin + a, begin : begin + a + 1]
                    on[begin + a] += rest[k] * column[a]
                    sums[begin + a] += column[a]
                    shift[a] += own * scaled
                    for b in range(a + 1):
                        row[b] += scaled * column[b]
                to[last, last] += w * own * own
                on[last] += own * rest[k]
                sums[last] += own
            if shared[i] > 0.0:
                _subtract_square(sums, w * shared[i], to)
