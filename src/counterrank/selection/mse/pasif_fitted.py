"""PAS-IF as published: the subsampling rule is fitted to the log's weights."""

from dataclasses import dataclass

import numpy as np

from counterrank.behavior.tree.objective import Floats, Objective, Position
from counterrank.selection.mse.pasif import split_by
from counterrank.selection.mse.replicated import rows_in_memory


@dataclass(frozen=True, slots=True)
class PasIfFitted:
    """PAS-IF with rho = sigmoid(f(x, a)), f linear in context and shown items, fitted by gradient descent.

    Minimises mean (w~ - w)^2 + penalty (m - share)^2, w~ = [rho/m] / [(1-rho)/(1-m)], m the mean of rho
    (Udagawa et al. 2023, equation 10). Smooths over rare large weights, which the closed form takes as they are, and
    pays with a rule that is only as good as f.
    """

    share: float = 0.2
    splits: int = 10
    penalty: float = 10.0
    steps: int = 100
    name: str = "pasif-fitted"
    streams: bool = False

    def objective(self, position: Position) -> Objective:
        """Fit rho, then draw the splits."""
        rows = rows_in_memory(position, self.name)
        rho = rows.once(repr(self), lambda: self.fit(design_of(rows.context, rows.action), rows.weight, rows.use))
        return split_by(position, rho, self.splits)

    def fit(self, design: Floats, weight: Floats, use: Floats) -> Floats:
        """Return rho (n,) from design (n, p), by Adam on all used rows."""
        x, w = design[use > 0], weight[use > 0]
        beta = np.zeros(x.shape[1])
        beta[0] = np.log(self.share / (1 - self.share))
        first, second = np.zeros_like(beta), np.zeros_like(beta)
        for step in range(1, self.steps + 1):
            slope = x.T @ _slope(x @ beta, w, self.share, self.penalty)
            first = 0.9 * first + 0.1 * slope
            second = 0.999 * second + 0.001 * slope**2
            beta -= 0.05 * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-12)
        return _sigmoid(design @ beta)


def design_of(context: Floats, action: "np.ndarray[tuple[int, int], np.dtype[np.int64]]") -> Floats:
    """Return [1, x, indicators of the item at each position but the first id] (n, p); missing context is 0."""
    parts = [np.ones((len(action), 1))]
    known = np.nan_to_num(context)
    if known.shape[1]:
        parts.append((known - known.mean(axis=0)) / np.maximum(known.std(axis=0), 1e-12))
    parts += [(action[:, k, None] == np.arange(1, action.max() + 1)).astype(float) for k in range(action.shape[1])]
    return np.concatenate(parts, axis=1)


def _slope(score: Floats, w: Floats, share: float, penalty: float) -> Floats:
    """Return the derivative of mean (w~ - w)^2 + penalty (m - share)^2 by each row's score (n,)."""
    n = len(score)
    rho = _sigmoid(score)
    m = rho.mean()
    odds = np.exp(np.clip(score, -30, 30))
    ratio = odds * (1 - m) / m
    gap = 2 * (ratio - w) / n
    by_mean = float(gap @ odds) * (-1 / m**2) + 2 * penalty * (m - share)
    slope: Floats = gap * ratio + by_mean * rho * (1 - rho) / n
    return slope


def _sigmoid(z: Floats) -> Floats:
    out: Floats = 0.5 * (1 + np.tanh(0.5 * z))
    return out
