"""Estimates beside each other: those that assume less, and those of other targets on the same rows."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from counterrank.arrays import Floats
from counterrank.estimators import Estimate, PositionValue, order_path, parse
from counterrank.estimators.weights.diagnostics import mean_weight_test, tail_index
from counterrank.estimators.weights.thresholds import SIGNIFICANT, THRESHOLDS
from counterrank.evaluation.jobs import Job
from counterrank.evaluation.tables import Comparison, OrderPoint
from counterrank.statistics import (
    ONCE,
    Contrast,
    Looks,
    Quantity,
    Sums,
    holm,
    mean,
    nothing,
    two_sided,
)


@dataclass(frozen=True, slots=True, eq=False)
class Pairing:
    """Sums of row totals, and the columns of each plan in them; `logged` is the column of the logger."""

    sums: Sums
    states: Mapping[Hashable, Any]
    #: The first column of each plan, and the first column behind all of them.
    offsets: Mapping[Hashable, int]
    end: int
    logged: int = 0

    @property
    def logger(self) -> Quantity:
        """What the logger earned."""
        return mean(self.sums, self.logged)

    def combination(self, job: Job) -> Floats:
        """Return how the job's estimate combines the columns (T,)."""
        own = job.plan.combination(self.states[job.plan.key])
        result, first = np.zeros(len(self.sums.total)), self.offsets[job.plan.key]
        result[first : first + len(own)] = own
        return result

    def by_rows(self, job: Job, one: Estimate) -> Quantity:
        """Return the job's estimate as a quantity with the error that rows alone show."""
        shift = 0.0 if one.contrast is None else one.contrast.value.shift
        return Quantity(self.sums, one.value, self.combination(job), one.allowance, shift=shift)

    def quantity(self, job: Job, one: Estimate) -> Quantity:
        """Return the job's estimate as a quantity, with what it knows of its error beyond the rows."""
        return self.by_rows(job, one).at_least(one.stderr)

    def effective_outcomes(self, job: Job) -> float:
        """Return (sum |t|)^2 / sum t^2 of the row totals t.

        With 0/1 rewards and even weights these are the rows with a 1. The smaller of the logger's own
        and, where the estimate is one column, the estimate's.
        """
        used = np.flatnonzero(self.combination(job))
        return self.sums.effective([0, int(used[0])] if len(used) == 1 else [0])


def pairing(
    jobs: Sequence[Job], states: Mapping[Hashable, Any], sums: Sums, logged: int = 0
) -> Pairing:
    """Return the pairing of jobs whose states stand in the order of the pass."""
    plans = {job.plan.key: job.plan for job in jobs}
    offsets, end = {}, logged + 1
    for key, state in states.items():
        offsets[key] = end
        end += len(plans[key].combination(state))
    return Pairing(sums, states, offsets, end, logged)


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
    new, old = pairs.quantity(job, one), pairs.quantity(base_job, base)
    contrast = Contrast.between(new, old)
    if one.target == base.target:
        contrast = Contrast(new, nothing(new), nothing(new))
    by_position = tuple(
        PositionValue(0.0, 0.0)
        if one.target == base.target
        else PositionValue(mine.value - other.value, math.hypot(mine.stderr, other.stderr))
        for mine, other in zip(one.by_position, base.by_position, strict=False)
    )
    # The value and its interval stay as the estimator made them.
    own = (
        contrast
        if one.contrast is None
        else Contrast(one.contrast.value, contrast.lift, contrast.relative)
    )
    return one.resting_on(own, by_position)


def inflated(
    estimates: Sequence[Estimate], replicas: Sequence[Sequence[Estimate]]
) -> tuple[Estimate, ...]:
    """Return the estimates with the larger of two standard errors.

    One takes the propensities as known, the other is bootstrapped.

    Each replica has resampled units and propensities estimated anew from them, so its spread holds
    the errors of rows and model together. With a correct model the first is already too large
    (Henmi & Eguchi 2004); the larger of the two does not undercut either.
    """
    return tuple(
        _wider(one, [other[index] for other in replicas]) for index, one in enumerate(estimates)
    )


def _wider(one: Estimate, others: Sequence[Estimate]) -> Estimate:
    if one.contrast is None:
        return one
    found = spread([other.value for other in others])
    by_position = tuple(
        PositionValue(p.value, max(p.stderr, spread([o.by_position[k].value for o in others])))
        for k, p in enumerate(one.by_position)
    )
    wider = replace(
        one, by_position=by_position, details={**one.details, "bootstrap_stderr": found}
    )
    lift = spread([other.lift.value for other in others])
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


def weighed_like(chosen: Estimate, found: Sequence[Estimate]) -> int | None:
    """Return the index of the plain estimate with the weights behind the chosen one, or None when it was not run."""
    length, basis = len(chosen.by_position), parse(chosen.basis)
    for index, one in enumerate(found):
        name = parse(one.estimator)
        order = name.interactions(length)
        if one.target == chosen.target and one.moments is not None:
            same = name.assumption == basis.assumption
            if same or (order is not None and order == basis.interactions(length)):
                return index
    return None


def rivals(
    chosen: Estimate, found: Sequence[Estimate], jobs: Sequence[Job], pairs: Pairing
) -> list[Rival]:
    """Return the plain estimates of the same target that assume less than the chosen one.

    One whose own assumption is contradicted, by a usable estimate that assumes still less, is no
    judge of others: where people do not read from the top, RIPS is wrong, and its difference to
    anything says nothing.
    """
    length = len(chosen.by_position)
    every = [one for one in zip(jobs, found, strict=True) if one[0].target == chosen.target]
    own = next(one for one in every if one[0].name == chosen.estimator)
    # Self-normalised whole rankings assume as little as IPS, and are often far more precise.
    plain = [
        one
        for one in every
        if one is not own and (parse(one[0].name).plain or one[0].name == "snips")
    ]

    def assuming_less(name: str) -> list[tuple[Job, Estimate]]:
        return [one for one in plain if parse(one[0].name).assumes_less(parse(name), length)]

    def contradicted(one: tuple[Job, Estimate]) -> bool:
        stricter = (other for other in assuming_less(one[0].name) if usable(other[1]))
        apart = (_difference(*one, *other, pairs) for other in stricter)
        return any(two_sided(away.value, away.stderr) < SIGNIFICANT for away in apart)

    made = []
    for one in assuming_less(chosen.basis):
        away = _difference(*own, *one, pairs)
        judges = usable(one[1]) and not contradicted(one)
        # An interval is contradicted by what is far from its centre.
        made.append(Rival(one[0].name, away.value + away.shift, away.stderr, judges))
    return made


def _difference(job: Job, one: Estimate, other: Job, two: Estimate, pairs: Pairing) -> Quantity:
    return pairs.by_rows(job, one) - pairs.by_rows(other, two)


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
    jobs: Sequence[Job],
    estimates: Sequence[Estimate],
    pairs: Pairing,
    recommended: Mapping[str, str],
    level: float,
    looks: Looks = ONCE,
) -> tuple[Comparison, ...]:
    """Return a row for each pair of targets: difference of their recommended estimates on the same rows.

    Intervals are Bonferroni-adjusted over the pairs, p-values by Holm (1979). What the estimates
    allow for bias is added to the interval and taken off the difference before it is tested: the
    biases may point in opposite ways.
    """
    main = [
        (job, est)
        for job, est in zip(jobs, estimates, strict=True)
        if recommended[job.target] == job.name
    ]
    both = list(combinations(main, 2))
    found = [_difference(*left, *right, pairs) for left, right in both]
    p_values = holm([one.p_value(level, looks) for one in found])
    numbers = [one.number(level, looks, len(both)) for one in found]
    return tuple(
        Comparison(
            number.value, number.stderr, number.low, number.high, better=left.target, than=right.target,
            bias_allowance=one.allowance, p_value=float(p),
        )
        for ((left, _), (right, _)), one, number, p in zip(both, found, numbers, p_values, strict=True)
    )  # fmt: skip
