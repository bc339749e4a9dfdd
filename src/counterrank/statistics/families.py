"""Several statistics at once: adjusted p-values, and levels at which intervals hold together."""

import math

import numpy as np
from numpy.typing import ArrayLike

from counterrank.arrays import Floats
from counterrank.statistics.critical import check_level


def holm(p_values: ArrayLike) -> Floats:
    """Return Holm's step-down adjusted p-values (1979): p_(j) times the number not yet passed, made monotone.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    result = np.empty_like(p)
    # Step-down: a hypothesis cannot be rejected before a smaller p-value was.
    result[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    return result


#: Draws behind a quantile; the level is then known to 0.0007, and the same for the same correlations.
_DRAWS = 100_000
#: More statistics than this are taken as independent, which is on the safe side.
_MOST = 40


def together(correlation: Floats, level: float) -> float:
    """Return the level of each interval at which m of them hold together with the wanted level.

    With Z normal of this correlation (m, m), the critical value c has P(max_j |Z_j| <= c) = level
    ("max-t"; Dunnett 1955, Hothorn, Bretz & Westfall 2008), and each interval has the level
    2 Phi(c) - 1. Statistics whose correlation is not known stand there with 0: by Royen's Gaussian
    correlation inequality (2014) the intervals are then wider than they need be, never narrower.

    >>> round(together(np.ones((1, 1)), 0.95), 6)
    0.95
    >>> round(together(np.eye(2), 0.95), 3) == round(0.95 ** 0.5, 3)
    True
    """
    check_level(level)
    m = len(correlation)
    if m < 2:
        return level
    independent: float = level ** (1.0 / m)  # Sidak 1967
    if m > _MOST:
        return independent
    values, vectors = np.linalg.eigh(correlation)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    rng = np.random.default_rng(20_26)
    largest = np.abs(rng.standard_normal((_DRAWS, m)) @ root.T).max(axis=1)
    critical = float(np.quantile(largest, level))
    # Between one statistic and as many independent ones, whatever the draws say.
    return min(max(math.erf(critical / math.sqrt(2.0)), level), independent)


def correlation_of(covariance: Floats) -> Floats:
    """Return correlations (m, m); 0 between statistics of which one does not vary.

    >>> correlation_of(np.array([[4.0, 2.0], [2.0, 4.0]])).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    error = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    scale = np.outer(error, error)
    shares = np.divide(covariance, scale, out=np.zeros_like(covariance), where=scale > 0)
    found: Floats = np.clip(np.nan_to_num(shares), -1.0, 1.0)
    np.fill_diagonal(found, 1.0)
    return found
