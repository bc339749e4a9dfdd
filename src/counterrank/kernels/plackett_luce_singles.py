"""Plackett-Luce marginals of one item at one position, by a race of exponential clocks.

Item j rings at an exponential time of rate lam_j; b is at place k+1 when exactly k others rang before it:
P(b at k+1) = int lam_b t exp(-lam_b t) PB_k(1 - exp(-lam_j t), j != b) d log t, with PB the Poisson-binomial
probability. The trapezoid rule in log t converges geometrically.
"""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: Nats below 1/total where the integral starts: the integrand falls at least like t^2 from there.
_LEFT = 14.0


@jit
def singles(scores: Floats, actions: Ints, skip: Ints, want: Bools, per_octave: int) -> Floats:
    """Return (T, K) log P(a_k at k) where wanted, given that the first `skip` items came first; else 0.

    Scores (T or 1, A); actions (T, K); h = log(2) / per_octave. A value that underflows is -inf.
    The first place after `skip` is a prefix and only good to 1e-6 here: ask the prefix sums instead.
    """
    T, K = actions.shape
    A = scores.shape[1]
    out = np.zeros((T, K))
    slot = np.full(A, -1, np.int64)
    for i in range(T):
        row = scores[i if scores.shape[0] > 1 else 0]
        s = skip[i]
        items = np.empty(K, np.int64)
        D = 0
        for k in range(s):
            slot[actions[i, k]] = K
        for k in range(s, K):
            a = actions[i, k]
            if want[i, k] and a >= 0 and slot[a] < 0:
                slot[a] = D
                items[D] = a
                D += 1
        _row(row, (actions[i], want[i], slot), items[:D], s, (out[i], per_octave))
        for k in range(K):
            if actions[i, k] >= 0:
                slot[actions[i, k]] = -1
    return out


@jit
def _row(row: Floats, event: tuple, items: Ints, s: int, result: tuple) -> None:  # type: ignore[type-arg]
    actions, want, slot = event
    out, per_octave = result
    K, D = actions.size, items.size
    top = -np.inf
    for a in range(row.size):
        if slot[a] != K and row[a] > top:
            top = row[a]
    rest = np.empty(row.size)
    size = 0
    for a in range(row.size):
        if slot[a] < 0 and row[a] > -np.inf:
            rest[size] = np.exp(row[a] - top)
            size += 1
    rest = rest[:size]
    own = np.exp(row[items] - top)
    deepest, width = 0, 0
    for k in range(s, K):
        if want[k]:
            deepest = max(deepest, k - s)
    width = deepest + 1
    log_times = nodes(rest, own, deepest, per_octave)
    G = log_times.size
    p, q = np.empty(G), np.empty(G)
    before = np.zeros((D + 1, width, G))
    before[0, 0] = 1.0
    for j in range(size):
        ring(rest[j], log_times, per_octave, p, q)
        multiply(before[0], p, q)
    after = np.zeros((D + 1, width, G))
    after[D, 0] = 1.0
    silent = np.empty((D, G))
    for d in range(D):
        ring(own[d], log_times, per_octave, p, q)
        silent[d] = q
        before[d + 1] = before[d]
        multiply(before[d + 1], p, q)
    for d in range(D - 1, -1, -1):
        ring(own[d], log_times, per_octave, p, q)
        after[d] = after[d + 1]
        multiply(after[d], p, q)
    h = np.log(2.0) / per_octave
    for k in range(s, K):
        if want[k] and actions[k] >= 0:
            d = slot[actions[k]]
            total = 0.0
            if d < D and own[d] > 0.0:
                for g in range(G):
                    count = 0.0
                    for c in range(k - s + 1):
                        count += before[d, c, g] * after[d + 1, k - s - c, g]
                    total += own[d] * np.exp(log_times[g]) * silent[d, g] * count
            out[k] = np.log(total * h) if total > 0.0 else -np.inf


@jit
def nodes(rest: Floats, own: Floats, deepest: int, per_octave: int) -> Floats:
    """Return log t of the trapezoid: from well before the first clock to after the (deepest+1)-th at the latest.

    With at most k rung, the silent ones hold at least the mass of all but the k heaviest: that is the decay
    rate.
    """
    mass = np.sort(np.concatenate((rest, own)))
    total = mass.sum()
    rate = mass[: max(mass.size - deepest, 1)].sum()
    if own.size == 1:
        rate = max(rate, own[0])
    low = -np.log(total) - _LEFT
    high = np.log((40.0 + 2.0 * deepest) / max(rate, 1e-300))
    h = np.log(2.0) / per_octave
    G = int((high - low) / h) + 2
    log_times: Floats = low + h * np.arange(G)
    return log_times


@jit
def ring(rate: float, log_times: Floats, per_octave: int, p: Floats, q: Floats) -> None:
    """Fill p = 1 - exp(-rate t) and q = exp(-rate t) by doubling t.

    q squared from 1 would double its error every octave; it is 1 - p until p passes one half.
    """
    G = log_times.size
    for g in range(min(per_octave, G)):
        x = rate * np.exp(log_times[g])
        p[g] = -np.expm1(-x)
        q[g] = np.exp(-x)
    for g in range(per_octave, G):
        half = p[g - per_octave]
        p[g] = half * (2.0 - half)
        q[g] = 1.0 - p[g] if half < 0.5 else q[g - per_octave] * q[g - per_octave]


@jit
def multiply(counts: Floats, p: Floats, q: Floats) -> None:
    """Multiply the count polynomials (width, G) by q + p z in place: one more clock."""
    width, G = counts.shape
    for c in range(width - 1, 0, -1):
        for g in range(G):
            counts[c, g] = counts[c, g] * q[g] + counts[c - 1, g] * p[g]
    for g in range(G):
        counts[0, g] *= q[g]
