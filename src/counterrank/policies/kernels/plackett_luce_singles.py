"""Plackett-Luce marginals of one item at one position, by a race of exponential clocks.

Item j rings at an exponential time of rate lam_j; b is at place k+1 when exactly k others rang
before it: P(b at k+1) = int lam_b exp(-lam_b t) PB_k(1 - exp(-lam_j t), j != b) dt, with PB the
Poisson-binomial probability. One set of times serves all items and places of a row
(`policies.plackett_luce.clock_rules` says which); all terms are positive, so nothing cancels.

Many slow clocks are counted at once. With r_j = exp(lam_j t) - 1, the chance of c rings is exp(-t
sum lam) e_c(r_1, r_2, ...), e_c the elementary symmetric polynomial, which Newton's identities make
of the power sums of r, and these are series in t whose coefficients are power sums of lam. Newton's
signs alternate: that is exact only where no clock matters much beside all others, and the series
are short only where none has probably rung. Both are asked for (`sort_by_weight`); other clocks are
counted one by one.
"""

import numpy as np

from counterrank.arrays import Bools, Floats, Ints
from counterrank.kernels.jit import jit, vector_jit
from counterrank.policies.kernels.plackett_luce import LOWEST, highest, rung, total_of

#: Nats before the first ring where the trapezoid starts: the integrand falls at least like t^2.
_LEFT = 15.5


@jit
def rule_for(rates: tuple[float, float], deepest: int, rules) -> tuple[int, int]:  # type: ignore[no-untyped-def]
    """Return which Gauss rule to take, or -1 for the trapezoid, and its number of times.

    `rates`: of the first ring of all, and the least once `deepest` have rung.
    """
    sizes, _, _, per_octave, _ = rules
    root = np.sqrt(rates[1] / rates[0])
    need = np.inf
    if root < 1.0:
        rate = 2.0 * np.log((1.0 + root) / (1.0 - root))
        need = (36.7 + 1.6 * deepest) / rate + 0.26 * deepest
    elif root == 1.0:
        need = 1.0
    for j in range(sizes.size):
        if need <= sizes[j]:
            return j, sizes[j]
    span = _LEFT + np.log((45.0 + 2.0 * deepest) * rates[0] / rates[1])
    return -1, int(span * per_octave / np.log(2.0)) + 2


@jit
def fill_times(rates: tuple[float, float], which: int, rules, t: Floats, weight: Floats) -> None:  # type: ignore[no-untyped-def]
    """Fill times and weights (G,) of a rule."""
    _, points, weights, per_octave, _ = rules
    if which >= 0:
        rate = np.sqrt(rates[0] * rates[1])
        for g in range(t.size):
            t[g] = points[which, g] / rate
            weight[g] = weights[which, g] / rate
    else:
        step = np.log(2.0) / per_octave
        low = -np.log(rates[0]) - _LEFT
        for g in range(t.size):
            t[g] = np.exp(low + step * g)
            weight[g] = step * t[g]


#: Fewer light clocks are counted one by one, as fast.
MANY = 32
#: Most that a light clock's rate times the latest time may be: with series of `TERMS` terms.
_RARE = 0.2
#: Most that k times a light clock's rate may be of all light clocks' rates together.
_SHARE = 0.1
#: Below this share of the largest, a rate's higher powers are nothing (and would underflow).
_TINY = 1e-15


@jit
def sort_by_weight(
    mass: Floats, slot: Ints, ends: tuple[float, float], k: int, others: Floats
) -> tuple[int, int]:
    """Fill `others` with the unasked clocks' rates, light ones first; return how many of both.

    `ends`: the sum of these rates, and the latest time.
    """
    limit = min(_RARE / ends[1], _SHARE * ends[0] / k) if mass.size > MANY else 0.0
    for attempt in range(3):
        light, heavy, together, most, end = 0, 0, 0.0, 0.0, others.size
        for a in range(mass.size):
            if slot[a] < 0 and mass[a] > 0.0:
                if mass[a] <= limit:
                    others[light] = mass[a]
                    together += mass[a]
                    most = max(most, mass[a])
                    light += 1
                else:
                    heavy += 1
                    others[end - heavy] = mass[a]
        for j in range(heavy):
            others[light + j] = others[end - heavy + j]
        if light < MANY or k * most <= _SHARE * together:
            break
        limit = most / 2.0 if attempt == 0 else 0.0
    return light, heavy


@vector_jit
def power_sums(rates: Floats, scale: float, sums: Floats) -> None:
    """Fill sums (M,) with the sum of (rate / scale)^m for m from 1 on, four of them a pass."""
    n = rates.size
    y, power = np.empty(n), np.empty(n)
    total, unit = 0.0, 1.0 / scale
    for j in range(n):
        y[j] = rates[j] * unit
        power[j] = y[j]
        total += y[j]
        if y[j] < _TINY:
            y[j] = power[j] = 0.0
    for m in range(0, sums.size, 4):
        s1 = s2 = s3 = s4 = 0.0
        for j in range(n):
            own, square = power[j], y[j] * y[j]
            s1 += own
            s2 += own * y[j]
            s3 += own * square
            s4 += own * square * y[j]
            power[j] = own * square * square
        sums[m], sums[m + 1], sums[m + 2], sums[m + 3] = s1, s2, s3, s4
    sums[0] = total


@vector_jit
def add_light(rates: Floats, t: Floats, series: Floats, counts: Floats) -> None:
    """Write the count polynomials (4 + width, G) of light clocks at times t (G,).

    `series` (K, M): the coefficient of x^m in (exp(x) - 1)^c at [c - 1, m - 1].
    """
    G, width, M = t.size, counts.shape[0] - 4, series.shape[1]
    scale = 0.0
    for j in range(rates.size):
        scale = max(scale, rates[j])
    sums, power = np.empty(M), np.zeros((width, G))
    power_sums(rates, scale, sums)
    for g in range(G):
        counts[4, g] = np.exp(-sums[0] * scale * t[g])
    for c in range(1, width):
        for m in range(M - 1, min(c, M) - 2, -1):
            factor = series[c - 1, m] * sums[m]
            for g in range(G):
                power[c, g] = (power[c, g] + factor) * (scale * t[g])
        for _ in range(c - 1):
            for g in range(G):
                power[c, g] *= scale * t[g]
        for g in range(G):
            counts[c + 4, g] = 0.0
        for j in range(1, c + 1):
            sign = (1.0 if j % 2 else -1.0) / c
            for g in range(G):
                counts[c + 4, g] += sign * power[j, g] * counts[c + 4 - j, g]


#: A sum of the race below this may have lost terms to underflow.
_LEAST = 1e-250
#: Share of the mass that all but the heaviest must have: then items that underflow beside the best
#: (1e-304) are nothing beside them either.
_FAINTEST = 1e-130


@jit
def singles(  # type: ignore[no-untyped-def] # a tuple of arrays
    scores: Floats,
    row_of: Ints,
    actions: Ints,
    skip: Ints,
    want: Bools,
    rules,
    small: int,
) -> Floats:
    """Return (T, K) log P(a_k at k) where wanted, given that the first `skip` items came first; else 0.

    Row t is of scores[row_of[t]]; actions (T, K); skip (T or 1,) and want (T or 1, K). NaN
    stands for what the programmes answer: rows of no more than `small` states, and those where
    some place is left to items so light that they underflow. Impossible: -inf.
    """
    T, K = actions.shape
    A = scores.shape[1]
    out = np.zeros((T, K))
    slot = np.full(A, -1, np.int64)
    items, heaviest = np.empty(K, np.int64), np.empty(K)
    mass, others = np.empty(A), np.empty(A + 4)
    x, spare, power = np.empty(A), np.empty(A), np.empty(A)
    bits = power.view(np.int64)
    for i in range(T):
        row, asked = scores[row_of[i]], want[i if want.shape[0] > 1 else 0]
        first = skip[i if skip.size > 1 else 0]
        for k in range(first):
            slot[actions[i, k]] = K  # K marks what is gone, -1 the unasked, d the d-th asked item
        D, last = 0, -1
        for k in range(first, K):
            a = actions[i, k]
            if asked[k] and a >= 0:
                last = k
                if k > first and slot[a] < 0:
                    slot[a] = D
                    items[D] = a
                    D += 1
        available = 0
        for a in range(A):
            here = slot[a] != K and row[a] > -np.inf
            x[a] = row[a] if here else -np.inf
            available += here
        top = highest(x)
        deepest = min(last - first, available - 1)
        rates = (1.0, 0.0)
        if last >= first and available > 0 and states(available - 1, deepest) > small:
            for a in range(A):
                x[a] -= top
            rung(x, spare, mass, power, bits)
            for a in range(A):
                mass[a] = mass[a] if x[a] > LOWEST else 0.0
            rates = slowest(mass, deepest, heaviest)
        if rates[1] > _FAINTEST * rates[0]:
            which, G = rule_for(rates, deepest, rules)
            t, weight = np.empty(G), np.empty(G)
            fill_times(rates, which, rules, t, weight)
            race(mass, slot, others, (t, weight, rates[0], rules[4]), items[:D],
                 (actions[i], asked, first, deepest + 1, out[i]))  # fmt: skip
            for k in range(first, last + 1):
                a = actions[i, k]
                if asked[k] and a >= 0:
                    fits = row[a] > -np.inf and k - first < available and slot[a] != K
                    out[i, k] = out[i, k] + row[a] - top if fits else -np.inf
        else:
            for k in range(first, K):
                if asked[k] and actions[i, k] >= 0:
                    out[i, k] = np.nan
        for k in range(K):
            if actions[i, k] >= 0:
                slot[actions[i, k]] = -1
    return out


@jit
def states(free: int, gaps: int) -> float:
    """Return the number of sets of at most `gaps` of `free` items."""
    term, total = 1.0, 1.0
    for j in range(1, gaps + 1):
        term *= (free - j + 1) / j
        total += term
    return total


@jit
def slowest(mass: Floats, k: int, heaviest: Floats) -> tuple[float, float]:
    """Return the mass of all items, and of all but the k heaviest.

    The rate at which something rings at first, and the least rate at which it still does once k
    items are gone.
    """
    for j in range(k):
        heaviest[j] = 0.0
    total = total_of(mass)
    for a in range(mass.size):
        if k > 0 and mass[a] > heaviest[0]:  # the least of them stands first
            j = 0
            while j + 1 < k and heaviest[j + 1] < mass[a]:
                heaviest[j] = heaviest[j + 1]
                j += 1
            heaviest[j] = mass[a]
    if k == 0:
        return total, total
    rest, above = 0.0, 0
    for a in range(mass.size):
        if mass[a] < heaviest[0]:
            rest += mass[a]
        else:
            above += 1
    return total, rest + (above - k) * heaviest[0]


@jit
def race(mass: Floats, slot: Ints, others: Floats, when: tuple, items: Ints, event: tuple) -> None:  # type: ignore[type-arg]
    """Fill the log of P(b at k) / mass of b where asked, NaN where it underflows.

    `before[d]` counts the rings of all unasked items and asked ones before d, `after` those from
    d on: their product leaves one item out without ever dividing it out.
    """
    t, weight, total, series = when
    actions, asked, first, width, out = event
    if asked[first] and actions[first] >= 0:
        out[first] = -np.log(total)
    D, G = items.size, t.size
    if D == 0:
        return
    counts = np.zeros((width + 4, G))  # four rows of zeros, then the chance of c rings at row c + 4
    for g in range(G):
        counts[4, g] = 1.0
    rest = total
    for d in range(D):
        rest -= mass[items[d]]
    light, heavy = sort_by_weight(mass, slot, (rest, t[G - 1]), width - 1, others)
    if light >= MANY:
        add_light(others[:light], t, series, counts)
        count_rings(others[light : light + heavy], t, counts)
    else:
        count_rings(others[: light + heavy], t, counts)
    own = np.empty(4 * ((D + 3) // 4))
    for d in range(own.size):
        own[d] = mass[items[d]] if d < D else 0.0
    p, q = np.empty((own.size, G)), np.empty((own.size, G))
    x, power = np.empty(4 * G), np.empty(4 * G)
    for d in range(0, own.size, 4):
        four_clocks(own[d : d + 4], t, p[d : d + 4].reshape(4 * G), q[d : d + 4].reshape(4 * G), x, power)  # fmt: skip
    before = np.empty((D, width, G))
    for c in range(width):
        for g in range(G):
            before[0, c, g] = counts[c + 4, g]
    for d in range(D - 1):
        multiply(before[d], before[d + 1], p[d], q[d])
    after = np.zeros((width, G))
    for g in range(G):
        after[0, g] = 1.0
    for d in range(D - 1, -1, -1):
        for k in range(first + 1, min(first + width, actions.size)):
            if asked[k] and actions[k] == items[d]:
                found = left_out(before[d], after, k - first, D - 1 - d, q[d], weight)
                out[k] = np.log(found) if found > _LEAST else np.nan
        if d > 0:
            one_more(after, p[d], q[d], min(D - d, width - 1))


@jit
def count_rings(rates: Floats, t: Floats, counts: Floats) -> None:
    """Multiply the count polynomials by q + p z for each clock, four of them at a time."""
    G = t.size
    p, q, x, power = np.empty(4 * G), np.empty(4 * G), np.empty(4 * G), np.empty(4 * G)
    w, four = np.empty((5, G)), np.empty(4)
    for j in range(0, rates.size, 4):
        for i in range(4):
            four[i] = rates[j + i] if j + i < rates.size else 0.0  # never rings
        four_clocks(four, t, p, q, x, power)
        four_more(p.reshape(4, G), q.reshape(4, G), w, counts)


@jit
def four_clocks(rates: Floats, t: Floats, p: Floats, q: Floats, x: Floats, power: Floats) -> None:
    """Fill the chances of having rung, and of not, of four clocks at all times: (4 G,)."""
    G = t.size
    for i in range(4):
        for g in range(G):
            x[i * G + g] = -rates[i] * t[g]
    rung(x, p, q, power, power.view(np.int64))


@vector_jit
def four_more(p: Floats, q: Floats, w: Floats, counts: Floats) -> None:
    """Multiply the count polynomials (4 + width, G) by those of four clocks (4, G).

    Four at a time, so that a number is read and written once for all of them.
    """
    G = counts.shape[1]
    for g in range(G):
        a0, a1, a2 = q[0, g] * q[1, g], p[0, g] * q[1, g] + q[0, g] * p[1, g], p[0, g] * p[1, g]
        b0, b1, b2 = q[2, g] * q[3, g], p[2, g] * q[3, g] + q[2, g] * p[3, g], p[2, g] * p[3, g]
        w[0, g] = a0 * b0
        w[1, g] = a0 * b1 + a1 * b0
        w[2, g] = a0 * b2 + a1 * b1 + a2 * b0
        w[3, g] = a1 * b2 + a2 * b1
        w[4, g] = a2 * b2
    for c in range(counts.shape[0] - 1, 3, -1):
        for g in range(G):
            counts[c, g] = (
                counts[c, g] * w[0, g]
                + counts[c - 1, g] * w[1, g]
                + counts[c - 2, g] * w[2, g]
                + counts[c - 3, g] * w[3, g]
                + counts[c - 4, g] * w[4, g]
            )


@vector_jit
def multiply(counts: Floats, out: Floats, p: Floats, q: Floats) -> None:
    """Write the count polynomials (width, G) times q + p z, one more clock, to `out`, another array."""
    width, G = counts.shape
    for g in range(G):
        out[0, g] = counts[0, g] * q[g]
    for c in range(1, width):
        for g in range(G):
            out[c, g] = counts[c, g] * q[g] + counts[c - 1, g] * p[g]


@vector_jit
def one_more(counts: Floats, p: Floats, q: Floats, degree: int) -> None:
    """Multiply the count polynomials by q + p z in place, up to `degree`."""
    G = counts.shape[1]
    for c in range(degree, 0, -1):
        for g in range(G):
            counts[c, g] = counts[c, g] * q[g] + counts[c - 1, g] * p[g]
    for g in range(G):
        counts[0, g] *= q[g]


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
