"""What is estimated: a value, how the columns of a sample move it, and how wrong it may be beyond them.

Every estimate is a smooth function of means of columns. Differences and ratios of estimates are such
functions too, whose errors follow from the covariance of the means (the delta method):

    lift = new - logger
    relative = new.relative_to(logger)
    lift.interval(0.95)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from counterrank.arrays import Floats
from counterrank.records import Record
from counterrank.statistics.critical import ONCE, Looks, bias_aware_half, correlation_of
from counterrank.statistics.sums import Sample, Sums, unit_sums

Interval = tuple[float, float]


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


@dataclass(frozen=True, eq=False)
class Quantity:
    """A value that depends on the means of a sample's columns.

    ============  =============================================================================
    `gradient`    (T,) how each column moves the value
    `allowance`   a bound of its bias, which the interval has room for
    `inflation`   how many times larger its standard error is than the rows alone say
    `extra`       a variance that the rows do not show: that of a fitted model
    `shift`       where the interval is centred, less the value
    `freedom`     degrees of freedom of its standard error; by default those of the sample
    ============  =============================================================================
    """

    sample: Sample
    value: float
    gradient: Floats
    allowance: float = 0.0
    inflation: float = 1.0
    extra: float = 0.0
    shift: float = 0.0
    freedom: float | None = None

    @cached_property
    def stderr(self) -> float:
        """The standard error; NaN from one row or unit."""
        if not np.isfinite(self.gradient).all():
            return math.nan
        variance = float(self.sample.covariance(self.gradient[None])[0, 0])
        return self.inflation * math.sqrt(max(variance + self.extra, 0.0))

    @property
    def df(self) -> float:
        """Degrees of freedom of the standard error."""
        return max(self.sample.units - 1, 1) if self.freedom is None else self.freedom

    def __sub__(self, other: Self) -> Self:
        return self._joined(
            other,
            value=self.value - other.value,
            gradient=self.gradient - other.gradient,
            # The two biases may point in opposite ways.
            allowance=self.allowance + other.allowance,
            extra=self.extra + other.extra,
            shift=self.shift - other.shift,
        )

    def __truediv__(self, other: Self) -> Self:
        if other.value == 0 or not math.isfinite(other.value):
            return replace(self, value=math.nan, gradient=np.full_like(self.gradient, np.nan))
        # d(a / b) = (da - (a / b) db) / b
        ratio, below = self.value / other.value, other.value
        return self._joined(
            other,
            value=ratio,
            gradient=(self.gradient - ratio * other.gradient) / below,
            allowance=(self.allowance + abs(ratio) * other.allowance) / abs(below),
            extra=(self.extra + ratio**2 * other.extra) / below / below,
            shift=(self.shift - ratio * other.shift) / below,
        )

    def _joined(self, other: Self, **changes: float | Floats) -> Self:
        known = [one for one in (self.freedom, other.freedom) if one is not None]
        return replace(
            self,
            inflation=max(self.inflation, other.inflation),
            freedom=min(known, default=None),
            **changes,  # type: ignore[arg-type]
        )

    def relative_to(self, other: Self) -> Self:
        """Return this value over another, less one; unknown where the other is not above zero."""
        ratio = self / other
        return replace(ratio, value=ratio.value - 1.0 if other.value > 0 else math.nan)

    def half(self, level: float, looks: Looks = ONCE) -> float:
        """Return half the length of the interval: s cv(B / s), at one look or at all looks together."""
        wanted = looks.level(level, self.sample.n)
        if wanted < 1.0:
            return bias_aware_half(self.stderr, self.allowance, wanted, self.df)
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
        away = max(abs(self.value + self.shift) - self.allowance, 0.0)
        return looks.p_value(away, self.stderr, self.sample.n, level)

    def at_least(self, stderr: float) -> Self:
        """Return the same with a standard error that is no smaller than this."""
        own = self.stderr
        if not stderr > own:
            return self
        if own == 0:
            return replace(self, extra=self.extra + (stderr / self.inflation) ** 2)
        return replace(self, inflation=self.inflation * stderr / own)

    def without_error(self) -> Self:
        """Return the value whose error is not known."""
        return replace(self, inflation=math.nan)


def mean(sums: Sums, column: int) -> Quantity:
    """Return the mean of a column."""
    return Quantity(sums, float(sums.total[column] / sums.size), np.eye(len(sums.total))[column])


def nothing(like: Quantity) -> Quantity:
    """Return zero without error: a policy against itself."""
    return Quantity(like.sample, 0.0, np.zeros_like(like.gradient))


def means_of(columns: Sequence[Floats], unit: NDArray[np.generic] | None) -> list[Quantity]:
    """Return the means of columns (n,) in memory; rows of one unit (n,) belong together."""
    rows = np.stack(columns)
    n = rows.shape[1]
    group = np.arange(n) if unit is None else np.unique(unit, return_inverse=True)[1]
    table = unit_sums(rows, group, int(group.max(initial=0)) + 1)
    sums = Sums(n, rows.sum(axis=1), by_unit=table)
    return [mean(sums, column) for column in range(len(rows))]


def correlations(quantities: Sequence[Quantity]) -> Floats:
    """Return the correlations (m, m) of quantities of one sample; 0 where nothing is known."""
    gradients = np.stack([np.nan_to_num(one.gradient) for one in quantities])
    return correlation_of(quantities[0].sample.covariance(gradients))


@dataclass(frozen=True, slots=True, eq=False)
class Contrast:
    """A value, its difference to a baseline's, and their ratio less one."""

    value: Quantity
    lift: Quantity
    relative: Quantity

    @classmethod
    def between(cls, new: Quantity, base: Quantity) -> Self:
        """Return the contrast of two values of one sample."""
        return cls(new, new - base, new.relative_to(base))

    def at_least(self, value: float, lift: float) -> Self:
        """Return the same with standard errors of value and lift that are no smaller than these."""
        own = self.lift.stderr
        share = self.relative.stderr * lift / own if own > 0 else 0.0
        return type(self)(
            self.value.at_least(value), self.lift.at_least(lift), self.relative.at_least(share)
        )

    def without_error(self) -> Self:
        """Return the values alone."""
        return type(self)(*(one.without_error() for one in (self.value, self.lift, self.relative)))
