"""Errors made larger where propensities were estimated."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from counterrank.estimators import Estimate, PositionValue


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
