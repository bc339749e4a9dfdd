"""Normal equations of the visibility model's effects from blocks of rows held column by column.

Rows with the same fold, position and own action share their place in the equations, so their products are summed in
tiles first. `slopes` (2, n or 1, K): derivatives of the prediction by own part and pair part, one row where they are
alike; `weight` (n, K) of squared errors `error` (n, K), zero in the padding; `shared` (n,) is c of the noise that a
ranking's rewards share (the inverse covariance is I - c 11').
"""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.gram_products import add_products
from counterrank.kernels.jit import jit
from counterrank.kernels.regress_features import ROWS, grouped, sorted_rows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Blocks with fewer rows are filled up with zeros to a multiple of this.
_STEP = 32


@jit
def _scatter(rows: Ints, action: Ints, other: int, sight: float, seen: Floats, columns: Floats) -> None:
    """Add to the column of the other position's action how far it is seen."""
    for at in range(rows.shape[0]):
        b = action[rows[at], other]
        if b >= 0:
            columns[b, at] += sight * seen[at]


@jit
def _fill(
    rows: Ints, k: int, action: Ints, x: Floats, scale: Floats, sight: Floats, slopes: Floats, weight: Floats,
    error: Floats, seen: Floats, columns: Floats,
) -> None:  # fmt: skip
    """Fill columns (p + A + 2, R) of position k times sqrt(weight): context, actions seen, own slope, error.

    seen (2, R) is room.
    """
    p, last, moving = x.shape[1], columns.shape[0], slopes.shape[1] > 1
    count, own = rows.shape[0], columns[columns.shape[0] - 2]
    columns[p:] = 0.0
    for at in range(count):
        i = rows[at]
        s = i if moving else 0
        root = np.sqrt(weight[i, k])
        own[at] = root * slopes[0, s, k]
        columns[last - 1, at] = root * error[i, k]
        seen[0, at] = root * slopes[1, s, k] * scale[i, 0]
        seen[1, at] = root * slopes[1, s, k] * scale[i, 1]
    for j in range(p):
        for at in range(count):
            columns[j, at] = own[at] * x[rows[at], j]
    # One other position at a time: a row's additions to the same column then do not wait for each other.
    for other in range(action.shape[1]):
        if other != k:
            _scatter(rows, action, other, sight[k, other], seen[0 if other < k else 1], columns[p:])
    columns[:p, count:] = 0.0


@jit
def _place(products: Floats, first: int, size: int, at: int, gram: Floats, right: Floats) -> None:
    """Add the products of one own action at one position where they belong: lower triangle, `at` the position's."""
    for j in range(size):
        for h in range(j + 1):
            gram[first + j, first + h] += products[j, h]
        gram[at, first + j] += products[size, j]
        right[first + j] += products[size + 1, j]
    gram[at, at] += products[size, size]
    right[at] += products[size + 1, size]


@jit
def add_effects(
    action: Ints, fold: Ints, x: Floats, scale: Floats, sight: Floats, slopes: Floats, weight: Floats, error: Floats,
    A: int, gram: Floats, right: Floats,
) -> None:  # fmt: skip
    """Add to the lower triangles of gram (F, S, S) and to right (F, S): A blocks of p + A columns, then K positions."""
    n, K = action.shape
    F, last = gram.shape[0], gram.shape[1] - K
    size = x.shape[1] + A
    wide = (size + 5) // 4 * 4
    columns, products, seen = np.zeros((wide, ROWS)), np.zeros((wide, wide)), np.empty((2, ROWS))
    at_a_time = sorted_rows(F * A)
    key, order = np.empty(at_a_time, np.int64), np.empty(at_a_time, np.int64)
    for step in range((n + at_a_time - 1) // at_a_time * K):
        begin, k = step // K * at_a_time, step % K
        stop = min(begin + at_a_time, n)
        for i in range(begin, stop):
            used = action[i, k] >= 0 and weight[i, k] != 0.0
            key[i - begin] = fold[i] * A + action[i, k] if used else -1
        starts = grouped(key[: stop - begin], F * A, order, begin)
        for g in range(F * A):
            products[:] = 0.0
            for first in range(starts[g], starts[g + 1], ROWS):
                rows = order[first : min(first + ROWS, starts[g + 1])]
                _fill(rows, k, action, x, scale, sight, slopes, weight, error, seen, columns[: size + 2])
                add_products(columns, (rows.shape[0] + _STEP - 1) // _STEP * _STEP, products)
            _place(products, g % A * size, size, last + k, gram[g // A], right[g // A])


@jit
def _fill_sums(
    rows: Ints, action: Ints, x: Floats, scale: Floats, sight: Floats, slopes: Floats, weight: Floats, error: Floats,
    shared: Floats, size: int, columns: Floats,
) -> None:  # fmt: skip
    """Fill columns (S + 1, R) with features summed over each ranking, then its summed errors, times sqrt(c)."""
    K, p = action.shape[1], x.shape[1]
    last, moving = columns.shape[0] - 1, slopes.shape[1] > 1
    columns[:] = 0.0
    for at in range(rows.shape[0]):
        i = rows[at]
        root, s = np.sqrt(shared[i]), i if moving else 0
        for k in range(K):
            if action[i, k] < 0 or weight[i, k] == 0.0:
                continue
            first, own, pair = action[i, k] * size, root * slopes[0, s, k], root * slopes[1, s, k]
            for j in range(p):
                columns[first + j, at] += own * x[i, j]
            for other in range(K):
                if other != k and action[i, other] >= 0:
                    seen = pair * sight[k, other] * scale[i, 0 if other < k else 1]
                    columns[first + p + action[i, other], at] += seen
            columns[last - K + k, at] = own
            columns[last, at] += root * error[i, k]


@jit
def subtract_shared(
    action: Ints, fold: Ints, x: Floats, scale: Floats, sight: Floats, slopes: Floats, weight: Floats, error: Floats,
    shared: Floats, A: int, gram: Floats, right: Floats,
) -> None:  # fmt: skip
    """Take c s s' and c s R away, with s the features and R the errors summed over a ranking: lower triangles."""
    n, K = action.shape
    F, S = right.shape
    wide = (S + 4) // 4 * 4
    columns, products = np.zeros((wide, ROWS)), np.zeros((wide, wide))
    key, order = np.empty(n, np.int64), np.empty(n, np.int64)
    for i in range(n):
        key[i] = fold[i] if shared[i] > 0.0 else -1
    starts = grouped(key, F, order)
    for f in range(F):
        products[:] = 0.0
        for first in range(starts[f], starts[f + 1], ROWS):
            rows = order[first : min(first + ROWS, starts[f + 1])]
            _fill_sums(
                rows, action, x, scale, sight, slopes, weight, error, shared, x.shape[1] + A, columns[: S + 1]
            )  # fmt: skip
            add_products(columns, (rows.shape[0] + _STEP - 1) // _STEP * _STEP, products)
        for j in range(S):
            for h in range(j + 1):
                gram[f, j, h] -= products[j, h]
            right[f, j] -= products[S, j]
