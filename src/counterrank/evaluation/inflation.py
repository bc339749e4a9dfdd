"""The uncertainty of estimated propensities, added to every standard error."""

import math
from collections.abc import Sequence
from dataclasses import replace

from counterrank.estimators.estimate import Estimate, Lift, PositionValue
from counterrank.inference.normal import normal_interval


def inflated(estimates: Sequence[Estimate], replicas: Sequence[Sequence[Estimate]]) -> tuple[Estimate, ...]:
    """Return the estimates with variance s^2 + v, v the spread of the value over refitted propensity models.

    Each replica has the same rows, with propensities refitted on a resample of the units. Rows and models are added
    as if independent, which overstates the error of a correct model (Henmi & Eguchi 2004), never understates it.
    """
    return tuple(_wider(one, [other[index] for other in replicas]) for index, one in enumerate(estimates))


def _wider(one: Estimate, others: Sequence[Estimate]) -> Estimate:
    extra = spread([other.value for other in others], one.value)
    by_position = tuple(
        PositionValue(p.value, math.hypot(p.stderr, spread([o.by_position[k].value for o in others], p.value)))
        for k, p in enumerate(one.by_position)
    )
    stderr = math.hypot(one.stderr, extra)
    value, level, lift = one.value, one.level, one.lift
    return replace(
        one,
        stderr=stderr,
        by_position=by_position,
        lift=_wider_lift(lift, extra, level),
        interval_at=lambda asked: normal_interval(value, stderr, asked),
        details={**one.details, "propensity_stderr": extra},
    )


def _wider_lift(lift: Lift, extra: float, level: float) -> Lift:
    stderr = math.hypot(lift.stderr, extra)
    low, high = normal_interval(lift.value, stderr, level)
    wider = replace(lift, stderr=stderr, low=low, high=high)
    if not math.isfinite(lift.relative) or lift.stderr == 0:
        return wider
    # The relative lift is the absolute one over what the logger earned, which no propensity changes.
    factor = stderr / lift.stderr
    return replace(
        wider,
        relative_low=lift.relative - factor * (lift.relative - lift.relative_low),
        relative_high=lift.relative + factor * (lift.relative_high - lift.relative),
    )


def spread(values: Sequence[float], centre: float) -> float:
    """Return the root mean square distance of the refitted values from the one reported."""
    return math.sqrt(sum((value - centre) ** 2 for value in values) / len(values)) if values else 0.0
