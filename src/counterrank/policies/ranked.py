"""Policies built from base rankings: deterministic, enumerated, randomly perturbed, or interleaved."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, zip_longest
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from counterrank.common.arrays import Bools, Floats, Ints
from counterrank.common.errors import PolicyError
from counterrank.policies.arrays import (
    ClosedFormPolicy,
    as_actions,
    not_distribution,
    repeated,
)
from counterrank.policies.base import SubsetResult
from counterrank.policies.candidates import Candidates
from counterrank.policies.factored import best_first


def as_rankings(values: ArrayLike) -> Ints:
    """Return base rankings as (n, R) int64."""
    base = np.asarray(values)
    if base.ndim != 2 or not np.issubdtype(base.dtype, np.integer) or base.size == 0:
        raise PolicyError(
            f"a base ranking must be (n, R) integers, got {base.dtype} of shape {base.shape}"
        )
    return np.ascontiguousarray(base, dtype=np.int64)


def check_rankings(base: Ints, n_items: int) -> None:
    """Raise unless every row holds distinct items below `n_items`, padded at the end only."""
    bad = (base < -1) | (base >= n_items)
    bad[:, 1:] |= (base[:, 1:] >= 0) & (base[:, :-1] < 0)
    bad[:, 0] |= base[:, 0] < 0
    wrong = bad.any(axis=1) | repeated(base)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise PolicyError(
            f"row {i}: ranking {base[i].tolist()} must hold distinct items of 0..{n_items - 1}, "
            "padded with -1 at the end only"
        )


class RankedPolicy(ClosedFormPolicy):
    """Base class of policies over base rankings (n, R), padded with -1 at the end.

    `event` gets the place of each item in the base ranking instead of the item.
    """

    row_fields: ClassVar[tuple[str, ...]] = ("ranking",)
    shared_fields: ClassVar[tuple[str, ...]] = ("n_items",)

    def __init__(self, ranking: ArrayLike, n_actions: int | None = None) -> None:
        self.ranking: Ints = as_rankings(ranking)
        self.n_items = int(self.ranking.max()) + 1 if n_actions is None else int(n_actions)
        self.check()

    def check(self) -> None:
        check_rankings(self.ranking, self.n_items)

    @property
    def lengths(self) -> Ints:
        """Number of items in each base ranking: (n,)."""
        counts: Ints = (self.ranking >= 0).sum(axis=1)
        return counts

    def prepare(self, items: Ints) -> Ints:
        from counterrank.policies.kernels.rows import locate

        n, R = self.ranking.shape
        ends = np.arange(n)[:, None] * R + np.array([0, R])
        return locate(ends, self.ranking.astype(np.int32).reshape(-1), items, self.n_items)

    def base(self, length: int, size: int) -> Ints:
        """Return (n, size, R) copies of the base ranking, R at least `length`."""
        R = self.ranking.shape[1]
        if length > R:
            raise PolicyError(f"cannot draw {length} positions from base rankings of {R} items")
        return np.repeat(self.ranking[:, None, :], size, axis=1)


class Deterministic(RankedPolicy):
    """Always shows the given ranking.

    Parameters
    ----------
    ranking
        Items (n, R) by position, padded with -1 at the end.
    n_actions
        Size of the catalogue; the largest item plus one by default.

    Raises
    ------
    PolicyError
        A ranking repeats an item or has padding in the middle.

    Examples
    --------
    >>> policy = Deterministic([[2, 0, 1]])
    >>> policy.prefix_log_prob(np.array([[2, 1, 0], [2, 0, 1]])).tolist()
    [[0.0, -inf, -inf], [0.0, 0.0, 0.0]]
    """

    deterministic = True

    def item_scores(self) -> Floats:
        length = self.ranking.shape[1]
        table = np.full((len(self.ranking), self.n_actions), -np.log1p(length))
        places = np.broadcast_to(-np.log1p(np.arange(length)), self.ranking.shape)
        np.put_along_axis(table, np.maximum(self.ranking, 0), places, axis=1)
        return table

    def event(self, items: Ints, mask: Bools) -> Floats:
        agrees = (items == np.arange(items.shape[1])) | ~mask
        return np.where(agrees.all(axis=1), 0.0, -np.inf)

    def sample(self, length: int, rng: np.random.Generator, *, size: int = 1) -> Ints:
        return self.base(length, size)[:, :, :length]


#: Number of random keys drawn for a ranking that has no more places.
_MAX_KEYS = 64


class RandTopN(RankedPolicy):
    """The first n places of the base ranking in uniformly random order, the others unchanged.

    P(L) = (n - l)! / n!, where l is the number of masked places among the first n, if the other
    masked items are at their place in the base ranking.

    Parameters
    ----------
    ranking
        Base rankings (n, R), padded with -1 at the end.
    top
        Number of places that are shuffled.
    n_actions
        Size of the catalogue; the largest item plus one by default.

    Raises
    ------
    PolicyError
        A ranking repeats an item, or `top` is less than one.

    Examples
    --------
    >>> policy = RandTopN([[0, 1, 2, 3]], 3)
    >>> np.exp(policy.position_log_prob(np.array([[2, 1, 0, 3]]))).round(3).tolist()
    [[0.333, 0.333, 0.333, 1.0]]
    """

    shared_fields: ClassVar[tuple[str, ...]] = ("n_items", "top")

    def __init__(self, ranking: ArrayLike, top: int, n_actions: int | None = None) -> None:
        self.top = int(top)
        super().__init__(ranking, n_actions)

    def check(self) -> None:
        super().check()
        if self.top < 1:
            raise PolicyError(f"the number of shuffled places must be at least 1, got {self.top}")

    def event(self, items: Ints, mask: Bools) -> Floats:
        from scipy.special import gammaln

        top, position = np.minimum(self.lengths, self.top), np.arange(items.shape[1])
        shuffled = mask & (position < top[:, None])
        fits = np.where(shuffled, (items >= 0) & (items < top[:, None]), items == position) | ~mask
        unmasked = np.maximum(top - shuffled.sum(axis=1), 0)
        possible = fits.all(axis=1) & ~repeated(np.where(mask, items, -1))
        # Logarithms of factorials, because 21! overflows a 64-bit integer.
        return np.where(possible, gammaln(unmasked + 1) - gammaln(top + 1), -np.inf)

    def sample(self, length: int, rng: np.random.Generator, *, size: int = 1) -> Ints:
        drawn = self.base(length, size)
        # The number of random keys per row must not depend on the padding of the table, so that the
        # draws of a row do not depend on its batch.
        n, _, R = drawn.shape
        count = min(self.top, max(_MAX_KEYS, R))
        # Keys are below 1, so that fixed places sort after them and keep their order.
        keys = np.broadcast_to(np.arange(R) + 1.0, drawn.shape).copy()
        random_keys = rng.random((n, size, count))[:, :, :R]
        shuffled = np.arange(R)[: self.top] < self.lengths[:, None, None]
        np.copyto(keys[:, :, : self.top], random_keys, where=shuffled)
        return np.take_along_axis(drawn, np.argsort(keys, axis=2), axis=2)[:, :, :length]


class UniformPermutation(RandTopN):
    """Every ranking of A items equally likely: P(L) = (A - |L|)! / A!.

    Parameters
    ----------
    n_actions
        Number of items A.

    Raises
    ------
    PolicyError
        There is no item.

    Examples
    --------
    >>> policy = UniformPermutation(4)
    >>> np.exp(-policy.prefix_log_prob(np.array([[3, 1, 0]]))).round().tolist()
    [[4.0, 12.0, 24.0]]
    """

    row_fields = ()
    shared_fields = ("n_items",)

    def __init__(self, n_actions: int) -> None:
        self.n_items = int(n_actions)
        self.check()

    def check(self) -> None:
        if self.n_items < 1:
            raise PolicyError(f"a policy needs at least one action, got n_actions={self.n_items}")
        self.ranking, self.top = np.arange(self.n_items)[None], self.n_items

    def sample(self, length: int, rng: np.random.Generator, *, size: int = 1) -> Ints:
        from counterrank.policies.kernels.plackett_luce import sample

        self.refuse_longer(length)
        return sample(np.zeros((1, self.n_items)), rng.random((1, size, length)))


class Enumerated(ClosedFormPolicy):
    """A list of rankings with their probabilities, for each row or group of rows.

    P(L) = sum of the probabilities of the listed rankings that agree with the items at L.

    Parameters
    ----------
    rankings
        Items (G, E, R): E rankings for each of G groups. Shorter rankings are padded with -1.
    probs
        Probabilities (G, E). Shorter lists are padded with probability 0.
    group
        The list of each row (n,); by default row i uses list i.
    n_actions
        Size of the catalogue; the largest item plus one by default.

    Raises
    ------
    PolicyError
        The shapes do not fit, an item is out of range, or probabilities do not sum to one.

    Examples
    --------
    >>> policy = Enumerated([[[0, 1], [1, 0], [2, 0]]], [[0.5, 0.3, 0.2]])
    >>> np.exp(policy.position_log_prob(np.array([[1, 0]]))).round(2).tolist()
    [[0.3, 0.5]]
    """

    row_fields = ("group",)
    shared_fields = ("rankings", "probs", "n_items")

    def __init__(
        self,
        rankings: ArrayLike,
        probs: ArrayLike,
        group: ArrayLike | None = None,
        *,
        n_actions: int | None = None,
    ) -> None:
        self.rankings: Ints = np.ascontiguousarray(rankings, dtype=np.int64)
        self.probs: Floats = np.asarray(probs, dtype=np.float64)
        self.group: Ints = (
            np.arange(len(self.probs)) if group is None else np.asarray(group, dtype=np.int64)
        )
        largest = int(self.rankings.max(initial=0)) + 1
        self.n_items = largest if n_actions is None else int(n_actions)
        self.check()

    @classmethod
    def from_lists(
        cls,
        rankings: Sequence[Sequence[Sequence[int]]],
        probs: Sequence[Sequence[float]],
        group: ArrayLike | None = None,
        *,
        n_actions: int | None = None,
    ) -> Self:
        """Return the policy of nested lists: rankings[g][e] is shown with probability probs[g][e]."""
        sizes = np.array([len(listed) for listed in rankings])
        is_listed = np.arange(sizes.max(initial=0)) < sizes[:, None]
        flat = np.array([*zip_longest(*chain(*rankings), fillvalue=-1)], np.int64, ndmin=2).T
        table, weights = np.full((*is_listed.shape, flat.shape[1]), -1), np.zeros(is_listed.shape)
        table[is_listed], weights[is_listed] = flat, [*chain(*probs)]
        return cls(table, weights, group, n_actions=n_actions)

    def check(self) -> None:
        G, E = self.probs.shape if self.probs.ndim == 2 else (0, 0)
        if G == 0 or self.rankings.ndim != 3 or self.rankings.shape[:2] != (G, E):
            raise PolicyError(
                f"rankings must be (G, E, R) with probabilities (G, E), got {self.rankings.shape} "
                f"and {self.probs.shape}"
            )
        if self.rankings.min() < -1 or self.rankings.max() >= self.n_items:
            raise PolicyError(
                f"rankings must hold items 0..{self.n_items - 1}, or -1 as padding at the end"
            )
        bad = not_distribution(self.probs)
        if bad.any():
            g = int(np.argmax(bad))
            raise PolicyError(
                f"group {g}: probabilities sum to {self.probs[g].sum():.9g} or are negative"
            )
        if self.group.ndim != 1 or self.group.min(initial=0) < 0 or self.group.max(initial=0) >= G:
            raise PolicyError(f"group must hold one list number 0..{G - 1} per row")

    def cells(self, length: int) -> int:
        return int(self.probs.shape[1])

    def event(self, items: Ints, mask: Bools) -> Floats:
        weight = self.probs[self.group]
        for k in np.flatnonzero(mask.any(axis=0)):
            # Positions beyond the end of the listed rankings agree with no item.
            is_beyond = k >= self.rankings.shape[2]
            shown = -1 if is_beyond else self.rankings[self.group, :, k]
            weight = weight * ((shown == items[:, k, None]) | ~mask[:, k, None])
        # The sum of probabilities may exceed 1 by a rounding error.
        log_prob: Floats = np.minimum(np.log(weight.sum(axis=1)), 0.0)
        return log_prob

    def subset_log_prob(self, actions: Ints, masks: Bools) -> SubsetResult:
        """Return log-probabilities of the masked items; equal rows are computed once."""
        if np.ndim(masks) != 2 or len(self.group) != len(actions):
            return super().subset_log_prob(actions, masks)
        items = as_actions(actions, self)
        _, first, back = np.unique(
            np.column_stack([self.group, items]), axis=0, return_index=True, return_inverse=True
        )
        # The method of the parent class, because this one would recurse without end.
        distinct = super(Enumerated, self.take(first)).subset_log_prob(items[first], masks)
        log_prob = distinct.log_prob[back.reshape(-1)]
        return SubsetResult(log_prob, np.zeros_like(log_prob))

    def sample(self, length: int, rng: np.random.Generator, *, size: int = 1) -> Ints:
        from counterrank.policies.kernels.rows import categorical

        if length > self.rankings.shape[2]:
            raise PolicyError(
                f"the listed rankings have {self.rankings.shape[2]} positions, not {length}"
            )
        cumulative = np.cumsum(self.probs, axis=1)[self.group]
        drawn = categorical(cumulative, rng.random((len(self.group), size)))
        return self.rankings[self.group[:, None], drawn, :length]


class RandomSwap(RankedPolicy):
    """The base ranking with places i < j swapped with probability weights[i, j], otherwise unchanged.

    P(L) is the sum of the probabilities of the swaps that agree with the items at L.

    Parameters
    ----------
    ranking
        Base rankings (n, R), padded with -1 at most at places that are never swapped.
    weights
        Probabilities (R, R), of which the upper triangle is used, or a number: the probability that
        some pair is swapped, all pairs equally likely.
    n_actions
        Size of the catalogue; the largest item plus one by default.

    Raises
    ------
    PolicyError
        A ranking repeats an item or is padded, or the weights are negative or sum to more than one.

    Examples
    --------
    >>> policy = RandomSwap([[0, 1, 2]], 0.6)
    >>> np.exp(policy.position_log_prob(np.array([[0, 1, 2], [1, 0, 2]]))).round(2).tolist()
    [[0.6, 0.6, 0.6], [0.2, 0.2, 0.6]]
    """

    shared_fields = ("n_items", "weights")

    def __init__(
        self, ranking: ArrayLike, weights: ArrayLike, n_actions: int | None = None
    ) -> None:
        R = np.shape(ranking)[-1]
        values = np.asarray(weights, dtype=np.float64)
        upper = np.triu(np.ones((R, R)), 1)
        self.weights: Floats = (
            values * upper / max(upper.sum(), 1) if values.ndim == 0 else np.triu(values, 1)
        )
        super().__init__(ranking, n_actions)

    def check(self) -> None:
        super().check()
        R = self.ranking.shape[1]
        total = self.weights.sum()
        if self.weights.shape != (R, R) or not (self.weights >= 0).all() or not total <= 1 + 1e-12:
            raise PolicyError(
                f"swap weights must be ({R}, {R}), not negative, with sum at most 1; "
                f"got {self.weights.shape} with sum {total:.6g}"
            )
        used = np.flatnonzero(np.triu(self.weights, 1).any(axis=0))
        short = self.lengths < used.max(initial=-1) + 1
        if short.any():
            raise PolicyError(
                f"row {int(np.argmax(short))}: the base ranking is padded at a place that is swapped; "
                "rankings of another length need weights of their own"
            )

    def cells(self, length: int) -> int:
        return self.weights.size

    def _orders(self) -> Enumerated:
        """Return the policy over orders of places: one for each swap, and the identity."""
        R = self.ranking.shape[1]
        i, j = np.triu_indices(R, 1)
        swap = np.arange(len(i))
        orders = np.tile(np.arange(R), (1, len(i) + 1, 1))
        orders[0, swap, i], orders[0, swap, j] = j, i
        chances = self.weights[i, j]
        # The weights may sum to 1 up to a rounding error.
        unchanged = 1 - chances.sum()
        return Enumerated(
            orders, [[*chances, unchanged if unchanged > 1e-12 else 0.0]], n_actions=R
        )

    def event(self, items: Ints, mask: Bools) -> Floats:
        return self._orders().event(items, mask)

    def sample(self, length: int, rng: np.random.Generator, *, size: int = 1) -> Ints:
        base = self.base(length, size)
        places = self._orders().sample(length, rng, size=len(base) * size)
        return np.take_along_axis(base, places.reshape(len(base), size, length), axis=2)


#: All coin paths of a ranking are walked; 2^15 of them is the most that is still quick.
MAX_LENGTH = 30


class TeamDraft(ClosedFormPolicy):
    """Team-draft interleaving: in each round both rankings place their best item that is not yet shown.

    A fair coin for each round decides which ranking is first. P(L) = (coin paths whose ranking agrees
    with the items at L) / (all 2^ceil(K/2) paths).

    Parameters
    ----------
    first, second
        Rankings (n, R) of the two teams, padded with -1 at the end.
    n_actions
        Size of the catalogue; the largest item plus one by default.

    Raises
    ------
    PolicyError
        A ranking repeats an item, or the rankings differ in rows.

    Examples
    --------
    >>> policy = TeamDraft([[0, 1, 2]], [[1, 2, 0]])
    >>> np.exp(policy.prefix_log_prob(np.array([[0, 1, 2]]))).tolist()
    [[0.5, 0.5, 0.5]]
    """

    row_fields = ("first", "second")
    shared_fields = ("n_items",)

    def __init__(self, first: ArrayLike, second: ArrayLike, n_actions: int | None = None) -> None:
        self.first, self.second = as_rankings(first), as_rankings(second)
        largest = int(max(self.first.max(), self.second.max())) + 1
        self.n_items = largest if n_actions is None else int(n_actions)
        self.check()

    @classmethod
    def by_scores(cls, candidates: Candidates, first: Floats, second: Floats) -> Self:
        """Return the draft of two rankers, which place candidates by their scores, one per candidate."""
        teams = [
            candidates.global_items(best_first(candidates.dense(scores, -np.inf)))
            for scores in (first, second)
        ]
        return cls(teams[0], teams[1], candidates.n_items)

    def check(self) -> None:
        check_rankings(self.first, self.n_items)
        check_rankings(self.second, self.n_items)
        if len({len(self.first), len(self.second)} - {1}) > 1:
            raise PolicyError(
                f"the two rankings have {len(self.first)} and {len(self.second)} rows"
            )

    def cells(self, length: int) -> int:
        if length > MAX_LENGTH:
            raise PolicyError(
                f"team-draft sets are counted for at most {MAX_LENGTH} positions, got {length}"
            )
        return length << (length + 1) // 2

    def prepare(self, items: Ints) -> Bools:
        """Return for each path of coins where it shows the items: (n, paths, K)."""
        rounds = (items.shape[1] + 1) // 2
        coins = np.arange(1 << rounds)[None, :, None] >> np.arange(rounds) & 1
        agrees: Bools = draft(self.first, self.second, coins, items.shape[1]) == items[:, None]
        return agrees

    def event(self, items: Bools, mask: Bools) -> Floats:
        # Coins are fair, so that all paths weigh the same, also those that end in one ranking.
        share: Floats = (items | ~mask[:, None]).all(axis=2).mean(axis=1)
        return np.log(share)

    def sample(self, length: int, rng: np.random.Generator, *, size: int = 1) -> Ints:
        coins = rng.random((self.n_rows, size, (length + 1) // 2)) < 0.5
        return draft(self.first, self.second, coins.astype(np.int64), length)


def draft(first: Ints, second: Ints, coins: Ints, length: int) -> Ints:
    """Return (n, S, length) rankings of coins (n or 1, S, rounds); 1 lets the second team open the round.

    A team without items passes its turns, and the other fills the page.
    """
    n, S = max(len(first), len(second), len(coins)), coins.shape[1]
    teams = [np.broadcast_to(team[:, None], (n, S, team.shape[1])) for team in (first, second)]
    left = [team >= 0 for team in teams]
    out = np.full((n, S, length), -1, np.int64)
    for k in range(length):
        # The best item that each team has left, -1 where it has none.
        best = [
            np.where(free, team, -1)[(*np.indices((n, S)), np.argmax(free, axis=2))]
            for team, free in zip(teams, left, strict=True)
        ]
        mine, opponent_item = np.where(coins[:, :, k // 2] ^ k % 2, best[::-1], best)
        out[:, :, k] = np.where(mine >= 0, mine, opponent_item)
        for team, free in zip(teams, left, strict=True):
            free &= team != out[:, :, k, None]
    return out
