"""Features of one position of many rankings: what a linear reward model sees, and its mean under a
policy.

For position k the columns are, in this order:

    1, x_1..x_d                   the (standardised) context
    c_1..c_A                      the logger's mean distribution: indicators are centred by it
    x_j (N_b - M_b)               context times centred count of action b among the other
                                  positions ("cross")
    N_b N_c - E0[N_b N_c]         centred products of counts, b <= c ("squares" 1; 2: b = c
                                  alone; 0: none)
    1{a_l = b} by block           indicators of the other positions, summed over a block

N_b counts action b among the other positions, M_b is its mean under the logger. `slots` (K, K)
gives the block of position l as seen from k. Distributions are (n, 1 or K, A): one row when
positions are alike.

Blocks of rankings are held column by column, (D, ROWS), so that loops run over consecutive rankings
and vectorise.
"""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import helper, jit, vector_helper

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Rankings of one block.
ROWS = 128


@jit
def room(A: int) -> Floats:
    """Return working space for one block: counts, their logging means, and products of each."""
    return np.zeros((2 * A + A * (A + 1), ROWS))


@helper
def sorted_rows(groups: int) -> int:
    """Return how many rankings to sort at a time: they stay in the cache, and most groups fill a
    block or two.
    """
    return max(16 * ROWS, 2 * ROWS * groups)


@jit
def grouped(key: Ints, groups: int, order: Ints, begin: int) -> Ints:
    """Fill order with the rows begin + i sorted by key (n,), those below zero left out; return the
    groups' starts.
    """
    starts = np.zeros(groups + 1, np.int64)
    for i in range(key.shape[0]):
        if key[i] >= 0:
            starts[key[i] + 1] += 1
    for g in range(groups):
        starts[g + 1] += starts[g]
    at = starts.copy()
    for i in range(key.shape[0]):
        if key[i] >= 0:
            order[at[key[i]]] = begin + i
            at[key[i]] += 1
    return starts


@helper
def _start(rows: Ints, x: Floats, centre: Floats, out: Floats) -> None:
    """Fill what every design begins with."""
    width, A = x.shape[1], centre.shape[1]
    for at in range(rows.shape[0]):
        i = rows[at]
        for j in range(width):
            out[j, at] = x[i, j]
        for b in range(A):
            out[width + b, at] = centre[i, b]


@jit
def _means(rows: Ints, dist: Floats, k: int, lengths: Ints, mean: Floats) -> None:
    """Fill mean (A, R) = E[N_b] over the positions other than k."""
    A = dist.shape[2]
    for at in range(rows.shape[0]):
        i = rows[at]
        if dist.shape[1] == 1:
            for b in range(A):
                mean[b, at] = (lengths[i] - 1) * dist[i, 0, b]
            continue
        for b in range(A):
            mean[b, at] = 0.0
        for other in range(lengths[i]):
            if other != k:
                for b in range(A):
                    mean[b, at] += dist[i, other, b]


@jit
def _second_moments(
    rows: Ints, dist: Floats, k: int, lengths: Ints, squares: int, mean: Floats, second: Floats
) -> None:
    """Fill second (J, R) = E[N_b N_c] = E[N_b] E[N_c] + sum_l (1{b=c} p_l(b) - p_l(b) p_l(c)), l
    not k.
    """
    A = dist.shape[2]
    for at in range(rows.shape[0]):
        i = rows[at]
        j = 0
        for b in range(A):
            for c in range(b, A if squares == 1 else b + 1):
                if dist.shape[1] == 1:
                    extra = (
                        (lengths[i] - 1)
                        * dist[i, 0, b]
                        * ((1.0 if b == c else 0.0) - dist[i, 0, c])
                    )
                else:
                    # Positions are independent given the context: covariances add up over them.
                    extra = 0.0
                    for other in range(lengths[i]):
                        if other != k:
                            extra += dist[i, other, b] * (
                                (1.0 if b == c else 0.0) - dist[i, other, c]
                            )
                second[j, at] = mean[b, at] * mean[c, at] + extra
                j += 1


@vector_helper
def _multiply(left: Floats, right: Floats, less: Floats, out: Floats) -> None:
    for at in range(ROWS):
        out[at] = left[at] * (right[at] - less[at])


@vector_helper
def _product(left: Floats, right: Floats, out: Floats) -> None:
    for at in range(ROWS):
        out[at] = left[at] * right[at]


@vector_helper
def _subtract(left: Floats, right: Floats, out: Floats) -> None:
    for at in range(ROWS):
        out[at] = left[at] - right[at]


@helper
def _rich(
    rows: Ints, logging: Floats, k: int, lengths: Ints, width: int, cross: bool, squares: int,
    out: Floats, scratch: Floats,
) -> None:  # fmt: skip
    """Fill cross and square columns from the counts' moments at the head of `scratch`."""
    A = logging.shape[2]
    half = A * (A + 1) // 2
    count, wanted = scratch[:A], scratch[A : A + half]
    mean, second = scratch[A + half : 2 * A + half], scratch[2 * A + half :]
    _means(rows, logging, k, lengths, mean)
    at = width + A
    if cross:
        for j in range(1, width):
            for b in range(A):
                _multiply(out[j], count[b], mean[b], out[at])
                at += 1
    if squares:
        _second_moments(rows, logging, k, lengths, squares, mean, second)
        for j in range(half if squares == 1 else A):
            _subtract(wanted[j], second[j], out[at])
            at += 1


@jit
def logged(
    rows: Ints, action: Ints, lengths: Ints, x: Floats, centre: Floats, logging: Floats, k: int,
    slots: Ints, cross: bool, squares: int, out: Floats, scratch: Floats,
) -> None:  # fmt: skip
    """Fill out (D, R) with the features of position k of the rankings `rows`, at most ROWS of them."""
    A, width = centre.shape[1], x.shape[1]
    _start(rows, x, centre, out)
    after = out.shape[0] - (slots.max() + 1) * A
    if cross or squares:
        count = scratch[:A]
        count[:] = 0.0
        for at in range(rows.shape[0]):
            i = rows[at]
            for other in range(lengths[i]):
                if other != k:
                    count[action[i, other], at] += 1.0
        if squares:
            j = A
            for b in range(A):
                for c in range(b, A if squares == 1 else b + 1):
                    _product(count[b], count[c], scratch[j])
                    j += 1
        _rich(rows, logging, k, lengths, width, cross, squares, out, scratch)
    out[after:] = 0.0
    for at in range(rows.shape[0]):
        i = rows[at]
        for other in range(lengths[i]):
            if other != k:
                out[after + slots[k, other] * A + action[i, other], at] += 1.0


@jit
def expected(
    rows: Ints, target: Floats, lengths: Ints, x: Floats, centre: Floats, logging: Floats, k: int,
    slots: Ints, cross: bool, squares: int, out: Floats, scratch: Floats,
) -> None:  # fmt: skip
    """Fill out (D, R) with the mean of `logged` when the other positions are drawn from target (n,
    1 or K, A).
    """
    A, width = centre.shape[1], x.shape[1]
    _start(rows, x, centre, out)
    after = out.shape[0] - (slots.max() + 1) * A
    if cross or squares:
        _means(rows, target, k, lengths, scratch[:A])
        if squares:
            _second_moments(rows, target, k, lengths, squares, scratch[:A], scratch[A:])
        _rich(rows, logging, k, lengths, width, cross, squares, out, scratch)
    out[after:] = 0.0
    for at in range(rows.shape[0]):
        i = rows[at]
        for other in range(lengths[i]):
            if other != k:
                first = after + slots[k, other] * A
                for b in range(A):
                    out[first + b, at] += target[i, 0 if target.shape[1] == 1 else other, b]
