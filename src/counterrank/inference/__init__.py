"""Standard errors and intervals from additive moments."""

from counterrank.inference.control import control_coefficients
from counterrank.inference.evidence import Evidence
from counterrank.inference.linear import clustered_variances, degrees_of_freedom, variance, variances
from counterrank.inference.multiplicity import benjamini_hochberg, holm, two_sided
from counterrank.inference.normal import check_level, critical_value, normal_interval

__all__ = [
    "Evidence",
    "benjamini_hochberg",
    "check_level",
    "clustered_variances",
    "control_coefficients",
    "critical_value",
    "degrees_of_freedom",
    "holm",
    "normal_interval",
    "two_sided",
    "variance",
    "variances",
]
