"""The click-history model: its parameters by fold, and the clicks that it expects of any rankings.

P(click at k | x, a, last click at l) = s(t_kl + h[a_l] + g r_kl) s(v_k), with s the logistic function.
The first factor is the chance that slot k is examined; r_kl is what the items skipped since l say of
it. The second factor is the chance that the item attracts. WHY.md lists the models that this nests.

An item may lose clicks to similar items above it, by its features where there are any.
"""

import hashlib
from dataclasses import dataclass, field

import numpy as np

from counterrank.common.arrays import Floats, Ints
from counterrank.common.errors import EstimatorError
from counterrank.common.records import Json
from counterrank.data.encoding import FAR, Scaling
from counterrank.models.base import ALL, History, ListModel, by_row
from counterrank.models.clicks.competition import (
    alike_above,
    last_click,
    rest_of_page,
    rivalry,
)
from counterrank.models.clicks.kernels.predictors import (
    FitTable,
    Pages,
    RivalTable,
    add_rivals,
    predict,
)
from counterrank.models.clicks.kernels.recursion import Examination, click_history
from counterrank.models.clicks.likelihood import page_weights, sigmoid
from counterrank.models.clicks.parameters import Parameters, split
from counterrank.models.clicks.settings import SETTINGS
from counterrank.models.rankings import Rankings, Variant


@dataclass(frozen=True, slots=True, eq=False)
class Encoding:
    """How rankings become columns; all folds and variants of a fit share it."""

    #: Ids of the items seen, sorted. An item's number is its place in this array.
    catalogue: Ints
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
    def from_rankings(cls, rankings: Rankings) -> "Encoding":
        """Return the encoding of the rankings of a fit."""
        shown = rankings.item >= 0
        catalogue = np.unique(rankings.item[shown])
        features, extra = (
            None if numbers is None else Scaling.fitted(numbers[shown], logs=logs)
            for numbers, logs in ((rankings.features, rankings.nonlinear), (rankings.extra, False))
        )
        # Each item has slopes in the context of its own while these are few numbers. In large
        # catalogues the context acts through features.
        slopes = len(catalogue) * rankings.x.shape[1] <= SETTINGS.slopes
        squared = np.empty(0, dtype=np.int64)
        if rankings.nonlinear and slopes and rankings.x.shape[1] <= SETTINGS.squares:
            # The square of an indicator is the indicator.
            squared = np.flatnonzero([len(np.unique(column)) > 2 for column in rankings.x.T])
        return cls(
            catalogue,
            Scaling.fitted(rankings.x),
            features,
            extra,
            slopes,
            squared,
            rankings.nonlinear,
        )

    @property
    def items(self) -> int:
        """Number of items seen."""
        return len(self.catalogue)

    def numbers(self, rankings: Rankings) -> Ints:
        """Return the numbers of items (m, K). Padding gets the number of unseen items; nothing reads it."""

        def make() -> Ints:
            place = np.minimum(np.searchsorted(self.catalogue, rankings.item), self.items - 1)
            return np.where(self.catalogue[place] == rankings.item, place, self.items)

        return rankings.cached(("numbers", self), make)

    def places(self, K: int) -> Floats:
        """Return the logarithm of each place (K,), at about zero on the mean of a page."""
        return np.log1p(np.arange(K)) - 1.0

    def pages(self, rankings: Rankings, extra: int) -> Pages:
        """Return what predictions read of rankings, with the first `extra` extra numbers at least."""
        self._refuse_fewer(rankings, extra)
        z = self.requests(rankings)

        def make() -> Pages:
            m, K = rankings.item.shape
            features, extra_numbers = np.empty((m, K, 0)), np.empty((m, K, 0))
            if self.features is not None and rankings.features is not None:
                features = self.features.apply(rankings.features)
            if self.extra is not None and rankings.extra is not None:
                extra_numbers = self.extra.apply(rankings.extra)
            return Pages(
                self.numbers(rankings), rankings.lengths, rankings.row, features, extra_numbers, *z
            )

        return rankings.cached(("pages", self), make)

    def requests(self, rankings: Rankings) -> tuple[Floats, Floats]:
        """Return what items have slopes in, and the context that multiplies features, of all requests."""
        shared = rankings.of_requests
        if self not in shared:
            z = self.context_of(rankings.x)
            shared[self] = self.slopes_of(z), self.linear_context(z)
        arrays: tuple[Floats, Floats] = shared[self]
        return arrays

    def _refuse_fewer(self, rankings: Rankings, extra: int) -> None:
        """Raise where rankings lack numbers that the fit had."""
        if extra > rankings.extras:
            raise EstimatorError(
                f"the model was fitted with {extra} extra numbers for each slot; these rankings have "
                f"{rankings.extras or 'none'}"
            )
        if self.features is not None and rankings.features is None:
            raise EstimatorError(
                "the model was fitted with item features; these rankings have none"
            )

    def context_of(self, x: Floats) -> Floats:
        """Return the standardised context (n, d), then the squares of some columns.

        Squares are cut at 9, because outliers would else decide their coefficients.
        """
        z = self.context.apply(x)
        squares = np.minimum(z[:, self.squared] ** 2, 9.0)
        return np.ascontiguousarray(np.concatenate([z, (squares - 1.0) / np.sqrt(2.0)], axis=1))

    def linear_context(self, x: Floats) -> Floats:
        """Return the context without its squares (n, d), which multiplies the features."""
        return np.ascontiguousarray(x[:, : len(self.context.mean)])

    def slopes_of(self, x: Floats) -> Floats:
        """Return 1 and the context columns in which items have slopes (n, 1 + d)."""
        return np.concatenate([np.ones((len(x), 1)), x if self.slopes else x[:, :0]], axis=1)

    @property
    def placed(self) -> int:
        """Number of features that also stand multiplied by the logarithm of the place."""
        count = 0 if self.features is None or not self.by_place else len(self.features.mean)
        return count if count <= SETTINGS.placed else 0

    @property
    def crossed(self) -> tuple[int, int]:
        """First and number of the columns whose coefficients depend on the context."""
        count, context = self._sizes["feature"], len(self.context.mean)
        multiplied = 0 < count * context <= SETTINGS.products
        return self._sizes["context"], count if multiplied else 0

    @property
    def _sizes(self) -> dict[str, int]:
        return {
            "context": 0 if self.slopes else len(self.context.mean),
            "feature": 0 if self.features is None else len(self.features.mean),
        }

    def widths(self, variant: Variant, rivals: int) -> list[tuple[str, int]]:
        """Return what the columns of a variant are, in order, with the number of each."""
        return [
            *self._sizes.items(),
            ("product", self.crossed[1] * len(self.context.mean)),
            ("place", self.placed + int(self.by_place)),
            *[("extra", 1), ("place", int(self.by_place))] * variant.extra,
            ("rival", rivals),
        ]

    def columns(self, rankings: Rankings, x: Floats, extra: int) -> Floats:
        """Return the columns of attraction (m, K, .) common to all items.

        They are the context (where items have no slopes in it), features, features by place, and each
        of the first `extra` extra numbers, also by place. Features and context are multiplied elsewhere.
        """
        self._refuse_fewer(rankings, extra)
        # Variants with fewer extra numbers share the array and do not read its last columns.
        table = rankings.cached(("columns", self), lambda: self._columns(rankings, x))
        return table[:, :, : table.shape[2] - (rankings.extras - extra) * (1 + self.by_place)]

    def _columns(self, rankings: Rankings, x: Floats) -> Floats:
        m, K = rankings.item.shape
        # Centred at about its mean on a page, so that a feature's own column keeps its mean effect.
        place = np.broadcast_to(self.places(K)[:, None], (m, K, 1))
        parts: list[Floats] = [np.empty((m, K, 0))]
        if not self.slopes:
            parts.append(np.broadcast_to(x[rankings.row][:, None, :], (m, K, x.shape[1])))
        if self.features is not None and rankings.features is not None:
            features = self.features.apply(rankings.features)
            parts += [features, features * place] if self.placed else [features]
        if self.by_place:
            parts.append(place)
        if self.extra is not None and rankings.extra is not None:
            extra = self.extra.apply(rankings.extra)
            extra_by_place = np.stack([extra, extra * place][: 1 + self.by_place], axis=-1)
            parts.append(extra_by_place.reshape(m, K, -1))
        return np.ascontiguousarray(np.concatenate(parts, axis=2))


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
    #: Nats by which the rewards prefer this model to the one without its last extra number.
    gain: float = 0.0
    #: Coefficients of every fit, as predictions read them.
    table: FitTable = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "table", self._table())

    def _table(self) -> FitTable:
        parameters, encoding = self.parameters, self.encoding
        beta, products = split(parameters.beta, *encoding.crossed, len(encoding.context.mean))
        # All but the rivals, which are last.
        widths = encoding.widths(self.variant, 0)[:-1]
        ends = np.cumsum([size for name, size in widths if name != "product"])
        context_part, features, placed, *numbers = np.split(beta, ends, axis=1)[:-1]
        fits, p, e = len(beta), features.shape[1], self.variant.extra
        by_place, extra = np.zeros((fits, 2, p)), np.zeros((fits, 2, e))
        by_place[:, 0], place = features, np.zeros(fits)
        extra[:, 0] = np.concatenate([*numbers[::2], np.empty((fits, 0))], axis=1)
        if encoding.by_place:
            by_place[:, 1, : encoding.placed], place = placed[:, :-1], placed[:, -1].copy()
            extra[:, 1] = np.concatenate([*numbers[1::2], np.empty((fits, 0))], axis=1)
        return FitTable(
            parameters.table,
            np.ascontiguousarray(context_part),
            by_place,
            np.ascontiguousarray(products),
            place,
            extra,
        )

    @property
    def _rival_coefficients(self) -> Floats:
        count = 0 if self.rivals is None else len(self.rivals.mean)
        beta = self.parameters.beta
        return np.ascontiguousarray(beta[:, beta.shape[1] - count :])

    @property
    def folds(self) -> int:
        """Number of folds."""
        return len(self.parameters.theta) - 1

    @property
    def without_competition(self) -> "Predictor":
        """The predictor of items by themselves, without the competition of others."""
        return self.first or self

    def __call__(
        self, rankings: Rankings, fold: int | Ints, strength: Floats | None = None
    ) -> Floats:
        """Return the linear predictor (m, K), zero in the padding; computed once for the same folds.

        `strength` (m, K) is that of the items by themselves, where it is known.
        """
        folds = by_row(fold, self.folds, rankings.m)
        return rankings.cached(
            ("predictor", self, digest(folds)), lambda: self._predicted(rankings, folds, strength)
        )

    def _predicted(self, rankings: Rankings, folds: Ints, strength: Floats | None) -> Floats:
        encoding, out = self.encoding, np.zeros(rankings.item.shape)
        for rows, block in rankings.parts():
            pages = encoding.pages(block, self.variant.extra)
            predict(pages, self.table, folds[rows], encoding.places(block.K), out[rows])
        if self.first is None or self.rivals is None:
            return out
        if strength is None:
            strength = self.first.strength(rankings, folds)
        fits = RivalTable(self._rival_coefficients, self.rivals.mean, 1.0 / self.rivals.spread)
        alike = self._alike(rankings) if len(self.rivals.mean) > 4 + self.curved else None
        add_rivals(
            strength,
            np.empty((0, 0)) if alike is None else alike,
            rankings.lengths,
            fits,
            folds,
            page_weights(rankings.K),
            (1.0 - SETTINGS.missed, SETTINGS.rest_floor, FAR),
            self.curved,
            out,
        )
        return out

    def _alike(self, rankings: Rankings) -> Floats | None:
        """Return how alike the features of each slot and of those above are (m, K); None without features."""
        scaling, features = self.encoding.features, rankings.features
        if scaling is None or features is None:
            return None
        return rankings.cached(
            ("alike", self.encoding),
            lambda: alike_above(scaling.apply(features), rankings.item >= 0),
        )

    def with_place(self, rankings: Rankings, fold: int | Ints) -> Floats:
        """Return t_k + v_k, the effect of the place included (m, K); the padding has no meaning."""
        refuse_longer(rankings, self.parameters.K)
        numbers = by_row(fold, self.folds, rankings.m)
        return self(rankings, fold) + self.parameters.theta[numbers, : rankings.K]

    def competition(self, rankings: Rankings, strength: Floats) -> Floats:
        """Return the columns of competition (m, K, 4 or more).

        They are the strengths of the other slots, the rest of the page (where strengths are chances),
        and similarity of features (where there are any).
        """
        parts = [rivalry(strength, rankings.lengths)]
        if self.curved:
            parts.append(rest_of_page(strength, rankings.lengths)[..., None])
        alike = self._alike(rankings)
        if alike is not None:
            parts.append(alike[..., None])
        return np.concatenate(parts, axis=2)

    def strength(self, rankings: Rankings, fold: int | Ints) -> Floats:
        """Return the strength of each slot's item by itself (m, K), a chance or a number; zero in the padding."""
        values = self.without_competition(rankings, fold)
        return np.where(rankings.item >= 0, sigmoid(values), 0.0) if self.curved else values


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

    def strength(self, rankings: Rankings, fold: int | Ints) -> Floats:
        """Return the attraction of each slot's item by itself, or what it adds to a number (m, K)."""
        return self.predictor.strength(rankings, fold)

    def relevance(self, rankings: Rankings, fold: int | Ints = ALL) -> Floats:
        """Return the linear predictor of each item by itself (m, K), -inf in the padding."""
        return np.where(
            rankings.item >= 0, self.predictor.without_competition(rankings, fold), -np.inf
        )


@dataclass(frozen=True, slots=True, eq=False)
class ClickModel(PredictorModel):
    """A fitted click-history model."""

    examination: Examination = field(init=False)

    def __post_init__(self) -> None:
        fitted = self.predictor.parameters
        examination = Examination(np.exp(-fitted.examination), np.exp(-fitted.after), fitted.power)
        object.__setattr__(self, "examination", examination)

    def expected(self, rankings: Rankings, fold: int | Ints) -> Floats:
        """Return P(click) at each slot (m, K)."""
        folds, none = by_row(fold, self.folds, rankings.m), np.empty((0, rankings.K))
        nothing = np.empty((0, rankings.K), dtype=np.int64)
        # Clicks and what they earn ask the same.
        return rankings.cached(
            ("clicked", self.predictor, digest(folds)),
            lambda: self._run(rankings, folds, none, nothing)[0],
        )

    def history(
        self,
        rankings: Rankings,
        reward: Floats,
        fold: int | Ints,
        alpha: Floats | None = None,
        worth: Floats | None = None,
    ) -> History:
        """Return expected rewards and their surprises, where a click is worth (m, K) on average, 1 unless given."""
        worth = np.ones(rankings.item.shape) if worth is None else worth
        weights = np.ones(rankings.K) if alpha is None else np.asarray(alpha, dtype=float)
        last = last_click(np.where(rankings.item >= 0, reward != 0.0, 0.0))
        q, ahead = self._run(rankings, fold, weights * worth, last)
        # What was earned at the slot, plus what is expected after it, less what was expected before it.
        delta = np.where(rankings.item >= 0, weights * reward + ahead[:, 1:] - ahead[:, :-1], 0.0)
        return History(q * worth, delta)

    def _run(
        self, rankings: Rankings, fold: int | Ints, gain: Floats, last: Ints
    ) -> tuple[Floats, Floats]:
        """Return P(click) (m, K) and the gains expected from each slot on (m, K + 1)."""
        refuse_longer(rankings, self.predictor.parameters.K)
        alone, (m, K) = self.predictor.without_competition, rankings.item.shape
        # A model with competition reads the strengths that the model without it has computed.
        folds = by_row(fold, self.folds, m)
        strength = rankings.cached(
            ("strength", alone, digest(folds)), lambda: alone.strength(rankings, folds)
        )
        attraction, q, ahead = strength, np.zeros((m, K)), np.zeros((m, K + 1))
        if alone is not self.predictor:
            values = self.predictor(rankings, folds, strength)
            attraction = np.where(rankings.item >= 0, sigmoid(values), 0.0)
        shown = self.predictor.encoding.numbers(rankings), rankings.lengths, folds
        click_history(attraction, strength, self.examination, shown, gain, last, q, ahead)
        return q, ahead


def digest(values: Ints) -> bytes:
    """Return a key for the content of an array: what was computed for equal folds is kept once."""
    return hashlib.blake2b(values.tobytes(), digest_size=16).digest()


def refuse_longer(rankings: Rankings, K: int) -> None:
    """Raise where rankings are longer than those that a model was fitted to."""
    if rankings.K > K:
        raise EstimatorError(
            f"rankings have {rankings.K} slots, the model was fitted to {K} and knows nothing of places "
            "below; cut the rankings"
        )
