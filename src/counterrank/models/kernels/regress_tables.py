"""Values of a linear model at all positions of a ranking at once, as sums of a few rows of a table.

Seen from the whole ranking, every position has the same columns: the counts of the others are those
of all less the own action, which only moves coefficients. The table of a fold (T, W) therefore has
one row for each column of the ranking [x, centre, cross, squares, action b at position l for each
(l, b), a row of zeros] and one column for each (set of coefficients, position, own action); a
ranking adds up about 1 + d + A + K of the rows, whatever K is.
"""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.fill import fill
from counterrank.kernels.jit import helper, jit, vector_helper
from counterrank.models.kernels.regress_features import grouped
from counterrank.models.kernels.sigmoid import sigmoid

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@vector_helper
def _add(tables: Floats, f: int, rows: Ints, scales: Floats, count: int, out: Floats) -> None:
    """Add the first `count` listed rows of table f, times their scales, to out (W,), four at a
    time.

    The lists have room for three more. Views of single rows would cost more than the sums: numbers
    index everything.
    """
    for t in range(count, (count + 3) // 4 * 4):
        rows[t] = tables.shape[1] - 1
        scales[t] = 0.0
    for t in range(0, count, 4):
        a, b, c, d = rows[t], rows[t + 1], rows[t + 2], rows[t + 3]
        p, q, r, s = scales[t], scales[t + 1], scales[t + 2], scales[t + 3]
        for j in range(out.shape[0]):
            out[j] += (p * tables[f, a, j] + q * tables[f, b, j]) + (
                r * tables[f, c, j] + s * tables[f, d, j]
            )


@helper
def _rich(
    action: Ints, i: int, used: int, x: Floats, logging: Floats, cross: bool, squares: int, start: int,
    rows: Ints, scales: Floats, count: Floats,
) -> None:  # fmt: skip
    """List the cross and square columns of the whole ranking, centred as for its positions' others."""
    A, width, m = logging.shape[2], x.shape[1], used - 1
    fill(count, 0.0)
    for other in range(used):
        count[action[i, other]] += 1.0
    row, at = width + A, start
    if cross:
        for j in range(1, width):
            for b in range(A):
                rows[at], scales[at] = row, x[i, j] * (count[b] - m * logging[i, 0, b])
                row += 1
                at += 1
    if squares:
        for b in range(A):
            p = logging[i, 0, b]
            for c in range(b, A if squares == 1 else b + 1):
                # E0 of products of counts over the m others: m (m - 1) p_b p_c, and m p_b more on
                # the diagonal.
                mean = m * (m - 1) * p * logging[i, 0, c] + (m * p if b == c else 0.0)
                rows[at], scales[at] = row, count[b] * count[c] - mean
                row += 1
                at += 1


@jit
def values_at_logged(
    action: Ints, lengths: Ints, fold: Ints, x: Floats, centre: Floats, logging: Floats,
    cross: bool, squares: int, tables: Floats, out: Floats, bare: Floats,
) -> None:  # fmt: skip
    """Fill out (S, n, K) with the values at the logged rankings, bare (n, K) with the last set's
    without context.

    IN tables (F, T, W): W at least S K A; logging (n, 1, A), read only for cross and squares.
    """
    sets, n, length = out.shape
    A, width, T = centre.shape[1], x.shape[1], tables.shape[1]
    shown = T - 1 - length * A
    order, value, count = np.empty(n, np.int64), np.empty(tables.shape[2]), np.empty(A)
    rows, scales = np.zeros(T + 4, np.int64), np.zeros(T + 4)
    grouped(fold, tables.shape[0], order, 0)
    for at in range(n):
        i = order[at]
        f, used = fold[i], lengths[i]
        fill(value, 0.0)
        # Calls for each of these lists would take longer than the lists.
        for other in range(used):
            rows[other], scales[other] = shown + other * A + action[i, other], 1.0
        for b in range(A):
            rows[used + b], scales[used + b] = width + b, centre[i, b]
        if cross or squares:
            _rich(action, i, used, x, logging, cross, squares, used + A, rows, scales, count)
        _add(tables, f, rows, scales, used + shown - width, value)
        for k in range(used):
            bare[i, k] = value[((sets - 1) * length + k) * A + action[i, k]]
        for j in range(width):
            rows[j], scales[j] = j, x[i, j]
        _add(tables, f, rows, scales, width, value)
        for s in range(sets):
            for k in range(used):
                out[s, i, k] = value[(s * length + k) * A + action[i, k]]


@jit
def sigmoid_of_draws(
    draws: Ints, lengths: Ints, fold: Ints, x: Floats, centre: Floats, own: Floats, tables: Floats,
    positions: Ints, out: Floats,
) -> None:  # fmt: skip
    """Fill out (n, K) at `positions` (Q,) with the mean over draws (n, S, K) of a sigmoid, the own
    action summed out.

    IN own (n, 1 or K, A); tables (F, T, W) without cross and square columns: W at least Q A.
    """
    n, size, _ = draws.shape
    A, width, T = centre.shape[1], x.shape[1], tables.shape[1]
    order, base, value = np.empty(n, np.int64), np.empty(tables.shape[2]), np.empty(tables.shape[2])
    rows, scales = np.zeros(T + 4, np.int64), np.zeros(T + 4)
    grouped(fold, tables.shape[0], order, 0)
    for at in range(n):
        i = order[at]
        f, used = fold[i], lengths[i]
        fill(base, 0.0)
        for j in range(width):
            rows[j], scales[j] = j, x[i, j]
        for b in range(A):
            rows[width + b], scales[width + b] = width + b, centre[i, b]
        _add(tables, f, rows, scales, width + A, base)
        for s in range(size):
            value[:] = base
            for other in range(used):
                rows[other], scales[other] = width + A + other * A + draws[i, s, other], 1.0
            _add(tables, f, rows, scales, used, value)
            sigmoid(value, value.shape[0])
            for q in range(positions.shape[0]):
                k = positions[q]
                if k < used:
                    total = 0.0
                    for u in range(A):
                        total += own[i, 0 if own.shape[1] == 1 else k, u] * value[q * A + u]
                    out[i, k] += total / size
