"""Feature vectors of one position of one ranking: what a linear reward model sees, and its mean under a policy.

For position k the columns are, in this order:

    1, x_1..x_d                        the (standardised) context
    c_1..c_A                           the logger's mean distribution, kept only so that indicators can be centred
    x_j (N_b - M_b)                    context times centred count of action b among the other positions ("cross")
    N_b N_c - E0[N_b N_c], b <= c      centred products of counts ("squares" 1; 2: b = c alone; 0: none)
    1{a_l = b} by block                indicators of the other positions, summed over the positions of a block

N_b counts action b among the other positions, M_b is its mean under the logger. `slots` (K, K) gives the block of
position l as seen from k. Distributions are (n, 1 or K, A): one row when positions are alike.
"""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@jit
def square_columns(A: int, squares: int) -> int:
    """Return the number of count products: none (0), all b <= c (1) or b = c alone (2)."""
    if squares == 0:
        return 0
    return A * (A + 1) // 2 if squares == 1 else A


@jit
def _products(first: Floats, second: Floats, scale: float, squares: int, out: Floats) -> None:
    """Add scale * (first first' + second) for b <= c (or b = c), flattened."""
    A = first.shape[0]
    j = 0
    for b in range(A):
        for c in range(b, A if squares == 1 else b + 1):
            out[j] += scale * (first[b] * first[c] + second[b, c])
            j += 1


@jit
def pair_moments(dist: Floats, squares: int, k: int, used: int, mean: Floats, extra: Floats) -> None:
    """Fill mean (A,) = E[N_b] and extra (A, A) = E[N_b N_c] - E[N_b] E[N_c] over the positions other than k."""
    A = mean.shape[0]
    if dist.shape[0] == 1:
        p, m = dist[0], used - 1
        for b in range(A):
            mean[b] = m * p[b]
            for c in range(b, A if squares == 1 else b + 1):
                extra[b, c] = -m * p[b] * p[c]
            extra[b, b] += m * p[b]
        return
    mean[:] = 0.0
    extra[:] = 0.0
    for other in range(used):
        if other == k:
            continue
        p = dist[other]
        for b in range(A):
            mean[b] += p[b]
            extra[b, b] += p[b]
            for c in range(b, A if squares == 1 else b + 1):
                extra[b, c] -= p[b] * p[c]


@jit
def means(dist: Floats, k: int, used: int, mean: Floats) -> None:
    """Fill mean (A,) = E[N_b] over the positions other than k."""
    if dist.shape[0] == 1:
        for b in range(mean.shape[0]):
            mean[b] = (used - 1) * dist[0, b]
        return
    mean[:] = 0.0
    for other in range(used):
        if other != k:
            p = dist[other]
            for b in range(mean.shape[0]):
                mean[b] += p[b]


@jit
def logged(
    action: Ints, x: Floats, centre: Floats, logging: Floats, k: int, used: int,
    slots: Ints, cross: bool, squares: int, out: Floats, scratch: Floats,
) -> None:  # fmt: skip
    """Fill out (D,) with the features of position k of one ranking: action (K,), x (d+1,), logging (1 or K, A)."""
    A, width = centre.shape[0], x.shape[0]
    out[:] = 0.0
    out[:width] = x
    out[width : width + A] = centre
    at = width + A
    if cross or squares:
        count, mean, extra = scratch[0], scratch[1], scratch[2 : 2 + A]
        count[:] = 0.0
        for other in range(used):
            if other != k:
                count[action[other]] += 1.0
        if squares:
            pair_moments(logging, squares, k, used, mean, extra)
        else:
            means(logging, k, used, mean)
        if cross:
            for j in range(1, width):
                for b in range(A):
                    out[at + b] = x[j] * (count[b] - mean[b])
                at += A
        if squares:
            size = square_columns(A, squares)
            _products(mean, extra, -1.0, squares, out[at : at + size])
            j = at
            for b in range(A):
                for c in range(b, A if squares == 1 else b + 1):
                    out[j] += count[b] * count[c]
                    j += 1
            at += size
    for other in range(used):
        if other != k:
            out[at + slots[k, other] * A + action[other]] += 1.0


@jit
def expected(
    target: Floats, x: Floats, centre: Floats, logging: Floats, k: int, used: int,
    slots: Ints, cross: bool, squares: int, out: Floats, scratch: Floats,
) -> None:  # fmt: skip
    """Fill out (D,) with the mean of `logged` when the other positions are drawn from target (1 or K, A)."""
    A, width = centre.shape[0], x.shape[0]
    out[:] = 0.0
    out[:width] = x
    out[width : width + A] = centre
    at = width + A
    shared = target.shape[0] == 1
    if cross or squares:
        wanted, mean, extra = scratch[0], scratch[1], scratch[2 : 2 + A]
        size = square_columns(A, squares)
        first = at + (width - 1) * A if cross else at
        if squares:
            pair_moments(logging, squares, k, used, mean, extra)
            _products(mean, extra, -1.0, squares, out[first : first + size])
            pair_moments(target, squares, k, used, wanted, extra)
            _products(wanted, extra, 1.0, squares, out[first : first + size])
        else:
            means(logging, k, used, mean)
            means(target, k, used, wanted)
        if cross:
            for j in range(1, width):
                for b in range(A):
                    out[at + b] = x[j] * (wanted[b] - mean[b])
                at += A
        if squares:
            at += size
    for other in range(used):
        if other != k:
            p = target[0 if shared else other]
            first = at + slots[k, other] * A
            for b in range(A):
                out[first + b] += p[b]
