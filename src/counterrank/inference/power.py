"""Which lifts a log can show, and how many rows a lift takes."""

import math

from scipy import special
from scipy.optimize import brentq

from counterrank.inference.intervals import bias_aware_half

POWER = 0.8
#: More times as many rows than this are no plan.
ABSURD = 1000.0


def detectable(
    stderr: float, *, allowance: float = 0.0, level: float = 0.95, power: float = POWER
) -> float:
    """Return the smallest true lift that the interval tells from zero with probability `power`.

    h + z_power stderr, h the half-length of the interval, (z_{1-alpha/2} + z_power) stderr where no
    bias is allowed for (Cohen 1988); the other tail's chance is ignored.

    >>> round(detectable(1.0), 3), round(detectable(1.0, allowance=10.0), 3)
    (2.802, 12.486)
    """
    return bias_aware_half(stderr, allowance, level) + float(special.ndtri(power)) * stderr


def rows_for(
    wanted: float, n: int, stderr: float, *, allowance: float = 0.0, level: float = 0.95
) -> int | None:
    """Return the rows from which a lift is detectable.

    None where the allowance alone is larger, or nobody would log so many.

    `stderr` is that of n rows; it falls with the square root of them, the allowance does not.

    >>> rows_for(0.2802, 1000, 0.1), rows_for(0.1, 1000, 0.1, allowance=0.1)
    (1000, None)
    """
    if not allowance:
        return sensible(n * (detectable(stderr, level=level) / wanted) ** 2, n)

    def above(logarithm: float) -> float:
        fewer = stderr / math.exp(logarithm / 2)
        return detectable(fewer, allowance=allowance, level=level) - wanted

    # With rows the lift falls to the allowance: a wanted one below it is never reached.
    ends = [side * 46.0 for side in (-1, 1)]
    if above(ends[0]) <= 0 or above(ends[1]) >= 0:
        return None
    return sensible(n * math.exp(brentq(above, *ends, xtol=1e-9)), n)


def sensible(rows: float, n: int) -> int | None:
    """Return a number of rows, None where nobody would log so many.

    >>> sensible(2500.2, 1000), sensible(8.1e9, 4000)
    (2501, None)
    """
    return math.ceil(rows) if rows <= ABSURD * n else None
