"""Models in which the items of a page act together: a choice among them, and one reward of the whole
page.

Every slot has a rate e^(t_k + v_k), t the place and v what the click models call attraction: context,
items, features, scores. A reader who makes up to M choices on a page of rates L in sum clicks slot k
with chance e^(t_k + v_k) / (1 + L) at each; one stands for what else there is to do. The reward of a page is
1 - e^-L where it is between 0 and 1 (any click: no slot was clicked with chance e^-L), L where it is at
least 0 (revenue), a plain sum over the slots where it may be negative.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.errors import EstimatorError
from counterrank.models.clicks.fit import predictors, prepared
from counterrank.models.clicks.kernels.pages import (
    CHANCE,
    CHOICE,
    NUMBER,
    TOTAL,
    page_means,
    page_weights,
)
from counterrank.models.clicks.model import Predictor
from counterrank.models.clicks.rankings import (
    ALL,
    History,
    Kind,
    Rankings,
    Variant,
    by_row,
    variants_for,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: No rate is more than e^20.
_FAR = 20.0


def _summed(predictor: Predictor, rankings: Rankings, fold: int | Ints) -> Floats:
    """Return t_k + v_k (m, K); what stands in the padding means nothing."""
    K = predictor.parameters.K
    if rankings.K > K:
        raise EstimatorError(
            f"rankings have {rankings.K} slots, the model was fitted to {K}; cut them"
        )
    numbers = by_row(fold, predictor.folds, rankings.m)
    return predictor(rankings, fold) + predictor.parameters.theta[numbers, : rankings.K]


def _rates(predictor: Predictor, rankings: Rankings, fold: int | Ints) -> Floats:
    """Return e^(t_k + v_k) (m, K), zero in the padding."""
    values = np.exp(np.minimum(_summed(predictor, rankings, fold), _FAR))
    return np.where(rankings.item >= 0, values, 0.0)


def _keys(predictor: Predictor, rankings: Rankings, fold: int | Ints) -> Floats:
    return np.where(rankings.item >= 0, predictor(rankings, fold), -np.inf)


@dataclass(frozen=True, slots=True, eq=False)
class ChoiceModel:
    """Items of a page compete for at most `budget` clicks."""

    predictor: Predictor
    budget: float

    @property
    def kind(self) -> Kind:
        """What the model is made of."""
        return Kind.CHOICE

    @property
    def variant(self) -> Variant:
        """Which further columns it has."""
        return self.predictor.variant

    @property
    def folds(self) -> int:
        """Number of folds."""
        return self.predictor.folds

    @property
    def details(self) -> dict[str, Any]:
        """What was fitted, for people."""
        return {"model": "choice", "budget": self.budget} | self.predictor.details

    def expected(self, rankings: Rankings, fold: int | Ints) -> Floats:
        """Return the expected clicks of each slot (m, K)."""
        rate = _rates(self.predictor, rankings, fold)
        return self.budget * rate / (1.0 + rate.sum(axis=1, keepdims=True))

    def history(
        self, rankings: Rankings, reward: Floats, fold: int | Ints, alpha: Floats | None = None
    ) -> History:
        """Return expected clicks and their surprises; a reward other than zero is a click."""
        return self.along(rankings, reward, np.ones(rankings.item.shape), fold, alpha)

    def along(
        self,
        rankings: Rankings,
        reward: Floats,
        worth: Floats,
        fold: int | Ints,
        alpha: Floats | None,
    ) -> History:
        """Return the history of rewards (m, K) where a click at a slot is worth (m, K) on average.

        Given the clicks above, the choices that are left go to a slot in proportion to its share of
        what is left.
        """
        shown = rankings.item >= 0
        weights = np.ones(rankings.K) if alpha is None else np.asarray(alpha, dtype=float)
        share = self.expected(rankings, fold) / self.budget
        click = np.where(shown, reward != 0.0, 0.0)
        left = self.budget - np.cumsum(click, axis=1) + click
        # Shares of the slots above, taken from one: what stands below or beside.
        rest = np.maximum(1.0 - np.cumsum(share, axis=1) + share, 1e-12)
        to_come = np.cumsum((weights * worth * share)[:, ::-1], axis=1)[:, ::-1]
        ahead = np.zeros((rankings.m, rankings.K + 1))
        ahead[:, :-1] = left * to_come / rest
        delta = np.where(shown, weights * reward + ahead[:, 1:] - ahead[:, :-1], 0.0)
        return History(self.budget * share * worth, ahead, delta)

    def strength(self, rankings: Rankings, fold: int | Ints) -> Floats:
        """Return the chance of a click on an item that stands alone (m, K)."""
        return np.where(
            rankings.item >= 0, 1.0 / (1.0 + np.exp(-self.predictor(rankings, fold))), 0.0
        )

    def relevance(self, rankings: Rankings, fold: int | Ints = ALL) -> Floats:
        """Return the logarithm of the rate but for the place (m, K), -inf in the padding."""
        return _keys(self.predictor, rankings, fold)


@dataclass(frozen=True, slots=True, eq=False)
class PageModel:
    """One reward a page, from all its items; it stands at the last of them, as in the log."""

    predictor: Predictor
    #: Of `kernels.pages`: CHANCE, TOTAL or NUMBER.
    family: int
    centre: float
    unit: float

    @property
    def kind(self) -> Kind:
        """What the model is made of."""
        return Kind.PAGE

    @property
    def variant(self) -> Variant:
        """Which further columns it has."""
        return self.predictor.variant

    @property
    def folds(self) -> int:
        """Number of folds."""
        return self.predictor.folds

    @property
    def details(self) -> dict[str, Any]:
        """What was fitted, for people."""
        return {"model": "page"} | self.predictor.details

    def page(self, rankings: Rankings, fold: int | Ints) -> Floats:
        """Return the expected reward of each page (m,)."""
        values = np.where(rankings.item >= 0, _summed(self.predictor, rankings, fold), 0.0)
        mean, _ = page_means(self.family, values @ page_weights(rankings.K))
        return self.centre + self.unit * mean

    def expected(self, rankings: Rankings, fold: int | Ints) -> Floats:
        """Return the expected reward of each page at its last slot (m, K)."""
        out = np.zeros(rankings.item.shape)
        out[np.arange(rankings.m), rankings.lengths - 1] = self.page(rankings, fold)
        return out

    def history(
        self, rankings: Rankings, reward: Floats, fold: int | Ints, alpha: Floats | None = None
    ) -> History:
        """Return expected rewards and residuals of the pages, at their last slots."""
        return plain_history(self.expected(rankings, fold), rankings, reward, alpha)

    def strength(self, rankings: Rankings, fold: int | Ints) -> Floats:
        """Return what each slot's item adds by itself, but for its place (m, K)."""
        return np.where(rankings.item >= 0, self.predictor(rankings, fold), 0.0)

    def relevance(self, rankings: Rankings, fold: int | Ints = ALL) -> Floats:
        """Return what an item adds, as a key to sort by (m, K), -inf in the padding."""
        return _keys(self.predictor, rankings, fold)


def plain_history(q: Floats, rankings: Rankings, reward: Floats, alpha: Floats | None) -> History:
    """Return the history of a model whose expectations do not depend on rewards above."""
    weights = np.ones(rankings.K) if alpha is None else np.asarray(alpha, dtype=float)
    ahead = np.zeros((rankings.m, rankings.K + 1))
    # What is still to come from slot k on: the same for every history.
    ahead[:, :-1] = np.cumsum((weights * q)[:, ::-1], axis=1)[:, ::-1]
    return History(q, ahead, np.where(rankings.item >= 0, weights * (reward - q), 0.0))


def _plain(rankings: Rankings, variants: tuple[Variant, ...] | None) -> tuple[Variant, ...]:
    """Return the variants without competition: here items compete, or act together, in any case."""
    given = variants_for(rankings) if variants is None else variants
    return tuple(dict.fromkeys(Variant(extra=variant.extra) for variant in given))


def fit_choices(
    rankings: Rankings,
    reward: Floats,
    fold: Ints,
    *,
    folds: int,
    variants: tuple[Variant, ...] | None = None,
    seed: int = 0,
) -> tuple[ChoiceModel, ...]:
    """Return cross-fitted models of a choice among the items of a page, one a number of extra columns;
    rewards other than zero are clicks.
    """
    rows = prepared(CHOICE, rankings, reward, fold, folds, seed)
    budget = 1.0 / rows.dispersion
    return tuple(ChoiceModel(p, budget) for p in predictors(rows, _plain(rankings, variants)))


def fit_pages(
    rankings: Rankings,
    reward: Floats,
    fold: Ints,
    *,
    folds: int,
    variants: tuple[Variant, ...] | None = None,
    seed: int = 0,
) -> tuple[PageModel, ...]:
    """Return cross-fitted models of one reward a page, which stands at its last slot."""
    page = np.where(rankings.item >= 0, reward, 0.0).sum(axis=1)
    least, most, centre, unit = float(page.min()), float(page.max()), 0.0, 1.0
    standard = reward
    if least >= 0.0 and most <= 1.0:
        family = CHANCE
    elif least >= 0.0:
        family, unit = TOTAL, float(page.mean())
        standard = reward / unit
    else:
        family, centre = NUMBER, float(page.mean())
        spread = float(page.std())
        unit = spread if spread > 1e-12 * max(abs(centre), 1.0) else 1.0
        standard = np.zeros(reward.shape)
        last = np.arange(rankings.m), rankings.lengths - 1
        standard[last] = (page - centre) / unit
    rows = prepared(family, rankings, standard, fold, folds, seed)
    return tuple(
        PageModel(p, family, centre, unit) for p in predictors(rows, _plain(rankings, variants))
    )
