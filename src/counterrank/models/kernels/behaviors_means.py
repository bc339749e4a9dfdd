"""The mean of the behaviour model under a target policy with independent positions: exact for sums and products.

`wanted` (n, 1 or K, A) is the target's distribution, one for all positions or one each; `chance` (n, Z) the classes'.
"""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import vector_jit
from counterrank.models.kernels.behaviors import RARE
from counterrank.models.kernels.visibility_means import quadratic

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@vector_jit
def alike_means(
    fold: Ints, x: Floats, chance: Floats, wanted: Floats, own: Floats, shift: Floats, pair: Floats, triple: Floats,
    sight: Floats, out: Floats,
) -> None:  # fmt: skip
    """Fill out (n, K) for a sum where all positions have one distribution, wanted (n, A), and none is padded.

    E q_k = p'own x + shift_k + sum_z chance_z (s_zk p'W p + (s_zk^2 - sum_l s_zkl^2) / 2 sum_u p_u p'T_u p), with
    s_zk = sum_l s_zkl.
    """
    n, A = wanted.shape
    Z, K, _ = sight.shape
    seen, twice = _seen(sight)
    for i in range(n):
        f, p = fold[i], wanted[i]
        plain, pairs, three = 0.0, 0.0, 0.0
        for u in range(A):
            if p[u] == 0.0:
                continue
            total = 0.0
            for j in range(x.shape[1]):
                total += x[i, j] * own[f, u, j]
            plain += p[u] * total
            total = 0.0
            for b in range(A):
                total += p[b] * pair[f, u, b]
            pairs += p[u] * total
            if triple.shape[1] > 0:
                three += p[u] * quadratic(triple[f, u], p)
        for k in range(K):
            first, second = 0.0, 0.0
            for z in range(Z):
                first += chance[i, z] * seen[k, z]
                second += chance[i, z] * twice[k, z]
            out[i, k] = plain + shift[f, k] + first * pairs + second * three


@vector_jit
def _seen(sight: Floats) -> tuple[Floats, Floats]:
    """Return by position and class how many others are seen, and how many pairs of others: (K, Z) each."""
    Z, K, _ = sight.shape
    first, second = np.zeros((K, Z)), np.zeros((K, Z))
    for z in range(Z):
        for k in range(K):
            square = 0.0
            for other in range(K):
                if other != k:
                    first[k, z] += sight[z, k, other]
                    square += sight[z, k, other] ** 2
            second[k, z] = 0.5 * (first[k, z] ** 2 - square)
    return first, second


@vector_jit
def sum_means(
    lengths: Ints, fold: Ints, x: Floats, chance: Floats, wanted: Floats, own: Floats, shift: Floats, pair: Floats,
    triple: Floats, sight: Floats, out: Floats,
) -> None:  # fmt: skip
    """Fill out (n, K) for a sum, any independent positions and rankings of `lengths` (n,)."""
    n, places, A = wanted.shape
    Z, K, _ = sight.shape
    mixed, of_class = np.empty(A), np.empty((Z, A))
    for i in range(n):
        f = fold[i]
        for k in range(min(K, lengths[i])):
            _expected_others(wanted[i], lengths[i], k, sight, of_class)
            mixed[:] = 0.0
            for z in range(Z):
                for b in range(A):
                    mixed[b] += chance[i, z] * of_class[z, b]
            total = shift[f, k]
            for u in range(A):
                chance_u = wanted[i, min(k, places - 1), u]
                if chance_u == 0.0:
                    continue
                inner = 0.0
                for j in range(x.shape[1]):
                    inner += x[i, j] * own[f, u, j]
                for b in range(A):
                    inner += mixed[b] * pair[f, u, b]
                if triple.shape[1] > 0:
                    for z in range(Z):
                        both = _pairs_of_others(wanted[i], lengths[i], k, sight[z, k], of_class[z], triple[f, u])
                        inner += chance[i, z] * both
                total += chance_u * inner
            out[i, k] = total


@vector_jit
def _expected_others(wanted: Floats, length: int, k: int, sight: Floats, out: Floats) -> None:
    """Fill out (Z, A) with how often each action is expected among the others, as far as each class sees them."""
    places, A = wanted.shape
    out[:] = 0.0
    for z in range(sight.shape[0]):
        for other in range(length):
            if other != k:
                for b in range(A):
                    out[z, b] += sight[z, k, other] * wanted[min(other, places - 1), b]


@vector_jit
def _pairs_of_others(wanted: Floats, length: int, k: int, seen: Floats, expected: Floats, effect: Floats) -> float:
    """Return the mean of sum over l < m of s_l s_m effect[a_l, a_m]."""
    total = 0.5 * quadratic(effect, expected)
    for other in range(length):
        if other != k:
            total -= 0.5 * seen[other] ** 2 * quadratic(effect, wanted[min(other, wanted.shape[0] - 1)])
    return total


@vector_jit
def product_means(
    lengths: Ints, fold: Ints, x: Floats, chance: Floats, wanted: Floats, own: Floats, shift: Floats, factor: Floats,
    out: Floats,
) -> None:  # fmt: skip
    """Fill out (n, K) for a product: E q_k = sum_u p_k(u) own_u sum_z chance_z prod_l sum_b p_l(b) factor[.., u, b].

    factor (F, Z, K, K, A, A) is exp(s_zkl W(u, b)).
    """
    n, places, A = wanted.shape
    _, Z, K, _, _, _ = factor.shape
    for i in range(n):
        f = fold[i]
        for k in range(min(K, lengths[i])):
            total = 0.0
            for u in range(A):
                chance_u = wanted[i, min(k, places - 1), u]
                if chance_u == 0.0:
                    continue
                plain = shift[f, k]
                for j in range(x.shape[1]):
                    plain += x[i, j] * own[f, u, j]
                scaled = 0.0
                for z in range(Z):
                    if chance[i, z] < RARE:
                        continue
                    product = chance[i, z]
                    for other in range(lengths[i]):
                        if other != k:
                            row, p = factor[f, z, k, other, u], wanted[i, min(other, places - 1)]
                            mean = 0.0
                            for b in range(A):
                                mean += p[b] * row[b]
                            product *= mean
                    scaled += product
                total += chance_u * plain * scaled
            out[i, k] = total
