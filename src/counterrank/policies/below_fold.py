"""The first places as ranked, Plackett-Luce below: exploration that hardly anybody sees."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from counterrank.arrays import Bools, Floats, Ints
from counterrank.errors import PolicyError
from counterrank.policies.arrays import ArrayPolicy, as_actions, as_masks, without_padding
from counterrank.policies.base import SubsetResult
from counterrank.policies.factored import as_scores, best_first
from counterrank.policies.plackett_luce import PlackettLuce


class BelowFold(ArrayPolicy):
    """The best `after` items stand as ranked; the places below are drawn by Plackett-Luce from the rest.

    P(L) = [the items of L among the first places stand there] P_rest(the others of L). Equal scores
    rank by action id. A score of -inf makes an item unavailable.

    >>> policy = BelowFold([[3.0, 2.0, 1.0, 1.0]], after=2)
    >>> np.exp(policy.prefix_log_prob(np.array([[0, 1, 3], [1, 0, 2]]))).round(3).tolist()
    [[1.0, 1.0, 0.5], [0.0, 0.0, 0.0]]
    """

    row_fields = ("head", "scores")

    def __init__(self, scores: ArrayLike, after: int, temperature: float = 1.0) -> None:
        table = as_scores(scores, temperature, ndims=(2,))
        #: The items of the first places (n, after), -1 where a row has fewer.
        self.head: Ints = best_first(table)[:, :after]
        self.scores: Floats = np.array(table)
        rows, places = np.nonzero(self.head >= 0)
        self.scores[rows, self.head[rows, places]] = -np.inf
        self.check()

    def check(self) -> None:
        rows, A = self.scores.shape if self.scores.ndim == 2 else (0, 0)
        fits = self.head.ndim == 2 and len(self.head) == rows and self.head.shape[1] >= 1
        if not fits or self.head.max() >= A:
            raise PolicyError(
                f"at least one place stays as ranked; got places of shape {self.head.shape} for "
                f"scores of shape {self.scores.shape}"
            )

    def _rest(self) -> tuple[Bools, PlackettLuce]:
        """Return which rows (n,) have items for the places below, and the policy there."""
        some: Bools = np.any(self.scores > -np.inf, axis=1)
        # A row without items below still needs a policy; what it is asked there is impossible.
        return some, PlackettLuce(np.where(some[:, None], self.scores, 0.0))

    def subset_log_prob(self, actions: Ints, masks: Bools) -> SubsetResult:
        items = as_actions(actions, self)
        sets = without_padding(items, as_masks(masks, items))
        after, (some, policy) = self.head.shape[1], self._rest()
        stands = items[:, :after] == self.head[:, : items.shape[1]]
        fits = (stands[:, None, :] | ~sets[..., :after]).all(axis=2)
        asked = sets[..., after:].any(axis=2)
        log_prob = np.where(fits & (some[:, None] | ~asked), 0.0, -np.inf)
        rel_var = np.zeros_like(log_prob)
        if asked.any():
            below = policy.subset_log_prob(items[:, after:], sets[..., after:])
            possible = asked & (log_prob == 0.0)
            np.copyto(log_prob, below.log_prob, where=possible)
            np.copyto(rel_var, below.rel_var, where=possible)
        return SubsetResult(log_prob, rel_var)

    def sample(self, length: int, rng: np.random.Generator, *, size: int = 1) -> Ints:
        self.refuse_longer(length)
        top = np.repeat(self.head[:, None, :length], size, axis=1)
        if top.shape[2] == length:
            return top
        some, policy = self._rest()
        below = policy.sample(length - top.shape[2], rng, size=size)
        return np.concatenate([top, np.where(some[:, None, None], below, -1)], axis=2)
