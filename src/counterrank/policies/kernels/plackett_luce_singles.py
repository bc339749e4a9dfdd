"""Plackett-Luce marginals of one item at one position, by a race of exponential clocks.

Item j rings at an exponential time of rate lam_j; b is at place k+1 when exactly k others rang
before it: P(b at k+1) = int lam_b exp(-lam_b t) PB_k(1 - exp(-lam_j t), j != b) dt, with PB the
Poisson-binomial probability. One set of times serves all items and places of a row
(`times`); all terms are positive, so nothing cancels.

Many slow clocks are counted at once. With r_j = exp(lam_j t) - 1, the chance of c rings is exp(-t
sum lam) e_c(r_1, r_2, ...), e_c the elementary symmetric polynomial, which Newton's identities make
of the power sums of r, and these are series in t whose coefficients are power sums of lam. Newton's
signs alternate: that is exact only where no clock matters much beside all others, and the series
are short only where none has probably rung. Both are asked for (`light_limit`); other clocks are
counted one by one.
"""

import numpy as np

from counterrank.common.arrays import Bools, Floats, Ints
from counterrank.kernels.jit import jit, vector_jit
from counterrank.policies.kernels.plackett_luce import masses, rung

#: Nats before the first ring where the trapezoid starts: the integrand falls at least like t^2.
_LEFT = 15.5


@jit
def times(rates: tuple[float, float], deepest: int, rules) -> tuple[Floats, Floats]:  # type: ignore[no-untyped-def]
    """Return times and weights (G,): of the smallest Gauss rule that does, or of the trapezoid.

    `rates`: of the first ring of all, and the least once `deepest` have rung.
    """
    sizes, points, weights, per_octave, _ = rules
    root = np.sqrt(rates[1] / rates[0])
    falls = 2.0 * np.log((1.0 + root) / (1.0 - root))
    need = (36.7 + 1.6 * deepest) / falls + 0.26 * deepest
    for j in range(sizes.size):
        if need <= sizes[j]:
            t, weight = np.empty(sizes[j]), np.empty(sizes[j])
            for g in range(t.size):
                t[g] = points[j, g] / np.sqrt(rates[0] * rates[1])
                weight[g] = weights[j, g] / np.sqrt(rates[0] * rates[1])
            return t, weight
    step = np.log(2.0) / per_octave
    span = _LEFT + np.log((45.0 + 2.0 * deepest) * rates[0] / rates[1])
    t = np.empty(int(span / step) + 2)
    weight = np.empty(t.size)
    for g in range(t.size):
        t[g] = np.exp(step * g - np.log(rates[0]) - _LEFT)
        weight[g] = step * t[g]
    return t, weight


#: Fewer light clocks are counted one by one, as fast.
MANY = 64
#: Most that a light clock's rate times the latest time may be: with series of `TERMS` terms.
_RARE = 0.2
#: Most that k times a light clock's rate may be of all light clocks' rates together.
_SHARE = 0.1
#: Below this share of the largest, higher powers of a rate are nothing (and would underflow).
_TINY = 1e-100
#: A sum of the race below this may have lost terms to underflow.
_LEAST = 1e-250
#: Share of the mass that all but the heaviest must have: then items that underflow beside the best
#: (1e-304) are nothing beside them either.
_FAINTEST = 1e-130


@jit
def light_limit(mass: Floats, slot: Ints, latest: float, k: int) -> float:
    """Return up to which rate the unasked clocks can be counted at once; 0 where they are few."""
    limit = _RARE / latest
    for _ in range(2):
        light, together, heaviest = 0, 0.0, 0.0
        for a in range(mass.size):
            if slot[a] < 0 and 0.0 < mass[a] <= limit:
                light += 1
                together += mass[a]
                heaviest = max(heaviest, mass[a])
        if k * heaviest <= _SHARE * together:
            return limit if light >= MANY else 0.0
        limit = _SHARE * together / (2 * k)
    return 0.0


@vector_jit
def power_sums(rates: Floats, scale: float, sums: Floats) -> None:
    """Fill sums (M,) with the sum of (rate / scale)^m for m from 1 on."""
    power = np.ones(rates.size)
    for m in range(sums.size):
        total = 0.0
        for j in range(rates.size):
            power[j] *= rates[j] / scale
            total += power[j]
            power[j] = power[j] if power[j] > _TINY else 0.0
        sums[m] = total


@vector_jit
def add_light(rates: Floats, t: Floats, series: Floats, counts: Floats) -> None:
    """Write the count polynomials (width, G) of light clocks at times t (G,).

    `series` (K, M): the coefficient of x^m in (exp(x) - 1)^c at [c - 1, m - 1].
    """
    G, width, M = t.size, counts.shape[0], series.shape[1]
    scale = rates.max()
    sums, power = np.empty(M), np.zeros((width, G))
    power_sums(rates, scale, sums)
    for g in range(G):
        counts[0, g] = np.exp(-sums[0] * scale * t[g])
    for c in range(1, width):
        for m in range(M - 1, -1, -1):
            factor = series[c - 1, m] * sums[m]
            for g in range(G):
                power[c, g] = (power[c, g] + factor) * (scale * t[g])
        for j in range(1, c + 1):
            sign = (1.0 if j % 2 else -1.0) / c
            for g in range(G):
                counts[c, g] += sign * power[j, g] * counts[c - j, g]


@jit
def singles(scores: Floats, actions: Ints, want: Bools, rules) -> Floats:  # type: ignore[no-untyped-def]
    """Return (T, K) log P(a_k at k) where wanted, else 0.

    Scores (T, A); actions and want (T, K): items that can stand there, at no first place. NaN where
    some place is left to items so light that they underflow.
    """
    T, K = actions.shape
    out, slot = np.zeros((T, K)), np.full(scores.shape[1], -1, np.int64)
    items, heaviest = np.empty(K, np.int64), np.empty(K)
    for i in range(T):
        D, deepest = 0, 0
        for k in range(K):
            if want[i, k]:
                deepest = k
                if slot[actions[i, k]] < 0:
                    slot[actions[i, k]], items[D] = D, actions[i, k]
                    D += 1
        mass, top = masses(scores[i])
        rates = slowest(mass, deepest, heaviest)
        resolved = rates[1] > _FAINTEST * rates[0]
        if resolved:
            question = actions[i], want[i], deepest + 1, out[i]
            race(mass, slot, items[:D], times(rates, deepest, rules), rules[4], question)
        for k in range(K):
            if want[i, k]:
                log_rate = scores[i, actions[i, k]] - top
                out[i, k] = out[i, k] + log_rate if resolved else np.nan
        for d in range(D):
            slot[items[d]] = -1
    return out


@jit
def slowest(mass: Floats, k: int, heaviest: Floats) -> tuple[float, float]:
    """Return the mass of all items, and of all but the k heaviest.

    The rate at which something rings at first, and the least rate at which it still does once k
    items are gone. Masses are added, never taken away, so that nothing cancels.
    """
    lighter_total = 0.0
    for j in range(k):
        heaviest[j] = 0.0
    for a in range(mass.size):
        lighter = mass[a]
        if mass[a] > heaviest[0]:  # the least of them stands first
            lighter, j = heaviest[0], 0
            while j + 1 < k and heaviest[j + 1] < mass[a]:
                heaviest[j] = heaviest[j + 1]
                j += 1
            heaviest[j] = mass[a]
        lighter_total += lighter
    total = lighter_total
    for j in range(k):
        total += heaviest[j]
    return total, lighter_total


@jit
def race(mass: Floats, slot: Ints, items: Ints, when, series: Floats, question) -> None:  # type: ignore[no-untyped-def]
    """Fill the log of P(a_k at k) / mass of a_k where asked, NaN where it underflows.

    `before[d]` counts the rings of all unasked items and asked ones before d, `after[d]` those
    behind d: their product leaves one item out without ever dividing it out.
    """
    t, weight = when
    actions, queried, width, out = question
    D, G = items.size, t.size
    p, q, room = np.empty((D, G)), np.empty((D, G)), np.empty(G)
    bits, before, after = room.view(np.int64), np.zeros((D, width, G)), np.zeros((D, width, G))
    unasked, rates, light, heavy = np.zeros((2, width, G)), np.empty(mass.size), 0, 0
    for g in range(G):
        unasked[0, 0, g] = after[D - 1, 0, g] = 1.0
    limit = light_limit(mass, slot, t[G - 1], width - 1)
    for a in range(mass.size):
        if slot[a] < 0 and 0.0 < mass[a] <= limit:
            rates[light] = mass[a]
            light += 1
    if light:
        add_light(rates[:light], t, series, unasked[0])
    for a in range(mass.size):
        if slot[a] < 0 and mass[a] > limit:
            rung(t, -mass[a], p[0], q[0], room, bits)
            multiply(unasked[heavy % 2], p[0], q[0], unasked[(heavy + 1) % 2])
            heavy += 1
    for c in range(width):
        for g in range(G):
            before[0, c, g] = unasked[heavy % 2, c, g]
    for d in range(D):
        rung(t, -mass[items[d]], p[d], q[d], room, bits)
    for d in range(1, D):
        multiply(before[d - 1], p[d - 1], q[d - 1], before[d])
        multiply(after[D - d], p[D - d], q[D - d], after[D - d - 1])
    for k in range(width):
        if queried[k]:
            d = slot[actions[k]]
            integral = left_out(before[d], after[d], k, D - 1 - d, q[d], weight)
            out[k] = np.log(integral) if integral > _LEAST else np.nan


@vector_jit
def multiply(counts: Floats, p: Floats, q: Floats, out: Floats) -> None:
    """Write the count polynomials (width, G) times q + p z, one more clock, to `out`, another array."""
    width, G = counts.shape
    for g in range(G):
        out[0, g] = counts[0, g] * q[g]
    for c in range(1, width):
        for g in range(G):
            out[c, g] = counts[c, g] * q[g] + counts[c - 1, g] * p[g]


@vector_jit
def left_out(
    before: Floats, after: Floats, k: int, degree: int, q: Floats, weight: Floats
) -> float:
    """Return the sum over times of weight times the chance that one item has not rung and k of all others have.

    Sum over c of before_(k-c) after_c, where `after` is of some degree.
    """
    total = 0.0
    for c in range(min(k, degree) + 1):
        for g in range(q.size):
            total += before[k - c, g] * after[c, g] * (q[g] * weight[g])
    return total
