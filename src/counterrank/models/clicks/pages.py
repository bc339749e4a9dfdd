"""Models of one reward of the whole page.

Every slot has h = t_k + v_k, with t for the place and v for the attraction (context, items, features,
scores). The reward of a page depends on S = sum_k w_k h_k, with w = 1 / sqrt(place). Its mean is
1 / (1 + e^-S) where it is between 0 and 1 (any click, reciprocal rank), e^S where it is at least 0
(revenue), and S where it may be negative.
"""

from dataclasses import dataclass

import numpy as np

from counterrank.arrays import Floats, Ints
from counterrank.models.base import ALL
from counterrank.models.clicks.fit import predictors, prepared
from counterrank.models.clicks.kernels.pages import (
    CHANCE,
    NUMBER,
    TOTAL,
    page_means,
    page_weights,
)
from counterrank.models.clicks.model import Predictor, PredictorModel
from counterrank.models.rankings import Rankings, Variant, variants_for
from counterrank.records import Json


def _keys(predictor: Predictor, rankings: Rankings, fold: int | Ints) -> Floats:
    return np.where(rankings.item >= 0, predictor(rankings, fold), -np.inf)


@dataclass(frozen=True, slots=True, eq=False)
class PageRewardModel(PredictorModel):
    """One reward a page, from all its items; it stands at the last of them, as in the log."""

    #: Of `kernels.pages`: CHANCE, TOTAL or NUMBER.
    family: int
    centre: float
    unit: float

    @property
    def details(self) -> Json:
        """What was fitted, for people."""
        return {"model": "page"} | self.predictor.details

    def page(self, rankings: Rankings, fold: int | Ints) -> Floats:
        """Return the expected reward of each page (m,)."""
        values = np.where(rankings.item >= 0, self.predictor.with_place(rankings, fold), 0.0)
        mean, _ = page_means(self.family, values @ page_weights(rankings.K))
        return self.centre + self.unit * mean

    def expected(self, rankings: Rankings, fold: int | Ints) -> Floats:
        """Return the expected reward of each page at its last slot (m, K)."""
        out = np.zeros(rankings.item.shape)
        out[np.arange(rankings.m), rankings.lengths - 1] = self.page(rankings, fold)
        return out

    def strength(self, rankings: Rankings, fold: int | Ints) -> Floats:
        """Return what each slot's item adds to S, without the effect of its place (m, K)."""
        return np.where(rankings.item >= 0, self.predictor(rankings, fold), 0.0)

    def relevance(self, rankings: Rankings, fold: int | Ints = ALL) -> Floats:
        """Return the same as a key to sort by (m, K), -inf in the padding."""
        return _keys(self.predictor, rankings, fold)


def _plain(rankings: Rankings, variants: tuple[Variant, ...] | None) -> tuple[Variant, ...]:
    """Return the variants without competition, which these models have in any case."""
    given = variants_for(rankings) if variants is None else variants
    return tuple(dict.fromkeys(Variant(extra=variant.extra) for variant in given))


def fit_pages(
    rankings: Rankings,
    reward: Floats,
    fold: Ints,
    *,
    folds: int,
    variants: tuple[Variant, ...] | None = None,
    seed: int = 0,
) -> tuple[PageRewardModel, ...]:
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
        PageRewardModel(p, family, centre, unit)
        for p in predictors(rows, _plain(rankings, variants))
    )
