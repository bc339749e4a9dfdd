"""Models of whole pages: a choice among the items of a page, and one reward of the whole page.

Every slot has h = t_k + v_k, with t for the place and v for the attraction (context, items, features,
scores). A reader makes up to M choices. Each goes to slot k with chance e^h_k / (1 + L + R), where L is
the sum of e^h over the page, R that over the candidates beside the page (where they are known), and
one stands for doing something else.

The reward of a page depends on S = sum_k w_k h_k, with w = 1 / sqrt(place). Its mean is 1 / (1 + e^-S)
where it is between 0 and 1 (any click, reciprocal rank), e^S where it is at least 0 (revenue), and S
where it may be negative.
"""

from dataclasses import dataclass

import numpy as np

from counterrank.arrays import Bools, Floats, Ints
from counterrank.errors import EstimatorError
from counterrank.models.base import ALL, History, by_row
from counterrank.models.clicks.fit import predictors, prepared
from counterrank.models.clicks.kernels.pages import (
    CHANCE,
    CHOICE,
    NUMBER,
    TOTAL,
    page_means,
    page_weights,
)
from counterrank.models.clicks.kernels.recursion import not_shown
from counterrank.models.clicks.model import Predictor, PredictorModel, refuse_longer
from counterrank.models.clicks.settings import SETTINGS
from counterrank.models.rankings import Rankings, Variant, variants_for, with_candidates
from counterrank.records import Json

#: No rate is more than e^20.
_FAR = 20.0


def _rates(predictor: Predictor, rankings: Rankings, fold: int | Ints) -> Floats:
    """Return e^(t_k + v_k) (m, K), zero in the padding."""
    values = np.exp(np.minimum(predictor.with_place(rankings, fold), _FAR))
    return np.where(rankings.item >= 0, values, 0.0)


def _keys(predictor: Predictor, rankings: Rankings, fold: int | Ints) -> Floats:
    return np.where(rankings.item >= 0, predictor(rankings, fold), -np.inf)


@dataclass(frozen=True, slots=True, eq=False)
class ChoiceModel(PredictorModel):
    """Items of a page compete for at most `budget` clicks."""

    budget: float
    #: Slots of a page, and whether the candidates that it does not show compete too.
    K: int
    beside: bool

    @property
    def details(self) -> Json:
        """What was fitted, for people."""
        own = {"model": "choice", "budget": self.budget, "beside": self.beside}
        return own | self.predictor.details

    def expected(self, rankings: Rankings, fold: int | Ints) -> Floats:
        """Return the expected clicks of each slot (m, K)."""
        refuse_longer(rankings, self.K)
        rate = _rates(self.predictor, rankings, fold)
        total = 1.0 + self._beside(rankings, fold) + rate.sum(axis=1)
        out: Floats = self.budget * rate / total[:, None]
        return out

    def _beside(self, rankings: Rankings, fold: int | Ints) -> Floats:
        """Return the sum of the rates of the candidates that each page does not show (m,)."""
        out = np.zeros(rankings.m)
        if not self.beside:
            return out
        pool = rankings.pool
        if pool is None:
            raise EstimatorError("the model was fitted with candidates; these rankings have none")
        folds = by_row(fold, self.folds, rankings.m)
        # Rankings of a request share its candidates, so the model is asked once about each of them.
        of_row = np.full(pool.n, self.folds)
        of_row[rankings.row] = folds
        if (of_row[rankings.row] != folds).any():
            raise EstimatorError("rankings of one request must be asked of one fold")
        wanted = np.unique(rankings.row)
        some = pool.take(wanted)
        level = self.predictor.parameters.theta[of_row[wanted], self.K, None]
        values = self.predictor(some, of_row[wanted]) + level
        rate = np.where(some.item >= 0, np.exp(np.minimum(values, _FAR)), 0.0)
        row = np.searchsorted(wanted, rankings.row)
        not_shown(rate, some.item, row, rankings.item, rankings.lengths, out)
        return out

    def history(
        self,
        rankings: Rankings,
        reward: Floats,
        fold: int | Ints,
        alpha: Floats | None = None,
        worth: Floats | None = None,
    ) -> History:
        """Return expected rewards and their surprises, where a click is worth (m, K) on average, 1 unless given.

        Given the clicks above, each choice that is left goes to a slot in proportion to its share.
        """
        shown = rankings.item >= 0
        worth = np.ones(rankings.item.shape) if worth is None else worth
        weights = np.ones(rankings.K) if alpha is None else np.asarray(alpha, dtype=float)
        share = self.expected(rankings, fold) / self.budget
        click = np.where(shown, reward != 0.0, 0.0)
        left = self.budget - np.cumsum(click, axis=1) + click
        # One less the shares of the slots above: the shares of all that stands below or beside.
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
        """Return the log rate without the effect of the place (m, K), -inf in the padding."""
        return _keys(self.predictor, rankings, fold)


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


def compete(click: Floats, shown: Bools) -> bool:
    """Return whether the clicks (m, K) of a page exclude each other.

    They do if the number of clicks varies far less than with independent slots, or if far fewer pages
    have several clicks.

    >>> one = np.eye(4)[np.arange(400) % 4]
    >>> compete(one, np.ones((400, 4), dtype=bool)), compete(one[:, ::2], np.ones((400, 2), dtype=bool))
    (True, True)
    """
    m, count = len(click), np.where(shown, click, 0.0).sum(axis=1)
    p = np.where(shown, click, 0.0).sum(axis=0) / np.maximum(shown.sum(axis=0), 1)
    chance = np.where(shown, np.minimum(p, 1.0 - 1e-9), 0.0)
    none = np.prod(1.0 - chance, axis=1)
    one = none * (chance / (1.0 - chance)).sum(axis=1)
    several = float((1.0 - none - one).sum())
    varies = float((chance * (1.0 - chance)).sum())
    few = SETTINGS.exclude
    return bool(
        m * count.var() < few * varies
        # Too few expected pages are no evidence.
        or (several >= 10.0 and (count > 1.0).sum() < few * several)
    )


def fit_choices(
    rankings: Rankings, reward: Floats, fold: Ints, *, folds: int, seed: int = 0
) -> tuple[ChoiceModel, ...]:
    """Return cross-fitted models of a choice among the items of a page.

    Where there is a pool, a second model has the candidates beside the page among the choices. Rewards
    other than zero are clicks.
    """
    pages = [rankings] if rankings.pool is None else [rankings, with_candidates(rankings)]
    made = []
    for page in pages:
        wider = page.K - rankings.K
        given = np.pad(reward, ((0, 0), (0, wider)))
        rows = prepared(CHOICE, page, given, fold, folds, seed)
        (predictor,) = predictors(rows, (Variant(extra=rankings.extras),))
        made.append(
            ChoiceModel(predictor, 1.0 / rows.dispersion, rankings.K, beside=page.page is not None)
        )
    return tuple(made)


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
