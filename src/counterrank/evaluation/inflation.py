"""The uncertainty of estimated propensities, carried into every standard error."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from counterrank.estimators.estimate import Estimate, Lift, PositionValue
from counterrank.inference.normal import normal_interval


def inflated(estimates: Sequence[Estimate], replicas: Sequence[Sequence[Estimate]]) -> tuple[Estimate, ...]:
    """Return the estimates with the larger of two standard errors: propensities taken as known, and bootstrapped.

    Each replica has resampled units and propensities estimated anew from them, so its spread holds the errors of
    rows and model together. With a correct model the first is already too large (Henmi & Eguchi 2004); the larger
    of the two does not undercut either.
    """
    return tuple(_wider(one, [other[index] for other in replicas]) for index, one in enumerate(estimates))


def _wider(one: Estimate, others: Sequence[Estimate]) -> Estimate:
    found = spread([other.value for other in others])
    by_position = tuple(
        PositionValue(p.value, max(p.stderr, spread([o.by_position[k].value for o in others])))
        for k, p in enumerate(one.by_position)
    )
    stderr = max(one.stderr, found)
    value, usual = one.value, one.interval_at
    wider = replace(
        one,
        stderr=stderr,
        by_position=by_position,
        lift=_wider_lift(one.lift, spread([other.lift.value for other in others]), one.level),
        details={**one.details, "bootstrap_stderr": found},
    )
    if stderr == one.stderr and usual is not None:
        return wider
    return replace(wider, interval_at=lambda asked: normal_interval(value, stderr, asked))


def _wider_lift(lift: Lift, found: float, level: float) -> Lift:
    if found <= lift.stderr:
        return lift
    low, high = normal_interval(lift.value, found, level)
    wider = replace(lift, stderr=found, low=low, high=high)
    if not math.isfinite(lift.relative) or lift.stderr == 0:
        return wider
    factor = found / lift.stderr
    return replace(
        wider,
        relative_low=lift.relative - factor * (lift.relative - lift.relative_low),
        relative_high=lift.relative + factor * (lift.relative_high - lift.relative),
    )


def spread(values: Sequence[float]) -> float:
    """Return the standard deviation over replicas, 0 for fewer than two."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
