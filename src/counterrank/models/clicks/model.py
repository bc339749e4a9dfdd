"""The click-history model: fitted parameters by fold, and what they say of any rankings of any requests.

P(click at k | x, a, last click at l) = s(t_kl + h[a_l]) s(v_k), s the logistic function. The first factor is the
chance that slot k is examined, the second that its item attracts. See WHY.md for what this nests.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.errors import EstimatorError
from counterrank.models.clicks.base import ALL, History, Kind, Variant, by_row
from counterrank.models.clicks.kernels.recursion import attractions, click_ahead, click_expected, competition
from counterrank.models.clicks.rankings import Rankings, Scaling
from counterrank.models.clicks.settings import SETTINGS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Encoding:
    """How rankings become the arrays of the kernels; fixed by the rows of a fit, shared by its folds and variants."""

    #: Number of an item among those seen, by id; the last entry and all ids beyond are "not seen".
    number: Ints
    context: Scaling
    features: Scaling | None
    extra: Scaling | None
    #: Whether items have slopes in the context; else the context stands among the columns.
    slopes: bool

    @classmethod
    def of(cls, rankings: Rankings) -> "Encoding":
        """Return the encoding of the rankings of a fit."""
        shown = rankings.item >= 0
        seen = np.unique(rankings.item[shown])
        number = np.full(int(seen[-1]) + 2, len(seen), dtype=np.int64)
        number[seen] = np.arange(len(seen))
        scalings = [None if part is None else Scaling.of(part[shown]) for part in (rankings.features, rankings.extra)]
        slopes = len(seen) * rankings.x.shape[1] <= SETTINGS["slopes"].value
        return cls(number, Scaling.of(rankings.x), scalings[0], scalings[1], slopes)

    @property
    def items(self) -> int:
        """Number of items seen."""
        return int(self.number[-1])

    def numbers(self, item: Ints) -> Ints:
        """Return the numbers of items by id; padding gets that of items not seen and is never read."""
        out: Ints = self.number[np.minimum(item, len(self.number) - 1)]
        return out

    def slopes_of(self, x: Floats) -> Floats:
        """Return the context columns (n, d) in which items have slopes."""
        return x if self.slopes else x[:, :0]

    def columns(self, rankings: Rankings, x: Floats, extra: bool) -> Floats:
        """Return the columns of attraction (m, K, p) common to all items: features, their products with the context,
        extra numbers, and the context where items have no slopes in it.
        """
        parts: list[Floats] = []
        own = x[rankings.row]
        if self.features is not None:
            if rankings.features is None:
                raise EstimatorError("the model was fitted with item features; these rankings have none")
            z = self.features.apply(rankings.features)
            parts.append(z)
            if x.shape[1] * z.shape[2] <= SETTINGS["products"].value:
                products = z[..., :, None] * own[:, None, None, :]
                parts.append(products.reshape(rankings.m, rankings.K, -1))
        if not self.slopes:
            parts.append(np.broadcast_to(own[:, None, :], (rankings.m, rankings.K, own.shape[1])))
        if extra:
            if self.extra is None or rankings.extra is None:
                raise EstimatorError("the model was fitted with extra numbers for each slot; these rankings have none")
            parts.append(self.extra.apply(rankings.extra))
        if not parts:
            return np.empty((rankings.m, rankings.K, 0))
        return np.ascontiguousarray(np.concatenate(parts, axis=2))


@dataclass(frozen=True, slots=True, eq=False)
class Parameters:
    """Parameters (F + 1, P) by fold left out, in the kernels' order; the last row is the fit of all rows."""

    theta: Floats
    K: int
    items: int
    d: int

    @property
    def starts(self) -> tuple[int, int, int, int]:
        """First entries of item after click, constant, columns and items."""
        after = 2 * self.K + 1 + self.K**2
        base = after + self.items + 1
        width = self.theta.shape[1] - base - 1 - self.d - (self.items + 1) * (1 + self.d)
        return after, base, base + 1 + self.d, base + 1 + self.d + width

    @property
    def odds(self) -> Floats:
        """exp(-t_kl) (F + 1, K, K + 1); column 0 before any click."""
        K, theta = self.K, self.theta
        k, last = np.arange(K)[:, None], np.arange(K)
        t = np.zeros((len(theta), K, K + 1))
        t[:, :, 0] = theta[:, :K]
        cells = theta[:, 2 * K + 1 : 2 * K + 1 + K * K].reshape(-1, K, K)
        distance = theta[:, K + 1 + np.maximum(k - last, 0)]
        t[:, :, 1:] = theta[:, :K, None] + theta[:, K, None, None] + distance + cells
        return np.exp(-t)

    @property
    def after(self) -> Floats:
        """exp(-h) (F + 1, I + 1)."""
        first = self.starts[0]
        return np.exp(-self.theta[:, first : first + self.items + 1])

    @property
    def table(self) -> Floats:
        """Intercept and slopes of each item (F + 1, I + 1, 1 + d), common part included."""
        _, base, columns, items = self.starts
        folds = len(self.theta)
        out = np.empty((folds, self.items + 1, 1 + self.d))
        own = self.theta[:, items : items + self.items + 1]
        slopes = self.theta[:, items + self.items + 1 :].reshape(folds, self.items + 1, self.d)
        out[:, :, 0] = self.theta[:, base, None] + own
        out[:, :, 1:] = self.theta[:, None, base + 1 : columns] + slopes
        return out

    @property
    def beta(self) -> Floats:
        """Coefficients of the columns (F + 1, p)."""
        _, _, columns, items = self.starts
        return np.ascontiguousarray(self.theta[:, columns:items])


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """The parameters as the kernels read them."""

    odds: Floats
    after: Floats
    table: Floats
    beta: Floats

    @classmethod
    def of(cls, parameters: Parameters) -> "Fitted":
        """Return the arrays of parameters."""
        return cls(parameters.odds, parameters.after, parameters.table, parameters.beta)


@dataclass(frozen=True, slots=True, eq=False)
class ClickModel:
    """A fitted click-history model; with competition, `first` is the model that says how strong the others are."""

    parameters: Parameters
    encoding: Encoding
    variant: Variant
    first: "ClickModel | None" = None
    #: Scaling of the competition columns.
    rivals: Scaling | None = None
    details: dict[str, Any] = field(default_factory=dict)
    fitted: Fitted = field(init=False)
    kind: Kind = Kind.HISTORY

    def __post_init__(self) -> None:
        object.__setattr__(self, "fitted", Fitted.of(self.parameters))

    @property
    def folds(self) -> int:
        """Number of folds."""
        return len(self.parameters.theta) - 1

    def expected(self, rankings: Rankings, fold: int | Ints) -> Floats:
        """Return P(click) at each slot (m, K)."""
        self._fits(rankings)
        numbers, lengths, folds = self._arrays(rankings, fold)
        out = np.zeros(rankings.item.shape)
        attraction = self.attraction(rankings, fold)
        click_expected(attraction, self.fitted.odds, self.fitted.after, numbers, lengths, folds, out)
        return out

    def history(self, rankings: Rankings, reward: Floats, fold: int | Ints, alpha: Floats | None = None) -> History:
        """Return expected clicks and their surprises; a positive reward is a click, worth alpha_k."""
        weights = np.ones(rankings.K) if alpha is None else np.asarray(alpha, dtype=float)
        gain = np.ascontiguousarray(np.broadcast_to(weights, rankings.item.shape))
        return self.along(rankings, reward, gain, fold, weights)

    def along(self, rankings: Rankings, reward: Floats, gain: Floats, fold: int | Ints, alpha: Floats) -> History:
        """Return the history where a click at slot k is worth gain (m, K) on average and earned `reward` (m, K)."""
        self._fits(rankings)
        numbers, lengths, folds = self._arrays(rankings, fold)
        attraction = self.attraction(rankings, fold)
        q, ahead = np.zeros(rankings.item.shape), np.zeros((rankings.m, rankings.K + 1))
        odds, after = self.fitted.odds, self.fitted.after
        click_expected(attraction, odds, after, numbers, lengths, folds, q)
        click_ahead(attraction, odds, after, numbers, lengths, folds, gain, reward, ahead)
        delta = np.where(rankings.item >= 0, alpha * reward + ahead[:, 1:] - ahead[:, :-1], 0.0)
        return History(q, ahead, delta)

    def strength(self, rankings: Rankings, fold: int | Ints) -> Floats:
        """Return the attraction of each slot's item by itself (m, K)."""
        return (self.first or self).attraction(rankings, fold)

    def relevance(self, rankings: Rankings, fold: int | Ints = ALL) -> Floats:
        """Return the log odds of the attraction by itself (m, K), -inf in the padding."""
        values = (self.first or self)._logits(rankings, fold)
        return np.where(rankings.item >= 0, values, -np.inf)

    def attraction(self, rankings: Rankings, fold: int | Ints) -> Floats:
        """Return s(v_k) (m, K) with the competition of the other slots, zero in the padding."""
        chance = 1.0 / (1.0 + np.exp(-np.clip(self._logits(rankings, fold), -700, 700)))
        return np.where(rankings.item >= 0, chance, 0.0)

    def columns(self, rankings: Rankings, x: Floats, fold: int | Ints) -> Floats:
        """Return all columns of attraction (m, K, p)."""
        common = self.encoding.columns(rankings, x, self.variant.extra)
        if self.first is None or self.rivals is None:
            return common
        others = rivalry(self.first.strength(rankings, fold), rankings.lengths)
        return np.concatenate([common, self.rivals.apply(others)], axis=2)

    def _logits(self, rankings: Rankings, fold: int | Ints) -> Floats:
        numbers, lengths, folds = self._arrays(rankings, fold)
        x = self.encoding.context.apply(rankings.x)
        out = np.zeros(rankings.item.shape)
        columns = self.columns(rankings, x, fold)
        own = self.encoding.slopes_of(x)
        assert rankings.row is not None
        attractions(self.fitted.table, self.fitted.beta, numbers, own, rankings.row, columns, lengths, folds, out)
        return out

    def _arrays(self, rankings: Rankings, fold: int | Ints) -> tuple[Ints, Ints, Ints]:
        return self.encoding.numbers(rankings.item), rankings.lengths, by_row(fold, self.folds, rankings.m)

    def _fits(self, rankings: Rankings) -> None:
        if rankings.K > self.parameters.K:
            raise EstimatorError(
                f"rankings have {rankings.K} slots, the click model was fitted to {self.parameters.K}: it knows "
                "nothing of the examination below; cut the rankings"
            )


def rivalry(strength: Floats, lengths: Ints) -> Floats:
    """Return (m, K, 4): strengths summed above, of the item before, at most above, and summed below each slot.

    >>> rivalry(np.array([[0.5, 0.25, 0.125]]), np.array([3]))[0, 1].tolist()
    [0.5, 0.5, 0.5, 0.125]
    """
    out = np.zeros((*strength.shape, 4))
    competition(np.ascontiguousarray(strength), lengths, out)
    return out
