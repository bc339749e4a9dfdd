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
_LEFT = 12.0


@jit
def singles(scores: Floats, order: Ints, actions: Ints, skip: Ints, want: Bools, per_octave: int) -> Floats:
    """Return (T, K) log P(a_k at k) where wanted, given that the first `skip` items came first; else 0.

    Scores and their descending order (T or 1, A); actions (T, K); h = log(2) / per_octave. A value that underflows
    is -inf. The first place after `skip` is a prefix and only good to 1e-6 here: ask the prefix sums instead.
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
        times = nodes(mass, order[r], deepest, per_octave)
        chances(mass, slot, items[:D], times, (actions[i], want[i], skip[i], per_octave, out[i]))
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
def chances(mass: Floats, slot: Ints, items: Ints, times: Floats, event: tuple) -> None:  # type: ignore[type-arg]
    """Fill the wanted log-probabilities of one row.

    `before` counts the rings of all unlogged items and of logged ones before d, `after[d]` those from d on: their
    product leaves one item out without ever dividing it out. Of `after[d]` no more terms are formed than there are
    items from d on, or than the positions asked before d can use.
    """
    actions, want, skip, per_octave, out = event
    D, G = items.size, times.size
    reach = np.zeros(D + 1, np.int64)  # the most rings that items up to d are asked about
    width = 1
    for k in range(skip, actions.size):
        if want[k] and actions[k] >= 0:
            width = k - skip + 1
            reach[slot[actions[k]]] = k - skip
    for d in range(1, D):
        reach[d] = max(reach[d], reach[d - 1])
    p, other = np.empty(G), np.empty(G)
    own_p, own_q = np.empty((D, G)), np.empty((D, G))
    before, after = np.zeros((width, G)), np.empty((D + 1, width, G))
    terms = np.ones(D + 1, np.int64)
    for g in range(G):
        before[0, g] = after[D, 0, g] = 1.0
    held = 0.0  # unlogged items go in by twos: half the passes over `before`
    for a in range(mass.size):
        if slot[a] < 0 and mass[a] > 0.0:
            if held == 0.0:
                held = mass[a]
                continue
            ring(held, times, per_octave, p)
            ring(mass[a], times, per_octave, other)
            two_more(before, p, other)
            held = 0.0
    if held > 0.0:
        ring(held, times, per_octave, p)
        one_more(before, p)
    for d in range(D):
        ring(mass[items[d]], times, per_octave, own_p[d])
        silent(own_p[d], per_octave, own_q[d])
    for d in range(D - 1, 0, -1):
        terms[d] = min(terms[d + 1] + 1, reach[d - 1] + 1)
        multiply(after[d + 1, : terms[d + 1]], after[d, : terms[d]], own_p[d], own_q[d])
    count = np.empty(G)
    for d in range(D):
        rate = mass[items[d]]
        for k in range(skip, actions.size):
            if want[k] and actions[k] == items[d]:
                left_out(before, after[d + 1, : terms[d + 1]], k - skip, count)
                total = 0.0
                for g in range(G):
                    total += times[g] * own_q[d, g] * count[g]  # own_q = exp(-rate t)
                total *= rate * np.log(2.0) / per_octave
                out[k] = np.log(total) if total > 0.0 else -np.inf
        one_more_exactly(before, own_p[d], own_q[d])


@jit
def left_out(before: Floats, after: Floats, k: int, count: Floats) -> None:
    """Fill count (G,) with the chance of k rings among all clocks but one: sum over c of before_(k-c) after_c."""
    for g in range(count.size):
        count[g] = 0.0
    for c in range(min(k + 1, after.shape[0])):
        for g in range(count.size):
            count[g] += before[k - c, g] * after[c, g]


@jit
def nodes(mass: Floats, order: Ints, deepest: int, per_octave: int) -> Floats:
    """Return t of the trapezoid in log t (G,): from well before the first ring to after the latest that matters.

    With at most k rung, the silent ones hold at least the mass of all but the k heaviest: that is the decay rate.
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
    h = np.log(2.0) / per_octave
    G = int((np.log((40.0 + 2.0 * deepest) / rate) + np.log(total) + _LEFT) / h) + 2
    times = np.empty(G)
    for g in range(G):
        times[g] = np.exp(h * g - _LEFT) / total if g < per_octave else 2.0 * times[g - per_octave]
    return times


@jit
def ring(rate: float, times: Floats, per_octave: int, p: Floats) -> None:
    """Fill p = 1 - exp(-rate t) by doubling t: p(2t) = p (2 - p), from a series where rate t is below 1e-4."""
    G = times.size
    for g in range(min(per_octave, G)):
        x = rate * times[g]
        p[g] = x * (1.0 - x / 2.0 * (1.0 - x / 3.0 * (1.0 - x / 4.0)))
    for g in range(per_octave, G):
        p[g] = p[g - per_octave] * (2.0 - p[g - per_octave])


@jit
def silent(p: Floats, per_octave: int, q: Floats) -> None:
    """Fill q = exp(-rate t) to full relative accuracy.

    q squared from 1 would double its error every octave; it is 1 - p until p passes one half.
    """
    for g in range(q.size):
        early = g < per_octave or p[g - per_octave] < 0.5
        q[g] = 1.0 - p[g] if early else q[g - per_octave] * q[g - per_octave]


@jit
def multiply(counts: Floats, out: Floats, p: Floats, q: Floats) -> None:
    """Write the first terms of the count polynomials (terms, G) times q + p z to `out`, another array."""
    given, G = counts.shape
    for c in range(out.shape[0]):
        for g in range(G):
            out[c, g] = counts[c, g] * q[g] if c < given else 0.0
        if c > 0:
            for g in range(G):
                out[c, g] += counts[c - 1, g] * p[g]


@jit
def one_more(counts: Floats, p: Floats) -> None:
    """Multiply the count polynomials (width, G) by 1 - p + p z in place, from the top down.

    1 - p has an absolute error only. That is enough for the clock of an item that is not asked about: where it has
    almost surely rung, the case that it has not is a vanishing part of the integral. One array, not two: only then
    is it known that rows do not overlap, and the loop runs in vector lanes.
    """
    width, G = counts.shape
    for c in range(width - 1, 0, -1):
        for g in range(G):
            counts[c, g] += p[g] * (counts[c - 1, g] - counts[c, g])
    for g in range(G):
        counts[0, g] -= p[g] * counts[0, g]


@jit
def two_more(counts: Floats, p: Floats, other: Floats) -> None:
    """Multiply the count polynomials (width, G) by two such factors; `p` and `other` are used up."""
    width, G = counts.shape
    both = np.empty(G)
    for g in range(G):
        both[g] = p[g] * other[g]
        one = p[g] + other[g] - 2.0 * both[g]
        p[g] = (1.0 - p[g]) * (1.0 - other[g])
        other[g] = one
    for c in range(width - 1, 1, -1):
        for g in range(G):
            counts[c, g] = counts[c, g] * p[g] + counts[c - 1, g] * other[g] + counts[c - 2, g] * both[g]
    if width > 1:
        for g in range(G):
            counts[1, g] = counts[1, g] * p[g] + counts[0, g] * other[g]
    for g in range(G):
        counts[0, g] *= p[g]


@jit
def one_more_exactly(counts: Floats, p: Floats, q: Floats) -> None:
    """The same with q = 1 - p to full relative accuracy."""
    width, G = counts.shape
    for c in range(width - 1, 0, -1):
        for g in range(G):
            counts[c, g] = counts[c, g] * q[g] + counts[c - 1, g] * p[g]
    for g in range(G):
        counts[0, g] *= q[g]
