"""Standard errors and intervals from additive moments."""

from counterrank.inference.betting import betting_lower_bound
from counterrank.inference.bias_aware import bias_aware_half, bias_aware_value
from counterrank.inference.intervals import (
    METHODS,
    Evidence,
    check_level,
    control_coefficients,
    critical_value,
    interval,
    normal_interval,
    unavailable,
)
from counterrank.inference.linear import (
    clustered_variances,
    degrees_of_freedom,
    variance,
    variances,
)
from counterrank.inference.multiplicity import benjamini_hochberg, holm, two_sided
from counterrank.inference.sequential import Looks

__all__ = [
    "METHODS",
    "Evidence",
    "Looks",
    "benjamini_hochberg",
    "bias_aware_half",
    "bias_aware_value",
    "betting_lower_bound",
    "check_level",
    "clustered_variances",
    "control_coefficients",
    "critical_value",
    "degrees_of_freedom",
    "holm",
    "interval",
    "normal_interval",
    "two_sided",
    "unavailable",
    "variance",
    "variances",
]
