"""What a reward model may know of shown rankings, and of other rankings of the same requests, drawn or given.

Draws of a row depend on its number in the log, so that they are the same in any chunks.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from counterrank.common.arrays import Floats, Ints
from counterrank.common.errors import EstimatorError
from counterrank.data.encoding import context_columns, encoded_features
from counterrank.data.log import LOGGING, RankingLog
from counterrank.kernels.hashing import mix
from counterrank.kernels.jit import jit
from counterrank.policies import Factored, Policy, RowRandom, cut

Made = TypeVar("Made")

#: Rankings whose columns are held at once.
PART = 4_096
#: Numbers of slots up to which parts are kept: 32 MB.
KEPT = 4_000_000


class Memo:
    """What is computed once and kept, because several models, folds or estimators need it."""

    __slots__ = ()
    memo: dict[Hashable, Any]

    def cached(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """Return what `make` gives, computed once per key."""
        if key not in self.memo:
            self.memo[key] = make()
        value: Made = self.memo[key]
        return value


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
    #: What was made of the requests' context; other rankings of the same requests share it.
    of_requests: dict[Hashable, Any] = field(repr=False, default_factory=dict)
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
            numbers = getattr(self, name)
            if numbers is None:
                continue
            values = np.ascontiguousarray(numbers, dtype=np.float64)
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
        extra_values = (
            None if extra is None else np.asarray(extra, dtype=float).reshape(n * D, K, -1)
        )
        row = np.repeat(np.arange(n), D)
        return replace(
            self, item=ids.reshape(n * D, K), row=row, features=features, extra=extra_values
        )

    def take(self, rows: slice | Ints) -> Self:
        """Return some of the rankings; the requests stay."""
        return replace(
            self,
            item=self.item[rows],
            row=self.row[rows],
            features=None if self.features is None else self.features[rows],
            extra=None if self.extra is None else self.extra[rows],
        )

    def parts(self) -> "Iterable[tuple[slice, Rankings]]":
        """Return the rankings in parts, with the rows of each.

        Standardised numbers of all draws at once would be the largest array of an evaluation. Where they
        are few the parts are kept, with what models have made of them.
        """
        if self.m <= PART:
            return [(slice(0, self.m), self)]
        slices = [slice(start, start + PART) for start in range(0, self.m, PART)]
        columns = self.extras + (0 if self.features is None else self.features.shape[2])
        if self.item.size * columns > KEPT:
            return ((rows, self.take(rows)) for rows in slices)
        return self.cached("parts", lambda: [(rows, self.take(rows)) for rows in slices])


def rankings_of(log: RankingLog, *, extra: Floats | None = None) -> Rankings:
    """Return the logged rankings; item and candidate features are encoded where the log has them."""
    x = context_columns(log)
    names = log.item_feature_names
    if not names:
        return Rankings(log.action, x, extra=extra, log=log)
    categories = log.categories_of_items

    def lookup(items: Ints) -> Floats:
        return encoded_features(log.features_of(items), names, categories)

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
    extras = rankings.extras
    counts = range(max(extras - 1, 0), extras + 1)
    return tuple(Variant(extra, rival) for extra in counts for rival in (False, True))


def whole_distribution(batch: RankingLog, name: str) -> Floats | None:
    """Return a policy's distribution as (n, 1 or K, A), contiguous, or None when the log does not have it.

    Where all positions have the same, one of them stands for all: means and draws are then much cheaper.
    """
    table = batch.distribution(name)
    if table is None:
        return None
    if table.ndim == 2:
        return np.ascontiguousarray(table[:, None])
    return np.ascontiguousarray(table[:, :1] if _alike(table) else table)


@jit
def _alike(table: Floats) -> bool:
    """Return whether all positions of a table (n, K, A) are the same."""
    for i in range(table.shape[0]):
        for k in range(1, table.shape[1]):
            for a in range(table.shape[2]):
                if table[i, k, a] != table[i, 0, a]:
                    return False
    return True


def can_average(batch: RankingLog, target: str) -> bool:
    """Return whether a model's mean under the target can be formed: from its distribution, or from draws."""
    if batch.distribution(target) is not None:
        return True
    policy = batch.targets.get(target)
    return isinstance(policy, Policy) and "sample" in policy.capabilities


class Stream(IntEnum):
    """What random numbers are for: each use has a stream of its own, and all follow the seed."""

    TRAINING_ROWS = 9
    LEARNER_ROWS = 13
    EXAMINATION_ROWS = 15
    EXAMINATION_RANKINGS = 16
    NEWTON_ROWS = 17
    COMPARED_ROWS = 18
    GROUPING_ROWS = 19
    VISIBILITY_ROWS = 31
    CLICK_ROWS = 47
    TARGET_RANKINGS = 101
    CROSS_FIT_ROWS = 102
    ASKED_ROWS = 103
    ARM_RANKINGS = 105


def stream(seed: int, use: Stream) -> np.random.Generator:
    """Return the random numbers of one use.

    >>> float(stream(0, Stream.CLICK_ROWS).random()) == float(stream(1, Stream.CLICK_ROWS).random())
    False
    """
    return np.random.default_rng([seed, int(use)])


@jit
def draw_rankings(dist: Floats, lengths: Ints, row_id: Ints, seed: int, out: Ints) -> None:
    """Fill out (n, S, K) with draws from dist (n, 1 or K, A) by a hash of seed, row, draw and position.

    Chunks and threads therefore do not change the draws.
    """
    n, draws, length = out.shape
    A = dist.shape[2]
    shared = dist.shape[1] == 1
    scale = 1.0 / 9007199254740992.0
    for i in range(n):
        # A counter-based stream a row: rows can be drawn in any order, by any thread.
        state = mix(np.uint64(row_id[i]) ^ mix(np.uint64(seed)))
        for s in range(draws):
            for k in range(length):
                if k >= lengths[i]:
                    out[i, s, k] = -1
                    continue
                state = mix(state)
                left = float(state >> np.uint64(11)) * scale
                row = dist[i, 0 if shared else k]
                choice = A - 1
                for a in range(A):
                    left -= row[a]
                    if left < 0.0:
                        choice = a
                        break
                # Rounding can leave a sliver above the sum: it belongs to the last possible action.
                while row[choice] <= 0.0 and choice > 0:
                    choice -= 1
                out[i, s, k] = choice


def factored_draws(batch: RankingLog, distribution: Floats, size: int, seed: int) -> Ints:
    """Return (n, size, K) rankings drawn from independent positions (n, 1 or K, A)."""
    out = np.empty((batch.n, size, batch.K), dtype=np.int64)
    draw_rankings(distribution, batch.lengths, batch.draw_keys, seed, out)
    return out


def policy_draws(batch: RankingLog, policy: Policy, size: int, stream: Sequence[int]) -> Ints:
    """Return (n, size, K) rankings drawn from a policy, as long as the logged ones.

    `stream` seeds the draws; each row has numbers of its own (`RowRandom`).
    """
    # A policy without context has one row: each row of the log still gets draws of its own.
    draws = size * (batch.n // policy.n_rows)
    drawn = policy.sample(batch.K, RowRandom(batch.draw_keys, list(stream)), size=draws)
    return cut(drawn.reshape(batch.n, size, batch.K), batch.lengths)


def target_draws(batch: RankingLog, target: str, size: int, seed: int) -> Ints:
    """Return (n, size, K) rankings drawn from a target, as long as the logged ones."""
    distribution = whole_distribution(batch, target)
    if distribution is not None:
        return factored_draws(batch, distribution, size, seed)
    policy = batch.target(target)
    assert isinstance(policy, Policy)
    return paired_draws(batch, policy, size, seed)


def paired_draws(batch: RankingLog, policy: Policy, size: int, seed: int) -> Ints:
    """Return (n, size, K) rankings of a policy, by the random numbers that draw those of the target.

    Two policies that are alike then draw alike, and what they have in common cancels.
    """
    return policy_draws(batch, policy, size, [seed, Stream.TARGET_RANKINGS])


def page_policy(batch: RankingLog, name: str) -> Policy | None:
    """Return the policy `name` if it can be drawn from and knows its rankings' probabilities."""
    policy = batch.propensity if name == LOGGING else batch.target(name)
    if isinstance(policy, Policy):
        return policy if {"sample", "prefix"} <= policy.capabilities else None
    distribution = whole_distribution(batch, name)
    if distribution is None:
        return None
    # One distribution for all positions has a policy for any number of them.
    return Factored(distribution[:, 0] if distribution.shape[1] == 1 else distribution)
