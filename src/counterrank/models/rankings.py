"""What a reward model may know of shown rankings, and of other rankings of the same requests."""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from counterrank.arrays import Floats, Ints
from counterrank.data.encoding import context_columns, encoded_features
from counterrank.data.log import RankingLog
from counterrank.errors import EstimatorError

Made = TypeVar("Made")

#: Rankings whose columns are held at once.
PART = 4_096


class Memo:
    """What is computed once and kept, because several models, folds or estimators need it."""

    __slots__ = ()
    memo: dict[Hashable, Any]

    def once(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """Return what `make` gives, computed once per key."""
        if key not in self.memo:
            self.memo[key] = make()
        made: Made = self.memo[key]
        return made


@dataclass(frozen=True, slots=True, eq=False)
class Rankings(Memo):
    """m rankings of n requests.

    `item` (m, K) are ids, -1 pads at the end; `x` (n, d) is the requests' context; `row` (m,) the
    request of each ranking; `features` (m, K, p) and `extra` (m, K, e) are numbers of each slot. NaN
    is missing. `lookup` gives the features (n, D, K, p) of other items (n, D, K) of the same requests;
    `log` has the requests as its rows.

    >>> logged = Rankings(item=[[4, 2], [1, -1]], x=np.empty((2, 0)))
    >>> drawn = logged.others([[[2, 4], [4, 1]], [[1, -1], [2, -1]]])
    >>> drawn.row.tolist(), drawn.lengths.tolist()
    ([0, 0, 1, 1], [2, 2, 1, 1])
    """

    item: Ints
    x: Floats
    row: Ints = None  # type: ignore[assignment]  # one request a ranking unless given
    features: Floats | None = None
    extra: Floats | None = None
    lookup: Callable[[Ints], Floats] | None = None
    log: RankingLog | None = None
    #: Whether squares of the context, and features by place, are columns too.
    nonlinear: bool = False
    #: Number of items of each ranking (m,).
    lengths: Ints = field(init=False)
    memo: dict[Hashable, Any] = field(init=False, repr=False, default_factory=dict)

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
    def extras(self) -> int:
        """Number of extra numbers of a slot."""
        return 0 if self.extra is None else self.extra.shape[2]

    def others(self, item: ArrayLike, *, extra: ArrayLike | None = None) -> Self:
        """Return other rankings (n, D, K) or (n, K) of the same requests.

        Ranking number i D + j is the j-th of request i.
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
        return replace(
            self,
            item=self.item[rows],
            row=self.row[rows],
            features=None if self.features is None else self.features[rows],
            extra=None if self.extra is None else self.extra[rows],
        )

    def parts(self) -> "Iterator[tuple[slice, Rankings]]":
        """Yield the rankings in parts, with the rows of each.

        The columns of all draws at once would be the largest array of an evaluation.
        """
        for start in range(0, self.m, PART):
            rows = slice(start, start + PART)
            yield rows, self if self.m <= PART else self.take(rows)


def rankings_of(log: RankingLog, *, extra: Floats | None = None) -> Rankings:
    """Return the logged rankings; item and candidate features are encoded where the log has them."""
    x = context_columns(log)
    names = log.item_feature_names
    if not names:
        return Rankings(log.action, x, extra=extra, log=log)
    known = log.categories_of_items

    def lookup(items: Ints) -> Floats:
        return encoded_features(log.features_of(items), names, known)

    shown = lookup(log.action[:, None, :])[:, 0]
    return Rankings(log.action, x, features=shown, extra=extra, lookup=lookup, log=log)


@dataclass(frozen=True, slots=True)
class Variant:
    """Columns of a model beyond items, context and features.

    The model reads the first `extra` of the rankings' extra numbers; with `competition` it reads what
    the other items of the page are worth.
    """

    extra: int = 0
    competition: bool = False


def variants_for(rankings: Rankings) -> tuple[Variant, ...]:
    """Return the variants that are tried: all extra numbers and all but the last, each with and without competition.

    >>> rankings = Rankings(item=[[4, 2]], x=np.empty((1, 0)), extra=np.zeros((1, 2, 2)))
    >>> [(v.extra, v.competition) for v in variants_for(rankings)]
    [(1, False), (1, True), (2, False), (2, True)]
    """
    most = rankings.extras
    counts = range(max(most - 1, 0), most + 1)
    return tuple(Variant(extra, rival) for extra in counts for rival in (False, True))
