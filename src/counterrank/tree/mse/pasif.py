"""PAS-IF with known ratios: a subsample that looks like the target policy's own log."""

from dataclasses import dataclass

import numpy as np

from counterrank.tree.mse.subsampling import Membership, chance, log_of, split_by
from counterrank.tree.objective import Floats, Memory, Objective, Position


@dataclass(frozen=True, slots=True)
class PasIf:
    """MSE = mean over splits of (V_c(D_0) - mean reward of D_1)^2, a row joining D_1 with probability rho.

    Udagawa et al. (2023), Policy-adaptive estimator selection for off-policy evaluation, AAAI. They fit rho so that
    the two parts' own importance ratio [rho/m] / [(1-rho)/(1-m)] equals w; for known w that is solved up to a factor
    by rho = s w / (1 + s w), with s such that the mean is `share`. V_c(D_0) has the weights between the two parts, as
    c sees them (`subsampling`). Fails when few rows carry the weight: rho is near one there, and D_1 is no longer what
    the target shows.
    """

    share: float = 0.2
    splits: int = 10
    name: str = "pasif"
    streams: bool = False

    def objective(self, position: Position) -> Objective:
        """Draw the splits and their pseudo-truths."""
        return split_by(position, self)

    def membership(self, rows: Memory) -> Membership:
        """Return rho = s w / (1 + s w)."""
        scale = odds_scale(rows.weight[rows.use > 0], self.share)
        n, K = rows.action.shape
        return Membership(np.full(n, scale), np.zeros((n, K)), np.ones(n))


def odds_scale(weight: Floats, share: float) -> float:
    """Return log s such that the mean of s w / (1 + s w) is `share`; less where too few weights are positive.

    >>> float(np.exp(odds_scale(np.ones(4), 0.2)))
    0.25
    """
    from scipy.optimize import brentq

    wanted = min(share, 0.9 * float((weight > 0).mean()))
    if wanted <= 0:
        return -60.0
    logs = log_of(weight)

    def excess(scale: float) -> float:
        return float(chance(scale + logs).mean()) - wanted

    return float(brentq(excess, -60, 60))
