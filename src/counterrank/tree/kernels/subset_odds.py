"""Odds of a random membership given only some of what it depends on."""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit

Floats = NDArray[np.float64]

#: Points of the table between the least and the largest log-odds.
GRID = 64


@jit
def given_part(own: Floats, rest: Floats, out: Floats) -> None:
    """Fill out (n,) with E[p] / E[1 - p] where p has log-odds own_i + rest, over the sample rest (r,).

    With z = exp(rest), that is exp(own) sum z/(1 + exp(own) z) / sum 1/(1 + exp(own) z): the quotient varies slowly, is
    one where the rest is zero, and is read from a table.
    """
    low, high = np.inf, -np.inf
    for value in own:
        low, high = min(low, value), max(high, value)
    low, high = min(max(low, -60.0), 60.0), min(max(high, -60.0), 60.0)
    step = (high - low) / (GRID - 1)
    z = np.exp(rest)
    table = np.empty(GRID)
    for g in range(GRID):
        u = np.exp(low + g * step)
        above, below = 0.0, 0.0
        for j in range(z.shape[0]):
            share = 1.0 / (1.0 + u * z[j])
            above += z[j] * share
            below += share
        table[g] = above / below
    for i in range(own.shape[0]):
        place = min(max((own[i] - low) / step, 0.0), GRID - 1.0) if step > 0 else 0.0
        at = min(int(place), GRID - 2)
        out[i] = np.exp(own[i]) * (table[at] + (place - at) * (table[at + 1] - table[at]))
