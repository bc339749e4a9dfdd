"""The first places as ranked, Plackett-Luce below: exploration that hardly anybody sees."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from counterrank.arrays import Bools, Floats, Ints
from counterrank.errors import PolicyError
from counterrank.policies.arrays import ArrayPolicy, as_actions, as_masks
from counterrank.policies.base import SubsetResult
from counterrank.policies.factored import as_scores
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
        order = np.argsort(-table, axis=1, kind="stable")
        eligible = np.take_along_axis(table, order, axis=1) > -np.inf
        #: The items of the first places (n, after), -1 where a row has fewer.
        self.head: Ints = np.where(eligible, order, -1)[:, :after]
        self.scores: Floats = np.array(table)
        rows, places = np.nonzero(self.head >= 0)
        self.scores[rows, self.head[rows, places]] = -np.inf
        self.check()

    def check(self) -> None:
        if self.head.ndim != 2 or self.head.shape[1] < 1 or self.scores.ndim != 2:
            raise PolicyError(
                f"at least one place stays as ranked; got places of shape {self.head.shape} and "
                f"scores of shape {self.scores.shape}"
            )
        if len(self.head) != len(self.scores) or self.head.max() >= self.scores.shape[1]:
            raise PolicyError(
                f"the first places {self.head.shape} do not fit scores of shape {self.scores.shape}"
            )

    @property
    def n_actions(self) -> int:
        return int(self.scores.shape[1])

    @property
    def after(self) -> int:
        """Number of places that stay as ranked."""
        return int(self.head.shape[1])

    @property
    def _open(self) -> Bools:
        """Rows (n,) that have items for the places below."""
        return np.asarray((self.scores > -np.inf).any(axis=1), dtype=bool)

    def _rest(self) -> PlackettLuce:
        # A row without items below still needs a policy; what it is asked there is impossible.
        return PlackettLuce(np.where(self._open[:, None], self.scores, 0.0))

    def subset_log_prob(self, actions: Ints, masks: Bools) -> SubsetResult:
        items = as_actions(actions, self)
        sets = as_masks(masks, items)
        sets = np.broadcast_to(sets, (len(items), *sets.shape[-2:]))
        above, below = items[:, : self.after], items[:, self.after :]
        head = self.head[:, : above.shape[1]]
        stands = (above == head) | (above < 0)
        fits = (stands[:, None, :] | ~sets[..., : self.after]).all(axis=2)
        asked = (sets[..., self.after :] & (below >= 0)[:, None, :]).any(axis=2)
        possible = fits & (self._open[:, None] | ~asked)
        if not below.shape[1]:
            log_prob = np.where(possible, 0.0, -np.inf)
            return SubsetResult(log_prob, np.zeros_like(log_prob))
        rest = self._rest().subset_log_prob(below, np.ascontiguousarray(sets[..., self.after :]))
        log_prob = np.where(possible, np.where(asked, rest.log_prob, 0.0), -np.inf)
        return SubsetResult(log_prob, np.where(possible & asked, rest.rel_var, 0.0))

    def sample(self, length: int, rng: np.random.Generator, *, size: int = 1) -> Ints:
        self.refuse_longer(length)
        top = np.repeat(self.head[:, None, :length], size, axis=1)
        left = length - top.shape[2]
        if not left:
            return top
        below = self._rest().sample(left, rng, size=size)
        return np.concatenate([top, np.where(self._open[:, None, None], below, -1)], axis=2)
