"""The third stage of an evaluation: the sums are solved once, and every lift is an operation on the solutions.

    table.value(metric, target)          a metric under a policy, as a quantity
    table.pair(metric, target)           it and the baseline, whose difference is the lift
    table.estimate(fit)                  what an estimator says, with intervals
    table.groups[column, label]          the table of a group of rows

Quantities of one table are over the same sums, whichever metric, target or estimator they are of: they can
be subtracted and divided.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from counterrank.common.errors import CounterrankError
from counterrank.estimators import SHOWN, Estimate, LogSums, Solution, logged
from counterrank.estimators.weights.diagnostics import effective_rows, mean_weight_test
from counterrank.estimators.weights.moments import Moments
from counterrank.evaluation.fit import Fit, MetricFits
from counterrank.evaluation.request import Options
from counterrank.evaluation.sweep import Group, SweepSums
from counterrank.evaluation.verdict import scale_of
from counterrank.metrics import IMPRESSIONS, Measure, Metric
from counterrank.statistics import ONCE, ColumnSums, Looks, Quantity


@dataclass(frozen=True, eq=False)
class Table:
    """The solution of every metric, target and estimator over the sums of a log, or of a group of its rows.

    ==============  ==============================================================================
    `metrics`       the fits of each metric, the primary first
    `sums`          the sums of all columns
    `solutions`     by fit
    `baseline`      the target that lifts are over; None for the logger
    `groups`        a table of the recommended estimators for each group of rows
    `units`         how many units all rows are of; rows where the log has none
    ==============  ==============================================================================
    """

    metrics: tuple[MetricFits, ...]
    sums: ColumnSums
    solutions: Mapping[Fit, Solution]
    baseline: str | None = None
    level: float = 0.95
    looks: Looks = ONCE
    groups: Mapping[Group, Table] = field(default_factory=dict)
    units: int = 0

    def fits_of(self, measure: Measure) -> MetricFits:
        """Return the fits of a measure."""
        return next(fits for fits in self.metrics if fits.measure == measure)

    def earned(self, fits: MetricFits) -> Quantity:
        """Return what the logger earned."""
        return self.sums.mean(logged(fits.metric))

    def value(self, measure: Measure, target: str | None) -> Quantity:
        """Return what a target would earn of a measure, by the recommended estimator; the logger for None."""
        if measure.function is IMPRESSIONS:
            # Every policy shows as many items as were logged.
            return self.sums.mean(SHOWN)
        fits = self.fits_of(measure)
        if target is None:
            return self.earned(fits)
        solution = self.solutions[fits.recommended[target]]
        return value_of(solution if self.baseline is None else self.beside_others(solution))

    def metric(self, metric: Metric, target: str | None) -> Quantity:
        """Return a metric under a target, or under the logger for None."""
        parts = [self.value(measure, target) for measure in metric.measures]
        return parts[0] if len(parts) == 1 else parts[0] / parts[1]

    def pair(self, metric: Metric, target: str) -> tuple[Quantity, Quantity]:
        """Return a metric under a target and under the baseline, whose difference is the lift."""
        value = self.metric(metric, target)
        return value, value if target == self.baseline else self.metric(metric, self.baseline)

    def base(self, fit: Fit) -> Solution | None:
        """Return the solution of the same estimator for the baseline, where there is one."""
        if fit.target == self.baseline:
            return self.solutions[fit]
        names = fit.metric, self.baseline, fit.name
        alike = (
            solution
            for base, solution in self.solutions.items()
            if (base.metric, base.target, base.name) == names
        )
        return next(alike, None)

    def estimate(self, fit: Fit) -> Estimate:
        """Return what an estimator says, with lifts over the baseline and the notes of the log."""
        solution = self.solutions[fit]
        pair, places = None, None
        if self.baseline is not None:
            base = self.base(fit)
            solution = _without_missing_base(solution, base, fit.name, self.baseline)
            if base is not None and fit.target == self.baseline:
                pair, places = (solution.total,) * 2, [(k, k) for k in solution.positions]
            elif base is not None:
                new, old = self.beside_others(solution), self.beside_others(base)
                pair = new.total, value_of(old)
                places = list(zip(new.positions, old.positions, strict=True))
        if fit.diagnostic_only:
            # Judges are asked for their values of the page: errors at positions are most of the work.
            solution, places = replace(solution, positions=(), logged_positions=()), []
        return Estimate.from_solution(
            solution,
            fit.target,
            fit.name,
            level=self.level,
            looks=self.looks,
            pair=pair,
            places=places,
        )

    def beside_others(self, solution: Solution) -> Solution:
        """Return a solution with the errors that it has without controls, to be held against other targets.

        Which members are combined was chosen from the same rows. The choices of two targets differ, and
        the spread of their difference is larger than the error of two fixed combinations with controls.
        """
        if not solution.controls:
            return solution
        return replace(
            solution,
            total=self.sums.without(solution.total, solution.controls),
            positions=tuple(self.sums.without(k, solution.controls) for k in solution.positions),
        )

    def distance(self, fit: Fit, second: Fit) -> Quantity:
        """Return the value of one fit less that of another, of the same target or not."""
        solutions = [self.solutions[fit], self.solutions[second]]
        if fit.target != second.target:
            solutions = [self.beside_others(solution) for solution in solutions]
        return value_of(solutions[0]) - value_of(solutions[1])

    def outcomes(self, fit: Fit) -> float:
        """Return (sum |t|)^2 / sum t^2 of the row totals t.

        With 0/1 rewards and even weights these are the rows with a 1. The smaller of the logger's own
        and, where the estimate is a mean of one column, of that.
        """
        used = np.flatnonzero(self.beside_others(self.solutions[fit]).total.gradient)
        first = self.sums.column[logged(fit.metric)]
        return self.sums.rows.effective([first, *used] if len(used) == 1 else [first])


def value_of(solution: Solution) -> Quantity:
    """Return the value of a solution; NaN where the log holds no evidence on it."""
    return replace(solution.total, value=math.nan) if solution.not_estimable else solution.total


def _without_missing_base(
    solution: Solution, base: Solution | None, name: str, baseline: str
) -> Solution:
    """Return a solution without a value where there is none of the baseline."""
    if base is None:
        reason = f"'{name}' has no estimate of the baseline '{baseline}'"
    elif base.not_estimable and not solution.not_estimable:
        reason = f"the baseline is {base.not_estimable}"
    else:
        return solution
    return replace(solution, not_estimable=reason)


def solve(
    metrics: Sequence[MetricFits],
    swept: SweepSums,
    options: Options,
    replicas: Sequence[SweepSums] = (),
) -> Table:
    """Return the solutions of every fit over all rows, and of the recommended ones over groups of rows.

    Parameters
    ----------
    metrics
        The fits of each metric, the primary first.
    swept
        The sums over all rows and over groups of them.
    options
        What lifts are over, and how intervals are made.
    replicas
        The sums over bootstrap replicas, whose propensities were estimated anew.
    """
    solutions = _solutions(metrics, swept.all_rows, None)
    if replicas:
        resampled = [_solutions(metrics, replica.all_rows, None) for replica in replicas]
        solutions = {
            key: solution.with_replicas([draw[key] for draw in resampled])
            for key, solution in solutions.items()
        }
    reasons: dict[str, str] = {}
    for fits, rewards in zip(metrics, swept.rewards, strict=False):
        ends = rewards.of_value(fits.first.position_weights)
        reasons = _impossible(fits, solutions, ends) | reasons
    metrics = tuple(metrics)
    lifts = options.baseline, options.level, options.looks
    groups = {
        label: Table(
            metrics,
            rows.sums,
            _refused(metrics, _solutions(metrics, rows, solutions), reasons),
            *lifts,
        )
        for label, rows in sorted(swept.groups.items())
    }
    solutions = _refused(metrics, solutions, reasons)
    all_rows = swept.all_rows.sums
    units = all_rows.rows.n if swept.units is None else swept.units.count
    return Table(metrics, all_rows, solutions, *lifts, groups, units)


def _solutions(
    metrics: Sequence[MetricFits], state: LogSums, overall: Mapping[Fit, Solution] | None
) -> dict[Fit, Solution]:
    """Return the solution of every fit; of the recommended ones for a group of rows, which follow the `overall`."""
    solutions: dict[Fit, Solution] = {}
    for fits in metrics:
        for fit in fits.fits:
            summands = state.extras.get(fit.fitted.key)
            if overall is not None:
                if fit in fits.recommended.values():
                    solutions[fit] = fit.fitted.solve(state.sums, summands, overall[fit])
                continue
            try:
                solution = fit.fitted.solve(state.sums, summands)
            except CounterrankError as problem:
                # What nobody named cannot stop the evaluation.
                if not fit.diagnostic_only:
                    raise
                solution = Solution.unknown(state.sums, fit.metric, str(problem))
            solutions[fit] = replace(solution, flags=(*fits.first.notes, *solution.flags))
    return solutions


def lightest(
    fits: MetricFits, solutions: Mapping[Fit, Solution], target: str, *, among: Sequence[str] = ()
) -> Moments | None:
    """Return the moments of the lightest weights of a target: those with the most effective rows.

    Parameters
    ----------
    fits
        The fits of a metric.
    solutions
        Their solutions.
    target
        The target.
    among
        Names of estimators to look at; by default all.
    """
    plain = [
        moments
        for fit in fits.fits
        if fit.target == target
        and fit.traits.weighs_alone
        and (not among or fit.name in among)
        and (moments := solutions[fit].moments) is not None
    ]
    return max(plain, key=effective_rows, default=None)


def _impossible(
    fits: MetricFits, solutions: Mapping[Fit, Solution], ends: tuple[float, float]
) -> dict[str, str]:
    """Return the targets whose recommended value no rewards of this log could add up to, each with the reason."""
    # A mean of rewards lies between the least and the most a ranking earned; weights on a wrong
    # scale lead outside, whatever their standard error says.
    (low, high), reasons = ends, {}
    slack = 1e-9 * max(abs(low), abs(high))
    for target, fit in fits.recommended.items():
        solution = solutions[fit]
        value = solution.total.value
        if solution.not_estimable or low - slack <= value <= high + slack:
            continue
        light = lightest(fits, solutions, target)
        hint = "" if light is None else scale_of(mean_weight_test(light).mean)
        reasons[target] = (
            f"{value:.4g} a ranking is impossible where rewards allow {low:.4g} to {high:.4g}{hint}"
        )
    return reasons


def _refused(
    metrics: Sequence[MetricFits], solutions: dict[Fit, Solution], reasons: Mapping[str, str]
) -> dict[Fit, Solution]:
    """Return the solutions; what is recommended of targets with impossible values has none, in any metric or group."""
    return solutions | {
        fits.recommended[target]: replace(solutions[fits.recommended[target]], not_estimable=reason)
        for fits in metrics
        for target, reason in reasons.items()
    }
