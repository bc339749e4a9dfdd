"""Plackett-Luce marginals of one item at one position, by a race of exponential clocks.

Item j rings at an exponential time of rate lam_j; b is at place k+1 when exactly k others rang
before it: P(b at k+1) = int lam_b exp(-lam_b t) PB_k(1 - exp(-lam_j t), j != b) dt, with PB the
Poisson-binomial probability. One set of times serves all items and places of a row
(`policies.clock_times` says which); all terms are positive, so nothing cancels.
"""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit, vector_jit
from counterrank.policies.kernels.clock_times import fill_times, rule_for
from counterrank.policies.kernels.exponentials import LOWEST, rung
from counterrank.policies.kernels.light_clocks import MANY, add_light, sort_by_weight
from counterrank.policies.kernels.plackett_luce import highest, total_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

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
    """Return (T, K) log P(a_k at k) where wanted, given that the first `skip` items came first;
    else 0.

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
    """Return the mass of all items, and of all but the k heaviest: the rate at which something
    rings at first, and the least rate at which it still does once k items are gone.
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
    """Multiply the count polynomials (4 + width, G) by those of four clocks (4, G): a number is
    read and written once for all of them.
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
    """Write the count polynomials (width, G) times q + p z, one more clock, to `out`, another
    array.
    """
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
    """Return the sum over times of weight times the chance that one item has not rung and k of all
    others have: sum over c of before_(k-c) after_c, where `after` is of some degree.
    """
    total = 0.0
    for c in range(min(k, degree) + 1):
        for g in range(q.size):
            total += before[k - c, g] * after[c, g] * (q[g] * weight[g])
    return total
