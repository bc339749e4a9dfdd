"""A game against the claim that a mean is at most `mu`: whether its capital grows 1/delta-fold."""

import math

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit

Floats = NDArray[np.float64]


@jit
def refuted(
    values: Floats, mu: float, most: float, delta: float, spread: float, trust: float
) -> bool:
    """Return whether bets on `values`, in their order, multiply a capital by 1/delta.

    Each stake is a function of the values before it: of the growth still wanted, the values still
    to come, and their second moment about `mu` so far, where `spread` counts as `trust` values. No
    stake is above `most`.
    """
    n = len(values)
    missing = math.log(1.0 / delta)
    squares, seen = trust * spread * spread, trust
    for t in range(n):
        stake = math.sqrt(2.0 * missing * seen / (squares * (n - t)))
        away = values[t] - mu
        missing -= math.log1p(min(stake, most) * away)
        if missing <= 0.0:
            return True
        squares += away * away
        seen += 1.0
    return False
