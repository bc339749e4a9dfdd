"""Many slow clocks at once: how many of them have rung follows from a few power sums of their rates.

With r_j = exp(lam_j t) - 1, the chance of c rings is exp(-t sum lam) e_c(r_1, r_2, ...), e_c the
elementary symmetric polynomial, which Newton's identities make of the power sums of r, and these
are series in t whose coefficients are power sums of lam. Newton's signs alternate: that is exact
only where no clock matters much beside all others, and the series are short only where none has
probably rung. Both are asked for (`sort_by_weight`); other clocks are counted one by one.
"""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit, vector_jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

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
