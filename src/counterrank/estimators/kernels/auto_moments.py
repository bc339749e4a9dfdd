"""Sums and products of every member of `auto`, straight from a block of rows to moments."""

import numpy as np
from numpy.typing import NDArray

from counterrank.estimators.kernels.mask_orders import advance_block, fill_masked
from counterrank.kernels.gram_products import add_products
from counterrank.kernels.jit import jit, vector_jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Rows of one block: all their columns stay in the first-level cache.
ROWS = 128
#: Interaction orders up to this one have sums of products of a fixed form.
HIGHEST = 3


@jit
def _turned(values: Floats, first: int, stop: int, k: int, lengths: Ints, out: Floats) -> None:
    """Fill out (ROWS,) with column k of the rows, zero in the padding and after the last row."""
    for i in range(first, stop):
        out[i - first] = values[i, k] if k < lengths[i] else 0.0
    for at in range(stop - first, ROWS):
        out[at] = 0.0


@vector_jit
def _whole(rho: Floats, first: int, stop: int, sums: Floats) -> None:
    """Fill sums (3, ROWS): product of rho over positions, and the first two symmetric sums of rho - 1."""
    sums[0] = 1.0
    sums[1:] = 0.0
    for k in range(rho.shape[0]):
        for i in range(first, stop):
            at = i - first
            excess = rho[k, i] - 1.0
            sums[0, at] *= rho[k, i]
            sums[2, at] += excess * sums[1, at]
            sums[1, at] += excess


@vector_jit
def _weights(rho: Floats, first: int, stop: int, k: int, lengths: Ints, sums: Floats, out: Floats) -> None:
    """Fill out (5, ROWS): rho, the weights of order 1, 2, 3 and the full product at k; zero in the padding.

    e_j without k is e_j - x_k e_{j-1} without k: harmless for two steps.
    """
    for i in range(first, stop):
        at = i - first
        shown = 1.0 if k < lengths[i] else 0.0
        w = rho[k, i] * shown
        excess = rho[k, i] - 1.0
        one = sums[1, at] - excess
        two = sums[2, at] - excess * one
        out[0, at] = w
        out[1, at] = w
        out[2, at] = w * (1.0 + one)
        out[3, at] = w * ((1.0 + one) + two)
        out[4, at] = sums[0, at] * shown
    out[:, stop - first :] = 0.0


@vector_jit
def _fill(given: Floats, weights: Floats, orders: Ints, columns: Floats) -> None:
    """Fill columns (C, ROWS) of one position from given (5, ROWS): reward, q, mean, whole and pair weights."""
    for at in range(ROWS):
        r, m, w = given[0, at], given[2, at], weights[0, at]
        error = r - given[1, at]
        columns[0, at] = r
        columns[1, at] = w * r
        columns[2, at] = m
        columns[3, at] = m + given[3, at] * error
        columns[4, at] = m + (w + given[4, at]) * error
        columns[5, at] = m + weights[4, at] * error
    for j in range(orders.shape[0]):
        row, column = weights[orders[j]], columns[6 + j]
        for at in range(ROWS):
            column[at] = given[2, at] + row[at] * (given[0, at] - given[1, at])


@vector_jit
def _square(values: Floats) -> float:
    total = 0.0
    for at in range(ROWS):
        total += values[at] * values[at]
    return total


@vector_jit
def _add_scaled(columns: Floats, scale: float, out: Floats) -> None:
    for c in range(columns.shape[0]):
        for at in range(ROWS):
            out[c, at] += scale * columns[c, at]


@vector_jit
def _mean_weight(rho: Floats, pairs: Floats, first: int, stop: int, out: Floats) -> None:
    """Add sum and sum of squares of the rows' mean pair weight to out (2,)."""
    length = rho.shape[0]
    for i in range(first, stop):
        total = 0.0
        for k in range(length):
            total += rho[k, i] + pairs[i, k]
        total /= length
        out[0] += total
        out[1] += total * total


@jit
def add_moments(
    rho: Floats, reward: Floats, q: Floats, mean: Floats, projected: Floats, orders: Ints,
    pairs: Ints, added: Ints, base: Ints, lengths: Ints, alpha: Floats,
    second: Floats, total: Floats, square: Floats, weights: Floats, totals: Floats,
) -> None:  # fmt: skip
    """Add the moments of `kernels.orders.members` and `mask_orders.masked_members`: their columns stay in the cache.

    IN  rho (K, n); reward, q, mean (n, K); projected (2, n, K); orders (J,) of 1..HIGHEST; alpha (K,); pairs (P, 2),
        added (M, K, W), base (M, K): masks x orders as in `mask_orders`.
    OUT second (K, C', C'), total (C', C'): lower triangles of products of the columns and a column of ones, the
        latter at C = 6 + J + P; C' is C + 1 filled up to a multiple of four; square (J+1+P,): sum_k w_k^2 by order,
        the full product, then the pairs; weights (2,): sum and sum of squares of the mean pair weight; totals (n, C).
    """
    length, n = rho.shape
    J, P = orders.shape[0], pairs.shape[0]
    C, size = 6 + J + P, second.shape[1]
    columns, summed = np.zeros((size, ROWS)), np.zeros((size, ROWS))
    given, weight, sums = np.zeros((5, ROWS)), np.zeros((5, ROWS)), np.zeros((3, ROWS))
    masked = np.zeros((added.shape[0], 3, ROWS))
    for first in range(0, n, ROWS):
        stop = min(first + ROWS, n)
        _whole(rho, first, stop, sums)
        summed[:] = 0.0
        for k in range(length):
            _turned(reward, first, stop, k, lengths, given[0])
            _turned(q, first, stop, k, lengths, given[1])
            _turned(mean, first, stop, k, lengths, given[2])
            _turned(projected[0], first, stop, k, lengths, given[3])
            _turned(projected[1], first, stop, k, lengths, given[4])
            _weights(rho, first, stop, k, lengths, sums, weight)
            _fill(given, weight, orders, columns)
            advance_block(rho, first, stop, k, added, base, masked)
            for p in range(P):
                square[J + 1 + p] += fill_masked(given, weight[0], masked[pairs[p, 0]], pairs[p, 1], columns[6 + J + p])
            columns[C, : stop - first] = 1.0
            columns[C, stop - first :] = 0.0
            add_products(columns, ROWS, second[k])
            _add_scaled(columns[:C], alpha[k], summed[:C])
            for j in range(J):
                square[j] += _square(weight[orders[j]])
            square[J] += _square(weight[4])
        add_products(summed, ROWS, total)
        for i in range(first, stop):
            for c in range(C):
                totals[i, c] = summed[c, i - first]
        _mean_weight(rho, projected[1], first, stop, weights)
