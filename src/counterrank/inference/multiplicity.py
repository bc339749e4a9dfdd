"""Many tests at once: Holm's family-wise and Benjamini-Hochberg's false-discovery adjustments."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def two_sided(value: float, stderr: float) -> float:
    """Return the two-sided normal p-value of value = 0.

    Without a positive error nothing can be tested, whatever the difference: 1. So it is when either
    is unknown (NaN).

    >>> round(two_sided(1.96, 1.0), 4), two_sided(0.3, 0.0), two_sided(5.0, math.nan)
    (0.05, 1.0, 1.0)
    """
    if math.isnan(value) or not stderr > 0:
        return 1.0
    return math.erfc(abs(value) / stderr / math.sqrt(2))


def holm(p_values: ArrayLike) -> Floats:
    """Return Holm's step-down adjusted p-values (1979): p_(j) times the number not yet passed, made
    monotone.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    result = np.empty_like(p)
    # Step-down: a hypothesis cannot be rejected before a smaller p-value was.
    result[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    return result


def benjamini_hochberg(p_values: ArrayLike) -> Floats:
    """Return Benjamini-Hochberg adjusted p-values (1995): p_(j) m / j, made monotone from the
    largest.

    >>> benjamini_hochberg([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.04, 0.04]
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")[::-1]
    count = len(p)
    result = np.empty_like(p)
    result[order] = np.minimum(
        np.minimum.accumulate(p[order] * count / np.arange(count, 0, -1)), 1.0
    )
    return result
