"""Lower bounds of a mean by betting: they hold at every number of rows, whatever the law of the values."""

import math

import numpy as np

from counterrank.common.arrays import Floats
from counterrank.kernels.jit import jit

#: Share of the largest allowed stake: at all of it one worst row takes everything.
_SAFE = 0.9
#: Values that the expected spread counts for, beside those that were seen.
_TRUST = 100.0
#: Means that are tried: so many to a standard error, up to four of them away, then ever further.
_FINE, _NEAR, _GROWTH, _FAR = 32, 128, 1.05, 400
#: One stake for all: relative to the one that is best for the expected spread, and how the capital
#: is divided among them. Where the spread was misjudged by a factor of two, one still fits.
_STAKES = np.array([0.25, 0.5, 1.0, 1.5])
_SHARES = np.array([0.1, 0.2, 0.5, 0.2])
_BET_HALVINGS = 60


def betting_lower_bound(
    values: Floats,
    lowest: float,
    delta: float,
    *,
    spread: float,
    centre: float,
    counts: Floats | None = None,
) -> float:
    """Return a lower bound of the mean of X that is wrong with probability at most `delta`, at every n.

    `values` (n,) are independent, of one law, and at least `lowest`. `spread`, their expected
    standard deviation, and `centre`, their expected mean, must not come from these rows: they
    decide how sharp the bound is, never whether it holds. With `counts` (n,), values are sums over
    units of so many rows each, and the mean is that of a row. Where counts differ, one stake is
    used for all units, because stakes that change need units of one law.

    >>> rng = np.random.default_rng(1)
    >>> x = rng.random(1000)
    >>> 0.45 < betting_lower_bound(x, 0.0, 0.05, spread=0.3, centre=0.5) < 0.5
    True
    """
    if not len(values):
        return lowest
    if counts is None:
        return _recalculated(values, lowest, delta, max(spread, 1e-12), centre)
    if counts.min() == counts.max():
        rows = float(counts[0])
        return _recalculated(values / rows, lowest, delta, max(spread / rows, 1e-12), centre)
    return _one_stake(values, lowest, delta, max(spread, 1e-12), counts)


def _recalculated(
    values: Floats, lowest: float, delta: float, spread: float, centre: float
) -> float:
    """Return the last of the tried means that was refuted, going up until one is not.

    The bound is too high only if the first tried mean above the true one was refuted: one test at
    level delta, whatever the others do. So the means to try must be fixed before.
    """
    sample = np.ascontiguousarray(values, dtype=np.float64)
    bound = lowest
    for mu in tried(lowest, centre, spread / math.sqrt(len(sample))):
        if not refuted(sample, mu, _SAFE / (mu - lowest), delta, spread, _TRUST):
            break
        bound = float(mu)
    # A smaller bound holds too, and one above the mean would only puzzle.
    return min(bound, max(float(sample.mean()), lowest))


@jit
def refuted(
    values: Floats, mu: float, cap: float, delta: float, spread: float, trust: float
) -> bool:
    """Return whether bets on `values`, in their order, multiply a capital by 1/delta.

    They are bets against the claim that the mean is at most `mu`.

    Each stake is a function of the values before it: of the growth still wanted, the values still
    to come, and their second moment about `mu` so far, where `spread` counts as `trust` values. No
    stake is above `cap`.
    """
    n = len(values)
    missing = math.log(1.0 / delta)
    squares, count = trust * spread * spread, trust
    for t in range(n):
        stake = math.sqrt(2.0 * missing * count / (squares * (n - t)))
        deviation = values[t] - mu
        missing -= math.log1p(min(stake, cap) * deviation)
        if missing <= 0.0:
            return True
        squares += deviation * deviation
        count += 1.0
    return False


def tried(lowest: float, centre: float, stderr: float) -> Floats:
    """Return the means to try, rising: close to each other near `centre`, further apart beyond."""
    steps = np.concatenate([np.arange(_NEAR), _NEAR * _GROWTH ** np.arange(_FAR)])
    offsets = steps * stderr / _FINE
    means: Floats = np.concatenate([centre - offsets[:0:-1], centre + offsets])
    return means[means > lowest]


def _one_stake(values: Floats, lowest: float, delta: float, spread: float, counts: Floats) -> float:
    """Return the largest mean at which a capital divided among a few stakes reaches 1/delta.

    Given the counts, E prod_i (1 + b (X_i - mu N_i)) <= exp(b sum_i (E X_i - mu N_i)) for fixed b,
    whatever the mean of each unit is. The capital falls in mu, so halving finds the bound.
    """
    rows = np.asarray(counts, dtype=np.float64)
    threshold = math.log(1.0 / delta)
    stakes = _STAKES * math.sqrt(2.0 * threshold / len(values)) / spread

    def grows(mu: float) -> bool:
        cap = _SAFE / max((mu - lowest) * float(rows.max()), 1e-300)
        logs = np.log1p(np.minimum(stakes, cap)[:, None] * (values - mu * rows)).sum(axis=1)
        peak = float(logs.max())
        return peak + math.log(float(_SHARES @ np.exp(logs - peak))) >= threshold

    low, high = lowest, float(values.sum() / rows.sum())
    if high <= lowest or grows(high):
        return high
    for _ in range(_BET_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if grows(middle) else (low, middle)
    return low
