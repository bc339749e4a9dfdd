"""What a log can detect, how many rows a question needs, and what an A/B test or more exploration would give."""

import math
from typing import Any

#: Rows of the curve, as multiples of the log.
MULTIPLES = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0, 30.0, 100.0)
#: Relative lifts for which the needed rows are listed.
RELATIVE = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
POWER = 0.8


def detectable(stderr: float, *, level: float = 0.95, power: float = POWER) -> float:
    """Return the smallest true lift that a two-sided test at 1 - level finds with probability `power`.

    (z_{1-alpha/2} + z_power) * stderr (Cohen 1988); the other tail's chance is ignored.

    >>> round(detectable(1.0), 3)
    2.802
    """
    from scipy import special

    return float(special.ndtri(0.5 + level / 2) + special.ndtri(power)) * stderr


def plan_for(
    n: int, stderr: float, *, logged: float, logged_stderr: float, level: float, practical: float | None = None
) -> dict[str, Any]:
    """Return detectable lifts, the rows needed, and the A/B traffic of equal precision.

    `stderr` is that of the lift from n rows. An A/B test with N rankings in two halves, both with the logger's
    spread s, has variance 4 s^2 / N; equal precision takes N = 4 n logged_stderr^2 / stderr^2 (s^2 = n
    logged_stderr^2).

    >>> plan = plan_for(1000, 0.1, logged=2.0, logged_stderr=0.05, level=0.95)
    >>> plan["ab_rows"], round(plan["detectable_relative"], 4), plan["rows_for"][-1]
    (1000, 0.1401, {'relative': 0.2, 'rows': 491})
    """
    lift = detectable(stderr, level=level)
    # Shares of a value that is not positive have no meaning; lifts have none there either.
    scale = max(logged, 0.0)
    # One row or unit has no error to plan with.
    counts = scale > 0 and not math.isnan(lift)
    wanted = sorted({*RELATIVE, *([practical] if practical else [])})
    return {
        "detectable_lift": lift,
        "detectable_relative": lift / scale if scale > 0 else math.nan,
        "curve": [{"rows": max(round(n * m), 1), "lift": lift / math.sqrt(m)} for m in MULTIPLES],
        "ab_rows": math.ceil(4 * n * (logged_stderr / stderr) ** 2) if stderr > 0 else None,
        "rows_for": [{"relative": r, "rows": math.ceil(n * (lift / (r * scale)) ** 2)} for r in wanted]
        if counts
        else [],
    }
