"""What a log can detect, how many rows a question needs, what an A/B test or more exploration would
give.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.diagnostics.overlap import thinned
from counterrank.errors import CounterrankError
from counterrank.log import LOGGING, RankingLog
from counterrank.ratios import numbers, ratios_of

#: Rows of the curve, as multiples of the log.
MULTIPLES = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0, 30.0, 100.0)
#: Relative lifts for which the needed rows are listed.
RELATIVE = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
POWER = 0.8


def detectable(stderr: float, *, level: float = 0.95, power: float = POWER) -> float:
    """Return the smallest true lift that a two-sided test at 1 - level finds with probability
    `power`.

    (z_{1-alpha/2} + z_power) * stderr (Cohen 1988); the other tail's chance is ignored.

    >>> round(detectable(1.0), 3)
    2.802
    """
    from scipy import special

    return float(special.ndtri(0.5 + level / 2) + special.ndtri(power)) * stderr


def plan_for(
    n: int,
    stderr: float,
    *,
    logged: float,
    logged_stderr: float,
    level: float,
    practical: float | None = None,
) -> dict[str, Any]:
    """Return detectable lifts, the rows needed, and the A/B traffic of equal precision.

    `stderr` is that of the lift from n rows. An A/B test with N rankings in two halves, both with
    the logger's spread s, has variance 4 s^2 / N; equal precision takes N = 4 n logged_stderr^2 /
    stderr^2 (s^2 = n logged_stderr^2).

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
        "rows_for": [
            {"relative": r, "rows": math.ceil(n * (lift / (r * scale)) ** 2)} for r in wanted
        ]
        if counts
        else [],
    }


Floats = NDArray[np.float64]

EPSILONS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


def stderr_ratios(
    log: RankingLog, target: str, weights: str, order: int | None = None
) -> list[dict[str, float]]:
    """Return for each share e of uniform choice the predicted stderr relative to today's, for
    weights by their word.

    sqrt(M(e) / M(0)) with M the mean over rows and positions of alpha_k^2 E[w_k^2]; rewards are
    taken to be as spread where weights are large as elsewhere. Empty when positions are not
    independent.
    """
    log = thinned(log)
    factors = [second_moments(log, target, epsilon) for epsilon in EPSILONS]
    if any(factor is None for factor in factors):
        return []
    used = np.arange(log.K) < log.lengths[:, None]
    alpha = log.position_weights**2
    totals = [
        float((combined(f, weights, order) * used).mean(axis=0) @ alpha)
        for f in factors
        if f is not None
    ]
    return [
        {"epsilon": epsilon, "stderr_ratio": float(np.sqrt(total / totals[0]))}
        for epsilon, total in zip(EPSILONS, totals, strict=True)
        if totals[0] > 0
    ]


def second_moments(log: RankingLog, target: str, epsilon: float) -> Floats | None:
    """Return s_k (n, K) with mean E_b[rho_k^2] for the mixed logger, or None when positions are not
    independent.
    """
    old, new = log.distribution(LOGGING), log.distribution(target)
    if old is not None and new is not None:
        old, new = (
            table[:, None] if table.ndim == 2 else table for table in (old, new)
        )  # (n, 1 or K, A)
        b = (1 - epsilon) * old + epsilon / old.shape[-1]
        shape = np.broadcast_shapes(new.shape, b.shape)
        sums = np.divide(new**2, b, out=np.zeros(shape), where=np.broadcast_to(b > 0, shape)).sum(
            axis=-1
        )
        return np.broadcast_to(sums, log.action.shape)
    try:
        if ratios_of(log, target).kind != "factored":
            return None
    except CounterrankError:
        return None
    p0 = numbers(log.propensity, log, "factored")
    pi = numbers(log.target(target), log, "factored")
    # Rows come from p0, but the moment is wanted under b: E_b[rho^2] = E_0[(pi / b)^2 b / p0] =
    # E_0[pi^2 / (b p0)].
    b = (1 - epsilon) * p0 + epsilon / log.n_actions
    return np.where(log.action >= 0, pi**2 / (b * p0), 1.0)


def combined(s: Floats, weights: str, order: int | None = None) -> Floats:
    """Return E[w_k^2] (n, K) of weights ("ips", "rips", "iips", or an order) from the moments s_k
    of positions.

    IPS: prod_l s_l. RIPS: prod_{l<=k} s_l. IIPS: s_k. Order m: s_k sum_{|T|<m} prod_{l in T} (s_l -
    1), because factors rho_l - 1 have mean zero and variance s_l - 1. Others are taken as order 2.
    """
    if weights == "ips":
        return np.repeat(s.prod(axis=1, keepdims=True), s.shape[1], axis=1)
    if weights == "rips":
        return np.asarray(np.cumprod(s, axis=1), dtype=np.float64)
    if weights == "iips":
        return s
    from counterrank.kernels.weights import ordered

    # The same polynomial as the weights' own.
    length = s.shape[1]
    result = np.empty((length, len(s)))
    ordered(np.ascontiguousarray(s.T), np.ones((length, length), bool), order or 2, result)
    return result.T
