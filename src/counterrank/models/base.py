"""What a reward model is: one class, asked in one way about any rankings of a log's requests.

A new model is one file: a subclass of `RewardModel` with `folds`, `details` and `expected`. Its mean
under a target policy is then an average over drawn rankings; a model that knows the mean in closed
form overrides `mean_under`. `DM(model=fitted)` and `DR(model=fitted)` take it as it is; a line in
`choice.py` gives it to logs by default.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from counterrank.common.arrays import Floats, Ints
from counterrank.common.records import Json
from counterrank.data.log import RankingLog
from counterrank.models.rankings import PART, Rankings, rankings_of, target_draws
from counterrank.models.settings import DRAWS
from counterrank.statistics import fold_deviations

#: Stands for the model of all rows where a fold is asked for.
ALL = -1
#: The fold whose rows a fit has not seen: one number, or one per ranking.
Fold = int | Ints


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """Expected rewards and their surprises along shown rankings.

    q (m, K): expected reward of each slot. delta (m, K) = alpha_k y_k + V_k+1 - V_k, with V_k the
    weighted rewards expected from slot k on, given the clicks above: martingale differences if the model
    is right, and in any case sum_k delta_k = sum_k alpha_k (y_k - q_k).
    """

    q: Floats
    delta: Floats


class RewardModel(ABC):
    """A cross-fitted model of E[y_k | x, a_1..a_K].

    `fold` names the fold whose rows the fit has not seen. A row's own
    fold is its bucket modulo `folds`.
    """

    __slots__ = ()
    #: Rankings drawn for a row, and the seed of the draws, where `mean_under` is an average over draws.
    draws: int = DRAWS
    seed: int = 0

    @property
    @abstractmethod
    def folds(self) -> int:
        """Number of folds."""

    @property
    @abstractmethod
    def details(self) -> Json:
        """What was fitted, for people."""

    @abstractmethod
    def expected(self, rankings: Rankings, fold: Fold) -> Floats:
        """Return the expected reward of each slot (m, K), zero in the padding."""

    def mean_under(self, batch: RankingLog, target: str, fold: Fold) -> Floats:
        """Return the mean of `expected` over the rankings of a target for each row (n, K)."""
        out, fold_of_row = np.empty(batch.action.shape), by_row(fold, self.folds, batch.n)
        for first in range(0, batch.n, PART):
            rows = slice(first, first + PART)
            block = batch.take(rows)
            drawn = target_draws(block, target, self.draws, self.seed)
            pages = rankings_of(block).others(drawn)
            values = self.expected(pages, np.repeat(fold_of_row[rows], self.draws))
            out[rows] = values.reshape(drawn.shape).mean(axis=1)
        return out

    def corrected(
        self, batch: RankingLog, target: str, fold: Fold, weights: Floats | None = None
    ) -> Floats:
        """Return E_pi q_k + w_k (r_k - q_k) for each row (n, K); the mean alone without weights (n, K)."""
        mean = self.mean_under(batch, target, fold)
        if weights is None:
            return mean
        return mean + weights * (batch.reward - self.expected(rankings_of(batch), fold))

    def refits(self, batch: RankingLog, target: str, weights: Floats | None = None) -> Floats:
        """Return how the mean of `corrected` moves with the fold left out (F,); the squares add to its variance."""
        if self.folds < 2 or not batch.n:
            return np.zeros(0)
        alpha = batch.position_weights
        with np.errstate(over="ignore", invalid="ignore"):
            values = [
                float((self.corrected(batch, target, left_out, weights) @ alpha).mean())
                for left_out in (np.full(batch.n, fold) for fold in range(self.folds))
            ]
        return fold_deviations(np.array(values))

    def doubt(self, batch: RankingLog, target: str) -> float:
        """Return what the log hardly shows of the target's change, as a variance; zero where that is not known."""
        return 0.0

    def history(
        self, rankings: Rankings, reward: Floats, fold: Fold, alpha: Floats | None = None
    ) -> History:
        """Return expected rewards and surprises of rankings whose rewards (m, K) are known.

        Here expectations do not depend on the rewards above, and surprises are plain residuals.
        """
        q = self.expected(rankings, fold)
        residual = reward - q
        residual[rankings.item < 0] = 0.0
        return History(q, residual if alpha is None else alpha * residual)


class ListModel(RewardModel):
    """A reward model that also knows what an item is worth by itself."""

    __slots__ = ()

    @abstractmethod
    def strength(self, rankings: Rankings, fold: Fold) -> Floats:
        """Return what each slot's item is worth by itself (m, K), zero in the padding."""

    @abstractmethod
    def relevance(self, rankings: Rankings, fold: Fold = ALL) -> Floats:
        """Return a key to sort items by (m, K), -inf in the padding."""


def by_row(fold: Fold, folds: int, m: int) -> Ints:
    """Return the number of the fitted model of each ranking (m,); `ALL` is number `folds`."""
    fold_numbers = np.asarray(fold, dtype=np.int64)
    if fold_numbers.shape == (m,) and fold_numbers.min(initial=0) >= 0:
        return np.ascontiguousarray(fold_numbers)
    fold_numbers = np.broadcast_to(fold_numbers, (m,))
    return np.ascontiguousarray(np.where(fold_numbers == ALL, folds, fold_numbers))


def squared_loss(
    model: RewardModel, rankings: Rankings, reward: Floats, fold: Fold, *, axis: int = 1
) -> Floats:
    """Return (y_k - q_k)^2 summed over positions (m,) or rankings (K,), held out where `fold` is the row's own."""
    q = model.expected(rankings, fold)
    out: Floats = np.where(rankings.item >= 0, (reward - q) ** 2, 0.0).sum(axis=axis)
    return out
