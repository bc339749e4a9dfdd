"""Epsilon-greedy choice at each slot, without replacement."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from counterrank.common.arrays import Bools, Floats, Ints
from counterrank.common.errors import PolicyError
from counterrank.policies.arrays import (
    ArrayPolicy,
    answer_distinct,
    as_actions,
    requested_twice,
)
from counterrank.policies.factored import as_scores

#: Limit of the states for a set of positions; only sets with many gaps and K > 40 reach it.
MAX_STATES = 20_000_000


class SlotEpsilonGreedy(ArrayPolicy):
    """At each slot the best remaining item with probability 1 - epsilon, otherwise a uniformly drawn one.

    All probabilities are exact.

    Parameters
    ----------
    scores
        Scores (n, A). Equal scores rank by action id; a score of -inf makes an item unavailable.
    epsilon
        Probability of the uniform draw, 0 to 1.

    Raises
    ------
    PolicyError
        A score is NaN or too large, or epsilon is no probability.

    Examples
    --------
    >>> policy = SlotEpsilonGreedy([[3.0, 2.0, 1.0]], epsilon=0.3)
    >>> np.exp(policy.prefix_log_prob(np.array([[0, 2, 1]]))).round(3).tolist()
    [[0.8, 0.12, 0.12]]
    >>> np.exp(policy.position_log_prob(np.array([[0, 2, 1]]))).round(3).tolist()
    [[0.8, 0.135, 0.205]]
    """

    row_fields = ("rank",)
    shared_fields = ("epsilon",)

    def __init__(self, scores: ArrayLike, epsilon: float = 0.3) -> None:
        table = as_scores(scores, ndims=(2,))
        order = np.argsort(-table, axis=1, kind="stable")
        rank = np.empty_like(order)
        np.put_along_axis(rank, order, np.arange(table.shape[1])[None, :], axis=1)
        # -2 if unavailable, because -1 is padding, whose probability is one.
        self.rank: Ints = np.where(table > -np.inf, rank, -2)  # (n, A)
        self.epsilon = float(epsilon)
        self.check()

    def check(self) -> None:
        if not 0 <= self.epsilon <= 1:
            raise PolicyError(f"epsilon must lie in [0, 1], got {self.epsilon}")
        if self.rank.ndim != 2 or self.rank.min() < -2 or self.rank.max() >= self.rank.shape[1]:
            raise PolicyError(
                f"ranks must be an (n, A) table of places 0..A-1, got shape {self.rank.shape}"
            )

    def item_scores(self) -> Floats:
        return np.where(self.rank >= 0, -np.log1p(np.maximum(self.rank, 0)), -np.inf)

    def _ranks(self, items: Ints) -> tuple[Ints, Ints]:
        """Return the ranks of items (n, K) and the number of available items (n,)."""
        rows = np.arange(len(items)) % self.n_rows
        available = (self.rank >= 0).sum(axis=1)[rows]
        return np.where(items < 0, -1, self.rank[rows[:, None], items]), available

    def prefix_log_prob(self, actions: Ints) -> Floats:
        from counterrank.policies.kernels.slot_epsilon import prefix_log_prob

        ranks, available = self._ranks(as_actions(actions, self))
        return prefix_log_prob(ranks, available, self.epsilon)

    def solve(self, items: Ints, sets: Bools, first: int) -> tuple[Floats, Floats]:
        from counterrank.policies.kernels.slot_epsilon import subset_log_prob

        ranks, available = self._ranks(items)
        impossible = requested_twice(items, sets) | (sets & (ranks == -2)[:, None, :]).any(axis=2)

        def answer(rows: Ints, masks: Bools) -> tuple[Floats, Floats]:
            requested_ranks = np.where(masks, ranks[rows], -1)
            ordered = np.sort(np.where(masks, requested_ranks, self.n_actions), axis=1)
            log_probs = subset_log_prob(
                requested_ranks, ordered, available[rows], self.epsilon, MAX_STATES
            )
            if np.isnan(log_probs).any():
                t = int(np.argmax(np.isnan(log_probs)))
                raise PolicyError(
                    f"row {first + rows[t]}: positions {(np.flatnonzero(masks[t]) + 1).tolist()} "
                    f"need more than {MAX_STATES} states; ask for fewer positions, or for a prefix"
                )
            return log_probs, np.zeros_like(log_probs)

        unsolved = np.where(sets.any(axis=2), np.nan, 0.0)
        return answer_distinct(sets, np.where(impossible, -np.inf, unsolved), answer)

    def sample(self, length: int, rng: np.random.Generator, *, size: int = 1) -> Ints:
        from counterrank.policies.kernels.slot_epsilon import sample

        self.refuse_longer(length)
        available = (self.rank >= 0).sum(axis=1)
        drawn = sample(available, rng.random((self.n_rows, size, length, 2)), self.epsilon)
        last = np.where(self.rank < 0, self.n_actions, self.rank)
        order = np.argsort(last, axis=1, kind="stable")
        return np.where(drawn < 0, -1, order[np.arange(self.n_rows)[:, None, None], drawn])
