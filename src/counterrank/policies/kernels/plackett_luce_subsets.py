"""Plackett-Luce probability of given items at a set of positions, by a programme over used free items.

With F the items not asked for and S the free items used so far, each position divides by the mass
still there, T = (asked-for mass unplaced) + (mass of F without S). States are the sets S of one
size at a time, numbered in colexicographic order: rank(c_0 < c_1 < ..) = sum of binomial(c_h, h +
1).

Scores so far apart that their exponentials leave float64 run the same programme in logarithms
(`wide_log_prob`). Such policies are nearly greedy, and few free items matter: one that lies D nats
below the best `gaps` free items adds less than exp(-D) of what each path with a better item in its
place does, and is left out.

What makes too many states is sampled, by draws shared by all masks of a row (`sampled_log_prob`).
By Luce's axiom, a draw with the asked-for items deleted is a Plackett-Luce draw of the free ones.
Given their order, P(L) is a product: lam_a / T where an asked item stands, (free mass) / T where a
free one does. The mean of the products over draws is unbiased, each in [0, 1].
"""

import numpy as np

from counterrank.arrays import Bools, Floats, Ints
from counterrank.kernels.hashing import STEP, mix
from counterrank.kernels.jit import jit
from counterrank.policies.kernels.plackett_luce import build_tree, find, masses, set_leaf


@jit
def subset_log_prob(
    scores: Floats, order: Ints, row_of: Ints, actions: Ints, masks: Bools
) -> Floats:
    """Return (T,) log P(masked items at their positions) for tasks sorted by row.

    Scores (n, A) and their descending order (n, A) by row_of (T,); actions (T, K); masks (T, K)
    with a gap, distinct items, none of score -inf.
    """
    T, K = actions.shape
    A = scores.shape[1]
    out = np.empty(T)
    mass = np.empty(0)
    fixed = np.zeros(A, np.bool_)
    for t in range(T):
        row = scores[row_of[t]]
        if t == 0 or row_of[t] != row_of[t - 1]:
            mass = masses(row)
        last, size = 0, 0
        for k in range(K):
            if masks[t, k]:
                fixed[actions[t, k]] = True
                last, size = k + 1, size + 1
        asked = np.empty(size)
        free = np.empty(A - size)
        log_asked = 0.0
        j = 0
        for k in range(last):
            if masks[t, k]:
                asked[j] = mass[actions[t, k]]
                log_asked += row[actions[t, k]] - row[order[row_of[t], 0]]
                j += 1
        j = 0
        for a in order[row_of[t]]:
            if not fixed[a] and mass[a] > 0.0:
                free[j] = mass[a]
                j += 1
        out[t] = log_asked + programme(free[:j], asked, masks[t, :last])
        for k in range(last):
            if masks[t, k]:
                fixed[actions[t, k]] = False
    return out


@jit
def programme(free: Floats, asked: Floats, pattern: Bools) -> float:
    """Return log of the sum over orders of free items of prod 1/T times the free items' masses.

    Free masses in descending order; asked masses by position; pattern True where an asked item
    stands.
    """
    gaps = pattern.size - asked.size
    if free.size < gaps:
        return -np.inf
    tail = np.zeros(free.size + 1)
    for a in range(free.size - 1, -1, -1):
        tail[a] = tail[a + 1] + free[a]
    waiting = np.zeros(asked.size + 1)
    for j in range(asked.size - 1, -1, -1):
        waiting[j] = waiting[j + 1] + asked[j]
    choose = binomials(free.size, gaps)
    value, left = np.empty(1), np.empty(1)
    value[0], left[0] = 1.0, tail[0]
    log_scale, placed, used = 0.0, 0, 0
    for position in range(pattern.size):
        # Scaled anew at each position: the product of 1 / T over many would leave float64.
        top = 0.0
        for s in range(value.size):
            value[s] /= waiting[placed] + left[s]
            top = max(top, value[s])
        for s in range(value.size):
            value[s] /= top
        log_scale += np.log(top)
        if pattern[position]:
            placed += 1
        else:
            used += 1
            value, left = extend(value, free, tail, choose, used)
    total = 0.0
    for s in range(value.size):
        total += value[s]
    return float(log_scale + np.log(total))


@jit
def extend(
    value: Floats, free: Floats, tail: Floats, choose: Ints, size: int
) -> tuple[Floats, Floats]:
    """Return values and unused masses of all sets of `size` free items from the values one size below.

    The mass between two chosen items is a difference of tails: harmless, because masses descend, so
    the items between outweigh 1/N of everything behind them.
    """
    N = free.size
    states = choose[N, size]
    new, left = np.zeros(states), np.zeros(states)
    c = np.arange(size + 1)
    c[size] = N
    above = np.zeros(size + 1)  # unused mass beyond c[h]
    behind = np.zeros(size + 1, np.int64)  # rank of the items beyond c[h], each one place lower
    changed = size - 1
    for s in range(states):
        for h in range(changed, -1, -1):
            gap = tail[c[h] + 1] - tail[c[h + 1]] if c[h] + 1 < c[h + 1] else 0.0
            above[h] = above[h + 1] + gap
            behind[h] = behind[h + 1] + (choose[c[h + 1], h + 1] if h + 1 < size else 0)
        below = 0
        total = 0.0
        for h in range(size):
            total += free[c[h]] * value[below + behind[h]]
            below += choose[c[h], h + 1]
        new[s] = total
        left[s] = above[0] + (tail[0] - tail[c[0]] if c[0] > 0 else 0.0)
        changed = 0
        while changed < size - 1 and c[changed] + 1 == c[changed + 1]:
            c[changed] = changed
            changed += 1
        c[changed] += 1
    return new, left


@jit
def binomials(n: int, k: int) -> Ints:
    """Return the table C(i, j) for i <= n, j <= k."""
    table = np.zeros((n + 1, k + 1), np.int64)
    for i in range(n + 1):
        table[i, 0] = 1
        for j in range(1, min(i, k) + 1):
            table[i, j] = table[i - 1, j - 1] + table[i - 1, j]
    return table


#: Nats below the best `gaps` free items beyond which an item is left out: 1e-43 of the result.
_NEGLIGIBLE = 100.0


@jit
def wide_log_prob(
    scores: Floats, order: Ints, row_of: Ints, actions: Ints, masks: Bools, most: int
) -> Floats:
    """Return (T,) log P like its linear twin; NaN where even the items that matter make too many states."""
    T, K = actions.shape
    A = scores.shape[1]
    out = np.empty(T)
    fixed = np.zeros(A, np.bool_)
    for t in range(T):
        row = scores[row_of[t]]
        last, size = 0, 0
        for k in range(K):
            if masks[t, k]:
                fixed[actions[t, k]] = True
                last, size = k + 1, size + 1
        asked, free = np.empty(size), np.empty(A)
        j, N = 0, 0
        for k in range(last):
            if masks[t, k]:
                asked[j] = row[actions[t, k]]
                j += 1
        gaps = last - size
        for a in order[row_of[t]]:
            matters = N < gaps or (gaps > 0 and row[a] > free[gaps - 1] - _NEGLIGIBLE)
            if not fixed[a] and row[a] > -np.inf and matters:
                free[N] = row[a]
                N += 1
        out[t] = wide_programme(
            free[:N], rest_of(row, order[row_of[t]], fixed, N), asked, masks[t, :last], most
        )
        for k in range(last):
            if masks[t, k]:
                fixed[actions[t, k]] = False
    return out


@jit
def rest_of(row: Floats, order: Ints, fixed: Bools, kept: int) -> float:
    """Return the log mass of the free items left out: never used, always there."""
    total, seen = -np.inf, 0
    for a in order:
        if not fixed[a] and row[a] > -np.inf:
            seen += 1
            if seen > kept:
                total = np.logaddexp(total, row[a])
    return float(total)


@jit
def wide_programme(free: Floats, rest: float, asked: Floats, pattern: Bools, most: int) -> float:
    """Return log P of one set: free and asked log masses, `rest` the log mass of what is never used."""
    gaps = pattern.size - asked.size
    if free.size < gaps:
        return -np.inf
    states = 1.0
    term = 1.0
    for j in range(1, gaps + 1):
        term *= (free.size - j + 1) / j
        states += term
    if states > most:
        return np.nan
    waiting = np.full(asked.size + 1, -np.inf)
    for j in range(asked.size - 1, -1, -1):
        waiting[j] = np.logaddexp(waiting[j + 1], asked[j])
    choose = binomials(free.size, max(gaps, 1))
    value = np.zeros(1)
    left = np.empty(1)
    left[0] = unused(free, np.empty(0, np.int64), rest)
    placed, used = 0, 0
    for position in range(pattern.size):
        for s in range(value.size):
            value[s] -= np.logaddexp(waiting[placed], left[s])
            if pattern[position]:
                value[s] += asked[placed]
        if pattern[position]:
            placed += 1
        else:
            used += 1
            value, left = wide_extend(value, free, rest, choose, used)
    total = -np.inf
    for s in range(value.size):
        total = np.logaddexp(total, value[s])
    return float(min(total, 0.0))


@jit
def wide_extend(
    value: Floats, free: Floats, rest: float, choose: Ints, size: int
) -> tuple[Floats, Floats]:
    """Return log values and log unused masses of all sets of `size` free items, in colexicographic order."""
    states = choose[free.size, size]
    new, left = np.empty(states), np.empty(states)
    c = np.arange(size)
    for s in range(states):
        behind = 0
        for h in range(1, size):
            behind += choose[c[h], h]
        below = 0
        total = -np.inf
        for h in range(size):
            total = np.logaddexp(total, free[c[h]] + value[below + behind])
            below += choose[c[h], h + 1]
            if h + 1 < size:
                behind -= choose[c[h + 1], h + 1]
        new[s], left[s] = total, unused(free, c, rest)
        h = 0
        while h < size - 1 and c[h] + 1 == c[h + 1]:
            c[h] = h
            h += 1
        c[h] += 1
    return new, left


@jit
def unused(free: Floats, c: Ints, rest: float) -> float:
    """Return the log mass of the free items not in the ascending set c."""
    total, h = rest, 0
    for a in range(free.size):
        if h < c.size and c[h] == a:
            h += 1
        else:
            total = np.logaddexp(total, free[a])
    return float(total)


_FIRST = 32
_FREE, _NONE = -1, -2
_S11 = np.uint64(11)


@jit
def row_key(row: Floats, actions: Ints, seed: int) -> np.uint64:
    """Return a key from what the row holds: equal rows draw alike, wherever and in whatever chunk they stand."""
    key = mix(np.uint64(seed))
    for word in row.view(np.uint64):
        key = mix(key ^ word)
    for a in actions:
        key = mix(key ^ np.uint64(a + 1))
    return key


@jit
def sampled_log_prob(
    scores: Floats,
    row_of: tuple[Ints, Ints],
    actions: Ints,
    masks: Bools,
    limits: tuple[float, int, int],
) -> tuple[Floats, Floats]:
    """Return (T,) log-probabilities and squared relative errors for tasks sorted by row.

    Draws double from 32 until every mask of the row reaches the relative error `rtol`, or `most`
    draws; limits = (rtol, most, seed); row_of = the row of the log and the row of scores of each
    task, (T,) both.
    """
    T = len(actions)
    log_prob, rel_var = np.empty(T), np.empty(T)
    log_row, score_row = row_of
    start = 0
    while start < T:
        stop = start + 1
        while stop < T and log_row[stop] == log_row[start]:
            stop += 1
        row = scores[score_row[start]]
        _sampled_row(
            row,
            actions[start],
            masks[start:stop],
            limits,
            (log_prob[start:stop], rel_var[start:stop]),
        )
        start = stop
    return log_prob, rel_var


@jit
def _sampled_row(row: Floats, actions: Ints, masks: Bools, limits: tuple, result: tuple) -> None:  # type: ignore[type-arg]
    rtol, most, seed = limits
    log_prob, rel_var = result
    J, K = masks.shape
    mass = masses(row)
    slot = np.full(mass.size, -1, np.int64)
    own, which = np.zeros(K), np.full(K, -1, np.int64)
    D = 0
    for k in range(K):
        a = actions[k]
        if a >= 0:
            if slot[a] < 0:
                slot[a], own[D] = D, mass[a]
                D += 1
            which[k] = slot[a]
    others = masses(row)
    for k in range(K):
        if actions[k] >= 0:
            others[actions[k]] = 0.0
    tree = build_tree(others)
    key = row_key(row, actions, seed)
    codes, sizes = np.empty((most, K), np.int64), np.empty((most, K))
    left = np.empty((most, K + 1))
    sums = np.zeros((J, 3))  # reference log, sum, sum of squares, both relative to the reference
    open_ = np.zeros(J, np.bool_)
    for j in range(J):
        sums[j, 0], open_[j] = -np.inf, True
    have, goal = 0, min(_FIRST, most)
    while have < goal:
        draw(tree, own[:D], others, key, (have, goal), (codes, sizes, left))
        for j in range(J):
            if open_[j]:
                accumulate(codes, sizes, left, (own[:D], which, masks[j]), (have, goal), sums[j])
                log_prob[j], rel_var[j] = summary(sums[j], goal)
                for k in range(K):
                    if masks[j, k]:
                        log_prob[j] += np.log(own[which[k]])
                open_[j] = rel_var[j] > rtol * rtol
        have = goal
        pending = False
        for j in range(J):
            pending = pending or open_[j]
        if pending:
            goal = min(2 * goal, most)


@jit
def draw(
    tree: Floats,
    own: Floats,
    others: Floats,
    key: np.uint64,
    span: tuple[int, int],
    out: tuple[Ints, Floats, Floats],
) -> None:
    """Draw rankings span[0]..span[1]: which logged item (or none), its mass, and the mass of others left."""
    codes, sizes, left = out
    K = codes.shape[1]
    picked = np.empty(K, np.int64)
    waiting = np.empty(own.size)
    for m in range(span[0], span[1]):
        for d in range(own.size):
            waiting[d] = own[d]
        stream = mix(key + np.uint64(m) * STEP)
        taken = 0
        left[m, 0] = tree[1]
        for k in range(K):
            bits = mix(stream + np.uint64(k) * STEP)
            logged = 0.0
            for d in range(own.size):
                logged += waiting[d]
            # 53 bits, all that a float64 in [0, 1) holds.
            goal = float(bits >> _S11) * 2.0**-53 * (logged + tree[1])
            codes[m, k], sizes[m, k] = _NONE, 0.0
            if goal < logged or (tree[1] == 0.0 and logged > 0.0):
                d = pick(waiting, goal)
                codes[m, k], sizes[m, k] = d, waiting[d]
                waiting[d] = 0.0
            elif tree[1] > 0.0:
                item = find(tree, goal - logged)
                codes[m, k], sizes[m, k] = _FREE, others[item]
                picked[taken] = item
                taken += 1
                set_leaf(tree, item, 0.0)
            left[m, k + 1] = tree[1]
        for j in range(taken):
            set_leaf(tree, picked[j], others[picked[j]])


@jit
def pick(waiting: Floats, goal: float) -> int:
    """Return the index whose interval of cumulated mass holds `goal`; never one of mass zero."""
    last = 0
    for d in range(waiting.size):
        if waiting[d] > 0.0:
            last = d
            if goal < waiting[d]:
                return d
            goal -= waiting[d]
    return last


@jit
def accumulate(
    codes: Ints,
    sizes: Floats,
    left: Floats,
    event: tuple[Floats, Ints, Bools],
    span: tuple[int, int],
    sums: Floats,
) -> None:
    """Add the products of draws span[0]..span[1] for one mask to its running sums."""
    own, which, mask = event
    K = mask.size
    asked = np.zeros(own.size, np.bool_)
    waiting = np.zeros(K + 1)
    last, size = 0, 0
    for k in range(K):
        if mask[k]:
            asked[which[k]] = True
            last, size = k + 1, size + 1
    j = size
    for k in range(last - 1, -1, -1):
        if mask[k]:
            j -= 1
            waiting[j] = waiting[j + 1] + own[which[k]]
    # waiting was filled from the back: entry j holds the mass of the asked items j, j+1, ...
    scratch = np.empty(K + 1)
    for m in range(span[0], span[1]):
        value = product(codes[m], sizes[m], left[m], (own, asked, mask[:last], waiting), scratch)
        if value == -np.inf:
            continue
        # Sums are relative to the largest product so far, which chunks of draws do not know ahead.
        if value > sums[0]:
            shift = np.exp(sums[0] - value) if sums[0] > -np.inf else 0.0
            sums[0], sums[1], sums[2] = value, sums[1] * shift, sums[2] * shift * shift
        ratio = np.exp(value - sums[0])
        sums[1] += ratio
        sums[2] += ratio * ratio


@jit
def product(codes: Ints, sizes: Floats, left: Floats, event: tuple, remaining: Floats) -> float:  # type: ignore[type-arg]
    """Return the log of one draw's product, without the masses of the asked items."""
    own, asked, pattern, waiting = event
    gaps = 0
    for k in range(pattern.size):
        gaps += not pattern[k]
    unused = np.empty(own.size, np.bool_)
    for d in range(own.size):
        unused[d] = not asked[d]
    r, j = 0, 0
    while j < gaps:
        if codes[r] == _NONE:
            return -np.inf
        if codes[r] < 0 or not asked[codes[r]]:
            remaining[j] = sizes[r]
            j += 1
            if codes[r] >= 0:
                unused[codes[r]] = False
        r += 1
    rest = left[r]
    for d in range(own.size):
        if unused[d]:
            rest += own[d]
    remaining[gaps] = rest
    for j in range(gaps - 1, -1, -1):
        remaining[j] += remaining[j + 1]
    log_value, value, j, placed = 0.0, 1.0, 0, 0
    for k in range(pattern.size):
        total = waiting[placed] + remaining[j]
        if pattern[k]:
            value /= total
            placed += 1
        else:
            value *= remaining[j] / total
            j += 1
        # One logarithm at the end, and one where the product nears the ends of float64.
        if value < 1e-150 or value > 1e150:
            log_value += np.log(value) if value > 0.0 else -np.inf
            value = 1.0
    return float(log_value + np.log(value))


@jit
def summary(sums: Floats, M: int) -> tuple[float, float]:
    """Return the log of the mean and its squared relative error.

    Draws that all agree may have missed one that does not: the error is never stated below 1 / M.
    """
    if sums[1] == 0.0:
        return -np.inf, 0.0
    mean, square = sums[1] / M, sums[2] / M
    spread = max(square / (mean * mean) - 1.0, 0.0) / max(M - 1, 1)
    return sums[0] + np.log(mean), max(spread, 1.0 / (M * M))
