"""Intervals made wider: for propensities that were estimated, and for many looks at a growing log."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from counterrank.estimators import Estimate, Lift, PositionValue
from counterrank.inference import Looks, critical_value, normal_interval


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


def at_any_time(one: Estimate, looks: Looks) -> Estimate:
    """Return an estimate whose intervals hold at all looks together.

    Its allowance for bias stays what it was.
    """
    if looks.rows is None or not one.estimable:
        return one
    lift, usual = one.lift, critical_value(one.level)
    # Only the sampling error grows with the number of looks; a bias is the same at every one.
    more = (looks.critical(one.level, one.n) - usual) * lift.stderr
    # The relative lift's standard error is not kept; its half-width is, and grows at most in this
    # ratio.
    stretch = looks.critical(one.level, one.n) / usual
    wide = replace(
        lift,
        low=lift.low - more,
        high=lift.high + more,
        relative_low=lift.relative - stretch * (lift.relative - lift.relative_low),
        relative_high=lift.relative + stretch * (lift.relative_high - lift.relative),
    )
    return replace(one, lift=wide, interval_at=lambda level: _at_any_time(one, looks, level))


def _at_any_time(one: Estimate, looks: Looks, level: float) -> tuple[float, float]:
    wanted = looks.level(level, one.n)
    if wanted < 1.0:
        return one.interval(wanted)
    # Few rows beside those that the intervals are made for: the level rounds to one, but the width is
    # known.
    low, high = one.interval(level)
    more = (looks.critical(level, one.n) - critical_value(level)) * one.stderr
    return low - more, high + more


def _wider(one: Estimate, others: Sequence[Estimate]) -> Estimate:
    found = spread([other.value for other in others])
    by_position = tuple(
        PositionValue(p.value, max(p.stderr, spread([o.by_position[k].value for o in others])))
        for k, p in enumerate(one.by_position)
    )
    wider = replace(
        one,
        by_position=by_position,
        lift=_wider_lift(one.lift, spread([other.lift.value for other in others])),
        details={**one.details, "bootstrap_stderr": found},
    )
    if found <= one.stderr:
        return wider
    # Stretched rather than made anew: an interval of the estimator's own making keeps its form.
    factor = found / one.stderr if one.stderr > 0 else math.inf
    return replace(
        wider, stderr=found, interval_at=lambda level: _stretched(one, found, factor, level)
    )


def _stretched(one: Estimate, stderr: float, factor: float, level: float) -> tuple[float, float]:
    if not math.isfinite(factor):
        return normal_interval(one.value, stderr, level)
    low, high = one.interval(level)
    return one.value - factor * (one.value - low), one.value + factor * (high - one.value)


def _wider_lift(lift: Lift, found: float) -> Lift:
    if found <= lift.stderr or lift.stderr == 0:
        return lift
    factor = found / lift.stderr
    return replace(
        lift,
        stderr=found,
        low=lift.value - factor * (lift.value - lift.low),
        high=lift.value + factor * (lift.high - lift.value),
        relative_low=lift.relative - factor * (lift.relative - lift.relative_low),
        relative_high=lift.relative + factor * (lift.relative_high - lift.relative),
    )


def spread(values: Sequence[float]) -> float:
    """Return the standard deviation over replicas, 0 for fewer than two."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
