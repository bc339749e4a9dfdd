"""Row totals: how estimates from the same rows vary together, and the errors of their differences.

Every estimate is a combination of columns of row totals. Differences and ratios of estimates are then
combinations too (the delta method), whose variance follows from the sums of the columns.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from counterrank.arrays import Floats
from counterrank.estimators import Estimate, Lift, PositionValue
from counterrank.evaluation.jobs import Job
from counterrank.inference import bias_aware_half, clustered_variances, correlation_of


@dataclass(frozen=True, slots=True, eq=False)
class RowTotals:
    """Sums and Gram matrix of per-row totals.

    Column 0 is what the logger earned, then come those of each plan.

    `absolute` sums |total|; `buckets` (1024, T+1) holds the sums by unit, with row counts last,
    when errors are clustered.
    """

    n: int
    sums: Floats
    gram: Floats
    absolute: Floats
    buckets: Floats | None = None

    def __add__(self, other: Self) -> Self:
        buckets = (
            None if self.buckets is None or other.buckets is None else self.buckets + other.buckets
        )
        absolute = self.absolute + other.absolute
        return type(self)(
            self.n + other.n, self.sums + other.sums, self.gram + other.gram, absolute, buckets
        )

    @property
    def units(self) -> int:
        """Number of independent pieces: rows, or at most 1024 buckets of units."""
        return self.n if self.buckets is None else int((self.buckets[:, -1] > 0).sum())

    def variance(self, combination: Floats) -> float:
        """Return the variance of the mean of a combination (T,) of the columns.

        NaN from one row or unit.
        """
        if self.units < 2:
            return float("nan")
        if self.buckets is not None:
            sums, counts = self.buckets[:, :-1] @ combination, self.buckets[:, -1]
            return float(clustered_variances(sums[:, None], counts)[0])
        mean = self.sums / self.n
        spread = self.gram / self.n - np.outer(mean, mean)
        return max(float(combination @ spread @ combination), 0.0) / (self.n - 1)

    def column(self, index: int) -> Quantity:
        """Return the mean of one column."""
        return Quantity(float(self.sums[index] / self.n), np.eye(len(self.sums))[index])

    def stderr(self, quantity: Quantity) -> float:
        """Return the standard error of a quantity."""
        if not np.isfinite(quantity.gradient).all():
            return math.nan
        return quantity.inflation * math.sqrt(self.variance(quantity.gradient))

    def interval(self, quantity: Quantity, level: float) -> tuple[float, float]:
        """Return the interval of a quantity, with room for its bias."""
        error, df = self.stderr(quantity), max(self.units - 1, 1)
        half = bias_aware_half(error, quantity.allowance, level, df)
        return quantity.value - half, quantity.value + half

    def correlations(self, quantities: Sequence[Quantity]) -> Floats:
        """Return the correlations of estimated quantities (m, m); 0 where nothing is known."""
        gradients = np.stack([np.nan_to_num(one.gradient) for one in quantities])
        return correlation_of(self.covariance(gradients))

    def covariance(self, combinations: Floats) -> Floats:
        """Return the covariance (m, m) of the means of combinations (m, T) of the columns.

        NaN from one row or unit.
        """
        m = len(combinations)
        if self.units < 2:
            return np.full((m, m), np.nan)
        if self.buckets is not None:
            used = self.buckets[self.buckets[:, -1] > 0]
            sums, counts = used[:, :-1] @ combinations.T, used[:, -1]
            scores = sums - np.outer(counts, sums.sum(axis=0) / self.n)
            found: Floats = scores.T @ scores * (len(used) / (len(used) - 1) / self.n**2)
            return found
        mean = self.sums / self.n
        spread = self.gram / self.n - np.outer(mean, mean)
        made: Floats = combinations @ spread @ combinations.T / (self.n - 1)
        return made


def totals_of(columns: Sequence[Floats], bucket: NDArray[np.int64] | None) -> RowTotals:
    """Return the sums of one batch of totals: T columns (n,)."""
    from counterrank.kernels import hashing
    from counterrank.weights.kernels import accumulate

    rows = np.stack(columns)  # (T, n)
    table = None
    gram, absolute = np.zeros((len(rows), len(rows))), np.zeros(len(rows))
    # Weights too large for a number are reported by the estimator they belong to.
    with np.errstate(over="ignore", invalid="ignore"):
        if bucket is not None:
            counted = (*rows, np.ones(rows.shape[1]))
            by_unit = [np.bincount(bucket, one, hashing.BUCKETS) for one in counted]
            table = np.stack(by_unit, axis=1).astype(float)
        accumulate.products(rows, gram, absolute)
        return RowTotals(rows.shape[1], rows.sum(axis=1), gram, absolute, table)


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


@dataclass(frozen=True, slots=True, eq=False)
class Pairing:
    """Row totals, and the columns of each plan in them; `logged` is the column of the logger."""

    totals: RowTotals
    states: Mapping[Hashable, Any]
    #: The first column of each plan, and the first column behind all of them.
    offsets: Mapping[Hashable, int]
    end: int
    logged: int = 0

    def combination(self, job: Job) -> Floats:
        """Return how the job's estimate combines the columns (T,)."""
        return self._placed(job, job.plan.combination(self.states[job.plan.key]))

    def error_combination(self, job: Job) -> Floats:
        """Return the combination of columns (T,) whose error is that of the job's estimate."""
        return self._placed(job, job.plan.error_combination(self.states[job.plan.key]))

    def _placed(self, job: Job, own: Floats) -> Floats:
        result = np.zeros(len(self.totals.sums))
        first = self.offsets[job.plan.key]
        result[first : first + len(own)] = own
        return result

    def quantity(self, job: Job, one: Estimate) -> Quantity:
        """Return the job's estimate as a quantity over the columns."""
        gradient = self.error_combination(job)
        raw = math.sqrt(self.totals.variance(gradient))
        # What an estimator knows of its error beyond the rows: folds, estimated propensities.
        inflation = one.stderr / raw if raw > 0 and one.stderr > raw else 1.0
        return Quantity(one.value, gradient, one.allowance, inflation)

    def stderr_of_difference(self, left: Job, right: Job) -> float:
        """Return the standard error of the difference of two estimates on the same rows."""
        difference = self.error_combination(left) - self.error_combination(right)
        return float(np.sqrt(self.totals.variance(difference)))

    def effective_outcomes(self, job: Job) -> float:
        """Return (sum |t|)^2 / sum t^2 of the row totals t.

        With 0/1 rewards and even weights these are the rows with a 1.

        The smaller of the logger's own and, where the estimate is one column, the estimate's.
        """
        used = np.flatnonzero(self.combination(job))
        columns = [0, int(used[0])] if len(used) == 1 else [0]
        square, absolute = self.totals.gram.diagonal()[columns], self.totals.absolute[columns]
        return float(
            np.divide(absolute**2, square, out=np.zeros_like(square), where=square > 0).min()
        )


def pairing(
    jobs: Sequence[Job], states: Mapping[Hashable, Any], totals: RowTotals, logged: int = 0
) -> Pairing:
    """Return the pairing of jobs whose states stand in the order of the pass."""
    plans = {job.plan.key: job.plan for job in jobs}
    offsets, end = {}, logged + 1
    for key, state in states.items():
        offsets[key] = end
        end += len(plans[key].combination(state))
    return Pairing(totals, states, offsets, end, logged)


def against(
    jobs: Sequence[Job], estimates: Sequence[Estimate], pairs: Pairing, baseline: str
) -> tuple[Estimate, ...]:
    """Return the estimates with lifts over the same estimator's value of the baseline policy.

    Both rest on the same rows.
    """
    base = {
        job.name: (job, one)
        for job, one in zip(jobs, estimates, strict=True)
        if job.target == baseline
    }
    return tuple(
        over(job, one, *base[job.name], pairs)
        if job.name in base
        else one.without_evidence(f"'{job.name}' has no estimate of the baseline '{baseline}'")
        for job, one in zip(jobs, estimates, strict=True)
    )


def over(job: Job, one: Estimate, base_job: Job, base: Estimate, pairs: Pairing) -> Estimate:
    """Return an estimate whose lift is that over the baseline's estimate on the same rows."""
    if not one.estimable:
        return one
    if not base.estimable:
        return one.without_evidence(f"the baseline is {base.not_estimable}")
    left, right = pairs.quantity(job, one), pairs.quantity(base_job, base)
    error, relative = (pairs.totals.stderr(q) for q in (left - right, left.relative_to(right)))
    df = max(pairs.totals.units - 1, 1)
    return replace(one, lift=lift_over(one, base, error, relative, df))


def lift_over(
    one: Estimate,
    base: Estimate,
    stderr: float,
    relative_stderr: float,
    df: float,
) -> Lift:
    """Return the lift of an estimate over that of another policy; both may be biased.

    Given are the standard errors of their difference and of their ratio (the worst case where it is
    not known).
    """
    if one.target == base.target:
        nothing = tuple(PositionValue(0.0, 0.0) for _ in one.by_position)
        return Lift(0.0, 0.0, 0.0, 0.0, nothing, 0.0, 0.0, 0.0)
    value, allowed = one.value - base.value, one.allowance + base.allowance
    half = bias_aware_half(stderr, allowed, one.level, df)
    relative = (np.nan, np.nan, np.nan)
    if base.value > 0:
        share = value / base.value
        # The error of the baseline's value itself moves a relative lift by its own share.
        worst = (stderr + abs(share) * base.stderr) / base.value
        error = worst if relative_stderr is None else relative_stderr
        bias = (one.allowance + abs(1.0 + share) * base.allowance) / base.value
        reach = bias_aware_half(error, bias, one.level, df)
        relative = (share, share - reach, share + reach)
    by_position = tuple(
        PositionValue(mine.value - other.value, math.hypot(mine.stderr, other.stderr))
        for mine, other in zip(one.by_position, base.by_position, strict=False)
    )
    return Lift(value, stderr, value - half, value + half, by_position, *relative)
