"""Normal equations of two steps of the visibility model, added up over rows: lower triangles only.

Visibilities by position, and three-way effects; those of own and pair effects are in `visibility_blocks`. `slope`,
`weight` and `error` (n, K) are those of a Gauss-Newton step, zero in the padding.
"""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.gram_products import add_products
from counterrank.kernels.jit import jit, vector_jit
from counterrank.kernels.regress_features import ROWS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@jit
def _fill_sight(
    first: int, last: int, k: int, action: Ints, scale: Floats, pair: Floats, slope: Floats, weight: Floats,
    error: Floats, columns: Floats,
) -> None:  # fmt: skip
    """Fill columns (K, R) of position k times sqrt(weight): one for each other position, then the error."""
    K, moving = action.shape[1], slope.shape[0] > 1
    for i in range(first, last):
        at, root = i - first, np.sqrt(weight[i, k])
        u = action[i, k] if root > 0.0 else -1
        seen = root * slope[i if moving else 0, k]
        above, below = seen * scale[i, 0], seen * scale[i, 1]
        for other in range(k):
            b = action[i, other]
            columns[other, at] = above * pair[u, b] if u >= 0 and b >= 0 else 0.0
        for other in range(k + 1, K):
            b = action[i, other]
            columns[other - 1, at] = below * pair[u, b] if u >= 0 and b >= 0 else 0.0
        columns[K - 1, at] = root * error[i, k] if u >= 0 else 0.0


@jit
def add_sight(
    action: Ints, scale: Floats, pair: Floats, slope: Floats, weight: Floats, error: Floats, gram: Floats,
    right: Floats,
) -> None:  # fmt: skip
    """Add to gram (K, K, K) and right (K, K): for each position, one column for every other; slope (n or 1, K)."""
    n, K = action.shape
    wide = (K + 3) // 4 * 4
    columns, products = np.zeros((wide, ROWS)), np.zeros((K, wide, wide))
    for first in range(0, n, ROWS):
        last = min(first + ROWS, n)
        for k in range(K):
            _fill_sight(first, last, k, action, scale, pair, slope, weight, error, columns)
            add_products(columns, last - first, products[k])
    for k in range(K):
        for j in range(K - 1):
            one = j if j < k else j + 1
            for h in range(j + 1):
                gram[k, one, h if h < k else h + 1] += products[k, j, h]
            right[k, one] += products[k, K - 1, j]


@vector_jit
def add_triples(
    action: Ints, fold: Ints, scale: Floats, sight: Floats, error: Floats, gram: Floats, right: Floats
) -> None:
    """Add to gram (F, A, Q, Q) and right (F, A, Q): by own action, a column for each unordered pair of actions."""
    n, K = action.shape
    row, used = np.zeros(gram.shape[2]), np.empty(gram.shape[2], dtype=np.int64)
    seen = np.empty(K)
    for i in range(n):
        for k in range(K):
            u = action[i, k]
            if u < 0:
                continue
            for other in range(K):
                hidden = other == k or action[i, other] < 0
                seen[other] = 0.0 if hidden else sight[k, other] * scale[i, 0 if other < k else 1]
            count = _pair_columns(action[i], seen, row, used)
            block, side = gram[fold[i], u], right[fold[i], u]
            for a in range(count):
                j, value = used[a], row[used[a]]
                for b in range(count):
                    if used[b] <= j:
                        block[j, used[b]] += value * row[used[b]]
                side[j] += value * error[i, k]
            for a in range(count):
                row[used[a]] = 0.0


@vector_jit
def _pair_columns(actions: Ints, seen: Floats, row: Floats, used: Ints) -> int:
    """Fill row with sums of seen_l seen_m by unordered pair of actions; return how many columns are used."""
    count = 0
    for one in range(actions.shape[0]):
        if seen[one] == 0.0:
            continue
        for two in range(one + 1, actions.shape[0]):
            if seen[two] == 0.0:
                continue
            low, high = min(actions[one], actions[two]), max(actions[one], actions[two])
            column = high * (high + 1) // 2 + low
            if row[column] == 0.0:
                used[count] = column
                count += 1
            row[column] += seen[one] * seen[two]
    return count
