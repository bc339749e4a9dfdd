"""Intervals that allow for a stated bias: centred on the estimate, no wider than the bias makes
necessary.
"""

import math

from counterrank.inference.intervals import check_level, critical_value

#: Halvings of the bracket: from a width of 10 to below 1e-12.
_HALVINGS = 44


def bias_aware_value(bias: float, level: float, df: float = math.inf) -> float:
    """Return cv(b), the `level` quantile of |N(b, 1)|, b = bias in standard errors (Armstrong &
    Kolesar 2018, 2021).

    If an estimate is off by at most b of its standard errors s, then estimate -/+ s cv(b) covers
    with probability `level` at least. cv is z at b = 0 and b + (one-sided z) for large b: shorter
    than the sum z + b, because an error can only leave through one end. With few units the t
    quantile's excess over z is added.

    >>> [round(bias_aware_value(b, 0.95), 4) for b in (0.0, 1.0, 5.0)]
    [1.96, 2.6461, 6.6449]
    """
    from scipy.special import ndtr

    # cv(b) lies between b (the distribution's centre) and b + z (a bias and a two-sided error at
    # once).
    low, high = abs(bias), abs(bias) + critical_value(level)
    excess = 0.0 if math.isinf(df) else critical_value(level, df) - critical_value(level)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if ndtr(middle - abs(bias)) - ndtr(-middle - abs(bias)) < check_level(level):
            low = middle
        else:
            high = middle
    return high + excess


def bias_aware_half(stderr: float, bias: float, level: float, df: float = math.inf) -> float:
    """Return half the length of the interval, s cv(B/s); the bias alone where there is no sampling
    error.

    >>> bias_aware_half(0.0, 0.3, 0.95), round(bias_aware_half(2.0, 0.0, 0.95), 3)
    (0.3, 3.92)
    """
    if not stderr > 0:
        return abs(bias) if stderr == 0 else math.nan
    return stderr * bias_aware_value(bias / stderr, level, df)
