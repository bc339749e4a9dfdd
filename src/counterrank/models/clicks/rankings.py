"""What a reward model may know of shown rankings and the other rankings of the same requests, and
what every such model answers, whatever it was fitted by.
"""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.data.log import RankingLog
from counterrank.errors import EstimatorError
from counterrank.models.clicks.kernels.recursion import standardise
from counterrank.models.clicks.settings import SETTINGS
from counterrank.models.columns import context_columns
from counterrank.records import Json

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Made = TypeVar("Made")

#: Rankings whose columns are held at once.
PART = 4_096


@dataclass(frozen=True, slots=True, eq=False)
class Rankings:
    """m rankings of n requests: `item` (m, K) ids, -1 pads at the end; `x` (n, d) the requests'
    context; `row` (m,) the request of each ranking; `features` (m, K, p) and `extra` (m, K, e)
    numbers of each slot. NaN is missing.

    `lookup` gives the features (n, D, K, p) of other items (n, D, K) of the same requests.

    >>> logged = Rankings(item=[[4, 2], [1, -1]], x=np.empty((2, 0)))
    >>> drawn = logged.others([[[2, 4], [4, 1]], [[1, -1], [2, -1]]])
    >>> drawn.row.tolist(), drawn.lengths.tolist()
    ([0, 0, 1, 1], [2, 2, 1, 1])
    """

    item: Ints
    x: Floats
    row: Ints | None = None
    features: Floats | None = None
    extra: Floats | None = None
    lookup: Callable[[Ints], Floats] | None = None
    #: All that each request could have shown, as rankings of the same requests in any order; None
    #: where that is not known or too much.
    pool: "Rankings | None" = None
    #: Whether a model may bend: squares of the context, and features by place, are columns too.
    bends: bool = False
    #: The place of each slot (m, K), from 0, where it is not the slot's number; `page` and beyond are
    #: beside the page.
    at: Ints | None = None
    page: int | None = None
    #: Number of items of each ranking (m,).
    lengths: Ints = field(init=False)
    _memo: dict[Hashable, Any] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        put = object.__setattr__
        item = np.ascontiguousarray(self.item, dtype=np.int64)
        if item.ndim != 2:
            raise EstimatorError(
                f"items have shape {item.shape}; a reward model reads rankings (m, K)"
            )
        put(self, "item", item)
        put(self, "lengths", (item >= 0).sum(axis=1))
        put(self, "x", np.ascontiguousarray(self.x, dtype=np.float64))
        if self.row is None:
            if len(self.x) != len(item):
                raise EstimatorError(
                    f"there are {len(item)} rankings and {len(self.x)} rows of context; give `row`"
                )
            put(self, "row", np.arange(len(item)))
        for name in ("features", "extra"):
            given = getattr(self, name)
            if given is None:
                continue
            values = np.ascontiguousarray(given, dtype=np.float64)
            values = values[..., None] if values.shape == item.shape else values
            if values.shape[:2] != item.shape or values.ndim != 3:
                raise EstimatorError(
                    f"{name} have shape {values.shape}; expected {item.shape} and one axis of "
                    "numbers"
                )
            put(self, name, values)

    @property
    def m(self) -> int:
        """Number of rankings."""
        return len(self.item)

    @property
    def n(self) -> int:
        """Number of requests."""
        return len(self.x)

    @property
    def K(self) -> int:  # noqa: N802 - the letter of the papers
        """Number of slots."""
        return int(self.item.shape[1])

    @property
    def places(self) -> Ints:
        """The place of each slot (m, K), from 0."""
        return np.broadcast_to(np.arange(self.K), self.item.shape) if self.at is None else self.at

    @property
    def extras(self) -> int:
        """Number of extra numbers of a slot."""
        return 0 if self.extra is None else self.extra.shape[2]

    def others(self, item: ArrayLike, *, extra: ArrayLike | None = None) -> Self:
        """Return other rankings (n, D, K) or (n, K) of the same requests; number i D + j is the
        j-th of request i.
        """
        ids = np.asarray(item, dtype=np.int64)
        ids = ids[:, None, :] if ids.ndim == 2 else ids
        n, D, K = ids.shape
        if n != self.n:
            raise EstimatorError(f"rankings of {n} requests were given to a log of {self.n}")
        if self.features is not None and self.lookup is None:
            raise EstimatorError(
                "the features of other items are not known: give `lookup` with `features`"
            )
        features = None if self.lookup is None else self.lookup(ids).reshape(n * D, K, -1)
        more = None if extra is None else np.asarray(extra, dtype=float).reshape(n * D, K, -1)
        row = np.repeat(np.arange(n), D)
        return replace(self, item=ids.reshape(n * D, K), row=row, features=features, extra=more)

    def take(self, rows: slice | Ints) -> Self:
        """Return some of the rankings; the requests stay."""
        assert self.row is not None
        parts: dict[str, Any] = {"item": self.item[rows], "row": self.row[rows]}
        for name in ("features", "extra", "at"):
            values = getattr(self, name)
            parts[name] = None if values is None else values[rows]
        return replace(self, **parts)

    def parts(self) -> "Iterator[tuple[slice, Rankings]]":
        """Return the rankings in parts of which several models can be asked, with their places:
        columns of all draws at once would be the largest array of an evaluation.
        """
        for start in range(0, self.m, PART):
            rows = slice(start, start + PART)
            yield rows, self if self.m <= PART else self.take(rows)

    def once(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """Return what `make` gives, computed once: several models and folds read the same columns."""
        if key not in self._memo:
            self._memo[key] = make()
        made: Made = self._memo[key]
        return made


def with_candidates(rankings: Rankings) -> Rankings:
    """Return the rankings, each followed by the candidates of its request that it does not show, which
    stand beside the page.

    >>> pool = Rankings(item=[[1, 2, 3]], x=np.empty((1, 0)))
    >>> both = with_candidates(Rankings(item=[[3, 1]], x=np.empty((1, 0)), pool=pool))
    >>> both.item.tolist(), both.places.tolist()
    ([[3, 1, 2]], [[0, 1, 2]])
    """
    pool, K = rankings.pool, rankings.K
    assert pool is not None and rankings.row is not None
    whole = pool.take(rankings.row)
    shown = (whole.item[:, None, :] == rankings.item[:, :, None]).any(axis=1)
    item = np.concatenate([rankings.item, np.where(shown, -1, whole.item)], axis=1)
    # Shown items stay in front, padding goes to the end.
    order = np.argsort(item < 0, axis=1, kind="stable")
    order = order[:, : int((item >= 0).sum(axis=1).max())]
    parts: dict[str, Any] = {}
    for name in ("features", "extra"):
        own, other = getattr(rankings, name), getattr(whole, name)
        if own is not None:
            both = np.concatenate([own, other], axis=1)
            parts[name] = np.take_along_axis(both, order[:, :, None], axis=1)
    return replace(
        rankings,
        item=np.take_along_axis(item, order, axis=1),
        at=np.minimum(order, K),
        page=K,
        pool=None,
        **parts,
    )


def rankings_of(log: RankingLog, *, extra: ArrayLike | None = None) -> Rankings:
    """Return the logged rankings; item and candidate features are encoded where the log has them."""
    x = context_columns(log)
    names = log.item_feature_names
    if not names:
        return Rankings(log.action, x, extra=_given(extra))
    known = log.categories_of_items

    def lookup(items: Ints) -> Floats:
        return encoded(log.features_of(items), names, known)

    shown = lookup(log.action[:, None, :])[:, 0]
    return Rankings(log.action, x, features=shown, extra=_given(extra), lookup=lookup)


def _given(values: ArrayLike | None) -> Floats | None:
    return None if values is None else np.asarray(values, dtype=np.float64)


def encoded(
    values: Floats, names: tuple[str, ...], categories: dict[str, tuple[str, ...]]
) -> Floats:
    """Return features (..., p) as numbers: few labels become indicators, many share hashed ones.

    >>> encoded(np.array([[2.0, 1.0]]), ("price", "shop"), {"shop": ("a", "b", "c")}).tolist()
    [[2.0, 1.0, 0.0]]
    """
    most = SETTINGS.labels
    columns: list[Floats] = []
    for j, name in enumerate(names):
        labels, own = categories.get(name, ()), values[..., j]
        if not labels:
            columns.append(own)
            continue
        # Fibonacci hashing spreads neighbouring codes; code 0 is the reference where there are few
        # labels.
        code = own if len(labels) <= most else np.floor((own * 0.6180339887498949) % 1.0 * most)
        first, size = (1, len(labels)) if len(labels) <= most else (0, most)
        columns.extend((code == c).astype(float) for c in range(first, size))
    # One label for all items says nothing of any.
    return np.stack(columns, axis=-1) if columns else np.zeros((*values.shape[:-1], 0))


@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """Mean and spread of columns, to make them comparable for the ridge; missing becomes the mean,
    that is zero.
    """

    mean: Floats
    spread: Floats
    #: The least value (p,) of columns that are read as logarithms, NaN of others; empty: of all.
    least: Floats = field(default_factory=lambda: np.empty(0))

    @classmethod
    def of(cls, values: Floats, *, logs: bool = False) -> "Scaling":
        """Return the scaling of values (N, p); with `logs`, columns like prices become logarithms."""
        least = _orders(values) if logs else np.empty(0)
        values = _logged(values, least)
        known = ~np.isnan(values)
        count = np.maximum(known.sum(axis=0), 1)
        mean = np.where(known, values, 0.0).sum(axis=0) / count
        away = np.where(known, values - mean, 0.0)
        spread = np.sqrt((away**2).sum(axis=0) / count)
        # A spread of rounding errors is a constant column.
        flat = spread <= 1e-9 * np.maximum(np.abs(mean), 1.0)
        return cls(mean, np.where(flat, np.inf, spread), least)

    def apply(self, values: Floats) -> Floats:
        """Return (values - mean) / spread, zero where missing or constant."""
        out = np.empty(values.shape)
        shape = (values.size // max(len(self.mean), 1), len(self.mean))
        table = np.ascontiguousarray(_logged(values, self.least), dtype=np.float64).reshape(shape)
        standardise(table, self.mean, 1.0 / self.spread, SETTINGS.far, out.reshape(shape))
        return out


def _orders(values: Floats) -> Floats:
    """Return the least value (p,) of columns that are positive, span more than a decade and lean to the
    right, as prices and counts do; NaN of others: half their price is to them what half another is.

    >>> _orders(np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0], [40.0, 4.0]]))
    array([ 1., nan])
    """
    out = np.full(values.shape[1], np.nan)
    for j, one in enumerate(values.T):
        known = one[~np.isnan(one)]
        if len(known) and known.min() > 0.0 and known.max() > 10.0 * known.min():
            away = known - known.mean()
            if (away**3).mean() > (away**2).mean() ** 1.5:
                out[j] = known.min()
    return out


def _logged(values: Floats, least: Floats) -> Floats:
    """Return values (..., p) with logarithms in the columns that have a least value."""
    columns = np.flatnonzero(~np.isnan(least))
    if not len(columns):
        return values
    out = values.copy()
    out[..., columns] = np.log(np.maximum(values[..., columns], least[columns]))
    return out


#: Stands for the model of all rows where a fold is asked for.
ALL = -1


class Kind(StrEnum):
    """What a model is made of."""

    HISTORY = "history"
    AMOUNT = "amount"
    LINEAR = "linear"
    CHOICE = "choice"
    PAGE = "page"
    BOOSTING = "boosting"


@dataclass(frozen=True, slots=True)
class Variant:
    """Columns of a model beyond items, context and features: how many of the rankings' extra numbers
    it reads (the first ones), and competition.
    """

    extra: int = 0
    competition: bool = False


def variants_for(rankings: Rankings) -> tuple[Variant, ...]:
    """Return the variants that these rankings are tried with: all extra numbers and all but the last,
    each without and with competition.

    >>> rankings = Rankings(item=[[4, 2]], x=np.empty((1, 0)), extra=np.zeros((1, 2, 2)))
    >>> [(v.extra, v.competition) for v in variants_for(rankings)]
    [(1, False), (1, True), (2, False), (2, True)]
    """
    most = rankings.extras
    counts = range(max(most - 1, 0), most + 1)
    return tuple(Variant(extra, rival) for extra in counts for rival in (False, True))


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

    @property
    def kind(self) -> Kind:
        """What the model is made of."""

    @property
    def variant(self) -> Variant:
        """Which further columns it has."""

    def strength(self, rankings: Rankings, fold: int | Ints) -> Floats:
        """Return what each slot's item is worth by itself (m, K): attraction, times amount; zero in
        the padding.
        """

    def relevance(self, rankings: Rankings, fold: int | Ints = ALL) -> Floats:
        """Return a key to sort by (m, K): log odds of the attraction, plus log amount; -inf in the
        padding.
        """


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
    """Return sum_k (y_k - q_k)^2 (m,): held out where `fold` is the row's own, in the same unit for
    every kind.
    """
    q = model.expected(rankings, fold)
    out: Floats = np.where(rankings.item >= 0, (reward - q) ** 2, 0.0).sum(axis=1)
    return out
