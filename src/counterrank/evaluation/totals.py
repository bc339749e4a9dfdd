"""The columns of every estimate in the sums of one pass: estimates as quantities of one sample."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from counterrank.arrays import Floats
from counterrank.estimators import Estimate, PositionValue
from counterrank.evaluation.jobs import Job
from counterrank.statistics import Contrast, Quantity, Sums, mean, nothing


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
