"""The times at which a race of exponential clocks has to be looked at, and how often.

P(b at k+1) is an integral over time, a sum over sets S of k other items of positive terms
prod_(j in S) (1 - exp(-lam_j t)) exp(-rho t), where rho, the rate of all that is not in S, lies
between R, the mass of all but the k heaviest items, and the total. A rule that is right for each
such term is right for their sum, to the same relative error:

- Gauss-Laguerre at the rate sqrt(R total), with the weight t exp(-t) because every place but the
  first needs a ring: for exp(-rho t) its error falls by q^2 a point, q = (1 - s) / (1 + s) and s^2
  = R / total. Written-out errors of the terms that are hardest, all mass but R on up to k equal
  items, say how many points 2e-13 takes (`tests/policies/test_race.py`).
- where a few items hold nearly everything, and that would take too many points: the trapezoid rule
  in log t, whose number of points grows with log(total / R).
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from counterrank.policies.base import Floats

#: Numbers of points that Gauss rules are made for: loops over eight at a time.
SIZES = (8, 16, 24, 32, 40, 48, 64)
#: Terms of a series in a light clock's rate times the latest time, a multiple of four
#: (`kernels.light_clocks`).
TERMS = 16

Rules = tuple[NDArray[np.int64], Floats, Floats, int, Floats]


@lru_cache(maxsize=64)
def clock_rules(K: int) -> Rules:
    """Return sizes, points and weights of Gauss rules, points of the trapezoid per octave, and
    series for light clocks, all for rankings of K positions.
    """
    points, weights = gauss_rules()
    return np.array(SIZES), points, weights, nodes_per_octave(K), light_series(K)


@lru_cache(maxsize=1)
def gauss_rules() -> tuple[Floats, Floats]:
    """Return points and weights (rules, most points) for int_0^inf f(x) dx, f like x exp(-x)."""
    from scipy.special import roots_genlaguerre

    points, weights = np.zeros((len(SIZES), SIZES[-1])), np.zeros((len(SIZES), SIZES[-1]))
    for j, size in enumerate(SIZES):
        x, w = roots_genlaguerre(size, 1)
        points[j, :size], weights[j, :size] = x, np.exp(np.log(w) + x) / x
    return points, weights


@lru_cache(maxsize=256)
def nodes_per_octave(K: int) -> int:
    """Return m for the step h = log(2)/m at which the trapezoid errs by less than 1e-13.

    For equal clocks the K-th ring is a Gamma(K) variable, whose aliasing error is 2 |Gamma(K + i
    y)| / Gamma(K) with y = 2 pi / h, and |Gamma(K + i y)|^2 = pi / (y sinh(pi y)) prod over j < K
    of (j^2 + y^2).

    >>> [nodes_per_octave(K) for K in (4, 10, 20, 100)]
    [3, 4, 5, 10]
    """
    j = np.arange(K)
    m = 2
    while True:
        m += 1
        y = 2 * np.pi * m / np.log(2)
        log_square = np.log(2 * np.pi / y) - np.pi * y + np.log(j * j + y * y).sum()
        if np.log(2) + 0.5 * log_square - np.log(np.maximum(j, 1)).sum() < np.log(1e-13):
            return m


def light_series(K: int) -> Floats:
    """Return (K, TERMS): the coefficient of x^m in (exp(x) - 1)^c at [c - 1, m - 1].

    >>> light_series(2)[:, :3].round(4).tolist()
    [[1.0, 0.5, 0.1667], [0.0, 1.0, 1.0]]
    """
    own = 1.0 / np.cumprod(np.arange(1.0, TERMS + 1))
    out = np.zeros((K, TERMS))
    out[0] = own
    for c in range(1, K):
        out[c, 1:] = np.convolve(out[c - 1], own)[: TERMS - 1]
    return out
