"""Plackett-Luce probability of given items at a set of positions, by a programme over used free items.

With F the items not asked for and S the free items used so far, each position divides by the mass
still there, T = (asked-for mass unplaced) + (mass of F without S). States are the sets S of one
size at a time, numbered in colexicographic order: rank(c_0 < c_1 < ..) = sum of binomial(c_h, h +
1). An item that lies D nats below the best `gaps` free items adds less than exp(-D) of what each path
with a better item in its place does, and is never used.

Scores so far apart that their exponentials leave float64 (`wide`) run the same programme with
logarithms of values and masses.

What makes too many states is sampled (`sampled_log_prob`): given the order of the free items, P(L) is a
product, lam_a / T where an asked item stands, (free mass) / T where a free one does. The mean of the
products over draws of that order is unbiased, each in [0, 1].
"""

import numpy as np

from counterrank.common.arrays import Bools, Floats, Ints
from counterrank.kernels.hashing import STEP, mix
from counterrank.kernels.jit import jit
from counterrank.policies.kernels.plackett_luce import build_tree, find, masses, set_leaf

#: Scores further apart than this leave the range of float64 once exponentiated.
MAX_SPAN = 650.0
#: Nats below the best `gaps` free items beyond which an item is never used: 1e-43 of the result.
_NEGLIGIBLE = 100.0


@jit
def subset_log_prob(
    scores: Floats, order: Ints, row_of: Ints, actions: Ints, masks: Bools, max_states: int
) -> Floats:
    """Return (T,) log P(masked items at their positions).

    Where it takes more than `max_states` states: NaN, or inf if scores are too wide apart to be sampled.
    Scores (n, A) and their descending order (n, A) by row_of (T,); actions (T, K); masks (T, K)
    with a gap, distinct items, none of score -inf.
    """
    T, K = actions.shape
    A = scores.shape[1]
    out = np.empty(T)
    fixed = np.zeros(A, np.bool_)
    fixed_scores, free = np.empty(K), np.empty(A)
    for t in range(T):
        best_first = order[row_of[t]]
        row, top = scores[row_of[t]], scores[row_of[t], best_first[0]]
        last, size, N, lowest = 0, 0, 0, top
        for k in range(K):
            if masks[t, k]:
                fixed[actions[t, k]] = True
                fixed_scores[size] = row[actions[t, k]] - top
                last, size = k + 1, size + 1
        for a in best_first:
            if row[a] > -np.inf:
                lowest = row[a]
                if not fixed[a]:
                    free[N] = row[a] - top
                    N += 1
        wide = top - lowest > MAX_SPAN
        out[t] = programme(free[:N], fixed_scores[:size], masks[t, :last], max_states, wide)
        if wide and np.isnan(out[t]):
            out[t] = np.inf
        for k in range(last):
            if masks[t, k]:
                fixed[actions[t, k]] = False
    return out


@jit
def programme(
    free: Floats, fixed_scores: Floats, pattern: Bools, max_states: int, wide: bool
) -> float:
    """Return log P of one set: log masses of free items in descending order and of asked ones by position.

    `pattern` is True where an asked item stands.
    """
    gaps = pattern.size - fixed_scores.size
    if free.size < gaps:
        return -np.inf
    used, states, term = gaps, 1.0, 1.0
    while used < free.size and free[used] > free[gaps - 1] - _NEGLIGIBLE:
        used += 1
    for j in range(1, gaps + 1):
        term *= (used - j + 1) / j
        states += term
    if states > max_states:
        return np.nan
    # Row r: mass relative to that of the r-th free item, the best that is left where the r first are
    # used. What others take away from the sum is never all of it.
    share, tail = np.zeros((gaps + 1, used)), np.zeros(gaps + 1)
    for r in range(min(gaps + 1, free.size)):
        for c in range(free.size - 1, r - 1, -1):
            relative = np.exp(free[c] - free[r])
            tail[r] += relative
            if c < used:
                share[r, c] = relative
    waiting = np.full(fixed_scores.size + 1, -np.inf)
    for j in range(fixed_scores.size - 1, -1, -1):
        waiting[j] = np.logaddexp(waiting[j + 1], fixed_scores[j])
    log_value, level = 0.0, np.full(used + 1, -np.inf)
    for c in range(used):
        level[c] = free[c] if wide else np.exp(free[c])
    if not wide:
        waiting, level[used] = np.exp(waiting), 0.0
    choose = binomials(used, gaps)
    value, left = np.zeros(1), np.empty(1)
    value[0] = 0.0 if wide else 1.0
    left[0] = level[0] + np.log(tail[0]) if wide else level[0] * tail[0]
    placed, size = 0, 0
    for k in range(pattern.size):
        top = 0.0
        for s in range(value.size):
            if wide:
                value[s] -= np.logaddexp(waiting[placed], left[s])
            else:
                value[s] /= waiting[placed] + left[s]
                top = max(top, value[s])
        if not wide:
            # Scaled anew at each position: the product of 1 / T over many would leave float64.
            for s in range(value.size):
                value[s] /= top
            log_value += np.log(top)
        if pattern[k]:
            log_value += fixed_scores[placed]
            placed += 1
        else:
            size += 1
            value, left = extend(value, (level, share, tail, choose), size, wide)
    total = -np.inf if wide else 0.0
    for s in range(value.size):
        total = np.logaddexp(total, value[s]) if wide else total + value[s]
    return float(min(log_value + (total if wide else np.log(total)), 0.0))


@jit
def extend(value: Floats, items: tuple, size: int, wide: bool) -> tuple[Floats, Floats]:  # type: ignore[type-arg]
    """Return values and unused masses of all sets of `size` free items from the values one size below."""
    level, share, tail, choose = items
    states = choose[choose.shape[0] - 1, size]
    new, left = np.empty(states), np.empty(states)
    c = np.arange(size)
    for s in range(states):
        behind, first = 0, 0
        for h in range(1, size):
            behind += choose[c[h], h]
        while first < size and c[first] == first:
            first += 1
        unused_share = tail[first]
        below, total = 0, -np.inf if wide else 0.0
        for h in range(size):
            before = value[below + behind]
            if wide:
                total = np.logaddexp(total, level[c[h]] + before)
            else:
                total += level[c[h]] * before
            below += choose[c[h], h + 1]
            if h + 1 < size:
                behind -= choose[c[h + 1], h + 1]
            if h >= first:
                unused_share -= share[first, c[h]]
        new[s] = total
        left[s] = level[first] + np.log(unused_share) if wide else level[first] * unused_share
        h = 0
        while h < size - 1 and c[h] + 1 == c[h + 1]:
            c[h] = h
            h += 1
        c[h] += 1
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


_FIRST = 32
_S11 = np.uint64(11)


@jit
def sampled_log_prob(
    scores: Floats, row_of: Ints, actions: Ints, masks: Bools, limits: tuple[float, int, int]
) -> tuple[Floats, Floats]:
    """Return (T,) log-probabilities and squared relative errors.

    Draws double from 32 until they reach the relative error `rtol`, or `max_draws` draws; limits = (rtol,
    most, seed). They are a function of the row's content, the set and the seed: equal rows draw alike,
    wherever and in whatever chunk they stand.
    """
    rtol, max_draws, seed = limits
    T, K = actions.shape
    log_prob, rel_var = np.empty(T), np.empty(T)
    values, fixed_mass, waiting = np.empty(max_draws), np.empty(K), np.zeros(K + 1)
    for t in range(T):
        row, items, mask = scores[row_of[t]], actions[t], masks[t]
        mass, _ = masses(row)
        key = mix(np.uint64(seed))
        for word in row.view(np.uint64):
            key = mix(key ^ word)
        for k in range(K):
            key = mix(key ^ np.uint64(items[k] + 1 if mask[k] else 0))
        for k in range(K - 1, -1, -1):
            fixed_mass[k] = 0.0
            if mask[k]:
                fixed_mass[k], mass[items[k]] = mass[items[k]], 0.0
            waiting[k] = waiting[k + 1] + fixed_mass[k]
        tree = build_tree(mass)
        have, goal = 0, min(_FIRST, max_draws)
        while have < goal:
            for m in range(have, goal):
                values[m] = product(tree, mass, fixed_mass, waiting, mix(key + np.uint64(m) * STEP))
            log_prob[t], rel_var[t] = summary(values[:goal])
            have = goal
            if rel_var[t] > rtol * rtol:
                goal = min(2 * goal, max_draws)
    return log_prob, rel_var


@jit
def product(
    tree: Floats, mass: Floats, fixed_mass: Floats, waiting: Floats, stream: np.uint64
) -> float:
    """Return the log of the product for one drawn order of the free items; the tree is left as it was.

    `fixed_mass` (K,): the mass of what is asked for at each position, zero in a gap; `waiting` (K + 1,): their
    sums from each position on.
    """
    picked = np.empty(fixed_mass.size, np.int64)
    value, drawn = 0.0, 0
    for k in range(fixed_mass.size):
        if waiting[k] == 0.0:
            break
        total = waiting[k] + tree[1]
        if fixed_mass[k] > 0.0:
            value += np.log(fixed_mass[k] / total)
        elif tree[1] == 0.0:
            value = -np.inf
            break
        else:
            value += np.log(tree[1] / total)
            # 53 bits, all that a float64 in [0, 1) holds.
            uniform = float(mix(stream + np.uint64(k) * STEP) >> _S11) * 2.0**-53
            picked[drawn] = find(tree, uniform * tree[1])
            set_leaf(tree, picked[drawn], 0.0)
            drawn += 1
    for j in range(drawn):
        set_leaf(tree, picked[j], mass[picked[j]])
    return value


@jit
def summary(values: Floats) -> tuple[float, float]:
    """Return the log of the mean of exp(values) and its squared relative error.

    Draws that all agree may have missed one that does not: the error is never stated below 1 / M.
    """
    M, top, mean, square = values.size, values.max(), 0.0, 0.0
    if top == -np.inf:
        return -np.inf, 0.0
    for value in values:
        ratio = np.exp(value - top)
        mean += ratio / M
        square += ratio * ratio / M
    spread = max(square / (mean * mean) - 1.0, 0.0) / max(M - 1, 1)
    return top + np.log(mean), max(spread, 1.0 / (M * M))
