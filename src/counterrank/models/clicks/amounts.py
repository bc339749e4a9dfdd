"""Models of rewards that are numbers: amounts with zeros (click x amount), and any others (linear)."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from counterrank.arrays import Bools, Floats, Ints
from counterrank.models.base import ALL, History, ListModel
from counterrank.models.clicks.fit import fit_history, predictors, prepared
from counterrank.models.clicks.kernels.likelihood import GAMMA, NORMAL
from counterrank.models.clicks.model import ClickModel, Predictor
from counterrank.models.clicks.pages import fit_pages
from counterrank.models.clicks.settings import SETTINGS
from counterrank.models.rankings import Rankings, Variant
from counterrank.records import Json


@dataclass(frozen=True, slots=True, eq=False)
class Means:
    """The mean of each slot: centre + unit (t_k + v_k), or unit exp(t_k + v_k) for amounts."""

    predictor: Predictor
    centre: float
    unit: float
    positive: bool

    def __call__(self, rankings: Rankings, fold: int | Ints) -> Floats:
        """Return the means (m, K), zero in the padding."""
        values = self.predictor.with_place(rankings, fold)
        return np.where(rankings.item >= 0, self.number(values), 0.0)

    def number(self, values: Floats) -> Floats:
        """Return predictors as numbers in the log's unit."""
        return (
            self.unit * np.exp(np.minimum(values, _FAR))
            if self.positive
            else self.centre + self.unit * values
        )


#: No mean amount is more than e^20 times the typical one.
_FAR = 20.0


@dataclass(frozen=True, slots=True, eq=False)
class AmountModel(ListModel):
    """Click x amount: the click-history model of "not zero", times the mean amount of a click."""

    clicks: ClickModel
    amount: Means

    @property
    def variant(self) -> Variant:
        """Which further columns it has."""
        return self.clicks.variant

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

    def expected(self, rankings: Rankings, fold: int | Ints) -> Floats:
        """Return P(not zero) x mean amount at each slot (m, K)."""
        return self.clicks.expected(rankings, fold) * self.amount(rankings, fold)

    def history(
        self, rankings: Rankings, reward: Floats, fold: int | Ints, alpha: Floats | None = None
    ) -> History:
        """Return expected rewards and their surprises."""
        return self.clicks.history(rankings, reward, fold, alpha, self.amount(rankings, fold))

    def strength(self, rankings: Rankings, fold: int | Ints) -> Floats:
        """Return attraction x mean amount, in units of the typical amount (m, K)."""
        return self.clicks.strength(rankings, fold) * self._alone(rankings, fold)

    def relevance(self, rankings: Rankings, fold: int | Ints = ALL) -> Floats:
        """Return log odds of the attraction + log mean amount (m, K), -inf in the padding."""
        return self.clicks.relevance(rankings, fold) + np.log(self._alone(rankings, fold))

    def _alone(self, rankings: Rankings, fold: int | Ints) -> Floats:
        values: Floats = np.exp(np.minimum(self.amount.predictor(rankings, fold), _FAR))
        return values


@dataclass(frozen=True, slots=True, eq=False)
class NumberModel(ListModel):
    """Any numbers: shrunk least squares on position, item, context and columns, without histories."""

    mean: Means

    @property
    def variant(self) -> Variant:
        """Which further columns it has."""
        return self.mean.predictor.variant

    @property
    def folds(self) -> int:
        """Number of folds."""
        return self.mean.predictor.folds

    @property
    def details(self) -> Json:
        """What was fitted, for people."""
        return {"model": "linear"} | self.mean.predictor.details

    def expected(self, rankings: Rankings, fold: int | Ints) -> Floats:
        """Return the mean of each slot (m, K)."""
        return self.mean(rankings, fold)

    def strength(self, rankings: Rankings, fold: int | Ints) -> Floats:
        """Return the standardised mean of each slot's item by itself (m, K)."""
        return self.mean.predictor.strength(rankings, fold)

    def relevance(self, rankings: Rankings, fold: int | Ints = ALL) -> Floats:
        """Return the same, -inf in the padding."""
        return np.where(rankings.item >= 0, self.strength(rankings, fold), -np.inf)


class RewardKind(StrEnum):
    """What rewards are, which decides on the model."""

    CLICKS = "clicks"
    AMOUNTS = "amounts"
    NUMBERS = "numbers"


def kind_of(reward: Floats, shown: Bools) -> RewardKind:
    """Return what rewards are: 0/1 clicks, nonnegative amounts with zeros, or any numbers.

    >>> kind_of(np.array([[0.0, 2.5]]), np.array([[True, True]]))
    <RewardKind.AMOUNTS: 'amounts'>
    """
    values = reward[shown]
    if np.isin(values, (0.0, 1.0)).all():
        return RewardKind.CLICKS
    zeros = float((values == 0.0).mean())
    return (
        RewardKind.AMOUNTS
        if zeros >= SETTINGS.zeros and values.min() >= 0.0
        else RewardKind.NUMBERS
    )


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
    reward = np.asarray(reward, dtype=np.float64)
    if page:
        return fit_pages(rankings, reward, fold, folds=folds, variants=variants, seed=seed)
    kind = (
        kind_of(reward, rankings.item >= 0)
        if reward.shape == rankings.item.shape
        else RewardKind.CLICKS
    )
    if kind is RewardKind.NUMBERS:
        return fit_numbers(rankings, reward, fold, folds=folds, variants=variants, seed=seed)
    clicks = fit_history(rankings, reward, fold, folds=folds, variants=variants, seed=seed)
    return (
        clicks
        if kind is RewardKind.CLICKS
        else _with_amounts(clicks, rankings, reward, fold, folds, seed)
    )


def _with_amounts(
    clicks: tuple[ClickModel, ...],
    rankings: Rankings,
    reward: Floats,
    fold: Ints,
    folds: int,
    seed: int,
) -> tuple[AmountModel, ...]:
    """Return each click model times a model of amounts with the same extra numbers."""
    # In units of the typical amount, because the prior's spreads are in logarithms.
    typical = float(reward[(rankings.item >= 0) & (reward > 0.0)].mean())
    rows = prepared(GAMMA, rankings, reward / typical, fold, folds, seed)
    plain = tuple(dict.fromkeys(Variant(extra=model.variant.extra) for model in clicks))
    means = {p.variant: Means(p, 0.0, typical, positive=True) for p in predictors(rows, plain)}
    return tuple(AmountModel(model, means[Variant(extra=model.variant.extra)]) for model in clicks)


def fit_numbers(
    rankings: Rankings,
    reward: Floats,
    fold: Ints,
    *,
    folds: int,
    variants: tuple[Variant, ...] | None = None,
    seed: int = 0,
) -> tuple[NumberModel, ...]:
    """Return cross-fitted linear models of any numbers, one for each variant."""
    shown = rankings.item >= 0
    values = reward[shown]
    centre = float(values.mean()) if len(values) else 0.0
    unit = float(values.std()) if len(values) else 0.0
    unit = unit if unit > 1e-12 * max(abs(centre), 1.0) else 1.0
    standard = np.where(shown, (reward - centre) / unit, 0.0)
    rows = prepared(NORMAL, rankings, standard, fold, folds, seed)
    return tuple(
        NumberModel(Means(p, centre, unit, positive=False)) for p in predictors(rows, variants)
    )
