"""Empirical Bayes: how strongly a group of coefficients is drawn to its mean."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def pull(values: Floats, spread: Floats, noise: float, least: float = 0.0) -> tuple[float, float]:
    """Return the group's mean and the ridge penalty noise / tau^2, tau^2 = mean of (value - mean)^2 + spread.

    One step of EM for normal coefficients with posterior variances `spread` (Morris 1983); tau^2 is at least `least`.

    >>> pull(np.array([-1.0, 1.0]), np.zeros(2), 0.5)
    (0.0, 0.5)
    """
    mean = float(values.mean())
    tau2 = float(np.mean((values - mean) ** 2 + spread))
    return mean, noise / max(tau2, least, 1e-300)
