"""A known list of rankings per context, each with its probability: how search logs with few variants look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from counterrank.arrays import Bools, Floats, Ints
from counterrank.errors import PolicyError
from counterrank.policies.arrays import ClosedFormPolicy, as_actions, as_masks
from counterrank.policies.base import SubsetResult


class Enumerated(ClosedFormPolicy):
    """Rankings (G, E, R) with probabilities (G, E); row i of the log uses list `group[i]`.

    P(L) = sum of the probabilities of the listed rankings that agree with the items at L. Shorter
    lists are padded with probability 0, shorter rankings with -1.

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
        """Return the policy of ragged lists: rankings[g][e] is a list of items with probability probs[g][e]."""
        E = max(map(len, rankings), default=0)
        R = max((len(ranking) for listed in rankings for ranking in listed), default=0)
        table = np.full((len(rankings), E, R), -1, np.int64)
        weights = np.zeros((len(rankings), E))
        for g, listed in enumerate(rankings):
            weights[g, : len(probs[g])] = probs[g]
            for e, ranking in enumerate(listed):
                table[g, e, : len(ranking)] = ranking
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
        bad = ~(np.abs(self.probs.sum(axis=1) - 1) <= 1e-6) | ~(self.probs >= 0).all(axis=1)
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
            # Beyond its end a listed ranking shows nothing: an item asked for there never agrees.
            ends = k >= self.rankings.shape[2]
            shown = -1 if ends else self.rankings[self.group, :, k]
            weight = weight * ((shown == items[:, k, None]) | ~mask[:, k, None])
        # Probabilities may add to 1 plus a rounding.
        log_prob: Floats = np.minimum(np.log(weight.sum(axis=1)), 0.0)
        return log_prob

    def subset_log_prob(self, actions: Ints, masks: Bools) -> SubsetResult:
        """Return log-probabilities of the masked items; rows that show the same list are worked out once."""
        items = as_actions(actions, self)
        sets = as_masks(masks, items)
        if sets.ndim == 3 or len(self.group) != len(items):
            return super().subset_log_prob(items, sets)
        _, first, back = np.unique(
            np.column_stack([self.group, items]), axis=0, return_index=True, return_inverse=True
        )
        # The parent's method: this one would look for equal rows again, without end.
        found = super(Enumerated, self.take(first)).subset_log_prob(items[first], sets)
        log_prob = found.log_prob[np.asarray(back).reshape(-1)]
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
