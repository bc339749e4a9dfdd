"""Likelihoods of one reward a page.

With h = u + v of slot s, S = sum_s w_s h_s (w falls with the place) and Y the sum of y over the page:

    CHANCE   Y in [0, 1] with mean 1 / (1 + e^-S): Y S - log(1 + e^S)
    TOTAL    Y >= 0 with mean e^S: Y S - e^S (quasi-Poisson)
    NUMBER   any Y with mean S: -(Y - S)^2 / 2

all divided by the dispersion and concave. Minus the second derivative of a page by slots s and t is
cross w_s w_t. Slots of a page follow each other.
"""

import numpy as np

from counterrank.arrays import Floats, Ints
from counterrank.kernels.jit import jit

CHANCE, TOTAL, NUMBER = 3, 4, 5
#: Power of the place in w: lower slots matter less to a page.
PLACE = 0.5


def page_weights(K: int) -> Floats:
    """Return w (K,): 1 / sqrt(place)."""
    out: Floats = np.power(1.0 + np.arange(K), -PLACE)
    return out


def page_means(family: int, sums: Floats) -> tuple[Floats, Floats]:
    """Return the mean of Y, and its variance up to a factor, from S."""
    if family == CHANCE:
        chance = 1.0 / (1.0 + np.exp(-sums))
        return chance, chance * (1.0 - chance)
    if family == TOTAL:
        mean = np.exp(np.minimum(sums, _FAR))
        return mean, mean
    return sums, np.ones(sums.shape)


#: No mean is more than e^20 times the typical one.
_FAR = 20.0


@jit
def page_likelihood(u: Floats, v: Floats, y: Floats, row: Ints, family: int, dispersion: float, rate: Floats,
                    total: Floats) -> float:  # fmt: skip
    """Return the log likelihood of the slots (N,); fill rate and total with w and S."""
    N = len(u)
    value, start = 0.0, 0
    while start < N:
        end, sums, earned = start, 0.0, 0.0
        while end < N and row[end] == row[start]:
            rate[end] = (1.0 + end - start) ** -PLACE
            sums += rate[end] * (u[end] + v[end])
            earned += y[end]
            end += 1
        if family == CHANCE:
            value += earned * sums - max(sums, 0.0) - np.log1p(np.exp(-abs(sums)))
        elif family == TOTAL:
            value += earned * sums - np.exp(sums)
        else:
            value -= 0.5 * (earned - sums) ** 2
        for s in range(start, end):
            total[s] = sums
        start = end
    return value / dispersion


@jit
def page_derivatives(rate: Floats, total: Floats, y: Floats, row: Ints, family: int, dispersion: float,
                     slope: Floats, cross: Floats) -> None:  # fmt: skip
    """Write slopes and minus the second derivatives (N,), the same for all slots of a page."""
    N, start = len(rate), 0
    while start < N:
        end, earned = start, 0.0
        while end < N and row[end] == row[start]:
            earned += y[end]
            end += 1
        sums = total[start]
        if family == CHANCE:
            mean = 1.0 / (1.0 + np.exp(-sums))
            first, second = earned - mean, -mean * (1.0 - mean)
        elif family == TOTAL:
            mean = np.exp(sums)
            first, second = earned - mean, -mean
        else:
            first, second = earned - sums, -1.0
        for s in range(start, end):
            slope[s], cross[s] = first * rate[s] / dispersion, -second / dispersion
        start = end


@jit
def page_product(cross: Floats, rate: Floats, row: Ints, du: Floats, dv: Floats) -> None:
    """Replace du and dv (N,) by minus the second derivatives times du + dv."""
    N, start = len(rate), 0
    while start < N:
        end, sums = start, 0.0
        while end < N and row[end] == row[start]:
            sums += rate[end] * (du[end] + dv[end])
            end += 1
        for s in range(start, end):
            du[s] = dv[s] = cross[s] * rate[s] * sums
        start = end
