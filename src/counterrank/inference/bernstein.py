"""Empirical Bernstein: an interval for any sample size, if the range of a row's total is known."""

import math

from counterrank.errors import ConfigError
from counterrank.inference.evidence import Evidence
from counterrank.inference.normal import check_level


def bernstein_half_width(variance: float, width: float, n: int, level: float) -> float:
    """Return sqrt(2 V ln(4/d) / n) + 7 R ln(4/d) / (3 (n - 1)), d = 1 - level (Maurer & Pontil 2009, theorem 4).

    `variance` V of one row (n - 1 in the divisor), `width` R of its range; d/2 is spent on either side.

    >>> round(bernstein_half_width(1.0, 10.0, 10_000, 0.95), 4)
    0.0398
    """
    log_term = math.log(4 / (1 - check_level(level)))
    return math.sqrt(2 * variance * log_term / n) + 7 * width * log_term / (3 * (n - 1))


def bernstein_interval(evidence: Evidence, level: float) -> tuple[float, float]:
    """Return value -/+ the half-width, with row totals taken to lie within the largest seen, [-max|T|, max|T|].

    The guarantee is that of the range: where a larger total than any seen is possible, use `bernstein_half_width`
    with the true range.
    """
    if not evidence.linear:
        raise ConfigError("'bernstein' bounds a mean of independent rows; this value is a ratio or regression of means")
    if evidence.clustered:
        raise ConfigError(
            "'bernstein' needs independent rows; those of this log belong to units: use 't' or 'bootstrap'"
        )
    n = evidence.moments.n
    if n < 2:
        raise ConfigError("'bernstein' needs at least two rows")
    width = 2 * float(evidence.moments.peaks[-1])
    half = bernstein_half_width(evidence.stderr**2 * n, width, n, level)
    return evidence.value - half, evidence.value + half
