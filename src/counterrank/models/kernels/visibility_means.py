"""The mean of a visibility model that is a sum, under a target policy with independent positions."""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import vector_jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@vector_jit
def alike_means(
    fold: Ints, x: Floats, scale: Floats, wanted: Floats, own: Floats, shift: Floats, sight: Floats, pair: Floats,
    triple: Floats, out: Floats,
) -> None:  # fmt: skip
    """Fill out (n, K) where all positions have one distribution, wanted (n, A), and no ranking is padded.

    E q_k = p'own x + shift_k + v_k p'W p + (v_k^2 - sum_l v_kl^2) / 2 sum_u p_u p'T_u p, with v_k = sum_l v_kl.
    """
    n, A = wanted.shape
    K, p = shift.shape[1], x.shape[1]
    seen, squares = _side_sums(sight)
    for i in range(n):
        f = fold[i]
        chance = wanted[i]
        plain, pairs, three = 0.0, 0.0, 0.0
        for u in range(A):
            if chance[u] == 0.0:
                continue
            total = 0.0
            for j in range(p):
                total += x[i, j] * own[f, u, j]
            plain += chance[u] * total
            total = 0.0
            for b in range(A):
                total += chance[b] * pair[f, u, b]
            pairs += chance[u] * total
            if triple.shape[1] > 0:
                three += chance[u] * quadratic(triple[f, u], chance)
        above, below = scale[i, 0], scale[i, 1]
        for k in range(K):
            v = seen[0, k] * above + seen[1, k] * below
            square = squares[0, k] * above * above + squares[1, k] * below * below
            out[i, k] = plain + shift[f, k] + v * pairs + 0.5 * (v * v - square) * three


@vector_jit
def _side_sums(sight: Floats) -> tuple[Floats, Floats]:
    """Return sums of sight and of its squares, above and below: (2, K) each."""
    K = sight.shape[0]
    first, second = np.zeros((2, K)), np.zeros((2, K))
    for k in range(K):
        for other in range(K):
            if other != k:
                side = 0 if other < k else 1
                first[side, k] += sight[k, other]
                second[side, k] += sight[k, other] * sight[k, other]
    return first, second


@vector_jit
def quadratic(matrix: Floats, vector: Floats) -> float:
    """Return vector' matrix vector."""
    total = 0.0
    for b in range(vector.shape[0]):
        inner = 0.0
        for c in range(vector.shape[0]):
            inner += matrix[b, c] * vector[c]
        total += vector[b] * inner
    return total


@vector_jit
def means(
    lengths: Ints, fold: Ints, x: Floats, scale: Floats, wanted: Floats, own: Floats, shift: Floats, sight: Floats,
    pair: Floats, triple: Floats, out: Floats,
) -> None:  # fmt: skip
    """Fill out (n, K) for any independent positions, wanted (n, 1 or K, A), and rankings of `lengths` (n,)."""
    n, places, A = wanted.shape
    K, p = shift.shape[1], x.shape[1]
    mixed = np.empty(A)
    for i in range(n):
        f = fold[i]
        for k in range(min(K, lengths[i])):
            mixed[:] = 0.0
            for other in range(lengths[i]):
                if other != k:
                    seen = sight[k, other] * scale[i, 0 if other < k else 1]
                    chance = wanted[i, min(other, places - 1)]
                    for b in range(A):
                        mixed[b] += seen * chance[b]
            total = shift[f, k]
            for u in range(A):
                chance_u = wanted[i, min(k, places - 1), u]
                if chance_u == 0.0:
                    continue
                inner = 0.0
                for j in range(p):
                    inner += x[i, j] * own[f, u, j]
                for b in range(A):
                    inner += mixed[b] * pair[f, u, b]
                if triple.shape[1] > 0:
                    inner += 0.5 * quadratic(triple[f, u], mixed)
                    for other in range(lengths[i]):
                        if other != k:
                            seen = sight[k, other] * scale[i, 0 if other < k else 1]
                            of = wanted[i, min(other, places - 1)]
                            inner -= 0.5 * seen * seen * quadratic(triple[f, u], of)
                total += chance_u * inner
            out[i, k] = total
