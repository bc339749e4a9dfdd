"""Estimated numbers that know how they vary together: differences and ratios by the delta method."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from counterrank.evaluation.passing import RowTotals
from counterrank.inference import bias_aware_half, correlation_of

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """A value whose error is the mean of a combination of row totals.

    `gradient` (T,) says how each column of the totals moves it; `allowance` bounds its bias;
    `inflation` is how many times larger its standard error is known to be than rows alone say. The
    gradient of a ratio a / b is (g_a - (a / b) g_b) / b.
    """

    value: float
    gradient: Floats
    allowance: float = 0.0
    inflation: float = 1.0

    def __sub__(self, other: Self) -> Self:
        return replace(
            self,
            value=self.value - other.value,
            gradient=self.gradient - other.gradient,
            # The two biases may point in opposite ways.
            allowance=self.allowance + other.allowance,
            inflation=max(self.inflation, other.inflation),
        )

    def __truediv__(self, other: Self) -> Self:
        if other.value == 0 or not math.isfinite(other.value):
            return replace(self, value=math.nan, gradient=np.full_like(self.gradient, np.nan))
        ratio = self.value / other.value
        return replace(
            self,
            value=ratio,
            gradient=(self.gradient - ratio * other.gradient) / other.value,
            allowance=(self.allowance + abs(ratio) * other.allowance) / abs(other.value),
            inflation=max(self.inflation, other.inflation),
        )

    def relative_to(self, other: Self) -> Self:
        """Return this value over another, less one; unknown where the other is not above zero."""
        ratio = self / other
        return replace(ratio, value=ratio.value - 1.0 if other.value > 0 else math.nan)


def covariance(quantities: Sequence[Quantity], totals: RowTotals) -> Floats:
    """Return the covariance of estimated quantities (m, m), from rows or from units."""
    gradients = np.stack([one.gradient for one in quantities])
    scale = np.array([one.inflation for one in quantities])
    found: Floats = totals.covariance(gradients) * np.outer(scale, scale)
    return found


def stderr(quantity: Quantity, totals: RowTotals) -> float:
    """Return the standard error of a quantity."""
    if not np.isfinite(quantity.gradient).all():
        return math.nan
    return quantity.inflation * math.sqrt(totals.variance(quantity.gradient))


def ends(quantity: Quantity, totals: RowTotals, level: float) -> tuple[float, float]:
    """Return the interval of a quantity, with room for its bias."""
    half = bias_aware_half(
        stderr(quantity, totals), quantity.allowance, level, max(totals.units - 1, 1)
    )
    return quantity.value - half, quantity.value + half


def correlations(quantities: Sequence[Quantity], totals: RowTotals) -> Floats:
    """Return the correlations of estimated quantities (m, m); 0 where nothing is known."""
    gradients = [
        replace(one, gradient=np.nan_to_num(one.gradient), inflation=1.0) for one in quantities
    ]
    return correlation_of(covariance(gradients, totals))
