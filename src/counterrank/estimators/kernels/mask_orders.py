"""Interaction orders inside masks: weights, contributions and exact second moments.

w_k(c, m) = rho_k sum over T in row k of c without k, |T| < m, of prod_{l in T} (rho_l - 1). The masks come as steps:
the sums of mask m at k start from those of mask `base` (M, K) - itself at k - 1, an earlier mask at k, or -1 for
nothing - and the positions `added` (M, K, W), -1 where there are fewer, join them. A cascade adds one position at each
k, so all its sums cost what one product costs; nothing is ever taken away, which would lose digits. `pairs` (P, 2) are
a mask's number and an order up to 3, 0 for the whole product.
"""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit, vector_jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@jit
def _advance(excess: Floats, k: int, added: Ints, base: Ints, sums: Floats) -> None:
    """Bring sums (M, 3), the product of 1 + excess and its first two symmetric sums, to position k."""
    for m in range(base.shape[0]):
        own, start = sums[m], base[m, k]
        if start < 0:
            own[0], own[1], own[2] = 1.0, 0.0, 0.0
        elif start != m:
            own[:] = sums[start]
        for other in added[m, k]:
            if 0 <= other < excess.shape[0]:
                x = excess[other]
                own[0] *= 1.0 + x
                own[2] += x * own[1]
                own[1] += x


@jit
def _factor(sums: Floats, order: int) -> float:
    """Return what a weight of this order has besides the own ratio."""
    if order == 0:
        return float(sums[0])
    total = 1.0
    for j in range(1, order):
        total += sums[j]
    return total


@jit
def masked_members(
    rho: Floats, error: Floats, mean: Floats, pairs: Ints, added: Ints, base: Ints, lengths: Ints,
    out: Floats, square: Floats,
) -> None:  # fmt: skip
    """Fill out (K, P, n) with mean + w error of each pair; add sum_k w_k^2 to square (P,).

    IN rho, error, mean (n, K); ratios are 1 in the padding.
    """
    excess = np.empty(rho.shape[1])
    sums = np.empty((added.shape[0], 3))
    for i in range(rho.shape[0]):
        excess[:] = rho[i] - 1.0
        for k in range(lengths[i]):
            _advance(excess, k, added, base, sums)
            for p in range(pairs.shape[0]):
                w = rho[i, k] * _factor(sums[pairs[p, 0]], pairs[p, 1])
                out[k, p, i] = mean[i, k] + w * error[i, k]
                square[p] += w * w


@vector_jit
def _join(ratio: Floats, first: int, stop: int, sums: Floats) -> None:
    for i in range(first, stop):
        at = i - first
        excess = ratio[i] - 1.0
        sums[0, at] *= ratio[i]
        sums[2, at] += excess * sums[1, at]
        sums[1, at] += excess


@jit
def advance_block(rho: Floats, first: int, stop: int, k: int, added: Ints, base: Ints, sums: Floats) -> None:
    """Do the same for rows first to stop: rho (K, n), sums (M, 3, ROWS)."""
    for m in range(base.shape[0]):
        start = base[m, k]
        if start < 0:
            sums[m, 0] = 1.0
            sums[m, 1:] = 0.0
        elif start != m:
            sums[m] = sums[start]
        for other in added[m, k]:
            if other >= 0:
                _join(rho[other], first, stop, sums[m])


@vector_jit
def fill_masked(given: Floats, own: Floats, sums: Floats, order: int, column: Floats) -> float:
    """Fill column (ROWS,) with one pair's contributions at a position; return the sum of its squared weights.

    given (3+, ROWS): reward, q, mean; own (ROWS,): rho, zero in the padding.
    """
    two, three = 1.0 if order > 1 else 0.0, 1.0 if order > 2 else 0.0
    total = 0.0
    if order == 0:
        for at in range(column.shape[0]):
            w = own[at] * sums[0, at]
            column[at] = given[2, at] + w * (given[0, at] - given[1, at])
            total += w * w
        return total
    for at in range(column.shape[0]):
        w = own[at] * (1.0 + two * sums[1, at] + three * sums[2, at])
        column[at] = given[2, at] + w * (given[0, at] - given[1, at])
        total += w * w
    return total


@jit
def _binomials(added: Ints, base: Ints, pairs: Ints) -> tuple[Ints, Floats]:
    """Return how many positions have h others (M, K), and sum_k binomial(others of k, j), j < order (P, 3)."""
    M, K = base.shape
    counts, sums = np.zeros((M, K), dtype=np.int64), np.zeros((pairs.shape[0], 3))
    others = np.zeros(M, dtype=np.int64)
    for k in range(K):
        for m in range(M):
            others[m] = 0 if base[m, k] < 0 else others[base[m, k]]
            for other in added[m, k]:
                others[m] += other >= 0
            counts[m, others[m]] += 1
        for p in range(pairs.shape[0]):
            h = others[pairs[p, 0]]
            terms = (1.0, float(h), h * (h - 1) / 2.0)
            for j in range(pairs[p, 1]):
                sums[p, j] += terms[j]
    return counts, sums


@jit
def masked_squares(excess: Floats, lengths: Ints, pairs: Ints, added: Ints, base: Ints, out: Floats) -> None:
    """Add sum_k E[w_k^2 | x] of each pair to out (P,), from excess (n, 1 or K): v_k = E[rho_k^2 | x] - 1.

    It is (1 + v_k) sum_{j<m} e_j(v of the others in the mask): the terms of the expansion are uncorrelated. Where all
    positions have one v, these are sums of binomials.
    """
    M, K = base.shape
    alike = excess.shape[1] == 1
    counts, binomials = _binomials(added, base, pairs)
    sums, whole, same = np.empty((M, 3)), np.zeros(M), np.empty(K)
    for i in range(lengths.shape[0]):
        used = lengths[i]
        if alike and used == K:
            v = excess[i, 0]
            for m in range(M):
                whole[m] = 0.0
                for h in range(K - 1, -1, -1):
                    whole[m] = whole[m] * (1.0 + v) + counts[m, h]
            for p in range(pairs.shape[0]):
                some = binomials[p, 0] + v * (binomials[p, 1] + v * binomials[p, 2])
                out[p] += (1.0 + v) * (some if pairs[p, 1] else whole[pairs[p, 0]])
            continue
        for k in range(used):
            same[k] = excess[i, 0 if alike else k]
        for k in range(used):
            _advance(same[:used], k, added, base, sums)
            for p in range(pairs.shape[0]):
                out[p] += (1.0 + same[k]) * _factor(sums[pairs[p, 0]], pairs[p, 1])
