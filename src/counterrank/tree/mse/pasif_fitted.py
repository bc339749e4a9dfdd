"""PAS-IF as published: the subsampling rule is fitted to the log's weights."""

from dataclasses import dataclass

import numpy as np

from counterrank.tree.mse.pasif import odds_scale
from counterrank.tree.mse.subsampling import Membership, chance, log_whole, split_by
from counterrank.tree.objective import Floats, Ints, Memory, Objective, Position

#: Log weights beyond this are taken as this when the rule is fitted.
FAR = 10.0


@dataclass(frozen=True, slots=True)
class PasIfFitted:
    """PAS-IF with log-odds of rho linear in context, shown items, log w and context times log w.

    Minimises mean (w~ - w)^2 + penalty (m - share)^2, w~ = [rho/m] / [(1-rho)/(1-m)], m the mean of rho (Udagawa et
    al. 2023, equation 10), by gradient descent; then moves the intercept so that m is the share, which is what the
    paper tunes its penalty for. The paper's rho is a network. Log-odds that add over positions are what the weights of
    sparse models can be computed from (`subsampling`); with log w among the features they contain the closed form.
    """

    share: float = 0.2
    splits: int = 10
    penalty: float = 10.0
    steps: int = 100
    name: str = "pasif-fitted"
    streams: bool = False

    def objective(self, position: Position) -> Objective:
        """Fit rho, then draw the splits."""
        return split_by(position, self)

    def membership(self, rows: Memory) -> Membership:
        """Return the fitted rule."""
        used = rows.use > 0
        context, items, logs = standardised(rows.context), indicators(rows.action), log_whole(rows)
        near = np.clip(logs, -FAR, FAR)[:, None]
        design = np.concatenate([np.ones((len(logs), 1)), context, items, near, context * near], axis=1)
        beta = self.fit(design[used], rows.weight[used])
        d, p, K = context.shape[1], items.shape[1], rows.action.shape[1]
        power = beta[1 + d + p] + context @ beta[2 + d + p :]
        by_item = (items * beta[1 + d : 1 + d + p]).reshape(len(logs), K, -1).sum(axis=2)
        row = context @ beta[1 : 1 + d]
        plain = row + by_item.sum(axis=1) + power * logs
        return Membership(row + odds_scale(np.exp(np.minimum(plain, 600.0))[used], self.share), by_item, power)

    def fit(self, design: Floats, weight: Floats) -> Floats:
        """Return the coefficients (p,) of a design (n, p) whose first column is one, by Adam on all rows."""
        beta = np.zeros(design.shape[1])
        beta[0] = np.log(self.share / (1 - self.share))
        first, second = np.zeros_like(beta), np.zeros_like(beta)
        for step in range(1, self.steps + 1):
            slope = design.T @ _slope(design @ beta, weight, self.share, self.penalty)
            first = 0.9 * first + 0.1 * slope
            second = 0.999 * second + 0.001 * slope**2
            beta -= 0.05 * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-12)
        return beta


def standardised(context: Floats) -> Floats:
    """Return contexts (n, d) with mean 0 and variance 1; missing values are 0."""
    known = np.nan_to_num(context)
    out: Floats = (known - known.mean(axis=0)) / np.maximum(known.std(axis=0), 1e-12)
    return out


def indicators(action: Ints) -> Floats:
    """Return indicators of the item at each position but the first id (n, K (A - 1)), position by position.

    >>> indicators(np.array([[0, 2], [1, 0]])).tolist()
    [[0.0, 0.0, 0.0, 1.0], [1.0, 0.0, 0.0, 0.0]]
    """
    parts = [action[:, k, None] == np.arange(1, action.max() + 1) for k in range(action.shape[1])]
    return np.concatenate(parts, axis=1).astype(np.float64)


def _slope(score: Floats, w: Floats, share: float, penalty: float) -> Floats:
    """Return the derivative of mean (w~ - w)^2 + penalty (m - share)^2 by each row's score (n,)."""
    n = len(score)
    rho = chance(score)
    m = rho.mean()
    odds = np.exp(np.clip(score, -30, 30))
    ratio = odds * (1 - m) / m
    gap = 2 * (ratio - w) / n
    by_mean = float(gap @ odds) * (-1 / m**2) + 2 * penalty * (m - share)
    slope: Floats = gap * ratio + by_mean * rho * (1 - rho) / n
    return slope
