"""Plackett-Luce marginals of one item at one position, by a race of exponential clocks.

Item j rings at an exponential time of rate lam_j; b is at place k+1 when exactly k others rang
before it: P(b at k+1) = int lam_b t exp(-lam_b t) PB_k(1 - exp(-lam_j t), j != b) d log t, with PB
the Poisson-binomial probability. The trapezoid rule in log t converges geometrically.
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
def singles(
    scores: Floats, order: Ints, actions: Ints, skip: Ints, want: Bools, per_octave: int
) -> Floats:
    """Return (T, K) log P(a_k at k) where wanted, given that the first `skip` items came first;
    else 0.

    Scores and their descending order (T or 1, A); actions (T, K); h = log(2) / per_octave. A value
    that underflows is -inf. The first place after `skip` is a prefix and only good to 1e-6 here:
    ask the prefix sums instead.
    """
    T, K = actions.shape
    A = scores.shape[1]
    out = np.zeros((T, K))
    slot = np.full(A, -1, np.int64)
    items = np.empty(K, np.int64)
    for i in range(T):
        r = i if scores.shape[0] > 1 else 0
        for k in range(skip[i]):
            slot[actions[i, k]] = K  # K marks what is gone, -1 the unlogged, d the d-th wanted item
        D, deepest = 0, 0
        for k in range(skip[i], K):
            a = actions[i, k]
            if want[i, k] and a >= 0:
                deepest = k - skip[i]
                if slot[a] < 0:
                    slot[a] = D
                    items[D] = a
                    D += 1
        mass = remaining(scores[r], order[r], slot, K)
        log_times = nodes(mass, order[r], deepest, per_octave)
        chances(
            mass, slot, items[:D], log_times, (actions[i], want[i], skip[i], per_octave, out[i])
        )
        for k in range(K):
            if actions[i, k] >= 0:
                slot[actions[i, k]] = -1
    return out


@jit
def remaining(row: Floats, order: Ints, slot: Ints, gone: int) -> Floats:
    """Return masses (A,) relative to the heaviest item that is not gone; 0 for those that are."""
    top = -np.inf
    for a in order:
        if slot[a] != gone:
            top = row[a]
            break
    mass = np.zeros(row.size)
    for a in range(row.size):
        if slot[a] != gone:
            mass[a] = np.exp(row[a] - top)
    return mass


@jit
def chances(mass: Floats, slot: Ints, items: Ints, log_times: Floats, event: tuple) -> None:  # type: ignore[type-arg]
    """Fill the wanted log-probabilities of one row.

    `before[d]` counts the rings of all unlogged items and logged ones before d, `after[d]` those
    from d on: their product leaves one item out without ever dividing it out.
    """
    actions, want, skip, per_octave, out = event
    D, G = items.size, log_times.size
    width = 1
    for k in range(skip, actions.size):
        if want[k]:
            width = k - skip + 1
    p, q = np.empty(G), np.empty(G)
    own_p, own_q = np.empty((D, G)), np.empty((D, G))
    before, after = np.zeros((D + 1, width, G)), np.zeros((D + 1, width, G))
    for g in range(G):
        before[0, 0, g] = after[D, 0, g] = 1.0
    for a in range(mass.size):
        if slot[a] < 0 and mass[a] > 0.0:
            ring(mass[a], log_times, per_octave, p, q)
            one_more(before[0], p, q)
    for d in range(D):
        ring(mass[items[d]], log_times, per_octave, own_p[d], own_q[d])
        multiply(before[d], before[d + 1], own_p[d], own_q[d])
    for d in range(D - 1, -1, -1):
        multiply(after[d + 1], after[d], own_p[d], own_q[d])
    times, count = np.exp(log_times), np.empty(G)
    for k in range(skip, actions.size):
        if want[k] and actions[k] >= 0:
            d = slot[actions[k]]
            total = 0.0
            if d < D and mass[actions[k]] > 0.0:
                left_out(before[d], after[d + 1], k - skip, count)
                rate = mass[actions[k]]
                for g in range(G):
                    total += rate * times[g] * own_q[d, g] * count[g]  # own_q = exp(-rate t)
            out[k] = np.log(total * np.log(2.0) / per_octave) if total > 0.0 else -np.inf


@jit
def left_out(before: Floats, after: Floats, k: int, count: Floats) -> None:
    """Fill count (G,) with the chance of k rings among all clocks but one: sum over c of before_c
    after_(k-c).
    """
    for g in range(count.size):
        count[g] = 0.0
    for c in range(k + 1):
        for g in range(count.size):
            count[g] += before[c, g] * after[k - c, g]


@jit
def nodes(mass: Floats, order: Ints, deepest: int, per_octave: int) -> Floats:
    """Return log t of the trapezoid: from well before the first ring to after the latest that
    matters.

    With at most k rung, the silent ones hold at least the mass of all but the k heaviest: that is
    the decay rate.
    """
    total, rate, heavier = 0.0, 0.0, 0
    for a in order:
        heavier += mass[a] > 0.0
    for a in order[::-1]:  # lightest first
        if mass[a] > 0.0:
            heavier -= 1
            total += mass[a]
            if heavier >= deepest or rate == 0.0:
                rate = total
    low = -np.log(total) - _LEFT
    h = np.log(2.0) / per_octave
    G = int((np.log((40.0 + 2.0 * deepest) / rate) - low) / h) + 2
    log_times = np.empty(G)
    for g in range(G):
        log_times[g] = low + h * g
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
def multiply(counts: Floats, out: Floats, p: Floats, q: Floats) -> None:
    """Write the count polynomials (width, G) times q + p z, one more clock, to `out`, another
    array.
    """
    width, G = counts.shape
    for c in range(width - 1, 0, -1):
        for g in range(G):
            out[c, g] = counts[c, g] * q[g] + counts[c - 1, g] * p[g]
    for g in range(G):
        out[0, g] = counts[0, g] * q[g]


@jit
def one_more(counts: Floats, p: Floats, q: Floats) -> None:
    """Multiply the count polynomials (width, G) by q + p z in place, from the top down.

    One array, not `multiply` with the same one twice: only then is it known that rows do not
    overlap, and the loop runs in vector lanes.
    """
    width, G = counts.shape
    for c in range(width - 1, 0, -1):
        for g in range(G):
            counts[c, g] = counts[c, g] * q[g] + counts[c - 1, g] * p[g]
    for g in range(G):
        counts[0, g] *= q[g]
