"""How wrong must the propensities be to change the answer? The marginal sensitivity model.

Every true weight lies within [w / G, w G] of the one used (Tan 2006; Zhao, Small & Bhattacharya 2019), with mean as
before. The value's range for a given G is a linear-fractional programme whose solution gives the rewards above a cut
the largest weights and those below the smallest, or the reverse.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

GAMMAS = (1.0, 1.05, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 5.0)


def value_bound(weight: Floats, reward: Floats, gamma: float, *, upper: bool) -> float:
    """Return the largest (smallest) sum(l w r) / sum(l w) over l_i in [1/gamma, gamma].

    The bound v solves sum max_l l w (r - v) = 0, which falls in v as long as every sum(l w) is positive; infinite
    when one is not (negative weights, large gamma).

    >>> value_bound(np.ones(2), np.array([0.0, 1.0]), 2.0, upper=True)
    0.8
    """
    sign = 1.0 if upper else -1.0
    positive, negative = np.maximum(weight, 0.0), np.maximum(-weight, 0.0)
    if positive.sum() / gamma - gamma * negative.sum() <= 0:
        return sign * math.inf
    value = float(weight @ reward / weight.sum())
    for _ in range(100):  # Dinkelbach's iteration: finite, since only finitely many cuts exist
        gain = sign * weight * (reward - value)
        scaled = np.where(gain > 0, gamma, 1.0 / gamma) * weight
        following = float(scaled @ reward / scaled.sum())
        if sign * (following - value) <= 1e-12 * max(abs(value), 1e-300):
            break
        value = following
    return value


def bounds(weights: Floats, rewards: Floats, alpha: Floats, gamma: float) -> tuple[float, float]:
    """Return how far below and above its value sum_k alpha_k V_k can be; weights and rewards (n, K).

    Each position has its own worst case, since each has its own propensities.
    """
    low = high = 0.0
    for k, share in enumerate(alpha):
        centre = value_bound(weights[:, k], rewards[:, k], 1.0, upper=True)
        ends = [value_bound(weights[:, k], rewards[:, k], gamma, upper=upper) - centre for upper in (False, True)]
        below, above = (ends[0], ends[1]) if share >= 0 else (ends[1], ends[0])
        low, high = low + float(share) * below, high + float(share) * above
    return low, high


def curve(weights: Floats, rewards: Floats, alpha: Floats, *, value: float, logged: float) -> dict[str, Any]:
    """Return the range of the value and lift for each gamma, and the gamma at which the lift's sign may change.

    Ranges are those of the estimate itself; its sampling error comes on top.
    """
    rows = []
    for gamma in GAMMAS:
        below, above = bounds(weights, rewards, alpha, gamma)
        low, high = value + below, value + above
        rows.append(
            {"gamma": gamma, "low": low, "high": high, "lift_low": low - logged, "lift_high": high - logged}
        )  # fmt: skip
    return {"curve": rows, "sign_changes_at": sign_change(weights, rewards, alpha, value - logged)}


def sign_change(weights: Floats, rewards: Floats, alpha: Floats, lift: float) -> float | None:
    """Return the smallest gamma at which the lift can be zero, or None when none up to the largest of the curve."""

    def reaches(gamma: float) -> bool:
        below, above = bounds(weights, rewards, alpha, gamma)
        return lift + below <= 0 if lift > 0 else lift + above >= 0

    if lift == 0:
        return 1.0
    if not reaches(GAMMAS[-1]):
        return None
    low, high = 1.0, GAMMAS[-1]
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high
