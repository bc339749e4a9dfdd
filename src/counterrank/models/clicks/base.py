"""What every reward model of rankings answers, whatever it was fitted by."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from counterrank.models.clicks.rankings import Rankings

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Stands for the model of all rows where a fold is asked for.
ALL = -1


class Kind(StrEnum):
    """What a model is made of."""

    HISTORY = "history"
    AMOUNT = "amount"
    LINEAR = "linear"
    BOOSTING = "boosting"
    AVERAGE = "average"


@dataclass(frozen=True, slots=True)
class Variant:
    """Columns of a model beyond items, context and features: the rankings' extra numbers, and
    competition.
    """

    extra: bool = False
    competition: bool = False


VARIANTS = (
    Variant(),
    Variant(extra=True),
    Variant(competition=True),
    Variant(extra=True, competition=True),
)


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


class ListModel(Protocol):
    """A cross-fitted model of E[y_k | x, a_1..a_K]. `fold` names the fold left out: one number, or
    one a ranking.
    """

    @property
    def kind(self) -> Kind:
        """What the model is made of."""

    @property
    def variant(self) -> Variant:
        """Which further columns it has."""

    @property
    def folds(self) -> int:
        """Number of folds."""

    @property
    def details(self) -> dict[str, Any]:
        """What was fitted, for people."""

    def expected(self, rankings: Rankings, fold: int | Ints) -> Floats:
        """Return the expected reward of each slot (m, K), zero in the padding."""

    def history(
        self, rankings: Rankings, reward: Floats, fold: int | Ints, alpha: Floats | None = None
    ) -> History:
        """Return expected rewards and surprises of rankings whose rewards (m, K) are known."""

    def strength(self, rankings: Rankings, fold: int | Ints) -> Floats:
        """Return what each slot's item is worth by itself (m, K): attraction, times amount; zero in
        the padding.
        """

    def relevance(self, rankings: Rankings, fold: int | Ints = ALL) -> Floats:
        """Return a key to sort by (m, K): log odds of the attraction, plus log amount; -inf in the
        padding.
        """


def by_row(fold: int | Ints, folds: int, m: int) -> Ints:
    """Return the number of the fitted model of each ranking (m,); `ALL` is number `folds`."""
    given = np.broadcast_to(np.asarray(fold, dtype=np.int64), (m,))
    return np.ascontiguousarray(np.where(given == ALL, folds, given))


def squared_loss(model: ListModel, rankings: Rankings, reward: Floats, fold: int | Ints) -> Floats:
    """Return sum_k (y_k - q_k)^2 (m,): held out where `fold` is the row's own, in the same unit for
    every kind.
    """
    q = model.expected(rankings, fold)
    out: Floats = np.where(rankings.item >= 0, (reward - q) ** 2, 0.0).sum(axis=1)
    return out
