"""PAS-IF with known ratios: a subsample that looks like the target policy's own log."""

from dataclasses import dataclass

import numpy as np

from counterrank.behavior.tree.objective import Floats, Objective, Position
from counterrank.selection.mse.replicated import over_splits, rows_in_memory


@dataclass(frozen=True, slots=True)
class PasIf:
    """MSE = mean over splits of (V_c(D_0) - mean reward of D_1)^2, a row joining D_1 with probability rho.

    Udagawa et al. (2023), Policy-adaptive estimator selection for off-policy evaluation, AAAI. They fit rho so that
    the two parts' own importance ratio [rho/m] / [(1-rho)/(1-m)] equals w; for known w that is solved by
    rho = s w / (1 + s w), with s such that the mean is `share`. D_0 keeps the log's weights: with a small share it is
    nearly the log. Fails when few rows carry the weight: D_1 then misses most of the target's rankings.
    """

    share: float = 0.2
    splits: int = 10
    name: str = "pasif"
    streams: bool = False

    def objective(self, position: Position) -> Objective:
        """Draw the splits and their pseudo-truths."""
        rows = rows_in_memory(position, self.name)
        rho = rows.once(f"pasif {self.share}", lambda: membership(rows.weight, rows.use, self.share))
        return split_by(position, rho, self.splits)


def membership(weight: Floats, use: Floats, share: float) -> Floats:
    """Return rho = s w / (1 + s w) (n,) with mean `share` over the used rows.

    >>> membership(np.ones(4), np.ones(4), 0.2).round(6).tolist()
    [0.2, 0.2, 0.2, 0.2]
    """
    from scipy.optimize import brentq

    w = weight[use > 0]
    possible = float((w > 0).mean())
    wanted = min(share, 0.9 * possible)
    if wanted <= 0:
        return np.zeros(len(weight))
    scale = brentq(lambda s: float(np.mean(np.exp(s) * w / (1 + np.exp(s) * w))) - wanted, -60, 60)
    odds: Floats = np.exp(scale) * weight
    return odds / (1 + odds)


def split_by(position: Position, rho: Floats, splits: int) -> Objective:
    """Return the objective for random subsamples with membership probability rho (n,)."""
    rows = rows_in_memory(position, "pasif")
    rng = np.random.default_rng([position.seed, 47])  # the same splits at every position
    drawn = rng.random((splits, len(rho))) < rho
    used = rows.use > 0
    target, rest = drawn & used, ~drawn & used
    truth = (target @ rows.reward) / np.maximum(target.sum(axis=1), 1)
    return over_splits(position, rest / np.maximum(rest.sum(axis=1, keepdims=True), 1), truth)
