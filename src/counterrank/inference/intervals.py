"""Intervals: t, bootstrap, empirical Bernstein, Cressie-Read, and their names."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterrank.errors import ConfigError
from counterrank.inference.linear import degrees_of_freedom, variance
from counterrank.moments import Moments


def check_level(level: float) -> float:
    """Return `level` if it is a confidence level strictly between 0 and 1."""
    if not 0 < level < 1:
        raise ConfigError(
            f"the confidence level must lie between 0 and 1, such as 0.95; got {level}"
        )
    return level


def critical_value(level: float, df: float = math.inf) -> float:
    """Return the two-sided critical value of the normal (df infinite) or t distribution.

    >>> round(critical_value(0.95), 4), round(critical_value(0.95, df=10), 4)
    (1.96, 2.2281)
    """
    from scipy import special

    tail = 0.5 + check_level(level) / 2
    return float(special.ndtri(tail) if math.isinf(df) else special.stdtrit(df, tail))


def normal_interval(
    value: float, stderr: float, level: float, df: float = math.inf
) -> tuple[float, float]:
    """Return value -/+ critical value times standard error.

    >>> low, high = normal_interval(1.0, 0.5, 0.95)
    >>> round(low, 3), round(high, 3)
    (0.02, 1.98)
    """
    half = critical_value(level, df) * stderr
    return value - half, value + half


Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """A value, its standard error, the moments behind them, and the value as a function of the
    column means.

    `value_at(y, w)` gives values (B,) for means y and w (B, K); `linear` says that the value is the
    plain mean of row totals; `clustered` that rows belong to units; `seed` starts the resampling,
    the same for the same evidence.
    """

    value: float
    stderr: float
    moments: Moments
    value_at: Callable[[Floats, Floats], Floats]
    linear: bool = True
    clustered: bool = False
    seed: int = 0


def bernstein_half_width(variance: float, width: float, n: int, level: float) -> float:
    """Return sqrt(2 V ln(4/d) / n) + 7 R ln(4/d) / (3 (n - 1)), d = 1 - level (Maurer & Pontil
    2009, theorem 4).

    `variance` V of one row (n - 1 in the divisor), `width` R of its range; d/2 is spent on either
    side.

    >>> round(bernstein_half_width(1.0, 10.0, 10_000, 0.95), 4)
    0.0398
    """
    log_term = math.log(4 / (1 - check_level(level)))
    return math.sqrt(2 * variance * log_term / n) + 7 * width * log_term / (3 * (n - 1))


def bernstein_interval(evidence: Evidence, level: float) -> tuple[float, float]:
    """Return value -/+ the half-width, with row totals taken to lie within the largest seen,
    [-max|T|, max|T|].

    The guarantee is that of the range: where a larger total than any seen is possible, use
    `bernstein_half_width` with the true range.
    """
    if not evidence.linear:
        raise ConfigError(
            "'bernstein' bounds a mean of independent rows; this value is a ratio or regression "
            "of means"
        )
    if evidence.clustered:
        raise ConfigError(
            "'bernstein' needs independent rows; those of this log belong to units: use 't' or "
            "'bootstrap'"
        )
    n = evidence.moments.n
    if n < 2:
        raise ConfigError("'bernstein' needs at least two rows")
    # Totals may be negative and their true range is unknown: symmetric around zero, as wide as the
    # largest seen.
    width = 2 * float(evidence.moments.peaks[-1])
    half = bernstein_half_width(evidence.stderr**2 * n, width, n, level)
    return evidence.value - half, evidence.value + half


#: Draws: the ends of a 95 % interval then have a Monte-Carlo error of about 3 % of its half-width.
DRAWS = 2000


def bootstrap_interval(
    evidence: Evidence, level: float, *, draws: int = DRAWS
) -> tuple[float, float]:
    """Return percentiles of the value over buckets drawn with replacement (Efron 1979, on
    clusters).
    """
    used = _buckets(evidence)
    count = len(used)
    drawn = np.random.default_rng([evidence.seed, 1]).integers(
        0, count, (draws, count), dtype=np.int32
    )
    # One bincount for all draws: draw b is counted in cells of its own.
    drawn += count * np.arange(draws, dtype=np.int32)[:, None]
    times = np.bincount(drawn.ravel(), minlength=draws * count).reshape(
        draws, count
    )  # (B, buckets)
    return _percentiles(evidence, level, used, times.astype(np.float64))


def poisson_interval(
    evidence: Evidence, level: float, *, draws: int = DRAWS
) -> tuple[float, float]:
    """Return percentiles with each bucket counted Poisson(1) times (Chamandy et al. 2012): needs no
    total.
    """
    used = _buckets(evidence)
    times = np.random.default_rng([evidence.seed, 2]).poisson(
        1.0, size=(draws, len(used))
    )  # (B, buckets)
    return _percentiles(evidence, level, used, times.astype(np.float64))


def _percentiles(
    evidence: Evidence, level: float, used: Floats, times: Floats
) -> tuple[float, float]:
    length = evidence.moments.K
    sums = times @ used  # (B, 2K+2), the number of rows last
    sums = sums[
        sums[:, -1] > 0
    ]  # with few units a Poisson draw may hold no row at all, and so no value
    means = sums[:, : 2 * length] / sums[:, -1:]
    values = evidence.value_at(means[:, :length], means[:, length:])
    tail = (1 - check_level(level)) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)


def _buckets(evidence: Evidence) -> Floats:
    table = evidence.moments.buckets
    if table is None:
        raise ConfigError(
            "a bootstrap needs sums by unit, which were not collected: give the log a `unit` "
            "column, or estimate with by_unit=True, which makes a unit of each row"
        )
    used: Floats = table[table[:, -1] > 0]
    if len(used) < 2:
        raise ConfigError("a bootstrap needs at least two units; this log has one")
    return used


def control_coefficients(moments: Moments) -> Floats:
    """Return beta (K, K): row k regresses y_k on all weights, Cov(y_k, w) Cov(w)^-1; needs the Gram
    matrix.

    Weights may be equal or constant (IPS has one for all positions), hence the pseudo-inverse.
    """
    length = moments.K
    # Fitted on the rows it corrects: the bias is of order K / n, far below the standard error.
    covariance = moments.covariance
    of_w = covariance[length : 2 * length, length : 2 * length]
    beta: Floats = covariance[:length, length : 2 * length] @ np.linalg.pinv(
        of_w, rcond=1e-10, hermitian=True
    )
    return beta


def cressie_read_interval(evidence: Evidence, level: float) -> tuple[float, float]:
    """Return the interval of the quadratic (Euclidean) member of the family, which has a closed
    form.

    Over reweightings q with sum q = 1 and sum_i q_i w_ik = 1, the profile of sum_i (n q_i - 1)^2 in
    theta = sum_i q_i T_i is n (theta - c)^2 / s^2, where c = mean T - beta'(mean w - 1) and s^2 is
    the variance of the residual T - beta'w. It is compared with F(1, df), the small-sample form of
    chi-square (Karampatziakis, Langford & Mineiro 2020, whose two-moment case this extends to K
    weights).
    """
    from scipy import special

    moments = evidence.moments
    if moments.gram is None:
        raise ConfigError(
            "'cressie-read' needs products of weights and contributions, which were not collected: "
            "estimate with full=True, or use a self-normalised or control-variate estimator (such "
            "as snips), which collects them"
        )
    beta = moments.alpha @ control_coefficients(moments)  # (K,)
    centre = float(moments.alpha @ moments.mean("y") - beta @ (moments.mean("w") - 1.0))
    gradient = np.concatenate([moments.alpha, -beta, [0.0]])
    # K coefficients were fitted on the same rows.
    df = max(degrees_of_freedom(moments) - moments.K, 1)
    half = math.sqrt(float(special.fdtri(1, df, check_level(level))) * variance(moments, gradient))
    return centre - half, centre + half


Interval = tuple[float, float]


def _t(evidence: Evidence, level: float) -> Interval:
    return normal_interval(
        evidence.value, evidence.stderr, level, degrees_of_freedom(evidence.moments)
    )


def _normal(evidence: Evidence, level: float) -> Interval:
    return normal_interval(evidence.value, evidence.stderr, level)


METHODS: dict[str, Callable[[Evidence, float], Interval]] = {
    "t": _t,
    "normal": _normal,
    "bootstrap": bootstrap_interval,
    "poisson": poisson_interval,
    "bernstein": bernstein_interval,
    "cressie-read": cressie_read_interval,
}


def interval(evidence: Evidence, level: float, method: str = "t") -> Interval:
    """Return (low, high) by the method of that name, or say which there are."""
    if method not in METHODS:
        raise ConfigError(f"there is no interval method '{method}'; known: {', '.join(METHODS)}")
    return METHODS[method](evidence, level)


def unavailable(method: str, estimator: str) -> ConfigError:
    """Return the error for an estimate that keeps no moments."""
    if method not in METHODS:
        return ConfigError(f"there is no interval method '{method}'; known: {', '.join(METHODS)}")
    return ConfigError(
        f"'{estimator}' makes its own interval and keeps no moments for '{method}'; use method='t'"
    )
