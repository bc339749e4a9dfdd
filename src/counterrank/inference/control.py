"""E[w] = 1 is known: the regression of contributions on weights that makes use of it."""

import numpy as np
from numpy.typing import NDArray

from counterrank.moments import Moments

Floats = NDArray[np.float64]


def control_coefficients(moments: Moments) -> Floats:
    """Return beta (K, K): row k regresses y_k on all weights, Cov(y_k, w) Cov(w)^-1; needs the Gram matrix.

    Weights may be equal or constant (IPS has one for all positions), hence the pseudo-inverse.
    """
    length = moments.K
    covariance = moments.covariance
    of_w = covariance[length : 2 * length, length : 2 * length]
    beta: Floats = covariance[:length, length : 2 * length] @ np.linalg.pinv(of_w, rcond=1e-10, hermitian=True)
    return beta
