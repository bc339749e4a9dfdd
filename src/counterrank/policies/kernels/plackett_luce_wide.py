"""The subset programme in logarithms, for scores so far apart that their exponentials leave
float64.

Such policies are nearly greedy, and few free items matter: one that lies D nats below the best
`gaps` free items adds less than exp(-D) of what each path with a better item in its place does, and
is left out.
"""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit
from counterrank.policies.kernels.plackett_luce_subsets import binomials

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: Nats below the best `gaps` free items beyond which an item is left out: 1e-43 of the result.
_NEGLIGIBLE = 100.0


@jit
def subset_log_prob(
    scores: Floats, order: Ints, row_of: Ints, actions: Ints, masks: Bools, most: int
) -> Floats:
    """Return (T,) log P like its linear twin; NaN where even the items that matter make too many
    states.
    """
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
        out[t] = programme(
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
def programme(free: Floats, rest: float, asked: Floats, pattern: Bools, most: int) -> float:
    """Return log P of one set: free and asked log masses, `rest` the log mass of what is never
    used.
    """
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
            value, left = extend(value, free, rest, choose, used)
    total = -np.inf
    for s in range(value.size):
        total = np.logaddexp(total, value[s])
    return float(min(total, 0.0))


@jit
def extend(
    value: Floats, free: Floats, rest: float, choose: Ints, size: int
) -> tuple[Floats, Floats]:
    """Return log values and log unused masses of all sets of `size` free items, in colexicographic
    order.
    """
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
