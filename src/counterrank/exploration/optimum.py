"""The mixture of policies that makes the errors of lifts least at a budget.

Let the logger serve policy c to the share m_c of the traffic. A page (or an item at a place) s that
targets need, with weight v_s, has probability p_s = sum_c m_c P_c(s), and contributes v_s / p_s to the
variance of the lifts: E_logger[w^2 r^2] = sum_s pi(s)^2 E[r^2] / p_s. The sum is convex in m, and the
loss sum_c m_c loss_c is linear: one minimum, whatever the number of policies.

For a price `eta` of loss it is found by majorising: v / sum_c m_c P_c is at most
v sum_c (m_c P_c / p)^2 / (m'_c P_c) for new shares m', with equality at m' = m. The right side is least at

    m'_c = m_c sqrt(g_c / (eta loss_c + mu)),    g_c = sum_s v_s P_c(s) / p_s^2,

mu so that the shares sum to one. No step makes it worse (the multiplicative algorithm of optimal
design: Silvey, Titterington & Torsney 1978; Yu 2010), and the fixed points are the minimum. Where the
policies are single items, P_c(s) = 1 for s = c, one step is the closed form of K = 1:
m_c = sqrt(v_c / (eta loss_c + mu)), without a budget the square root of the targets' mean squared
contribution. The idea to choose the logger for the lift's variance is that of Oosterhuis & de Rijke
(ICTIR 2020), who follow gradients of a Plackett-Luce model.
"""

from __future__ import annotations

import numpy as np

from counterrank.arrays import Floats

#: A part of the optimum that takes less than this off the variance is not worth serving.
TRIFLE = 1e-3


def shares_at_price(probs: Floats, weight: Floats, loss: Floats, eta: float, steps: int) -> Floats:
    """Return the shares (C,) that make sum_s weight_s / p_s + eta sum_c m_c loss_c least.

    `probs` (C, S) are P_c(s), `weight` (S,) is v, positive, `loss` (C,) that of each policy.

    >>> one = shares_at_price(np.eye(2), np.array([4.0, 1.0]), np.zeros(2), 0.0, 50)
    >>> one.round(6).tolist()
    [0.666667, 0.333333]
    """
    shares = np.full(len(probs), 1.0 / len(probs))
    for _ in range(steps):
        g = probs @ (weight / (shares @ probs) ** 2)
        shares = _rescaled(shares, g, eta * loss)
    return shares


def _rescaled(shares: Floats, g: Floats, price: Floats) -> Floats:
    """Return m sqrt(g / (price + mu)) with mu so that it sums to one."""
    from scipy.optimize import brentq

    alive = (shares > 0) & (g > 0)
    if not alive.any():
        return shares
    least = float(price[alive].min())

    def excess(logarithm: float) -> float:
        gap = price[alive] - least + np.exp(logarithm)
        return float((shares[alive] * np.sqrt(g[alive] / gap)).sum()) - 1.0

    # At mu = sum of m^2 g, the largest that is needed, every share is at most itself.
    high = float(np.log((shares[alive] ** 2 * g[alive]).sum() * len(shares) + 1e-300)) + 1.0
    low = high - 200.0
    mu = np.exp(brentq(excess, low, high, xtol=1e-12)) if excess(low) > 0 else np.exp(low)
    out = np.zeros_like(shares)
    out[alive] = shares[alive] * np.sqrt(g[alive] / (price[alive] - least + mu))
    scaled: Floats = out / out.sum()
    return scaled


def shares_at_budget(
    probs: Floats, weight: Floats, loss: Floats, budget: float, steps: int
) -> Floats:
    """Return the shares (C,) that make sum_s weight_s / p_s least at a loss of at most `budget`.

    Where no shares are so cheap, those of least loss.
    """
    used = weight > 0
    probs, weight = probs[:, used], weight[used]
    free = shares_at_price(probs, weight, loss, 0.0, steps)
    if free @ loss <= budget:
        return free
    if loss.min() > budget:
        return _cheapest(loss)
    scale = float((weight / np.maximum(free @ probs, 1e-300)).sum()) / max(abs(budget), 1e-12)
    low, high = np.log(scale) - 30.0, np.log(scale) + 10.0
    best = free
    # Loss falls as its price rises: halve the interval of log prices.
    for _ in range(20):
        middle = (low + high) / 2
        found = shares_at_price(probs, weight, loss, float(np.exp(middle)), steps)
        if found @ loss > budget:
            low = middle
        else:
            high, best = middle, found
    if best @ loss > budget:
        return _cheapest(loss)
    return best


def _cheapest(loss: Floats) -> Floats:
    only: Floats = np.eye(len(loss))[int(loss.argmin())]
    return only


def pruned(probs: Floats, weight: Floats, loss: Floats, shares: Floats, budget: float) -> Floats:
    """Return the shares without parts that hardly matter.

    A part is given to another where that adds less than a thousandth to the variance and stays within
    the budget.
    """

    def variance(candidate: Floats) -> float:
        with np.errstate(divide="ignore"):
            return float((weight / (candidate @ probs)).sum())

    used = weight > 0
    probs, weight = probs[:, used], weight[used]
    best = np.array(shares)
    limit = max(budget, float(best @ loss)) * (1 + TRIFLE)
    for part in np.argsort(shares)[:-1]:
        heirs = [heir for heir in np.flatnonzero(best) if heir != part]
        moved = [_given(best, int(part), int(heir)) for heir in heirs if best[part] > 0]
        moved = [one for one in moved if one @ loss <= limit]
        least = min(moved, key=variance, default=best)
        if variance(least) <= variance(best) * (1 + TRIFLE):
            best = least
    return best


def _given(shares: Floats, part: int, heir: int) -> Floats:
    out = shares.copy()
    out[heir] += out[part]
    out[part] = 0.0
    return out
