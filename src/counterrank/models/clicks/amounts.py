"""Models of rewards that are numbers: amounts with zeros (click x amount), any others (linear), and pages.

One reward of a page depends on S = sum_k w_k (t_k + v_k), with t for the place, v for the attraction
(context, items, features, scores) and w = 1 / sqrt(place). Its mean is 1 / (1 + e^-S) where it is between
0 and 1 (any click, reciprocal rank), e^S where it is at least 0 (revenue), and S where it may be negative.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.common.arrays import Bools, Floats, Ints
from counterrank.common.records import Json
from counterrank.models.base import ALL, Fold, History, ListModel
from counterrank.models.clicks.fit import fit_history, predictors, prepared
from counterrank.models.clicks.likelihood import Family, mean_of, page_weights
from counterrank.models.clicks.model import ClickModel, PredictorModel
from counterrank.models.clicks.settings import SETTINGS
from counterrank.models.rankings import Rankings, Variant, variants_for


@dataclass(frozen=True, slots=True, eq=False)
class NumberModel(PredictorModel):
    """Numbers without histories: centre + unit x the mean that a family has for the predictor.

    The numbers are those of slots, or with `page` one per page, which stands at its last slot as in the log.
    """

    family: Family = Family.NORMAL
    centre: float = 0.0
    unit: float = 1.0
    page: bool = False

    @property
    def details(self) -> Json:
        """What was fitted, for people."""
        return {"model": "page" if self.page else "linear"} | self.predictor.details

    def expected(self, rankings: Rankings, fold: Fold) -> Floats:
        """Return the mean of each slot, or that of each page at its last slot (m, K)."""
        shown = rankings.item >= 0
        predicted = np.where(shown, self.predictor.with_place(rankings, fold), 0.0)
        if self.page:
            shown = np.arange(rankings.K) == rankings.lengths[:, None] - 1
            predicted = (predicted @ page_weights(rankings.K))[:, None]
        return np.where(shown, self.centre + self.unit * mean_of(self.family, predicted), 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class AmountModel(ListModel):
    """Click x amount: the click-history model of "not zero", times the mean amount of a click."""

    clicks: ClickModel
    amount: NumberModel

    @property
    def folds(self) -> int:
        """Number of folds."""
        return self.clicks.folds

    @property
    def details(self) -> Json:
        """What was fitted, for people."""
        return {
            "model": "click x amount",
            "clicks": self.clicks.details,
            "amounts": self.amount.predictor.details,
        }

    def expected(self, rankings: Rankings, fold: Fold) -> Floats:
        """Return P(not zero) x mean amount at each slot (m, K)."""
        return self.clicks.expected(rankings, fold) * self.amount.expected(rankings, fold)

    def history(
        self, rankings: Rankings, reward: Floats, fold: Fold, alpha: Floats | None = None
    ) -> History:
        """Return expected rewards and their surprises."""
        worth = self.amount.expected(rankings, fold)
        return self.clicks.history(rankings, reward, fold, alpha, worth)

    def strength(self, rankings: Rankings, fold: Fold) -> Floats:
        """Return attraction x mean amount, in units of the typical amount (m, K)."""
        return self.clicks.strength(rankings, fold) * self._without_clicks(rankings, fold)

    def relevance(self, rankings: Rankings, fold: Fold = ALL) -> Floats:
        """Return log odds of the attraction + log mean amount (m, K), -inf in the padding."""
        return self.clicks.relevance(rankings, fold) + np.log(self._without_clicks(rankings, fold))

    def _without_clicks(self, rankings: Rankings, fold: Fold) -> Floats:
        return mean_of(Family.GAMMA, self.amount.predictor(rankings, fold))


def family_of(reward: Floats, shown: Bools) -> Family:
    """Return what rewards are: 0/1 clicks, nonnegative amounts with zeros (GAMMA), or any numbers (NORMAL).

    >>> family_of(np.array([[0.0, 2.5]]), np.array([[True, True]])).name
    'GAMMA'
    """
    values = reward[shown]
    if np.isin(values, (0.0, 1.0)).all():
        return Family.CLICKS
    zeros = float((values == 0.0).mean())
    return Family.GAMMA if zeros >= SETTINGS.zeros and values.min() >= 0.0 else Family.NORMAL


def fit_list_models(
    rankings: Rankings,
    reward: Floats,
    fold: Ints,
    *,
    folds: int,
    variants: tuple[Variant, ...] | None = None,
    seed: int = 0,
    page: bool = False,
) -> tuple[ListModel, ...]:
    """Return cross-fitted models of the rewards' kind, one for each variant (`variants_for` unless given).

    `fold` (m,) in 0..folds - 1 names each ranking's fold, by unit. Variants with more extra numbers
    than the rankings have are left out. `page` says that each page has one reward, at its last slot.
    """
    reward, shown = np.asarray(reward, dtype=np.float64), rankings.item >= 0
    variants = variants_for(rankings) if variants is None else variants
    plain = tuple(dict.fromkeys(Variant(extra=variant.extra) for variant in variants))

    def numbers(
        family: Family, values: Floats, variants: tuple[Variant, ...], centre: float, unit: float
    ) -> tuple[NumberModel, ...]:
        # The prior's spreads are in units of the typical number.
        standard = np.where(rewarded, (values - centre) / unit, 0.0)
        fitted = rankings.cached(
            ("numbers", family, page, variants, _digest(standard, fold), seed),
            lambda: predictors(
                prepared(family, rankings, standard, fold, folds, seed, page=page), variants
            ),
        )
        return tuple(NumberModel(predictor, family, centre, unit, page) for predictor in fitted)

    if page:
        # Models of pages have competition between items in any case.
        rewarded = np.arange(rankings.K) == rankings.lengths[:, None] - 1
        totals = np.where(shown, reward, 0.0).sum(axis=1, keepdims=True)
        if totals.min() < 0.0:
            return numbers(Family.NORMAL, totals, plain, *_scale(totals))
        if totals.max() > 1.0:
            return numbers(Family.TOTAL, totals, plain, 0.0, float(totals.mean()))
        return numbers(Family.CHANCE, totals, plain, 0.0, 1.0)
    rewarded, family = shown, family_of(reward, shown)
    if family is Family.NORMAL:
        return numbers(Family.NORMAL, reward, variants, *_scale(reward[shown]))
    # Clicks and what they earn, two rewards of one log, have one model of clicks.
    clicks = rankings.cached(
        ("clicks", variants, _digest(reward != 0.0, fold), seed),
        lambda: fit_history(rankings, reward, fold, folds=folds, variants=variants, seed=seed),
    )
    if family is Family.CLICKS:
        return clicks
    typical = float(reward[shown & (reward > 0.0)].mean())
    amount_variants = tuple(dict.fromkeys(Variant(extra=model.variant.extra) for model in clicks))
    fitted = numbers(family, reward, amount_variants, 0.0, typical)
    amounts = {model.variant.extra: model for model in fitted}
    return tuple(AmountModel(model, amounts[model.variant.extra]) for model in clicks)


def _digest(*arrays: NDArray[Any]) -> bytes:
    """Return a key for the content of arrays."""
    return hashlib.blake2b(b"".join(array.tobytes() for array in arrays), digest_size=16).digest()


def _scale(values: Floats) -> tuple[float, float]:
    """Return the mean and the standard deviation of values, 1 where they are all alike."""
    centre, spread = float(values.mean()), float(values.std())
    return centre, spread if spread > 1e-12 * max(abs(centre), 1.0) else 1.0
