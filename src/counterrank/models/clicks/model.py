"""The click-history model: its parameters by fold, and the clicks that it expects of any rankings.

P(click at k | x, a, last click at l) = s(t_kl + h[a_l] + g r_kl) s(v_k), with s the logistic function.
The first factor is the chance that slot k is examined; r_kl is what the items skipped since l say of
it. The second factor is the chance that the item attracts. WHY.md lists the models that this nests.

An item may lose clicks to similar items above it, by its features where there are any.
"""

from dataclasses import dataclass, field

import numpy as np

from counterrank.arrays import Bools, Floats, Ints
from counterrank.data.encoding import Scaling
from counterrank.errors import EstimatorError
from counterrank.models.base import ALL, History, ListModel, by_row
from counterrank.models.clicks.kernels.likelihood import Parts, parts_of
from counterrank.models.clicks.kernels.recursion import (
    Attraction,
    Examination,
    Shown,
    attractions,
    chances,
    click_expected,
    click_history,
    competition,
    cosines_above,
    skipped,
)
from counterrank.models.clicks.settings import SETTINGS
from counterrank.models.rankings import Rankings, Variant
from counterrank.records import Json


def alike_above(features: Floats, shown: Bools) -> Floats:
    """Return the sum of cosines between each slot's features and those above (m, K); features standardised.

    >>> z = np.array([[[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]])
    >>> alike_above(z, np.ones((1, 3), dtype=bool)).tolist()
    [[0.0, 1.0, 0.0]]
    """
    out = np.zeros(shown.shape)
    cosines_above(np.ascontiguousarray(features), shown, out)
    return out


#: Ids below this are looked up in a table.
_TABLE = 10_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Encoding:
    """How rankings become the arrays of the kernels; all folds and variants of a fit share it."""

    #: Ids of the items seen, sorted. An item's number is its place in this array.
    seen: Ints
    #: Numbers by id. The last entry stands for items not seen; empty where ids are huge.
    number: Ints
    context: Scaling
    features: Scaling | None
    extra: Scaling | None
    #: Whether items have slopes in the context; else the context stands among the columns.
    slopes: bool
    #: Columns of the context whose squares follow it.
    squared: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    #: Whether features and extra numbers times the logarithm of the place are columns too: readers
    #: look for some kinds of items further down.
    by_place: bool = False

    @classmethod
    def of(cls, rankings: Rankings) -> "Encoding":
        """Return the encoding of the rankings of a fit."""
        shown = rankings.item >= 0
        seen = np.unique(rankings.item[shown])
        scalings = [
            None if part is None else Scaling.of(part[shown], logs=logs)
            for part, logs in ((rankings.features, rankings.nonlinear), (rankings.extra, False))
        ]
        # Each item has slopes in the context of its own while these are few numbers. In large
        # catalogues the context acts through features.
        slopes = len(seen) * rankings.x.shape[1] <= SETTINGS.slopes
        squared = np.empty(0, dtype=np.int64)
        if rankings.nonlinear and slopes and rankings.x.shape[1] <= SETTINGS.squares:
            # The square of an indicator is the indicator.
            squared = np.flatnonzero([len(np.unique(one)) > 2 for one in rankings.x.T])
        return cls(
            seen,
            number_table(seen),
            Scaling.of(rankings.x),
            scalings[0],
            scalings[1],
            slopes,
            squared,
            rankings.nonlinear,
        )

    @property
    def items(self) -> int:
        """Number of items seen."""
        return len(self.seen)

    def numbers(self, item: Ints) -> Ints:
        """Return the numbers of items by id. Padding gets the number of unseen items; nothing reads it."""
        if len(self.number):
            out: Ints = self.number[np.minimum(item, len(self.number) - 1)]
            return out
        place = np.minimum(np.searchsorted(self.seen, item), len(self.seen) - 1)
        return np.where(self.seen[place] == item, place, len(self.seen))

    def context_of(self, x: Floats) -> Floats:
        """Return the standardised context (n, d), then the squares of some columns.

        Squares are cut at 9, because outliers would else decide their coefficients.
        """
        z = self.context.apply(x)
        if not len(self.squared):
            return z
        squares = np.minimum(z[:, self.squared] ** 2, 9.0)
        return np.ascontiguousarray(np.concatenate([z, (squares - 1.0) / np.sqrt(2.0)], axis=1))

    def linear_context(self, x: Floats) -> Floats:
        """Return the context without its squares (n, d), which multiplies the features."""
        return np.ascontiguousarray(x[:, : len(self.context.mean)])

    def slopes_of(self, x: Floats) -> Floats:
        """Return the context columns (n, d) in which items have slopes."""
        return x if self.slopes else x[:, :0]

    @property
    def products(self) -> int:
        """Number of products of features and context that are columns."""
        if self.features is None:
            return 0
        count = len(self.context.mean) * len(self.features.mean)
        return count if count <= SETTINGS.products else 0

    @property
    def placed(self) -> int:
        """Number of features that also stand multiplied by the logarithm of the place."""
        count = 0 if self.features is None or not self.by_place else len(self.features.mean)
        return count if count <= SETTINGS.placed else 0

    @property
    def crossed(self) -> tuple[int, int]:
        """First and number of the columns whose coefficients depend on the context."""
        crossed = 0 if self.features is None or not self.products else len(self.features.mean)
        return (0 if self.slopes else len(self.context.mean)), crossed

    def widths(self, variant: Variant, p: int) -> list[tuple[str, int]]:
        """Return what the p columns of a variant are, in order, with the number of each."""
        found = [
            ("context", 0 if self.slopes else len(self.context.mean)),
            ("feature", 0 if self.features is None else len(self.features.mean)),
            ("product", self.products),
            ("place", self.placed + int(self.by_place)),
            *[("extra", 1), ("place", int(self.by_place))] * variant.extra,
        ]
        return [*found, ("rival", p - sum(size for _, size in found))]

    def width(self, extra: int) -> int:
        """Return how many of the `columns` a variant reads: extra numbers come last."""
        found = 0 if self.slopes else len(self.context.mean)
        found += 0 if self.features is None else len(self.features.mean)
        return found + self.placed + int(self.by_place) + (1 + self.by_place) * extra

    def columns(self, rankings: Rankings, x: Floats, extra: int) -> Floats:
        """Return the columns of attraction (m, K, .) common to all items.

        They are the context (where items have no slopes in it), features, features by place, and each
        extra number, also by place. The kernels multiply features and context. Variants with fewer
        extra numbers share the array and do not read its last columns.
        """
        if extra > rankings.extras:
            raise EstimatorError(
                f"the model was fitted with {extra} extra numbers for each slot; these rankings have "
                f"{rankings.extras or 'none'}"
            )
        return rankings.once(("columns", self), lambda: self._columns(rankings, x))

    def _columns(self, rankings: Rankings, x: Floats) -> Floats:
        parts: list[Floats] = []
        # Centred at about its mean on a page, so that a feature's own column keeps its mean effect.
        place = np.broadcast_to(
            (np.log1p(np.arange(rankings.K)) - 1.0)[:, None], (rankings.m, rankings.K, 1)
        )
        if not self.slopes:
            own = x[rankings.row]
            parts.append(np.broadcast_to(own[:, None, :], (rankings.m, rankings.K, own.shape[1])))
        if self.features is not None:
            if rankings.features is None:
                raise EstimatorError(
                    "the model was fitted with item features; these rankings have none"
                )
            features = self.features.apply(rankings.features)
            parts += [features, features * place] if self.placed else [features]
        if self.by_place:
            parts.append(place)
        if self.extra is not None and rankings.extra is not None:
            extra = self.extra.apply(rankings.extra)
            if self.by_place:
                both = np.stack([extra, extra * place], axis=-1)
                extra = both.reshape(*extra.shape[:2], 2 * extra.shape[2])
            parts.append(extra)
        if not parts:
            return np.empty((rankings.m, rankings.K, 0))
        return np.ascontiguousarray(np.concatenate(parts, axis=2))


def number_table(seen: Ints) -> Ints:
    """Return the number of each item by id, last that of unseen items; empty where ids are huge."""
    if seen[-1] >= _TABLE:
        return np.empty(0, dtype=np.int64)
    number = np.full(int(seen[-1]) + 2, len(seen), dtype=np.int64)
    number[seen] = np.arange(len(seen))
    return number


@dataclass(frozen=True, slots=True, eq=False)
class Parameters:
    """Parameters (F + 1, P) by fold left out, in the order of `Parts`; the last row is the fit of all rows."""

    theta: Floats
    K: int
    items: int
    d: int

    @property
    def parts(self) -> Parts:
        """Where each part of the parameters begins."""
        p = self.theta.shape[1] - self.count(self.K, self.items, self.d, 0)
        return parts_of(self.K, self.items, self.d, p)

    @staticmethod
    def count(K: int, items: int, d: int, p: int) -> int:
        """Return the number P of parameters of so many positions, items, context columns and columns."""
        return parts_of(K, items, d, p).slope + (items + 1) * d

    @property
    def odds(self) -> Floats:
        """exp(-t_kl) (F + 1, K, K + 1); column 0 before any click."""
        K, theta, start = self.K, self.theta, self.parts
        k, last = np.arange(K)[:, None], np.arange(K)
        t = np.zeros((len(theta), K, K + 1))
        t[:, :, 0] = theta[:, :K]
        cells = theta[:, start.cell : start.after].reshape(-1, K, K)
        distance = theta[:, start.distance + np.maximum(k - last, 0)]
        t[:, :, 1:] = theta[:, :K, None] + theta[:, start.clicked, None, None] + distance + cells
        return np.exp(-t)

    @property
    def examination(self) -> Examination:
        """All that examination depends on."""
        return Examination(self.odds, self.after, self.power)

    @property
    def power(self) -> Floats:
        """How much skipped items say of having left (F + 1,): 0 nothing, 1 as in Chapelle & Zhang."""
        return np.ascontiguousarray(self.theta[:, self.parts.reading])

    @property
    def after(self) -> Floats:
        """exp(-h) (F + 1, I + 1)."""
        start = self.parts
        return np.exp(-self.theta[:, start.after : start.constant])

    @property
    def table(self) -> Floats:
        """Intercept and slopes of each item (F + 1, I + 1, 1 + d), common part included."""
        start, folds = self.parts, len(self.theta)
        out = np.empty((folds, self.items + 1, 1 + self.d))
        slopes = self.theta[:, start.slope :].reshape(folds, self.items + 1, self.d)
        out[:, :, 0] = self.theta[:, start.constant, None] + self.theta[:, start.item : start.slope]
        out[:, :, 1:] = self.theta[:, None, start.context : start.columns] + slopes
        return out

    @property
    def beta(self) -> Floats:
        """Coefficients of the columns (F + 1, p)."""
        start = self.parts
        return np.ascontiguousarray(self.theta[:, start.columns : start.item])


@dataclass(frozen=True, slots=True, eq=False)
class Predictor:
    """The linear predictor of each slot, common to models of clicks and of numbers.

    With competition, `first` is the predictor without it, which says how strong the other items are.
    """

    parameters: Parameters
    encoding: Encoding
    variant: Variant
    details: Json
    #: Standard deviations of the parameters' groups.
    spread: Floats
    dispersion: float = 1.0
    first: "Predictor | None" = None
    #: Scaling of the competition columns.
    rivals: Scaling | None = None
    #: Whether predictions are log odds, whose strength is a chance.
    curved: bool = True
    table: Floats = field(init=False)
    beta: Floats = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "table", self.parameters.table)
        object.__setattr__(self, "beta", self.parameters.beta)

    @property
    def folds(self) -> int:
        """Number of folds."""
        return len(self.parameters.theta) - 1

    def shown(self, rankings: Rankings, fold: int | Ints) -> Shown:
        """Return the rankings by item numbers, with the fit that each is asked of."""
        return Shown(
            rankings.once(("numbers", self.encoding), lambda: self.encoding.numbers(rankings.item)),
            rankings.lengths,
            by_row(fold, self.folds, rankings.m),
        )

    def __call__(
        self,
        rankings: Rankings,
        fold: int | Ints,
        x: Floats | None = None,
        strength: Floats | None = None,
    ) -> Floats:
        """Return the linear predictor (m, K), zero in the padding.

        x is the standardised context and strength (m, K) that of the items by themselves, where
        they are known.
        """
        if x is None:
            encoding = self.encoding
            x = rankings.once(("context", encoding), lambda: encoding.context_of(rankings.x))
        out = np.zeros(rankings.item.shape)
        folds = by_row(fold, self.folds, rankings.m)
        if self.first is not None and strength is None:
            strength = self.first.strength(rankings, folds, x)
        for rows, part in rankings.parts():
            strong = None if strength is None else strength[rows]
            self._predict(part, folds[rows], x, strong, out[rows])
        return out

    def with_place(self, rankings: Rankings, fold: int | Ints) -> Floats:
        """Return t_k + v_k, the effect of the place included (m, K); the padding has no meaning."""
        refuse_longer(rankings, self.parameters.K)
        numbers = by_row(fold, self.folds, rankings.m)
        return self(rankings, fold) + self.parameters.theta[numbers, : rankings.K]

    def _predict(
        self, rankings: Rankings, folds: Ints, x: Floats, strength: Floats | None, out: Floats
    ) -> None:
        shown = self.shown(rankings, folds)
        columns = self.encoding.columns(rankings, x, self.variant.extra)
        others = np.empty((*shown.item.shape, 0))
        if self.rivals is not None and strength is not None:
            others = self.rivals.apply(self.competition(rankings, strength))
        own, linear_context = (
            np.ascontiguousarray(self.encoding.slopes_of(x)),
            self.encoding.linear_context(x),
        )
        given = Attraction(
            self.table,
            self.beta,
            own,
            rankings.row,
            columns,
            others,
            linear_context,
            *self.encoding.crossed,
        )
        attractions(given, shown, out)

    def competition(self, rankings: Rankings, strength: Floats) -> Floats:
        """Return the columns of competition (m, K, 4 or more).

        They are the strengths of the other slots, the rest of the page (where strengths are chances),
        and similarity of features (where there are any).
        """
        parts = [rivalry(strength, rankings.lengths)]
        if self.curved:
            parts.append(rest_of_page(strength, rankings.lengths)[..., None])
        if self.encoding.features is not None and rankings.features is not None:
            parts.append(rankings.once(("alike", self.encoding), lambda: self._alike(rankings)))
        return np.concatenate(parts, axis=2)

    def _alike(self, rankings: Rankings) -> Floats:
        assert self.encoding.features is not None and rankings.features is not None
        z = self.encoding.features.apply(rankings.features)
        return alike_above(z, rankings.item >= 0)[..., None]

    def strength(self, rankings: Rankings, fold: int | Ints, x: Floats | None = None) -> Floats:
        """Return the strength of each slot's item by itself (m, K), a chance or a number; zero in the padding."""
        own = self.first or self
        values = own(rankings, fold, x)
        if self.curved:
            chances(values, rankings.lengths)
        return values


@dataclass(frozen=True, slots=True, eq=False)
class PredictorModel(ListModel):
    """A model that makes its expectations from one linear predictor."""

    predictor: Predictor

    @property
    def variant(self) -> Variant:
        """Which further columns it has."""
        return self.predictor.variant

    @property
    def folds(self) -> int:
        """Number of folds."""
        return self.predictor.folds

    @property
    def details(self) -> Json:
        """What was fitted, for people."""
        return self.predictor.details


@dataclass(frozen=True, slots=True, eq=False)
class ClickModel(PredictorModel):
    """A fitted click-history model."""

    seen: Examination = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "seen", self.predictor.parameters.examination)

    def expected(self, rankings: Rankings, fold: int | Ints) -> Floats:
        """Return P(click) at each slot (m, K)."""
        refuse_longer(rankings, self.seen.odds.shape[1])
        shown = self.predictor.shown(rankings, fold)
        attraction, skip = self._page(rankings, fold)
        out = np.zeros(rankings.item.shape)
        click_expected(attraction, skip, self.seen, shown, out)
        return out

    def history(
        self,
        rankings: Rankings,
        reward: Floats,
        fold: int | Ints,
        alpha: Floats | None = None,
        worth: Floats | None = None,
    ) -> History:
        """Return expected rewards and their surprises, where a click is worth (m, K) on average, 1 unless given."""
        refuse_longer(rankings, self.seen.odds.shape[1])
        worth = np.ones(rankings.item.shape) if worth is None else worth
        shown = self.predictor.shown(rankings, fold)
        weights = np.ones(rankings.K) if alpha is None else np.asarray(alpha, dtype=float)
        q, ahead = np.zeros(rankings.item.shape), np.zeros((rankings.m, rankings.K + 1))
        click = np.where(rankings.item >= 0, reward != 0.0, 0.0)
        attraction, skip = self._page(rankings, fold)
        click_history(attraction, skip, self.seen, shown, weights * worth, click, q, ahead)
        q *= worth
        # What was earned at the slot, plus what is expected after it, less what was expected before it.
        delta = np.where(rankings.item >= 0, weights * reward + ahead[:, 1:] - ahead[:, :-1], 0.0)
        return History(q, ahead, delta)

    def strength(self, rankings: Rankings, fold: int | Ints) -> Floats:
        """Return the attraction of each slot's item by itself (m, K)."""
        return self.predictor.strength(rankings, fold)

    def relevance(self, rankings: Rankings, fold: int | Ints = ALL) -> Floats:
        """Return the log odds of the attraction by itself (m, K), -inf in the padding."""
        own = self.predictor.first or self.predictor
        return np.where(rankings.item >= 0, own(rankings, fold), -np.inf)

    def _page(self, rankings: Rankings, fold: int | Ints) -> tuple[Floats, Floats]:
        """Return the attraction (m, K) and what skipped items say of having left (m, K, 2)."""
        own = self.predictor.first or self.predictor
        # A model with competition reads the strengths that the model without it has computed. Both
        # share them where they are asked about the same folds (the same array).
        asked = fold if isinstance(fold, int) else id(fold)
        strength, _ = rankings.once(
            ("strength", own, asked), lambda: (own.strength(rankings, fold), fold)
        )
        if own is self.predictor:
            return strength, skips(rankings, None)
        values = self.predictor(rankings, fold, strength=strength)
        chances(values, rankings.lengths)
        return values, skips(rankings, strength)


def refuse_longer(rankings: Rankings, K: int) -> None:
    """Raise where rankings are longer than those that a model was fitted to."""
    if rankings.K > K:
        raise EstimatorError(
            f"rankings have {rankings.K} slots, the model was fitted to {K} and knows nothing of places "
            "below; cut the rankings"
        )


def skips(rankings: Rankings, strength: Floats | None) -> Floats:
    """Return what skipped items of these strengths say of having left (m, K, 2); zeros without strengths."""
    out = np.zeros((rankings.m, rankings.K, 2))
    if strength is not None:
        skipped(strength, SETTINGS.missed, rankings.lengths, out)
    return out


def rivalry(strength: Floats, lengths: Ints) -> Floats:
    """Return (m, K, 4): strengths summed above, of the item before, at most above, and summed below each slot.

    >>> rivalry(np.array([[0.5, 0.25, 0.125]]), np.array([3]))[0, 1].tolist()
    [0.5, 0.5, 0.5, 0.125]
    """
    out = np.zeros((*strength.shape, 4))
    competition(np.ascontiguousarray(strength), lengths, out)
    return out


def place_discount(K: int) -> Floats:
    """Return how much a slot counts in the rest of a page (K,): 1 / sqrt(place)."""
    out: Floats = np.power(1.0 + np.arange(K), -SETTINGS.rest_discount)
    return out


def rest_of_page(strength: Floats, lengths: Ints) -> Floats:
    """Return log(c + sum of the other slots' odds, discounted by place) (m, K).

    Where readers divide their attention over a page, each slot loses in proportion to the odds of the
    others.

    >>> rest_of_page(np.array([[0.5, 0.5, 0.0]]), np.array([2])).round(3).tolist()
    [[-0.097, 0.182, 0.0]]
    """
    shown = np.arange(strength.shape[1]) < lengths[:, None]
    known = np.minimum(strength, 1.0 - SETTINGS.missed)
    odds = np.where(shown, known / (1.0 - known), 0.0) * place_discount(strength.shape[1])
    others = odds.sum(axis=1, keepdims=True) - odds
    out: Floats = np.where(shown, np.log(SETTINGS.rest_floor + others), 0.0)
    return out
