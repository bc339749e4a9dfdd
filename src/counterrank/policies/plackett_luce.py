"""Plackett-Luce: rankings drawn item by item without replacement, in proportion to exp(score)."""

import numpy as np
from numpy.typing import ArrayLike

from counterrank.errors import PolicyError
from counterrank.policies.arrays import ArrayPolicy
from counterrank.policies.base import Bools, Floats, Ints, SubsetResult
from counterrank.policies.events import as_actions, as_masks
from counterrank.policies.factored import as_scores

#: Scores further apart than this leave the range of float64 once exponentiated.
MAX_SPAN = 650.0


class PlackettLuce(ArrayPolicy):
    """P(a_1..a_K | x) = prod over k of exp(s_{a_k}) / sum of exp(s) over items not yet used (Plackett 1975).

    Prefixes are exact; a set of positions is exact by a programme of at most `max_states` states; a single
    item by quadrature (1e-10); anything larger by at most `max_samples` draws shared by all masks of a row,
    until the relative error is `rtol`. The draws are a function of `seed` and the row's content alone, so a
    result does not depend on chunks or threads. A score of -inf makes an item unavailable.

    >>> policy = PlackettLuce([[0.0, 0.0, np.log(2.0)]])
    >>> np.exp(policy.prefix_log_prob(np.array([[2, 0, 1]]))).round(4).tolist()
    [[0.5, 0.25, 0.25]]
    >>> np.exp(policy.position_log_prob(np.array([[2, 0, 1]]))).round(4).tolist()
    [[0.5, 0.3333, 0.4167]]
    """

    row_fields = ("scores",)
    shared_fields = ("max_states", "rtol", "max_samples", "seed")

    def __init__(
        self,
        scores: ArrayLike,
        temperature: float = 1.0,
        *,
        max_states: int = 200_000,
        rtol: float = 1e-2,
        max_samples: int = 4096,
        seed: int = 0,
    ) -> None:
        self.scores: Floats = np.ascontiguousarray(as_scores(scores, temperature, ndims=(2,)))
        self.max_states, self.rtol, self.max_samples, self.seed = max_states, rtol, max_samples, seed
        self.check()

    def check(self) -> None:
        as_scores(self.scores, ndims=(2,))
        if self.max_states < 1 or self.max_samples < 2 or not self.rtol > 0:
            raise PolicyError(
                f"max_states={self.max_states}, max_samples={self.max_samples} and rtol={self.rtol} "
                "must be at least 1, at least 2 and positive"
            )

    @property
    def n_actions(self) -> int:
        return int(self.scores.shape[1])

    def prefix_log_prob(self, actions: Ints) -> Floats:
        from counterrank.policies.kernels.plackett_luce import prefix_log_prob

        return prefix_log_prob(self.scores, as_actions(actions, self))

    def position_log_prob(self, actions: Ints) -> Floats:
        return self.subset_log_prob(actions, np.eye(np.shape(actions)[1], dtype=bool)).log_prob

    def subset_log_prob(self, actions: Ints, masks: Bools) -> SubsetResult:
        from counterrank.policies.plackett_luce_plan import Limits, solve

        items = as_actions(actions, self)
        limits = Limits(self.max_states, self.rtol, self.max_samples, self.seed)
        return solve(self.scores, items, as_masks(masks, items), limits)

    def sample(self, length: int, rng: np.random.Generator, *, size: int = 1) -> Ints:
        from counterrank.policies.kernels.plackett_luce import sample

        if length > self.n_actions:
            raise PolicyError(f"cannot rank {length} positions with {self.n_actions} items without replacement")
        finite = np.where(self.scores > -np.inf, self.scores, np.inf)
        wide = self.scores.max(axis=1) - finite.min(axis=1) > MAX_SPAN
        out = np.empty((self.n_rows, size, length), np.int64)
        uniforms = rng.random(out.shape)
        out[~wide] = sample(self.scores[~wide], uniforms[~wide])
        for i in np.flatnonzero(wide):
            out[i] = _gumbel(self.scores[i], (size, length), rng)
        return out


def _gumbel(scores: Floats, shape: tuple[int, int], rng: np.random.Generator) -> Ints:
    """Return (size, length) draws as the order of scores plus Gumbel noise: no exponential, any span."""
    noisy = scores + rng.gumbel(size=(shape[0], scores.size))
    order = np.argsort(-noisy, axis=1)[:, : shape[1]]
    return np.where(np.take_along_axis(noisy, order, axis=1) > -np.inf, order, -1)
