"""RandTop-n: the first n places shuffled, the rest as ranked."""

import numpy as np
from numpy.typing import ArrayLike

from counterrank.errors import PolicyError
from counterrank.policies.base import Bools, Floats, Ints
from counterrank.policies.events import repeated
from counterrank.policies.ranked import RankedPolicy, log_factorials


class RandTopN(RankedPolicy):
    """P(L) = (n - l)! / n! with l the masked places among the first n; the others must stand as ranked.

    >>> policy = RandTopN([[0, 1, 2, 3]], 3)
    >>> np.exp(policy.position_log_prob(np.array([[2, 1, 0, 3]]))).round(3).tolist()
    [[0.333, 0.333, 0.333, 1.0]]
    """

    shared_fields = ("n_items", "top")

    def __init__(self, ranking: ArrayLike, top: int, n_actions: int | None = None) -> None:
        self.top = int(top)
        super().__init__(ranking, n_actions)

    def check(self) -> None:
        super().check()
        if self.top < 1:
            raise PolicyError(f"the number of shuffled places must be at least 1, got {self.top}")

    def event(self, items: Ints, rows: Ints, mask: Bools) -> Floats:
        top = np.minimum(self.spread(self.lengths, rows), self.top)[:, None]
        position = np.arange(len(mask))
        asked = mask & (items != -1)
        shuffled = asked & (position < top)
        fits = np.where(shuffled, (items >= 0) & (items < top), items == position) | ~asked
        table = log_factorials(self.top)
        value: Floats = table[np.maximum(top[:, 0] - shuffled.sum(axis=1), 0)] - table[top[:, 0]]
        return np.where(fits.all(axis=1) & ~repeated(items, mask), value, -np.inf)

    def sample(self, length: int, rng: np.random.Generator, *, size: int = 1) -> Ints:
        drawn = self.base(length, size)
        keys = rng.random(drawn.shape)
        position = np.arange(drawn.shape[2])
        fixed = position >= np.minimum(self.lengths, self.top)[:, None, None]
        order = np.argsort(np.where(fixed, position + 1.0, keys), axis=2)
        return np.take_along_axis(drawn, order, axis=2)[:, :, :length]
