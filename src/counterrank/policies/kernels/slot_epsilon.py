"""Per-slot epsilon-greedy without replacement: prefixes, sets of positions, draws.

Everything is said in ranks: rank 0 is the greedy favourite. At a slot with R items left, the best
of them is shown with probability 1 - epsilon and each of them with epsilon / R.

For a set of positions, free items matter only through how many are used between consecutive asked
items in rank order, and only in classes that can be used up before the last asked position: those
whose cumulated size does not exceed the free positions. The state is the number used in each such
class.
"""

import numpy as np

from counterrank.common.arrays import Floats, Ints
from counterrank.kernels.jit import jit


@jit
def prefix_log_prob(ranks: Ints, available: Ints, epsilon: float) -> Floats:
    """Return (n, K) cumulated log-probabilities of items given by rank (n, K); -1 is padding, -2 impossible."""
    n, K = ranks.shape
    out = np.zeros((n, K))
    for i in range(n):
        total = 0.0
        for k in range(K):
            rank = ranks[i, k]
            if rank != -1 and total > -np.inf:
                # An item is the greedy choice when every better one has been shown: as many as its
                # rank.
                better, twice = 0, False
                for j in range(k):
                    better += 0 <= ranks[i, j] < rank
                    twice = twice or ranks[i, j] == rank
                chance = epsilon / max(available[i] - k, 1) + (1.0 - epsilon) * (better == rank)
                total += np.log(chance) if rank >= 0 and not twice and chance > 0.0 else -np.inf
            out[i, k] = total
    return out


@jit
def subset_log_prob(
    ranks: Ints, ordered: Ints, available: Ints, epsilon: float, max_states: int
) -> Floats:
    """Return (T,) log P for ranks (T, K), -1 where nothing is asked; NaN above `max_states` states.

    `ordered` (T, K) has the asked ranks in ascending order first, `available` (T,) the items there are.
    """
    T, K = ranks.shape
    out = np.empty(T)
    for t in range(T):
        last, m = 0, 0
        for k in range(K):
            if ranks[t, k] >= 0:
                last, m = k + 1, m + 1
        out[t] = programme(ranks[t, :last], ordered[t, :m], available[t], epsilon, max_states)
    return out


@jit
def programme(
    ranks: Ints, fixed_ranks: Ints, available: int, epsilon: float, max_states: int
) -> float:
    """Return log P of one set: ranks (last,) end at its last asked position."""
    last, m = ranks.size, fixed_ranks.size
    sizes, strides, states = classes(fixed_ranks, available, last - m)
    C = sizes.size
    if states > max_states:
        return np.nan
    other_items = available - m
    for c in range(C):
        other_items -= sizes[c]
    placed = np.zeros(m, np.bool_)
    value = np.zeros(states)
    value[0] = 1.0
    log_scale, used = 0.0, 0
    for k in range(last):
        uniform = epsilon / (available - k)
        if ranks[k] >= 0:
            f = 0
            while fixed_ranks[f] != ranks[k]:
                f += 1
            first = f < C
            for c in range(f):
                first = first and placed[c]
            # It is the best item left where the classes 0..f are used up: their digits are at the top.
            digits = strides[f] * (sizes[f] + 1) if first else 1
            for s in range(states):
                greedy = first and s % digits == digits - 1
                value[s] *= uniform + (1.0 - epsilon if greedy else 0.0)
            placed[f] = True
        else:
            value = spread(value, (sizes, strides, other_items, placed), used, uniform, epsilon)
            used += 1
        total = 0.0
        for s in range(states):
            total += value[s]
        if total == 0.0:
            return -np.inf
        # A product over many slots at a small epsilon underflows: what is divided out is kept as a
        # logarithm.
        for s in range(states):
            value[s] /= total
        log_scale += np.log(total)
    return float(log_scale)


@jit
def classes(fixed_ranks: Ints, available: int, gaps: int) -> tuple[Ints, Ints, int]:
    """Return sizes and strides of the classes that can be used up, and the number of states."""
    sizes = np.empty(fixed_ranks.size + 1, np.int64)
    C, total, before = 0, 0, -1
    for c in range(fixed_ranks.size + 1):
        bound = fixed_ranks[c] if c < fixed_ranks.size else available
        size = bound - before - 1
        if total + size > gaps:
            break
        sizes[C] = size
        total += size
        before = bound
        C += 1
    strides = np.empty(C, np.int64)
    states = 1
    for c in range(C):
        strides[c] = states
        states *= sizes[c] + 1
    return sizes[:C], strides, states


@jit
def spread(value: Floats, shape: tuple, used: int, uniform: float, epsilon: float) -> Floats:  # type: ignore[type-arg]
    """Return the values after one more free item: any class by chance, or the best item left if it is free."""
    sizes, strides, other_items, placed = shape
    C = sizes.size
    new = np.zeros(value.size)
    for s in range(value.size):
        v = value[s]
        if v == 0.0:
            continue
        tracked = 0
        # class holding the best item left; C = a class never used up; -1 = an asked item is best
        best = C
        searching = True
        for c in range(C):
            count = (s // strides[c]) % (sizes[c] + 1)
            tracked += count
            if count < sizes[c]:
                new[s + strides[c]] += v * uniform * (sizes[c] - count)
                if searching:
                    best, searching = c, False
            if searching and c < placed.size and not placed[c]:
                best, searching = -1, False
        left = other_items - (used - tracked)
        if left > 0:
            new[s] += v * uniform * left
        if 0 <= best < C:
            new[s + strides[best]] += v * (1.0 - epsilon)
        elif best == C and left > 0:
            new[s] += v * (1.0 - epsilon)
    return new


@jit
def sample(available: Ints, uniforms: Floats, epsilon: float) -> Ints:
    """Return (n, S, K) drawn ranks, -1 once no item is left; uniforms (n, S, K, 2)."""
    n, S, K, _ = uniforms.shape
    out = np.full((n, S, K), -1, np.int64)
    drawn = np.empty(K, np.int64)  # ascending
    for i in range(n):
        for s in range(S):
            for k in range(min(K, available[i])):
                skip = 0
                if uniforms[i, s, k, 0] < epsilon:
                    skip = min(int(uniforms[i, s, k, 1] * (available[i] - k)), available[i] - k - 1)
                # The rank with `skip` free ones before it, by a walk over the drawn ones below it.
                j = 0
                while j < k and drawn[j] <= skip + j:
                    j += 1
                rank = skip + j
                for h in range(k, j, -1):
                    drawn[h] = drawn[h - 1]
                drawn[j] = rank
                out[i, s, k] = rank
    return out
