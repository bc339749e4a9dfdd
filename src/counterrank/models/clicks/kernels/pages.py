"""Likelihoods of whole pages: a choice among the items of a page, or one number for the page.

With h = u + v of slot s, y by slot and Y its sum over the page:

    CHOICE   shares y of a budget: sum_s y_s h_s + (1 - Y) log(1 + R) - log(1 + L), with L = sum_s e^h_s
             over all slots and R over those beside the page, whose y is -1 (not known); the one stands
             for doing something else
    CHANCE   Y in [0, 1] with mean 1 / (1 + e^-S): Y S - log(1 + e^S), S = sum_s w_s h_s
    TOTAL    Y >= 0 with mean e^S: Y S - e^S (quasi-Poisson)
    NUMBER   any Y with mean S: -(Y - S)^2 / 2

all divided by the dispersion; w falls with the place. All are concave, except for the slots beside a
page. Minus the second derivatives of a page are

    own_s on the diagonal + cross rate_s rate_t + beside rate_s rate_t for s, t both beside the page:

for a choice rate = e^h, own = rate / (1 + L), less (1 - Y) rate / (1 + R) beside the page, cross = -1 /
(1 + L)^2 and beside = (1 - Y) / (1 + R)^2; else rate = w, own = beside = 0 and cross that of S. Slots
of a page follow each other.
"""

import numpy as np

from counterrank.arrays import Floats, Ints
from counterrank.kernels.jit import jit
from counterrank.models.clicks.kernels.sigmoid import exponential

CHOICE, CHANCE, TOTAL, NUMBER = 3, 4, 5, 6
#: Beyond this exponentials are cut (`sigmoid`).
_FURTHEST = 700.0
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
    """Return the log likelihood of the slots (N,); fill rate and total with e^h and L, or w and S."""
    N = len(u)
    for s in range(N):
        rate[s] = u[s] + v[s]
    if family == CHOICE:
        exponential(rate, N)
    value, start = 0.0, 0
    while start < N:
        end, sums, rest, earned, chosen = start, 0.0, 0.0, 0.0, 0.0
        while end < N and row[end] == row[start]:
            if family == CHOICE:
                sums += rate[end]
                if y[end] < 0.0:
                    rest += rate[end]
                else:
                    earned += y[end]
                    # Cut where the exponential is cut: else ever longer steps would look better.
                    chosen += y[end] * min(max(u[end] + v[end], -_FURTHEST), _FURTHEST)
            else:
                sums += (1.0 + end - start) ** -PLACE * rate[end]
                earned += y[end]
            end += 1
        if family == CHOICE:
            value += chosen + (1.0 - earned) * np.log1p(rest) - np.log1p(sums)
        elif family == CHANCE:
            value += earned * sums - max(sums, 0.0) - np.log1p(np.exp(-abs(sums)))
        elif family == TOTAL:
            value += earned * sums - np.exp(sums)
        else:
            value -= 0.5 * (earned - sums) ** 2
        for s in range(start, end):
            total[s] = sums
            if family != CHOICE:
                rate[s] = (1.0 + s - start) ** -PLACE
        start = end
    return value / dispersion


@jit
def page_derivatives(rate: Floats, total: Floats, y: Floats, row: Ints, family: int, dispersion: float, exact: bool,
                     slope: Floats, own: Floats, cross: Floats, beside: Floats) -> None:  # fmt: skip
    """Write slopes and minus the second derivatives (N,): exact, or their mean.

    `cross` and `beside` are the same for all slots of a page.
    """
    N, start = len(rate), 0
    while start < N:
        end, earned, rest = start, 0.0, 0.0
        while end < N and row[end] == row[start]:
            if y[end] < 0.0 and family == CHOICE:
                rest += rate[end]
            else:
                earned += y[end]
            end += 1
        sums, hidden = total[start], 0.0
        if family == CHOICE:
            first = -1.0 / (1.0 + sums)
            second = first * first
            hidden = (1.0 - earned) / (1.0 + rest)
        elif family == CHANCE:
            mean = 1.0 / (1.0 + np.exp(-sums))
            first, second = earned - mean, -mean * (1.0 - mean)
        elif family == TOTAL:
            mean = np.exp(sums)
            first, second = earned - mean, -mean
        else:
            first, second = earned - sums, -1.0
        # The chance of no click on the page is (1 + R) / (1 + L).
        bend = hidden if exact else -first
        for s in range(start, end):
            slope[s], own[s] = first * rate[s], 0.0
            if family == CHOICE and y[s] < 0.0:
                slope[s] += hidden * rate[s]
                own[s] = -(first + bend) * rate[s] / dispersion
            elif family == CHOICE:
                slope[s] += y[s]
                own[s] = -first * rate[s] / dispersion
            slope[s] /= dispersion
            cross[s] = -second / dispersion
            beside[s] = bend / (1.0 + rest) / dispersion if family == CHOICE else 0.0
        start = end


@jit
def page_product(own: Floats, cross: Floats, beside: Floats, rate: Floats, y: Floats, row: Ints, du: Floats,
                 dv: Floats) -> None:  # fmt: skip
    """Replace du and dv (N,) by minus the second derivatives times du + dv."""
    N, start = len(rate), 0
    while start < N:
        end, sums, rest = start, 0.0, 0.0
        # Only choices have slots beside the page; rewards of a page may be negative.
        while end < N and row[end] == row[start]:
            part = rate[end] * (du[end] + dv[end])
            sums += part
            if y[end] < 0.0:
                rest += part
            end += 1
        for s in range(start, end):
            image = own[s] * (du[s] + dv[s]) + cross[s] * rate[s] * sums
            if y[s] < 0.0:
                image += beside[s] * rate[s] * rest
            du[s] = image
            dv[s] = image
        start = end
