"""What a reward model is, and what every one of them answers.

There are two ways to be asked. A `RewardModel` is asked about the rows of a log and a target: it
returns its values on the logged rankings and its means under the target, which `DM` and `DR` need.
A `PageModel` is asked about any rankings of any requests (`Rankings`); averaging it over drawn
rankings of a target gives the same two numbers (`estimators.crossfit.Drawn`).

A new model is one file: a fitted class with `details` and `predict`, and a line in `choice.py` if
logs should get it by default; without one, `DM(model=fitted)` and `DR(model=fitted)` take it as it is.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from counterrank.data.log import RankingLog
from counterrank.models.rankings import Rankings
from counterrank.records import Json

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Stands for the model of all rows where a fold is asked for.
ALL = -1


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """q (n, K): the model at the logged ranking; mean (n, K): E_pi of it; both out of fold, zero in the padding."""

    q: Floats
    mean: Floats


@runtime_checkable
class RewardModel(Protocol):
    """A fitted, cross-fitted model of E[r_k | x, a_1..a_K]."""

    @property
    def details(self) -> Json:
        """What was fitted and how its mean is formed, in words and numbers, for people."""

    def predict(self, batch: RankingLog, target: str) -> Prediction:
        """Return the model on the rows of a batch, by the folds that did not see them."""


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """Expected rewards and their surprises along shown rankings.

    q (m, K): expected reward of each slot. ahead (m, K + 1): V_k, the weighted rewards expected
    from slot k on, given the clicks above. delta (m, K) = alpha_k y_k + V_k+1 - V_k: martingale
    differences if the model is right, and in any case sum_k delta_k = sum_k alpha_k (y_k - q_k).
    """

    q: Floats
    ahead: Floats
    delta: Floats


class PageModel(Protocol):
    """A cross-fitted model of E[y_k | x, a_1..a_K].

    `fold` names the fold left out: one number, or one a ranking.
    """

    @property
    def folds(self) -> int:
        """Number of folds."""

    @property
    def details(self) -> Json:
        """What was fitted, for people."""

    def expected(self, rankings: Rankings, fold: int | Ints) -> Floats:
        """Return the expected reward of each slot (m, K), zero in the padding."""

    def history(
        self, rankings: Rankings, reward: Floats, fold: int | Ints, alpha: Floats | None = None
    ) -> History:
        """Return expected rewards and surprises of rankings whose rewards (m, K) are known."""


class ListModel(PageModel, Protocol):
    """A page model that also knows what an item is worth by itself."""

    def strength(self, rankings: Rankings, fold: int | Ints) -> Floats:
        """Return what each slot's item is worth by itself (m, K), zero in the padding."""

    def relevance(self, rankings: Rankings, fold: int | Ints = ALL) -> Floats:
        """Return a key to sort items by (m, K), -inf in the padding."""


def plain_history(q: Floats, rankings: Rankings, reward: Floats, alpha: Floats | None) -> History:
    """Return the history of a model whose expectations do not depend on rewards above."""
    weights = np.ones(rankings.K) if alpha is None else np.asarray(alpha, dtype=float)
    ahead = np.zeros((rankings.m, rankings.K + 1))
    # What is still to come from slot k on: the same for every history.
    ahead[:, :-1] = np.cumsum((weights * q)[:, ::-1], axis=1)[:, ::-1]
    return History(q, ahead, np.where(rankings.item >= 0, weights * (reward - q), 0.0))


def by_row(fold: int | Ints, folds: int, m: int) -> Ints:
    """Return the number of the fitted model of each ranking (m,); `ALL` is number `folds`."""
    given = np.asarray(fold, dtype=np.int64)
    if given.shape == (m,) and given.min(initial=0) >= 0:
        return np.ascontiguousarray(given)
    given = np.broadcast_to(given, (m,))
    return np.ascontiguousarray(np.where(given == ALL, folds, given))


def squared_loss(model: PageModel, rankings: Rankings, reward: Floats, fold: int | Ints) -> Floats:
    """Return sum_k (y_k - q_k)^2 (m,), held out where `fold` is the row's own."""
    q = model.expected(rankings, fold)
    out: Floats = np.where(rankings.item >= 0, (reward - q) ** 2, 0.0).sum(axis=1)
    return out
