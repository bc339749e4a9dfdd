"""Normal equations of the visibility model's steps, added up over rows: lower triangles only.

`own_slope`, `pair_slope` (n, K): derivatives of the prediction by the own part and by the pair part; `weight` (n, K)
of squared errors `error` (n, K), zero in the padding; `shared` (n,) is c of the noise that a ranking's rewards share
(the inverse covariance is I - c 11').
"""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import vector_jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@vector_jit
def _features(
    actions: Ints, k: int, x: Floats, sight: Floats, scale: Floats, own_slope: float, pair_slope: float, out: Floats
) -> None:
    """Fill out (p + A,): the context, then how much of each action is seen from position k."""
    p = x.shape[0]
    for j in range(p):
        out[j] = own_slope * x[j]
    out[p:] = 0.0
    for other in range(actions.shape[0]):
        if other != k and actions[other] >= 0:
            out[p + actions[other]] += pair_slope * sight[k, other] * scale[0 if other < k else 1]


@vector_jit
def add_effects(
    action: Ints, fold: Ints, x: Floats, scale: Floats, sight: Floats, slopes: Floats, weight: Floats, error: Floats,
    shared: Floats, actions: int, gram: Floats, right: Floats,
) -> None:  # fmt: skip
    """Add to gram (F, S, S) and right (F, S): A blocks of p + A columns by own action, then K of the positions."""
    n, K = action.shape
    last = gram.shape[1] - K
    size = last // actions
    features, summed = np.zeros((K, size)), np.zeros(gram.shape[1])
    for i in range(n):
        of_fold, side = gram[fold[i]], right[fold[i]]
        total = 0.0
        for k in range(K):
            u, w = action[i, k], weight[i, k]
            if u < 0 or w == 0.0:
                continue
            row, slope = features[k], slopes[0, i, k]
            _features(action[i], k, x[i], sight, scale[i], slope, slopes[1, i, k], row)
            first = u * size
            for j in range(size):
                value = w * row[j]
                if value == 0.0:
                    continue
                line = of_fold[first + j]
                for h in range(j + 1):
                    line[first + h] += value * row[h]
                side[first + j] += value * error[i, k]
                of_fold[last + k, first + j] += value * slope
            of_fold[last + k, last + k] += w * slope * slope
            side[last + k] += w * slope * error[i, k]
            total += error[i, k]
        if shared[i] > 0.0:
            _subtract_shared(action[i], features, slopes[0, i], weight[i], shared[i], total, of_fold, side, summed)


@vector_jit
def _subtract_shared(
    actions: Ints, features: Floats, slope: Floats, weight: Floats, c: float, total: float, gram: Floats,
    right: Floats, summed: Floats,
) -> None:  # fmt: skip
    """Take c s s' and c s R away, with s the features and R the errors summed over the ranking."""
    K, size = features.shape
    last = summed.shape[0] - K
    summed[:] = 0.0
    for k in range(K):
        if actions[k] >= 0 and weight[k] != 0.0:
            first = actions[k] * size
            for j in range(size):
                summed[first + j] += features[k, j]
            summed[last + k] = slope[k]
    for j in range(summed.shape[0]):
        value = c * summed[j]
        if value != 0.0:
            line = gram[j]
            for h in range(j + 1):
                line[h] -= value * summed[h]
            right[j] -= value * total


@vector_jit
def add_sight(
    action: Ints, scale: Floats, pair: Floats, slope: Floats, weight: Floats, error: Floats, gram: Floats,
    right: Floats,
) -> None:  # fmt: skip
    """Add to gram (K, K, K) and right (K, K): for each position, one column for every other."""
    n, K = action.shape
    row = np.zeros(K)
    for i in range(n):
        for k in range(K):
            u, w = action[i, k], weight[i, k]
            if u < 0 or w == 0.0:
                continue
            for other in range(K):
                hidden = other == k or action[i, other] < 0
                seen = scale[i, 0 if other < k else 1]
                row[other] = 0.0 if hidden else slope[i, k] * seen * pair[u, action[i, other]]
            for j in range(K):
                value = w * row[j]
                if value != 0.0:
                    for h in range(j + 1):
                        gram[k, j, h] += value * row[h]
                    right[k, j] += value * error[i, k]


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
