"""What is estimated: a value, how the columns of a sample move it, and how wrong it may be beyond them.

Every estimate is a smooth function of means of columns. Differences and ratios of estimates are such
functions too, whose errors follow from the covariance of the means (the delta method):

    lift = new - logger
    relative = new.relative_to(logger)
    lift.interval(0.95)

Intervals reach so many standard errors to either side: critical values of one look or of many, with room
for a bias.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.common.arrays import Bools, Floats
from counterrank.common.errors import ConfigError
from counterrank.common.records import Record
from counterrank.statistics.sums import Sample, Sums, unit_sums

Interval = tuple[float, float]


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


def two_sided(value: float, stderr: float) -> float:
    """Return the two-sided normal p-value of value = 0.

    Without a positive error nothing can be tested, whatever the difference: 1. So it is when either
    is unknown (NaN).

    >>> round(two_sided(1.96, 1.0), 4), two_sided(0.3, 0.0), two_sided(5.0, math.nan)
    (0.05, 1.0, 1.0)
    """
    if math.isnan(value) or not stderr > 0:
        return 1.0
    return math.erfc(abs(value) / stderr / math.sqrt(2))


@dataclass(frozen=True, slots=True)
class Looks:
    """How often a log is looked at: once (`rows` None), or at any time, with intervals shortest at about `rows` rows.

    With r = n rho^2 the critical value is sqrt(2 (1 + 1/r) log(sqrt(1 + r) / alpha)), wider than
    the normal one by about 1.55 at `rows` and by less than 2 from a tenth to a thousand times that.
    `rows` must be the same at every look: rho is what is fixed in advance.
    """

    rows: int | None = None

    def critical(self, level: float, n: int) -> float:
        """Return how many standard errors an interval reaches to either side, from n rows.

        >>> round(Looks().critical(0.95, 500), 3), round(Looks(10_000).critical(0.95, 10_000), 3)
        (1.96, 3.035)
        """
        if self.rows is None:
            return critical_value(level)
        r = self._ratio(level, n)
        return math.sqrt(2 * (1 + 1 / r) * math.log(math.sqrt(1 + r) / (1 - level)))

    def level(self, level: float, n: int) -> float:
        """Return the level at which a normal interval is as wide."""
        return level if self.rows is None else math.erf(self.critical(level, n) / math.sqrt(2))

    def p_value(self, value: float, stderr: float, n: int, level: float = 0.95) -> float:
        """Return the p-value of value = 0: the smallest alpha whose interval leaves out 0, rho being that of `level`.

        >>> looks = Looks(10_000)
        >>> round(looks.p_value(looks.critical(0.95, 3000), 1.0, 3000), 6)
        0.05
        """
        if self.rows is None or math.isnan(value) or not stderr > 0:
            return two_sided(value, stderr)
        # The interval solved for alpha: z^2 = 2 (1 + 1/r) log(sqrt(1 + r) / alpha).
        r, z = self._ratio(level, n), value / stderr
        return min(1.0, math.sqrt(1 + r) * math.exp(-(z**2) * r / (2 * (1 + r))))

    def _ratio(self, level: float, n: int) -> float:
        assert self.rows is not None
        # rho^2 that makes the interval about shortest at `rows`; the width there is nearly flat in
        # rho, so a wrong guess of the final size costs little.
        spent = -2 * math.log(1 - check_level(level))
        return n * (spent + math.log(spent + 1)) / self.rows


#: One look, planned beforehand.
ONCE = Looks()


#: Halvings of the bracket: from a width of 10 to below 1e-12.
_HALVINGS = 44


@lru_cache(4096)
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
    plain = critical_value(level)
    low, high = abs(bias), abs(bias) + plain
    excess = 0.0 if math.isinf(df) else critical_value(level, df) - plain
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if ndtr(middle - abs(bias)) - ndtr(-middle - abs(bias)) < level:
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


def holm(p_values: ArrayLike) -> Floats:
    """Return Holm's step-down adjusted p-values (1979): p_(j) times the number not yet passed, made monotone.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    result = np.empty_like(p)
    # Step-down: a hypothesis cannot be rejected before a smaller p-value was.
    result[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    return result


def benjamini_hochberg(p_values: ArrayLike) -> Floats:
    """Return p-values adjusted for the false-discovery rate (1995): p_(j) times m / j, made monotone.

    >>> benjamini_hochberg([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.04, 0.04]
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(-p, kind="stable")
    result = np.empty_like(p)
    scaled = p[order] * (len(p) / np.arange(len(p), 0, -1))
    result[order] = np.minimum(np.minimum.accumulate(scaled), 1.0)
    return result


#: Draws behind a quantile; the level is then known to 0.0007, and the same for the same correlations.
_DRAWS = 100_000
#: More statistics than this are taken as independent, which is on the safe side.
_MOST = 40


def simultaneous_level(correlation: Floats, level: float) -> float:
    """Return the level of each interval at which m of them hold together with the wanted level.

    With Z normal of this correlation (m, m), the critical value c has P(max_j |Z_j| <= c) = level
    ("max-t"; Dunnett 1955, Hothorn, Bretz & Westfall 2008), and each interval has the level
    2 Phi(c) - 1. Statistics whose correlation is not known stand there with 0: by Royen's Gaussian
    correlation inequality (2014) the intervals are then wider than they need be, never narrower.

    >>> round(simultaneous_level(np.ones((1, 1)), 0.95), 6)
    0.95
    >>> round(simultaneous_level(np.eye(2), 0.95), 3) == round(0.95 ** 0.5, 3)
    True
    """
    check_level(level)
    m = len(correlation)
    if m < 2:
        return level
    independent: float = level ** (1.0 / m)  # Sidak 1967
    if m > _MOST:
        return independent
    values, vectors = np.linalg.eigh(correlation)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    rng = np.random.default_rng(20_26)
    largest = np.abs(rng.standard_normal((_DRAWS, m)) @ root.T).max(axis=1)
    critical = float(np.quantile(largest, level))
    # Between one statistic and as many independent ones, whatever the draws say.
    return min(max(math.erf(critical / math.sqrt(2.0)), level), independent)


def correlation_of(covariance: Floats) -> Floats:
    """Return correlations (m, m); 0 between statistics of which one does not vary.

    >>> correlation_of(np.array([[4.0, 2.0], [2.0, 4.0]])).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    error = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    scale = np.outer(error, error)
    shares = np.divide(covariance, scale, out=np.zeros_like(covariance), where=scale > 0)
    matrix: Floats = np.clip(np.nan_to_num(shares), -1.0, 1.0)
    np.fill_diagonal(matrix, 1.0)
    return matrix


@dataclass(frozen=True, slots=True)
class Number(Record):
    """A value with its standard error and interval."""

    value: float
    stderr: float = math.nan
    low: float = math.nan
    high: float = math.nan

    @property
    def width(self) -> float:
        """Length of the interval."""
        return self.high - self.low

    @property
    def figures(self) -> tuple[float, float, float, float]:
        """Value, standard error and both ends: what records of more than a number begin with."""
        return self.value, self.stderr, self.low, self.high


_NOTHING = np.zeros(0)
Q = TypeVar("Q", bound="Quantity")


@dataclass(frozen=True, eq=False)
class Quantity:
    """A value that depends on the means of a sample's columns.

    Differences, sums, multiples and ratios of quantities of one sample are quantities, by the delta method.
    What two of them share (rows, a fitted model, estimated propensities) is subtracted where they are.

    ==================  =========================================================================
    `gradient`          (T,) how each column moves the value
    `refits`            (F,) how the value moves with each fold that fitted models leave out, in the
                        scale in which their squares add up to a variance
    `replicas`          (R,) values over bootstrap replicas, less any constant; the standard error is
                        no smaller than their standard deviation
    `model_variance`    a variance that neither rows nor folds show
    `allowance`         a bound of its bias, which the interval has room for
    `shift`             where the interval is centred, less the value
    ==================  =========================================================================
    """

    sample: Sample
    value: float
    gradient: Floats
    refits: Floats = field(default_factory=lambda: _NOTHING)
    replicas: Floats = field(default_factory=lambda: _NOTHING)
    model_variance: float = 0.0
    allowance: float = 0.0
    shift: float = 0.0

    @cached_property
    def stderr(self) -> float:
        """The standard error; NaN from one row or unit."""
        variance = float(covariance_of([self])[0, 0])
        error = math.sqrt(max(variance, 0.0)) if not math.isnan(variance) else math.nan
        if len(self.replicas) < 2 or math.isnan(error):
            return error
        return max(error, float(np.std(self.replicas, ddof=1)))

    @property
    def df(self) -> float:
        """Degrees of freedom of the standard error."""
        return self.sample.freedom(self.gradient)

    def __add__(self, other: Self) -> Self:
        return _linear(self.value + other.value, (1.0, self), (1.0, other))

    def __sub__(self, other: Self) -> Self:
        return _linear(self.value - other.value, (1.0, self), (-1.0, other))

    def __mul__(self, factor: float) -> Self:
        return _linear(factor * self.value, (factor, self))

    def __truediv__(self, other: Self) -> Self:
        if other.value == 0 or not math.isfinite(other.value):
            return replace(self, value=math.nan, gradient=np.full_like(self.gradient, np.nan))
        # d(a / b) = (da - (a / b) db) / b
        ratio, below = self.value / other.value, other.value
        return _linear(ratio, (1.0 / below, self), (-ratio / below, other))

    def relative_to(self, baseline: Self) -> Self:
        """Return this value over another, less one; unknown where the other is not above zero."""
        ratio = self / baseline
        return replace(ratio, value=ratio.value - 1.0 if baseline.value > 0 else math.nan)

    def half(self, level: float, looks: Looks = ONCE) -> float:
        """Return half the length of the interval: s cv(B / s), at one look or at all looks together."""
        at_look = looks.level(level, self.sample.n)
        if at_look < 1.0:
            return bias_aware_half(self.stderr, self.allowance, at_look, self.df)
        # Few rows beside those that the looks are planned for: the level rounds to one, but the width
        # is known.
        return self.allowance + looks.critical(level, self.sample.n) * self.stderr

    def interval(self, level: float, looks: Looks = ONCE, family: int = 1) -> Interval:
        """Return the interval; `family` of them hold together by Bonferroni's inequality."""
        half, centre = self.half(1.0 - (1.0 - level) / family, looks), self.value + self.shift
        return centre - half, centre + half

    def number(self, level: float, looks: Looks = ONCE, family: int = 1) -> Number:
        """Return the value with its standard error and interval."""
        return Number(self.value, self.stderr, *self.interval(level, looks, family))

    def p_value(self, level: float = 0.95, looks: Looks = ONCE) -> float:
        """Return the p-value of a true value of zero, or of what the allowed bias could make of it."""
        distance = max(abs(self.value + self.shift) - self.allowance, 0.0)
        return looks.p_value(distance, self.stderr, self.sample.n, level)

    def zero_like(self) -> Self:
        """Return zero without error: a policy against itself."""
        return type(self)(self.sample, 0.0, np.zeros_like(self.gradient))


def _linear(value: float, *terms: tuple[float, Q]) -> Q:
    """Return a value that moves as a linear combination of others does."""
    gradient = terms[0][0] * terms[0][1].gradient
    for factor, term in terms[1:]:
        gradient = gradient + factor * term.gradient
    first = terms[0][1]
    return type(first)(
        first.sample,
        value,
        gradient,
        refits=_combined([(factor, term.refits) for factor, term in terms]),
        replicas=_combined([(factor, term.replicas) for factor, term in terms]),
        model_variance=sum(factor**2 * term.model_variance for factor, term in terms),
        # Biases may point in opposite ways.
        allowance=sum(abs(factor) * term.allowance for factor, term in terms),
        shift=sum(factor * term.shift for factor, term in terms),
    )


def _combined(terms: Sequence[tuple[float, Floats]]) -> Floats:
    """Return a combination of vectors; a shorter one has zeros behind it."""
    length = max(len(vector) for _, vector in terms)
    if not length:
        return _NOTHING
    total = np.zeros(length)
    for factor, vector in terms:
        total[: len(vector)] += factor * vector
    return total


def mean(sums: Sums, column: int) -> Quantity:
    """Return the mean of a column."""
    return Quantity(sums, float(sums.total[column] / sums.size), np.eye(len(sums.total))[column])


def means_of(columns: Sequence[Floats], unit: NDArray[np.generic] | None) -> list[Quantity]:
    """Return the means of columns (n,) in memory; rows of one unit (n,) belong together."""
    rows = np.stack(columns)
    n = rows.shape[1]
    group = np.arange(n) if unit is None else np.unique(unit, return_inverse=True)[1]
    table = unit_sums(rows, group, int(group.max(initial=0)) + 1)
    sums = Sums(n, rows.sum(axis=1), by_unit=table)
    return [mean(sums, column) for column in range(len(rows))]


def contrast(value: Quantity, base: Quantity) -> tuple[Quantity, Quantity]:
    """Return the lift of a value over another and its relative lift; zero of a value over itself."""
    if value is base:
        return value.zero_like(), value.zero_like()
    return value - base, value.relative_to(base)


def covariance_of(quantities: Sequence[Quantity]) -> Floats:
    """Return the covariance (m, m) of quantities of one sample; NaN where one of them is not known."""
    gradients: Floats = np.stack([quantity.gradient for quantity in quantities])
    finite: Bools = np.isfinite(gradients).min(axis=1)
    total = quantities[0].sample.covariance(np.where(finite[:, None], gradients, 0.0))
    if length := max(len(quantity.refits) for quantity in quantities):
        refits = np.zeros((len(quantities), length))
        for row, quantity in zip(refits, quantities, strict=True):
            row[: len(quantity.refits)] = quantity.refits
        total = total + refits @ refits.T
    total = total + np.diag([term.model_variance for term in quantities])
    return np.where(finite[:, None] & finite, total, np.nan)


def correlations(quantities: Sequence[Quantity]) -> Floats:
    """Return the correlations (m, m) of quantities of one sample; 0 where nothing is known."""
    return correlation_of(np.nan_to_num(covariance_of(quantities)))
