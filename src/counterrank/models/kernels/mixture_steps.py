"""Normal equations of a fit's steps, summed over rankings and classes: J' M J and J' M e. Only
lower triangles.

`weight` (n, Z) is how far a ranking counts for a class, q and part (n, Z, K) what its rewards and
pair parts would be. Errors of one ranking share noise: M = weight (diag(v) - shared 11'), with v =
1, or q (1 - q) of 0/1 rewards, whose errors share none. Slopes by own and pair part are 1, those of
a product exp(part) and q.
"""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.fill import fill
from counterrank.kernels.jit import jit, vector_helper, vector_jit
from counterrank.models.kernels.grams import dot, four_by_four
from counterrank.models.kernels.mixture_values import LOGISTIC, PRODUCT, three_way
from counterrank.models.settings import LARGEST_EXPONENT as LARGEST
from counterrank.models.settings import LEAST_VARIANCE
from counterrank.models.settings import RARE_STEP as LEAST

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Rankings of one block of the tilt's columns.
_ROWS = 128


@vector_helper
def _rests(
    action: Ints, reward: Floats, q: Floats, weight: float, shared: float, out: Floats
) -> None:
    """Fill out (K,) with M e of one ranking and class: v times the working error (r - q) / v is r -
    q.
    """
    total = 0.0
    for k in range(action.shape[0]):
        out[k] = reward[k] - q[k] if action[k] >= 0 else 0.0
        # M e = weight (e - shared 1 (1'e)): the shared noise needs the errors' sum alone.
        total += out[k]
    for k in range(action.shape[0]):
        out[k] = weight * (out[k] - shared * total)


@vector_helper
def _subtract_square(vector: Floats, factor: float, gram: Floats) -> None:
    """Subtract factor vector vector' from the lower triangle."""
    for a in range(vector.shape[0]):
        scaled, row = factor * vector[a], gram[a]
        if scaled != 0.0:
            for b in range(a + 1):
                row[b] -= scaled * vector[b]


@vector_helper
def _with_third(action: Ints, k: int, other: int, seen: Floats, effect: Floats) -> float:
    """Return the sum over third items m, shown and neither k nor l, of s_m effect[a_l, a_m]."""
    total, row = 0.0, effect[action[other]]
    for third in range(action.shape[0]):
        if third != k and third != other and action[third] >= 0:
            total += seen[third] * row[action[third]]
    return total


@vector_helper
def _examined_columns(
    action: Ints, k: int, slope: float, scale: Floats, pair: Floats, examined: Floats, triple: Floats, seen: Floats,
    out: Floats,
) -> None:  # fmt: skip
    """Fill out (K,) with how the reward at k moves with how far each other position is examined;
    seen (K,) is room.
    """
    K = action.shape[0]
    fill(out, 0.0)
    if action[k] < 0:
        return
    above, below, of_own = slope * scale[0], slope * scale[1], pair[action[k]]
    for other in range(K):
        b = action[other]
        if b >= 0 and other != k:
            out[other] = of_own[b] * (above if other < k else below)
    if triple.shape[0] == 0:
        return
    for other in range(K):
        seen[other] = examined[other] * (scale[0] if other < k else scale[1])
    for other in range(K):
        if action[other] >= 0 and other != k:
            third = _with_third(action, k, other, seen, triple[action[k]])
            out[other] += third * (above if other < k else below)


@vector_jit
def add_examined(
    link: int, action: Ints, scale: Floats, reward: Floats, weight: Floats, shared: Floats, q: Floats, pair: Floats,
    examined: Floats, triple: Floats, gram: Floats, right: Floats, joint: Floats,
) -> None:  # fmt: skip
    """Add to gram (Z, K, K, K) and right (Z, K, K) one column for every other position, by position
    and class.

    What positions share goes to joint (Z, K^2, K^2); an empty one leaves it out, and `shared` is
    zero then.
    """
    n, K = action.shape
    column, rest, seen = np.empty(K * K), np.empty(K), np.empty(K)
    for i in range(n):
        for z in range(weight.shape[1]):
            w = weight[i, z]
            if w < LEAST:
                continue
            _rests(action[i], reward[i], q[i, z], w, shared[i], rest)
            for k in range(K):
                value, first = q[i, z, k], k * K
                columns = column[first : first + K]
                slope = value if link == PRODUCT else 1.0
                _examined_columns(
                    action[i], k, slope, scale[i], pair, examined[z, k], triple, seen, columns
                )
                v = w * max(value * (1.0 - value), LEAST_VARIANCE) if link == LOGISTIC else w
                to, on = gram[z, k], right[z, k]
                for a in range(K):
                    scaled = v * columns[a]
                    if scaled != 0.0:
                        on[a] += rest[k] * columns[a]
                        row = to[a]
                        # Half the products: the lower triangle, completed by `steps.whole`.
                        for b in range(a + 1):
                            row[b] += scaled * columns[b]
            if shared[i] > 0.0 and joint.shape[0] > 0:
                _subtract_square(column, w * shared[i], joint[z])


@vector_helper
def _effect_columns(
    action: Ints,
    k: int,
    x: Floats,
    scale: Floats,
    seen: Floats,
    own: float,
    others: float,
    out: Floats,
) -> None:
    """Fill out (p + A,) with the columns of one reward: own slope times context, pair slope times
    items examined.
    """
    p = x.shape[0]
    for j in range(p):
        out[j] = own * x[j]
    out[p:] = 0.0
    for other in range(action.shape[0]):
        if other != k and action[other] >= 0:
            out[p + action[other]] += others * seen[other] * (scale[0] if other < k else scale[1])


@vector_jit
def add_effects(
    link: int, action: Ints, fold: Ints, x: Floats, scale: Floats, reward: Floats, weight: Floats, shared: Floats,
    q: Floats, part: Floats, examined: Floats, actions: int, gram: Floats, right: Floats,
) -> None:  # fmt: skip
    """Add to gram (F, S, S) and right (F, S), S = A (p + A) + K: own and pair columns by own
    action, then shifts.
    """
    n, K = action.shape
    width = x.shape[1] + actions
    column, rest, sums = np.empty(width), np.empty(K), np.empty(actions * width + K)
    for i in range(n):
        to, on = gram[fold[i]], right[fold[i]]
        for z in range(weight.shape[1]):
            w = weight[i, z]
            if w < LEAST:
                continue
            _rests(action[i], reward[i], q[i, z], w, shared[i], rest)
            together = shared[i] > 0.0
            if together:
                fill(sums, 0.0)
            for k in range(K):
                if action[i, k] < 0:
                    continue
                own, others, v = 1.0, 1.0, w
                if link == PRODUCT:
                    # d(own exp(part)) = exp(part) d own + q d part.
                    own, others = np.exp(min(max(part[i, z, k], -LARGEST), LARGEST)), q[i, z, k]
                if link == LOGISTIC:
                    v = w * max(q[i, z, k] * (1.0 - q[i, z, k]), LEAST_VARIANCE)
                _effect_columns(action[i], k, x[i], scale[i], examined[z, k], own, others, column)
                begin, last = action[i, k] * width, actions * width + k
                shift = to[last, begin : begin + width]
                for a in range(width):
                    scaled = v * column[a]
                    if scaled == 0.0:  # of many actions, few are beside this one
                        continue
                    row = to[begin + a, begin : begin + a + 1]
                    on[begin + a] += rest[k] * column[a]
                    shift[a] += own * scaled
                    for b in range(a + 1):
                        row[b] += scaled * column[b]
                to[last, last] += v * own * own
                on[last] += own * rest[k]
                if together:
                    sums[last] += own
                    for a in range(width):
                        sums[begin + a] += column[a]
            if together:
                _subtract_square(sums, w * shared[i], to)


@vector_helper
def _row_sums(
    first: int, last: int, sides: Floats, slope: Floats, weight: Floats, error: Floats, shared: Floats, sums: Floats
) -> None:  # fmt: skip
    """Fill sums (5, R): for pairs a above and b below, of a a, b a, b b, a error and b error over
    each ranking.
    """
    for i in range(first, last):
        aa, ba, bb, ae, be = 0.0, 0.0, 0.0, 0.0, 0.0
        a_all, b_all, e_all = 0.0, 0.0, 0.0
        for k in range(weight.shape[1]):
            w, e = weight[i, k], error[i, k]
            a, b = sides[i, 0, k] * slope[i, k], sides[i, 1, k] * slope[i, k]
            aa += w * a * a
            ba += w * b * a
            bb += w * b * b
            ae += w * a * e
            be += w * b * e
            a_all += a
            b_all += b
            e_all += e
        c = shared[i]
        sums[0, i - first] = aa - c * a_all * a_all
        sums[1, i - first] = ba - c * b_all * a_all
        sums[2, i - first] = bb - c * b_all * b_all
        sums[3, i - first] = ae - c * e_all * a_all
        sums[4, i - first] = be - c * e_all * b_all


@jit
def _add_block(
    columns: Floats, sums: Floats, count: int, weighed: Floats, gram: Floats, right: Floats
) -> None:
    """Add a block's columns (M, R), M a multiple of four, times its sums."""
    out = np.empty((4, 4))
    # Tilts multiply traits: a ranking enters by three sums over its positions, so the K positions
    # are summed first and the m^2 products are taken once a ranking instead of once a position.
    for j in range(right.shape[1]):
        right[0, j] += dot(columns[j], sums[3], count)
        right[1, j] += dot(columns[j], sums[4], count)
    for which in range(3):
        for p in range(0, columns.shape[0], 4):
            for s in range(4):
                for i in range(count):
                    weighed[s, i] = columns[p + s, i] * sums[which, i]
            for q in range(0, p + 1, 4):
                four_by_four(weighed, columns[q : q + 4], count, out)
                for s in range(4):
                    for t in range(4):
                        gram[which, p + s, q + t] += out[s, t]


@jit
def add_tilt(
    traits: Floats, sides: Floats, slope: Floats, weight: Floats, error: Floats, shared: Floats, gram: Floats,
    right: Floats,
) -> None:  # fmt: skip
    """Add to the lower triangles of gram (3, M, M), M >= m a multiple of four, and to right (2, m).

    gram holds traits' diag(s) traits for s the sums over a ranking of above^2, below x above and
    below^2, with the noise c = `shared` (n,) of its rewards taken away; `sides` (n, 2, K) are pair
    parts above and below, `slope` of the pair part, `weight` and working `error` (n, K), zero in
    the padding.
    """
    n, m = traits.shape
    columns, weighed, sums = (
        np.zeros((gram.shape[1], _ROWS)),
        np.empty((4, _ROWS)),
        np.empty((5, _ROWS)),
    )
    for first in range(0, n, _ROWS):
        last = min(first + _ROWS, n)
        for i in range(first, last):
            for j in range(m):
                columns[j, i - first] = traits[i, j]
        _row_sums(first, last, sides, slope, weight, error, shared, sums)
        _add_block(columns, sums, last - first, weighed, gram, right)


@vector_helper
def _pair_columns(actions: Ints, seen: Floats, row: Floats, used: Ints) -> int:
    """Fill row with sums of seen_l seen_m by unordered pair of actions; return how many columns are
    used.
    """
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


@vector_jit
def add_triples(
    action: Ints,
    fold: Ints,
    scale: Floats,
    examined: Floats,
    error: Floats,
    gram: Floats,
    right: Floats,
) -> None:
    """Add to gram (F, A, Q, Q) and right (F, A, Q) of one class, examined (K, K): by own action, a
    column for each unordered pair of actions. Few enough for normal equations while there is one
    class.
    """
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
                seen[other] = (
                    0.0 if hidden else examined[k, other] * scale[i, 0 if other < k else 1]
                )
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


@vector_helper
def _scatter(action: Ints, k: int, amount: float, seen: Floats, out: Floats) -> None:
    """Add amount s_l s_m to out[a_l, a_m], larger action first, for all l < m, both shown and not
    k.
    """
    for one in range(action.shape[0]):
        b = action[one]
        part = amount * seen[one]
        if one == k or b < 0 or part == 0.0:
            continue
        for two in range(one + 1, action.shape[0]):
            c = action[two]
            if two != k and c >= 0:
                out[max(b, c), min(b, c)] += part * seen[two]


@vector_jit
def triple_gradient(
    action: Ints, reward: Floats, weight: Floats, shared: Floats, q: Floats, examined: Floats, right: Floats,
    diagonal: Floats,
) -> None:  # fmt: skip
    """Add to right (A, A, A) the J' M e of a sum, and to diagonal the J' M J's with shared = 0.

    With classes three-way effects are too many for normal equations: products with them are taken
    instead. In the diagonal items shown twice count as two columns: it only preconditions, and
    scales uncertainty.
    """
    n, Z, K = q.shape
    for i in range(n):
        for z in range(Z):
            w = weight[i, z]
            if w < LEAST:
                continue
            total = 0.0
            for k in range(K):
                total += reward[i, k] - q[i, z, k] if action[i, k] >= 0 else 0.0
            for k in range(K):
                u = action[i, k]
                if u >= 0:
                    rest = w * (reward[i, k] - q[i, z, k] - shared[i] * total)
                    _scatter(action[i], k, rest, examined[z, k], right[u])
                    _scatter(action[i], k, w, examined[z, k] ** 2, diagonal[u])


@vector_jit
def triple_curvature(
    action: Ints, weight: Floats, shared: Floats, examined: Floats, step: Floats, out: Floats
) -> None:
    """Add J' M J step to out (A, A, A), b >= c; step has both orders of b and c."""
    n, Z = weight.shape
    K = action.shape[1]
    change = np.empty(K)
    for i in range(n):
        for z in range(Z):
            if weight[i, z] < LEAST:
                continue
            total = 0.0
            for k in range(K):
                change[k] = 0.0
                if action[i, k] >= 0:
                    change[k] = three_way(action[i], k, examined[z, k], step[action[i, k]])
                total += change[k]
            for k in range(K):
                if action[i, k] >= 0:
                    rest = weight[i, z] * (change[k] - shared[i] * total)
                    _scatter(action[i], k, rest, examined[z, k], out[action[i, k]])
