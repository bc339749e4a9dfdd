"""Normal and t intervals."""

import math

from counterrank.errors import ConfigError


def check_level(level: float) -> float:
    """Return `level` if it is a confidence level strictly between 0 and 1."""
    if not 0 < level < 1:
        raise ConfigError(f"the confidence level must lie between 0 and 1, such as 0.95; got {level}")
    return level


def critical_value(level: float, df: float = math.inf) -> float:
    """Return the two-sided critical value of the normal (df infinite) or t distribution.

    >>> round(critical_value(0.95), 4), round(critical_value(0.95, df=10), 4)
    (1.96, 2.2281)
    """
    from scipy import special

    tail = 0.5 + check_level(level) / 2
    return float(special.ndtri(tail) if math.isinf(df) else special.stdtrit(df, tail))


def normal_interval(value: float, stderr: float, level: float, df: float = math.inf) -> tuple[float, float]:
    """Return value -/+ critical value times standard error.

    >>> low, high = normal_interval(1.0, 0.5, 0.95)
    >>> round(low, 3), round(high, 3)
    (0.02, 1.98)
    """
    half = critical_value(level, df) * stderr
    return value - half, value + half
