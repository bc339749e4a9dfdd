"""Interaction orders inside masks: weights, contributions and exact second moments.

w_k(c, m) = rho_k sum over T in row k of c without k, |T| < m, of prod_{l in T} (rho_l - 1). The masks come as steps:
`added` (M, K, W) are the positions that join the others of k, -1 where there are fewer, and `fresh` (M, K) says that
the sums start anew at k. A cascade adds one position at each k, so all its sums cost what one product costs; nothing
is ever taken away, which would lose digits. `pairs` (P, 2) are a mask's number and an order up to 3, 0 for the whole
product.
"""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit, vector_jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@jit
def _advance(excess: Floats, added: Ints, fresh: bool, sums: Floats) -> None:
    """Bring sums (3,), the product of 1 + excess and its first two symmetric sums, to the next position."""
    if fresh:
        sums[0], sums[1], sums[2] = 1.0, 0.0, 0.0
    for other in added:
        if 0 <= other < excess.shape[0]:
            x = excess[other]
            sums[0] *= 1.0 + x
            sums[2] += x * sums[1]
            sums[1] += x


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
    rho: Floats, error: Floats, mean: Floats, pairs: Ints, added: Ints, fresh: Bools, lengths: Ints,
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
            for m in range(added.shape[0]):
                _advance(excess, added[m, k], fresh[m, k], sums[m])
            for p in range(pairs.shape[0]):
                w = rho[i, k] * _factor(sums[pairs[p, 0]], pairs[p, 1])
                out[k, p, i] = mean[i, k] + w * error[i, k]
                square[p] += w * w


@vector_jit
def advance_block(rho: Floats, first: int, stop: int, added: Ints, fresh: bool, sums: Floats) -> None:
    """Do the same for a block of rows: rho (K, n), sums (3, ROWS)."""
    if fresh:
        sums[0] = 1.0
        sums[1:] = 0.0
    for other in added:
        if other >= 0:
            for i in range(first, stop):
                at = i - first
                excess = rho[other, i] - 1.0
                sums[0, at] *= rho[other, i]
                sums[2, at] += excess * sums[1, at]
                sums[1, at] += excess


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
def _binomials(added: Ints, fresh: Bools, pairs: Ints) -> tuple[Ints, Floats]:
    """Return how many positions have h others (M, K), and sum_k binomial(others of k, j), j < order (P, 3)."""
    M, K = fresh.shape
    counts, sums = np.zeros((M, K), dtype=np.int64), np.zeros((pairs.shape[0], 3))
    for m in range(M):
        others = 0
        for k in range(K):
            others = 0 if fresh[m, k] else others
            for other in added[m, k]:
                others += other >= 0
            counts[m, others] += 1
            for p in range(pairs.shape[0]):
                if pairs[p, 0] == m:
                    terms = (1.0, float(others), others * (others - 1) / 2.0)
                    for j in range(pairs[p, 1]):
                        sums[p, j] += terms[j]
    return counts, sums


@jit
def masked_squares(excess: Floats, lengths: Ints, pairs: Ints, added: Ints, fresh: Bools, out: Floats) -> None:
    """Add sum_k E[w_k^2 | x] of each pair to out (P,), from excess (n, 1 or K): v_k = E[rho_k^2 | x] - 1.

    It is (1 + v_k) sum_{j<m} e_j(v of the others in the mask): the terms of the expansion are uncorrelated. Where all
    positions have one v, these are sums of binomials.
    """
    M, K = fresh.shape
    alike = excess.shape[1] == 1
    counts, binomials = _binomials(added, fresh, pairs)
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
            for m in range(M):
                _advance(same[:used], added[m, k], fresh[m, k], sums[m])
            for p in range(pairs.shape[0]):
                out[p] += (1.0 + same[k]) * _factor(sums[pairs[p, 0]], pairs[p, 1])
