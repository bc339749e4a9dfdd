"""Estimates beside each other: those that assume less, and those of other targets on the same rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from counterrank.arrays import Floats
from counterrank.errors import CounterrankError
from counterrank.estimators import Estimate, PositionValue, nothing_known, order_path, parse
from counterrank.estimators.weights.diagnostics import mean_weight_test, tail_index
from counterrank.estimators.weights.thresholds import SIGNIFICANT, THRESHOLDS
from counterrank.evaluation.jobs import Job
from counterrank.evaluation.result import Comparison, OrderPoint
from counterrank.statistics import (
    ONCE,
    Contrast,
    Looks,
    Quantity,
    Sums,
    holm,
    nothing,
    two_sided,
)


@dataclass(frozen=True, slots=True, eq=False)
class PairedEstimate:
    """A job's estimate, and the sums of row totals that pair it with others.

    `own` (c,) says how the estimate combines its columns of the sums, of which `at` is the first, and
    `placed` (K, c') how the value of each position combines the columns of its position. `group` is the
    number of the jobs that share its state; the last `controls` of its columns are of mean zero.
    """

    job: Job
    estimate: Estimate
    sums: Sums
    at: int
    own: Floats
    group: int = 0
    placed: Floats | None = None
    controls: int = 0

    @property
    def by_rows(self) -> Quantity:
        """The estimate as a quantity with the error that rows alone show."""
        one, gradient = self.estimate, np.zeros(len(self.sums.total))
        gradient[self.at : self.at + len(self.own)] = self.own
        shift = 0.0 if one.contrast is None else one.contrast.value.shift
        return Quantity(self.sums, one.value, gradient, one.allowance, shift=shift)

    @property
    def quantity(self) -> Quantity:
        """The estimate as a quantity, with what it knows of its error beyond the rows."""
        return self.without_controls.by_rows.at_least(self.estimate.stderr)

    @property
    def without_controls(self) -> PairedEstimate:
        """The same with the error that it had without controls, for comparisons of targets.

        Which members are combined was chosen from the same rows. The choices of two targets differ, and
        the spread of their difference is larger than the error of two fixed combinations with controls.
        """
        if not self.controls:
            return self
        kept = np.arange(len(self.own)) < len(self.own) - self.controls
        return replace(self, own=self.own * kept)

    @property
    def outcomes(self) -> float:
        """(sum |t|)^2 / sum t^2 of the row totals t.

        With 0/1 rewards and even weights these are the rows with a 1. The smaller of the logger's own
        and, where the estimate is one column, the estimate's.
        """
        # Controls of mean zero may stand beside it.
        used = np.flatnonzero(self.own == 1.0)
        return self.sums.effective([0, self.at + int(used[0])] if len(used) == 1 else [0])


def paired(
    groups: Sequence[Sequence[Job]],
    states: Sequence[Any],
    sums: Sums,
    notes: tuple[str, ...] = (),
) -> list[PairedEstimate]:
    """Return the estimates of jobs from the states that they share, whose row totals stand in this order.

    A job that nobody named cannot stop the evaluation.
    """
    found, at = [], 1
    for number, (group, state) in enumerate(zip(groups, states, strict=True)):
        for job in group:
            try:
                one = job.plan.estimate(state)
                one = replace(one, estimator=job.name, flags=(*notes, *one.flags))
            except CounterrankError as problem:
                if not job.silent:
                    raise
                one = nothing_known(job.target, job.name, sums.n, str(problem))
            own = job.plan.combination(state)
            placed, controls = job.plan.placed(state), job.plan.controls(state)
            found.append(PairedEstimate(job, one, sums, at, own, number, placed, controls))
        at += len(own)
    return found


def over_baseline(
    groups: Sequence[Sequence[Job]], baseline: str | None
) -> tuple[tuple[int, int], ...]:
    """Return the numbers of groups with an estimate that is shown, each with that of its baseline."""
    base = {
        job.name: number
        for number, group in enumerate(groups)
        for job in group
        if job.target == baseline
    }
    pairs = [
        (number, base[job.name])
        for number, group in enumerate(groups)
        for job in group
        if job.name in base and job.target != baseline and not job.silent
    ]
    return tuple(dict.fromkeys(pairs))


#: Sums of the columns at each position of two groups of jobs.
Beside = Mapping[tuple[int, int], Sequence[Sums]]


def against(
    found: Sequence[PairedEstimate], baseline: str, beside: Beside | None = None
) -> list[PairedEstimate]:
    """Return the estimates with lifts over the same estimator's value of the baseline policy.

    Both rest on the same rows. Lifts of the positions are known where `beside` has their sums.
    """
    base = {one.job.name: one for one in found if one.job.target == baseline}
    return [
        replace(one, estimate=_over(one, base.get(one.job.name), baseline, beside or {}))
        for one in found
    ]


def _over(
    new: PairedEstimate, old: PairedEstimate | None, baseline: str, beside: Beside
) -> Estimate:
    one = new.estimate
    if old is None:
        return one.without_evidence(
            f"'{new.job.name}' has no estimate of the baseline '{baseline}'"
        )
    if one.not_estimable:
        return one
    base = old.estimate
    if base.not_estimable:
        return one.without_evidence(f"the baseline is {base.not_estimable}")
    contrast = Contrast.between(new.quantity, old.quantity)
    sums = beside.get((new.group, old.group), ())
    by_position = tuple(_lift_at(new, old, k, own) for k, own in enumerate(sums))
    if new is old:
        zero = nothing(contrast.value)
        contrast = Contrast(contrast.value, zero, zero)
        by_position = (PositionValue(0.0, 0.0),) * len(one.by_position)
    # The value and its interval stay as the estimator made them.
    if one.contrast is not None:
        contrast = replace(contrast, value=one.contrast.value)
    return one.resting_on(contrast, by_position)


def _lift_at(new: PairedEstimate, old: PairedEstimate, k: int, sums: Sums) -> PositionValue:
    """Return the lift at a position from the columns of both estimates there."""
    assert new.placed is not None and old.placed is not None
    mine, other = new.placed[k], old.placed[k]
    gradients = (np.r_[mine, np.zeros(len(other))], np.r_[np.zeros(len(mine)), other])
    one, base = (
        Quantity(sums, at.value, gradient).at_least(at.stderr)
        for at, gradient in zip(
            (new.estimate.by_position[k], old.estimate.by_position[k]), gradients, strict=True
        )
    )
    lift = one - base
    return PositionValue(lift.value, lift.stderr)


def inflated(one: Estimate, replicas: Sequence[Estimate]) -> Estimate:
    """Return the estimate with the larger of two standard errors.

    One takes the propensities as known, the other is bootstrapped.

    Each replica has resampled units and propensities estimated anew from them, so its spread holds
    the errors of rows and model together. With a correct model the first is already too large
    (Henmi & Eguchi 2004); the larger of the two does not undercut either.
    """
    if one.contrast is None:
        return one
    found = spread([other.value for other in replicas])
    by_position = tuple(
        PositionValue(p.value, max(p.stderr, spread([o.by_position[k].value for o in replicas])))
        for k, p in enumerate(one.by_position)
    )
    wider = replace(
        one, by_position=by_position, details={**one.details, "bootstrap_stderr": found}
    )
    lift = spread([other.lift.value for other in replicas])
    return wider.resting_on(one.contrast.at_least(found, lift))


def spread(values: Sequence[float]) -> float:
    """Return the standard deviation over replicas, 0 for fewer than two."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


@dataclass(frozen=True, slots=True)
class Rival:
    """An estimate of the same value that assumes less, and how far the recommended one is from it."""

    name: str
    difference: float
    stderr: float
    #: Its own weights are good enough for the difference to mean something.
    usable: bool


def weighed_like(chosen: Estimate, found: Sequence[PairedEstimate]) -> PairedEstimate | None:
    """Return the plain estimate with the weights behind the chosen one, or None when it was not run."""
    length, basis = len(chosen.by_position), parse(chosen.basis)
    for one in found:
        if one.job.target == chosen.target and one.estimate.moments is not None:
            name = parse(one.job.name)
            order = name.interactions(length)
            same = name.assumption == basis.assumption
            if same or (order is not None and order == basis.interactions(length)):
                return one
    return None


def rivals(chosen: PairedEstimate, others: Sequence[PairedEstimate]) -> list[Rival]:
    """Return the plain ones among other estimates of the same target that assume less than the chosen one.

    One whose own assumption is contradicted, by a usable estimate that assumes still less, is no
    judge of others: where people do not read from the top, RIPS is wrong, and its difference to
    anything says nothing.
    """
    length = len(chosen.estimate.by_position)
    # Self-normalised whole rankings assume as little as IPS, and are often far more precise.
    plain = [one for one in others if one.job.plain or one.job.name == "snips"]

    def assuming_less(name: str) -> list[PairedEstimate]:
        return [one for one in plain if parse(one.job.name).assumes_less(parse(name), length)]

    def contradicted(one: PairedEstimate) -> bool:
        stricter = (other for other in assuming_less(one.job.name) if usable(other.estimate))
        apart = (one.by_rows - other.by_rows for other in stricter)
        return any(two_sided(away.value, away.stderr) < SIGNIFICANT for away in apart)

    made = []
    for one in assuming_less(chosen.estimate.basis):
        away = chosen.by_rows - one.by_rows
        judges = usable(one.estimate) and not contradicted(one)
        # An interval is contradicted by what is far from its centre.
        made.append(Rival(one.job.name, away.value + away.shift, away.stderr, judges))
    return made


def usable(estimate: Estimate) -> bool:
    """Return whether an estimate's weights are good enough to test others against it.

    Beyond the reliable tail index the variance is not to be believed, and a difference in standard
    errors says nothing.
    """
    good = estimate.ess >= THRESHOLDS["ess"].directional
    if estimate.moments is None:
        return good
    # Rivals judge others, so they have to be beyond doubt themselves.
    calm = tail_index(estimate.moments) <= THRESHOLDS["tail"].reliable
    return good and calm and mean_weight_test(estimate.moments).p_value > SIGNIFICANT


def path_of(target: str, found: Sequence[Estimate]) -> tuple[OrderPoint, ...]:
    """Return the estimates from interaction order 1 (IIPS) to K (IPS) that were made, in that order."""
    own = {one.estimator: one for one in found if one.target == target}
    length = max((len(one.by_position) for one in own.values()), default=0)
    return tuple(
        OrderPoint(
            one.value, one.stderr, one.low, one.high, order=order, ess=one.ess, estimator=name
        )
        for order, name in order_path(own, length)
        for one in (own[name],)
    )


def compare(
    recommended: Sequence[PairedEstimate], level: float, looks: Looks = ONCE
) -> tuple[Comparison, ...]:
    """Return a row for each pair of targets: difference of their recommended estimates on the same rows.

    Intervals are Bonferroni-adjusted over the pairs, p-values by Holm (1979). What the estimates
    allow for bias is added to the interval and taken off the difference before it is tested: the
    biases may point in opposite ways.
    """
    both = list(combinations(recommended, 2))
    found = [left.without_controls.by_rows - right.without_controls.by_rows for left, right in both]
    p_values = holm([one.p_value(level, looks) for one in found])
    numbers = [one.number(level, looks, len(both)) for one in found]
    return tuple(
        Comparison(
            number.value, number.stderr, number.low, number.high, better=left.job.target,
            than=right.job.target, bias_allowance=one.allowance, p_value=float(p),
        )
        for (left, right), one, number, p in zip(both, found, numbers, p_values, strict=True)
    )  # fmt: skip
