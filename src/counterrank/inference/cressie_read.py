"""Cressie-Read: the values for which some reweighting of the rows near the data has E[w_k] = 1 at every position."""

import math

import numpy as np

from counterrank.errors import ConfigError
from counterrank.inference.control import control_coefficients
from counterrank.inference.evidence import Evidence
from counterrank.inference.linear import degrees_of_freedom, variance
from counterrank.inference.normal import check_level


def cressie_read_interval(evidence: Evidence, level: float) -> tuple[float, float]:
    """Return the interval of the quadratic (Euclidean) member of the family, which has a closed form.

    Over reweightings q with sum q = 1 and sum_i q_i w_ik = 1, the profile of sum_i (n q_i - 1)^2 in
    theta = sum_i q_i T_i is n (theta - c)^2 / s^2, where c = mean T - beta'(mean w - 1) and s^2 is the variance of
    the residual T - beta'w. It is compared with F(1, df), the small-sample form of chi-square
    (Karampatziakis, Langford & Mineiro 2020, whose two-moment case this extends to K weights).
    """
    from scipy import special

    moments = evidence.moments
    if moments.gram is None:
        raise ConfigError(
            "'cressie-read' needs products of weights and contributions, which were not collected: estimate with "
            "full=True, or use a self-normalised or control-variate estimator (such as snips), which collects them"
        )
    beta = moments.alpha @ control_coefficients(moments)  # (K,)
    centre = float(moments.alpha @ moments.mean("y") - beta @ (moments.mean("w") - 1.0))
    gradient = np.concatenate([moments.alpha, -beta, [0.0]])
    df = max(degrees_of_freedom(moments) - moments.K, 1)
    half = math.sqrt(float(special.fdtri(1, df, check_level(level))) * variance(moments, gradient))
    return centre - half, centre + half
