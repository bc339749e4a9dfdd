"""The visibility model on given rankings: own effects, and effects of the other items by how far they are seen.

Letters: n rankings, K positions, A actions, p context columns (the first is 1), F folds. `scale` (n, 2) is how much of
the items above and below a row's user sees. Padding (action -1) is passed over.
"""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import vector_jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@vector_jit
def parts(
    action: Ints, fold: Ints, x: Floats, own: Floats, shift: Floats, sight: Floats, pair: Floats, out: Floats
) -> None:
    """Fill out (3, n, K): x' own[f, a_k] + shift[f, k], and the sums of sight_kl pair[f, a_k, a_l] above and below."""
    n, K = action.shape
    p = x.shape[1]
    for i in range(n):
        f = fold[i]
        for k in range(K):
            u = action[i, k]
            out[0, i, k] = out[1, i, k] = out[2, i, k] = 0.0
            if u < 0:
                continue
            total = shift[f, k]
            for j in range(p):
                total += x[i, j] * own[f, u, j]
            out[0, i, k] = total
            effect = pair[f, u]
            for side in range(2):
                total = 0.0
                for m in range(k if side == 0 else K - k - 1):
                    other = m if side == 0 else k + 1 + m
                    if action[i, other] >= 0:
                        total += sight[k, other] * effect[action[i, other]]
                out[1 + side, i, k] = total


@vector_jit
def triples(action: Ints, fold: Ints, scale: Floats, sight: Floats, triple: Floats, out: Floats) -> None:
    """Add to out (n, K) the sum over l < m, both not k, of v_kl v_km triple[f, a_k, a_l, a_m], v = sight x scale."""
    n, K = action.shape
    seen = np.empty(K)
    for i in range(n):
        for k in range(K):
            if action[i, k] < 0:
                continue
            effect = triple[fold[i], action[i, k]]
            for other in range(K):
                hidden = other == k or action[i, other] < 0
                seen[other] = 0.0 if hidden else sight[k, other] * scale[i, 0 if other < k else 1]
            total = 0.0
            for one in range(K):
                if seen[one] == 0.0:
                    continue
                row, inner = effect[action[i, one]], 0.0
                for two in range(one + 1, K):
                    if seen[two] != 0.0:
                        inner += seen[two] * row[action[i, two]]
                total += seen[one] * inner
            out[i, k] += total
