"""The times at which a race of clocks is looked at, and their weights: `policies.clock_times` says
why these.
"""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit

Floats = NDArray[np.float64]

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
