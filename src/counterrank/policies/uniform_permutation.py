"""Uniformly random rankings without replacement."""

import numpy as np

from counterrank.errors import PolicyError
from counterrank.policies.arrays import ClosedFormPolicy
from counterrank.policies.base import Bools, Floats, Ints
from counterrank.policies.events import repeated
from counterrank.policies.ranked import log_factorials


class UniformPermutation(ClosedFormPolicy):
    """Every ranking of A items equally likely: P(L) = (A - |L|)! / A!.

    >>> policy = UniformPermutation(4)
    >>> np.exp(-policy.prefix_log_prob(np.array([[3, 1, 0]]))).round().tolist()
    [[4.0, 12.0, 24.0]]
    """

    shared_fields = ("n_items",)

    def __init__(self, n_actions: int) -> None:
        self.n_items = int(n_actions)
        self.check()

    def check(self) -> None:
        if self.n_items < 1:
            raise PolicyError(f"a policy needs at least one action, got n_actions={self.n_items}")

    @property
    def n_actions(self) -> int:
        return self.n_items

    def event(self, items: Ints, rows: Ints, mask: Bools) -> Floats:
        asked = (items[:, mask] >= 0).sum(axis=1)
        table = log_factorials(self.n_items)
        value: Floats = table[np.maximum(self.n_items - asked, 0)] - table[-1]
        return np.where(repeated(items, mask), -np.inf, value)

    def sample(self, length: int, rng: np.random.Generator, *, size: int = 1) -> Ints:
        if length > self.n_items:
            raise PolicyError(f"cannot rank {length} positions with {self.n_items} items without replacement")
        from counterrank.policies.kernels.plackett_luce import sample

        return sample(np.zeros((1, self.n_items)), rng.random((1, size, length)))
