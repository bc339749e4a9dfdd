"""Standard errors and intervals from additive moments."""

from counterrank.inference.adjusted import AdjustedMean, Strata, adjusted_mean, mean_of
from counterrank.inference.intervals import (
    METHODS,
    Evidence,
    betting_lower_bound,
    bias_aware_half,
    bias_aware_value,
    check_level,
    control_coefficients,
    critical_value,
    interval,
    normal_interval,
    unavailable,
)
from counterrank.inference.multiplicity import (
    Looks,
    benjamini_hochberg,
    correlation_of,
    ellipse,
    holm,
    together,
    two_sided,
)
from counterrank.weights.variance import (
    clustered_variances,
    degrees_of_freedom,
    variance,
    variances,
)

__all__ = [
    "METHODS",
    "Evidence",
    "Looks",
    "AdjustedMean",
    "Strata",
    "adjusted_mean",
    "benjamini_hochberg",
    "bias_aware_half",
    "bias_aware_value",
    "betting_lower_bound",
    "check_level",
    "clustered_variances",
    "control_coefficients",
    "correlation_of",
    "critical_value",
    "degrees_of_freedom",
    "ellipse",
    "holm",
    "interval",
    "mean_of",
    "normal_interval",
    "together",
    "two_sided",
    "unavailable",
    "variance",
    "variances",
]
