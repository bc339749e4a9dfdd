"""Plackett-Luce probability of given items at a set of positions, by a programme over used free
items.

With F the items not asked for and S the free items used so far, each position divides by the mass
still there, T = (asked-for mass unplaced) + (mass of F without S). States are the sets S of one
size at a time, numbered in colexicographic order: rank(c_0 < c_1 < ..) = sum of binomial(c_h, h +
1).
"""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit
from counterrank.policies.kernels.plackett_luce import masses

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


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
    """Return values and unused masses of all sets of `size` free items from the values one size
    below.

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
