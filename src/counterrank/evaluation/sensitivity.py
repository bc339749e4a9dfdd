"""How wrong must the propensities be to change the answer? The marginal sensitivity model.

Every true weight lies within [w / G, w G] of the one used (Tan 2006; Zhao, Small & Bhattacharya
2019), with mean as before. The value's range for a given G is a linear-fractional programme whose
solution gives the rewards above a cut the largest weights and those below the smallest, or the
reverse.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from counterrank.common.arrays import Floats
from counterrank.evaluation.result import Sensitivity, SensitivityRange

GAMMAS = (1.0, 1.05, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 5.0)


@dataclass(frozen=True, slots=True, eq=False)
class WeightCuts:
    """Sums of weights and of weighted rewards (2, cuts) at each cut between sorted rewards.

    `enlarged` is what an upper bound multiplies by gamma, positive weights above the cut and negative
    ones below it; `shrunk` what it divides by gamma. `rewards` (cuts - 1,) are sorted; `positive` and
    `negative` are sums of weights, `centre` is the value without any doubt.
    """

    rewards: Floats
    enlarged: Floats
    shrunk: Floats
    positive: float
    negative: float
    centre: float

    def bound(self, gamma: float, *, upper: bool) -> float:
        """Return the largest (smallest) sum(l w r) / sum(l w) over l_i in [1/gamma, gamma].

        At the optimum a positive weight is enlarged above some cut and shrunk below it, a negative
        one the other way round, and the cut is at the optimum itself: so each value leads to a
        better cut, until none is (Dinkelbach 1967). Infinite when a sum of weights can reach zero
        (negative weights, large gamma).

        >>> cuts(np.ones(2), np.array([0.0, 1.0])).bound(2.0, upper=True)
        0.8
        """
        # Interaction orders have negative weights: the denominator could then be made zero, and the
        # ratio anything.
        if self.positive / gamma + gamma * self.negative <= 0:
            return math.inf if upper else -math.inf
        high, low = (gamma, 1 / gamma) if upper else (1 / gamma, gamma)
        best, value = -math.inf if upper else math.inf, self.centre
        while value > best if upper else value < best:
            best, cut = value, int(self.rewards.searchsorted(value, "right"))
            # Plain numbers: this is done thousands of times, and arrays of two cost more.
            enlarged, shrunk = self.enlarged[:, cut].tolist(), self.shrunk[:, cut].tolist()
            value = (high * enlarged[1] + low * shrunk[1]) / (high * enlarged[0] + low * shrunk[0])
        return best


def cuts(weight: Floats, reward: Floats) -> WeightCuts:
    """Return the sums at every cut between sorted rewards, and at both ends."""
    order = np.argsort(reward, kind="stable")
    rewards, sorted_weight = reward[order], weight[order]
    signs = np.maximum(sorted_weight, 0.0), np.minimum(sorted_weight, 0.0)
    table = np.stack([np.stack([w, w * rewards]) for w in signs])  # (2, 2, rewards)
    below = np.concatenate([np.zeros((2, 2, 1)), np.cumsum(table, axis=2)], axis=2)
    (positive, above), (negative, under) = total = table.sum(axis=2)
    weights = positive + negative
    return WeightCuts(
        rewards,
        enlarged=total[0][:, None] - below[0] + below[1],
        shrunk=below[0] + (total[1][:, None] - below[1]),
        positive=float(positive),
        negative=float(negative),
        centre=float((above + under) / weights) if weights > 0 else math.inf,
    )


#: From gamma to how far above (`upper`) or below its value sum_k alpha_k V_k can be.
Bounds = Callable[[float, bool], float]


def bounds_of(weights: Floats, rewards: Floats, alpha: Floats) -> Bounds:
    """Return the bounds by gamma; each position has its own worst case, since each has its own propensities."""
    positions = [(cuts(weights[:, k], rewards[:, k]), share) for k, share in enumerate(alpha)]

    def bound(gamma: float, upper: bool) -> float:
        return sum(
            float(share) * (position.bound(gamma, upper=upper == (share > 0)) - position.centre)
            for position, share in positions
            if share != 0 and position.positive + position.negative != 0
        )

    return bound


def curve(
    weights: Floats, rewards: Floats, alpha: Floats, *, value: float, logged: float
) -> Sensitivity:
    """Return the range of the value and lift for each gamma, and the gamma at which the lift's sign may change.

    Ranges are those of the estimate itself; its sampling error comes on top.
    """
    rows = []
    bounds = bounds_of(weights, rewards, alpha)
    for gamma in GAMMAS:
        low, high = value + bounds(gamma, False), value + bounds(gamma, True)
        rows.append(SensitivityRange(gamma, low, high, low - logged, high - logged))
    return Sensitivity(tuple(rows), sign_change(bounds, value - logged))


def sign_change(bounds: Bounds, lift: float) -> float | None:
    """Return the smallest gamma at which the lift can be zero, or None when none up to the largest of the curve."""

    def reaches(gamma: float) -> bool:
        return lift + bounds(gamma, False) <= 0 if lift > 0 else lift + bounds(gamma, True) >= 0

    if lift == 0:
        return 1.0
    if not reaches(GAMMAS[-1]):
        return None
    low, high = 1.0, GAMMAS[-1]
    while high / low > 1.001:
        # Halved on the logarithm: gammas are factors.
        middle = math.sqrt(low * high)
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high
