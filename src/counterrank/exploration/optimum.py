"""The mixture of policies that makes the errors of lifts least at a budget.

Let the logger serve policy c to the share m_c of the traffic. A page (or an item at a place) s that
targets need, with weight v_s, has probability p_s = sum_c m_c P_c(s), and contributes v_s / p_s to the
variance of the lifts: E_logger[w^2 r^2] = sum_s pi(s)^2 E[r^2] / p_s. The sum is convex in m, and the
loss sum_c m_c loss_c is linear: one minimum, whatever the number of policies.

It is found by sequential quadratic programming (SciPy's SLSQP). Where the policies are single items,
P_c(s) = 1 for s = c, the shares are those of the closed form for K = 1: m_c = sqrt(v_c / (eta loss_c +
mu)), without a budget the square root of the targets' mean squared contribution. The idea to choose the
logger for the lift's variance is that of Oosterhuis & de Rijke (ICTIR 2020), who follow gradients of a
Plackett-Luce model.
"""

from __future__ import annotations

import numpy as np

from counterrank.arrays import Floats

#: A part of the optimum that takes less than this off the variance is not worth serving.
TRIFLE = 1e-3
#: Shares are at least this large while they are looked for: no page is then out of reach.
LEAST = 1e-9


def shares_at_budget(probs: Floats, weight: Floats, loss: Floats, budget: float) -> Floats:
    """Return the shares (C,) that make sum_s weight_s / p_s least at a loss of at most `budget`.

    `probs` (C, S) are P_c(s), `weight` (S,) is v, `loss` (C,) that of each policy. Where no shares are
    so cheap, those of least loss.

    >>> shares_at_budget(np.eye(2), np.array([4.0, 1.0]), np.zeros(2), 1.0).round(4).tolist()
    [0.6667, 0.3333]
    """
    from scipy.optimize import LinearConstraint, minimize

    used = weight > 0
    probs, weight = probs[:, used], weight[used]
    cheapest: Floats = np.eye(len(loss))[int(loss.argmin())]
    # The solver may be off by a rounding error; a budget is kept.
    limit = budget - 1e-6 * abs(budget)
    if loss.min() >= limit:
        return cheapest

    def variance(shares: Floats) -> tuple[float, Floats]:
        p = np.maximum(shares @ probs, 1e-300)
        total = float((weight / p).sum())
        # Its logarithm: variances of pages are of any size.
        return float(np.log(total)), -(probs @ (weight / p**2)) / total

    start = np.full(len(loss), 1.0 / len(loss))
    if start @ loss > limit:
        part = (limit - loss.min()) / float(start @ loss - loss.min())
        start = part * start + (1.0 - part) * cheapest
    scale = max(abs(limit), float(np.abs(loss).max()))
    found = minimize(
        variance,
        start,
        jac=True,
        method="SLSQP",
        bounds=[(LEAST, 1.0)] * len(loss),
        constraints=[
            LinearConstraint(np.ones(len(loss)), 1.0, 1.0),
            LinearConstraint(loss / scale, -np.inf, limit / scale),
        ],
        options={"maxiter": 300, "ftol": 1e-10},
    )
    shares: Floats = found.x / found.x.sum()
    return shares


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
        # Each takes what the part had.
        moved = [
            best + best[part] * (np.eye(len(best))[heir] - np.eye(len(best))[part])
            for heir in heirs
            if best[part] > 0
        ]
        moved = [one for one in moved if one @ loss <= limit]
        least = min(moved, key=variance, default=best)
        if variance(least) <= variance(best) * (1 + TRIFLE):
            best = least
    return best
