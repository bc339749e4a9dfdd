"""Standard errors and intervals from additive moments.

Linear combinations of means, intervals by every method, with room for a bias, and bounds by
betting.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from counterrank.arrays import Floats
from counterrank.errors import ConfigError
from counterrank.kernels.jit import jit
from counterrank.weights.moments import Moments
from counterrank.weights.variance import degrees_of_freedom, variance


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


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """A value, its standard error, the moments behind them, and the value as a function of the column means.

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
    """Return sqrt(2 V ln(4/d) / n) + 7 R ln(4/d) / (3 (n - 1)), d = 1 - level (Maurer & Pontil 2009, theorem 4).

    `variance` V of one row (n - 1 in the divisor), `width` R of its range; d/2 is spent on either
    side.

    >>> round(bernstein_half_width(1.0, 10.0, 10_000, 0.95), 4)
    0.0398
    """
    log_term = math.log(4 / (1 - check_level(level)))
    return math.sqrt(2 * variance * log_term / n) + 7 * width * log_term / (3 * (n - 1))


def bernstein_interval(evidence: Evidence, level: float) -> tuple[float, float]:
    """Return value -/+ the half-width, with row totals taken to lie within the largest seen, [-max|T|, max|T|].

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


def bootstrap_interval(evidence: Evidence, level: float) -> tuple[float, float]:
    """Return percentiles of the value over buckets drawn with replacement (Efron 1979, on clusters)."""
    used = _buckets(evidence)
    count = len(used)
    drawn = np.random.default_rng([evidence.seed, 1]).integers(
        0, count, (DRAWS, count), dtype=np.int32
    )
    # One bincount for all draws: draw b is counted in cells of its own.
    drawn += count * np.arange(DRAWS, dtype=np.int32)[:, None]
    times = np.bincount(drawn.ravel(), minlength=DRAWS * count).reshape(DRAWS, -1)  # (B, buckets)
    return _percentiles(evidence, level, used, times.astype(np.float64))


def poisson_interval(evidence: Evidence, level: float) -> tuple[float, float]:
    """Return percentiles with each bucket counted Poisson(1) times (Chamandy et al. 2012): needs no total."""
    used = _buckets(evidence)
    rng = np.random.default_rng([evidence.seed, 2])
    times = rng.poisson(1.0, size=(DRAWS, len(used)))  # (B, buckets)
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
    """Return beta (K, K): row k regresses y_k on all weights, Cov(y_k, w) Cov(w)^-1; needs the Gram matrix.

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
    """Return the interval of the quadratic (Euclidean) member of the family, which has a closed form.

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


#: Halvings of the bracket: from a width of 10 to below 1e-12.
_HALVINGS = 44


def bias_aware_value(bias: float, level: float, df: float = math.inf) -> float:
    """Return cv(b), the `level` quantile of |N(b, 1)|, b = bias in standard errors (Armstrong & Kolesar 2018, 2021).

    If an estimate is off by at most b of its standard errors s, then estimate -/+ s cv(b) covers
    with probability `level` at least. cv is z at b = 0 and b + (one-sided z) for large b: shorter
    than the sum z + b, because an error can only leave through one end. With few units the t
    quantile's excess over z is added.

    >>> [round(bias_aware_value(b, 0.95), 4) for b in (0.0, 1.0, 5.0)]
    [1.96, 2.6461, 6.6449]
    """
    from scipy.special import ndtr

    # cv(b) lies between b (the distribution's centre) and b + z (a bias and a two-sided error at
    # once).
    low, high = abs(bias), abs(bias) + critical_value(level)
    excess = 0.0 if math.isinf(df) else critical_value(level, df) - critical_value(level)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if ndtr(middle - abs(bias)) - ndtr(-middle - abs(bias)) < check_level(level):
            low = middle
        else:
            high = middle
    return high + excess


def bias_aware_half(stderr: float, bias: float, level: float, df: float = math.inf) -> float:
    """Return half the length of the interval, s cv(B/s); the bias alone where there is no sampling error.

    >>> bias_aware_half(0.0, 0.3, 0.95), round(bias_aware_half(2.0, 0.0, 0.95), 3)
    (0.3, 3.92)
    """
    if not stderr > 0:
        return abs(bias) if stderr == 0 else math.nan
    return stderr * bias_aware_value(bias / stderr, level, df)


#: Share of the largest allowed stake: at all of it one worst row takes everything.
_SAFE = 0.9
#: Values that the expected spread counts for, beside those that were seen.
_TRUST = 100.0
#: Means that are tried: so many to a standard error, up to four of them away, then ever further.
_FINE, _NEAR, _GROWTH, _FAR = 32, 128, 1.05, 400
#: One stake for all: relative to the one that is best for the expected spread, and how the capital
#: is divided among them. Where the spread was misjudged by a factor of two, one still fits.
_STAKES = np.array([0.25, 0.5, 1.0, 1.5])
_SHARES = np.array([0.1, 0.2, 0.5, 0.2])
_BET_HALVINGS = 60


def betting_lower_bound(
    values: Floats,
    lowest: float,
    delta: float,
    *,
    spread: float,
    around: float,
    counts: Floats | None = None,
) -> float:
    """Return a lower bound of the mean of X that is wrong with probability at most `delta`, at every n.

    `values` (n,) are independent, of one law, and at least `lowest`. `spread`, their expected
    standard deviation, and `around`, their expected mean, must not come from these rows: they
    decide how sharp the bound is, never whether it holds. With `counts` (n,), values are sums over
    units of so many rows each, and the mean is that of a row. Where counts differ, one stake is
    used for all units, because stakes that change need units of one law.

    >>> rng = np.random.default_rng(1)
    >>> x = rng.random(1000)
    >>> 0.45 < betting_lower_bound(x, 0.0, 0.05, spread=0.3, around=0.5) < 0.5
    True
    """
    if not len(values):
        return lowest
    if counts is None:
        return _recalculated(values, lowest, delta, max(spread, 1e-12), around)
    if counts.min() == counts.max():
        rows = float(counts[0])
        return _recalculated(values / rows, lowest, delta, max(spread / rows, 1e-12), around)
    return _one_stake(values, lowest, delta, max(spread, 1e-12), counts)


def _recalculated(
    values: Floats, lowest: float, delta: float, spread: float, around: float
) -> float:
    """Return the last of the tried means that was refuted, going up until one is not.

    The bound is too high only if the first tried mean above the true one was refuted: one test at
    level delta, whatever the others do. So the means to try must be fixed before.
    """
    sample = np.ascontiguousarray(values, dtype=np.float64)
    found = lowest
    for mu in tried(lowest, around, spread / math.sqrt(len(sample))):
        if not refuted(sample, mu, _SAFE / (mu - lowest), delta, spread, _TRUST):
            break
        found = float(mu)
    # A smaller bound holds too, and one above the mean would only puzzle.
    return min(found, max(float(sample.mean()), lowest))


@jit
def refuted(
    values: Floats, mu: float, most: float, delta: float, spread: float, trust: float
) -> bool:
    """Return whether bets on `values`, in their order, multiply a capital by 1/delta.

    They are bets against the claim that the mean is at most `mu`.

    Each stake is a function of the values before it: of the growth still wanted, the values still
    to come, and their second moment about `mu` so far, where `spread` counts as `trust` values. No
    stake is above `most`.
    """
    n = len(values)
    missing = math.log(1.0 / delta)
    squares, seen = trust * spread * spread, trust
    for t in range(n):
        stake = math.sqrt(2.0 * missing * seen / (squares * (n - t)))
        away = values[t] - mu
        missing -= math.log1p(min(stake, most) * away)
        if missing <= 0.0:
            return True
        squares += away * away
        seen += 1.0
    return False


def tried(lowest: float, around: float, stderr: float) -> Floats:
    """Return the means to try, rising: close to each other near `around`, further apart beyond."""
    steps = np.concatenate([np.arange(_NEAR), _NEAR * _GROWTH ** np.arange(_FAR)])
    away = steps * stderr / _FINE
    means: Floats = np.concatenate([around - away[:0:-1], around + away])
    return means[means > lowest]


def _one_stake(values: Floats, lowest: float, delta: float, spread: float, counts: Floats) -> float:
    """Return the largest mean at which a capital divided among a few stakes reaches 1/delta.

    Given the counts, E prod_i (1 + b (X_i - mu N_i)) <= exp(b sum_i (E X_i - mu N_i)) for fixed b,
    whatever the mean of each unit is. The capital falls in mu, so halving finds the bound.
    """
    rows = np.asarray(counts, dtype=np.float64)
    wanted = math.log(1.0 / delta)
    stakes = _STAKES * math.sqrt(2.0 * wanted / len(values)) / spread

    def grows(mu: float) -> bool:
        most = _SAFE / max((mu - lowest) * float(rows.max()), 1e-300)
        logs = np.log1p(np.minimum(stakes, most)[:, None] * (values - mu * rows)).sum(axis=1)
        peak = float(logs.max())
        return peak + math.log(float(_SHARES @ np.exp(logs - peak))) >= wanted

    low, high = lowest, float(values.sum() / rows.sum())
    if high <= lowest or grows(high):
        return high
    for _ in range(_BET_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if grows(middle) else (low, middle)
    return low
