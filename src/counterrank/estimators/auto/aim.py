"""The aimed step: a correction of the models in the direction of the target.

Models shrink effects towards a common mean. People choose a target because it prefers items that did
well, so shrinkage removes just what the target gains, and all models err in the same direction. That
direction is known: h = log P_target(page) / P_logger(page). One slope of the page's residual e on h is
fitted without shrinkage. With t = h - E_logger[h | x], which has mean zero in every context,

    slope = mean(t e) / mean(t h),    correction = slope x mean(E_target[h | x] - h).

This is the targeting step of targeted learning (van der Laan & Rubin 2006), with one covariate of low
variance in place of the weight, so that its noise does not grow with the length of the ranking. h is cut
to the range of the logged pages, because a line would extrapolate beyond it.

The step needs three sums, so it works on streams. Its error follows from the covariance of the sums by
the delta method, by unit where there are units.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterrank.arrays import Floats, Ints
from counterrank.estimators.auto.defaults import DEFAULTS
from counterrank.policies import Policy

#: Number of sums: mean(t e), mean(t h), mean(E_target h - h).
SUMS = 3
#: Variance of log ratios that is rounding: policies with probabilities alike to a millionth.
FLAT = 1e-12


@dataclass(frozen=True, slots=True)
class Range:
    """Log ratios that were logged, without their tails."""

    low: float
    high: float

    @classmethod
    def of(cls, logged: Floats) -> "Range":
        """Return the range of logged log ratios; ratios of zero count as the lowest.

        >>> Range.of(np.arange(101.0))
        Range(low=5.0, high=95.0)
        """
        finite = logged[np.isfinite(logged)]
        if not len(finite):
            return cls(0.0, 0.0)
        low, high = np.quantile(finite, [DEFAULTS.tail, 1.0 - DEFAULTS.tail])
        return cls(float(low), float(high))

    def cut(self, values: Floats) -> Floats:
        """Return the values, cut to the range."""
        out: Floats = np.clip(np.nan_to_num(values, nan=0.0), self.low, self.high)
        return out


def aim_sums(h: Floats, by_logger: Floats, by_target: Floats, residual: Floats) -> Floats:
    """Return the three sums' terms of each row (3, n) from h and its means under both policies."""
    t = h - by_logger
    return np.stack([t * residual, t * h, by_target - h])


def correction(sums: Floats) -> Floats:
    """Return the coefficients (3,) that make the correction of the sums' means.

    correction = g d / v for g = mean(t e), v = mean(t h), d = mean(E_target h - h). The coefficients
    are its derivatives, and sum to the correction itself because it is of degree one.

    Log ratios that do not vary tell nothing, and there is no correction.

    >>> float(correction(np.array([0.5, 2.0, 4.0])) @ [0.5, 2.0, 4.0])
    1.0
    """
    g, v, d = sums
    if not v > FLAT:
        return np.zeros(SUMS)
    return np.array([d / v, -g * d / v**2, g / v])


def log_ratios(target: Policy, logger: Policy, rankings: Ints) -> Floats:
    """Return log P_target / P_logger of whole rankings (n, S, K): (n, S).

    A ranking that only one of the two shows has an infinite ratio, which the range cuts.
    """
    with np.errstate(invalid="ignore"):
        both = (policy.prefix_log_probs(rankings)[:, :, -1] for policy in (target, logger))
        return np.subtract(*both)


def by_position(
    span: Range, new: Floats, old: Floats, logged: Floats, shown: NDArray[np.bool_]
) -> tuple[Floats, Floats, Floats]:
    """Return h and its exact means under logger and target (n,) where positions are independent.

    h sums log ratios over the positions `shown` (n, K); `logged` (n, K) are those of the shown
    items, `new` and `old` (n, 1 or K, A) the distributions.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        cut = span.cut(np.log(new) - np.log(old))
        h = np.where(shown, span.cut(np.log(logged)), 0.0).sum(axis=1)
    by_logger, by_target = (
        np.where(shown, (whole * cut).sum(axis=2), 0.0).sum(axis=1) for whole in (old, new)
    )
    return h, by_logger, by_target
