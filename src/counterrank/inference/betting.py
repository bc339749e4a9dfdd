"""A lower bound of a mean that holds at every n, from bets against every smaller bound being wrong.

For independent X_i >= a with mean at most mu, the capital prod_i (1 + b (X_i - mu)) with a stake 0
<= b <= 1/(mu - a) never falls below zero and does not grow on average, so it reaches 1/delta with
probability at most delta (Markov). The bound is the smallest mu at which it does not. No upper end
of X is needed, no variance, no large n (Waudby-Smith and Ramdas 2024; with one fixed stake it is
the logarithmic smoothing of Sakhi et al. 2024 in another form).
"""

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Stakes relative to the one that is best for the expected spread, and how the capital is divided
#: among them, which is a bet too. Where the spread was misjudged by a factor of two, one of them
#: still fits.
STAKES = np.array([0.25, 0.5, 1.0, 1.5])
SHARES = np.array([0.1, 0.2, 0.5, 0.2])
#: Share of the largest allowed stake: at all of it one worst row takes everything.
_SAFE = 0.9
_STEPS = 60


def betting_lower_bound(
    values: Floats, lowest: float, delta: float, *, spread: float, counts: Floats | None = None
) -> float:
    """Return a lower bound of the mean of X that is wrong with probability at most `delta`, at
    every n.

    `values` (n,) are independent and at least `lowest`; `spread`, their expected standard
    deviation, sets the stakes and must not come from these rows: it decides how sharp the bound is,
    never whether it holds. With `counts` (n,), values are sums over units of so many rows each, and
    the mean is that of a row.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.random(1000)
    >>> 0.45 < betting_lower_bound(x, 0.0, 0.05, spread=0.3) < 0.5
    True
    """
    if not len(values):
        return lowest
    rows = np.ones(len(values)) if counts is None else np.asarray(counts, dtype=np.float64)
    wanted = math.log(1.0 / delta)
    scale = max(spread, 1e-12)
    stakes = STAKES * math.sqrt(2.0 * wanted / len(values)) / scale

    def grows(mu: float) -> bool:
        """Whether the whole capital against a mean of `mu` reaches 1/delta."""
        most = _SAFE / max((mu - lowest) * float(rows.max()), 1e-300)
        logs = np.log1p(np.minimum(stakes, most)[:, None] * (values - mu * rows)).sum(axis=1)
        peak = float(logs.max())
        return peak + math.log(float(SHARES @ np.exp(logs - peak))) >= wanted

    low, high = lowest, float(values.sum() / rows.sum())
    if high <= lowest or grows(high):
        return high
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if grows(middle) else (low, middle)
    return low
