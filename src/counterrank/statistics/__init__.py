"""Statistics: sums of columns that add, and quantities with errors, intervals, differences and ratios."""

from counterrank.statistics.arms import Strata, adjusted_mean, mean_of
from counterrank.statistics.betting import betting_lower_bound
from counterrank.statistics.critical import (
    ONCE,
    Looks,
    bias_aware_half,
    bias_aware_value,
    check_level,
    correlation_of,
    critical_value,
    holm,
    together,
    two_sided,
)
from counterrank.statistics.quantity import (
    Contrast,
    Interval,
    Number,
    Quantity,
    correlations,
    mean,
    means_of,
    nothing,
)
from counterrank.statistics.sums import (
    Known,
    Sample,
    Sums,
    clustered_covariance,
    jackknife,
    spread,
    sums_of,
    unit_sums,
)

__all__ = [
    "ONCE",
    "Contrast",
    "Interval",
    "Known",
    "Looks",
    "Number",
    "Quantity",
    "Sample",
    "Strata",
    "Sums",
    "adjusted_mean",
    "betting_lower_bound",
    "bias_aware_half",
    "bias_aware_value",
    "check_level",
    "clustered_covariance",
    "correlation_of",
    "correlations",
    "critical_value",
    "holm",
    "jackknife",
    "mean",
    "mean_of",
    "means_of",
    "nothing",
    "spread",
    "sums_of",
    "together",
    "two_sided",
    "unit_sums",
]
