"""Policies that start from one given ranking per row: shown as it is, or perturbed in a known way."""

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from counterrank.errors import PolicyError
from counterrank.policies.arrays import ClosedFormPolicy
from counterrank.policies.base import Bools, Floats, Ints


def as_rankings(values: ArrayLike) -> Ints:
    """Return base rankings as (n, R) int64."""
    base = np.asarray(values)
    if base.ndim != 2 or not np.issubdtype(base.dtype, np.integer) or base.size == 0:
        raise PolicyError(f"a base ranking must be (n, R) integers, got {base.dtype} of shape {base.shape}")
    return np.ascontiguousarray(base, dtype=np.int64)


def check_rankings(base: Ints, n_items: int) -> None:
    """Raise unless every row holds distinct items below `n_items`, padded at the end only."""
    bad = (base < -1) | (base >= n_items)
    bad[:, 1:] |= (base[:, 1:] >= 0) & (base[:, :-1] < 0)
    bad[:, 0] |= base[:, 0] < 0
    ordered = np.sort(base, axis=1)
    twice = ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any(axis=1)
    wrong = bad.any(axis=1) | twice
    if wrong.any():
        i = int(np.argmax(wrong))
        raise PolicyError(
            f"row {i}: ranking {base[i].tolist()} must hold distinct items of 0..{n_items - 1}, "
            "padded with -1 at the end only"
        )


class RankedPolicy(ClosedFormPolicy):
    """Holds base rankings (n, R), -1 padded at the end, and answers in places of the base instead of items."""

    row_fields = ("ranking",)
    shared_fields: ClassVar[tuple[str, ...]] = ("n_items",)

    def __init__(self, ranking: ArrayLike, n_actions: int | None = None) -> None:
        self.ranking: Ints = as_rankings(ranking)
        self.n_items = int(self.ranking.max()) + 1 if n_actions is None else int(n_actions)
        self.check()

    def check(self) -> None:
        check_rankings(self.ranking, self.n_items)

    @property
    def n_actions(self) -> int:
        return self.n_items

    @property
    def lengths(self) -> Ints:
        """Number of items in each base ranking: (n,)."""
        counts: Ints = (self.ranking >= 0).sum(axis=1)
        return counts

    def prepare(self, items: Ints) -> Ints:
        from counterrank.policies.kernels.policy_places import places

        return places(items, self.ranking)

    def base(self, length: int, size: int) -> Ints:
        """Return (n, size, R) copies of the base ranking, R at least `length`."""
        R = self.ranking.shape[1]
        if length > R:
            raise PolicyError(f"cannot draw {length} positions from base rankings of {R} items")
        return np.repeat(self.ranking[:, None, :], size, axis=1)


class Deterministic(RankedPolicy):
    """Always shows the given ranking: what most new rankers are.

    >>> policy = Deterministic([[2, 0, 1]])
    >>> policy.prefix_log_prob(np.array([[2, 1, 0], [2, 0, 1]])).tolist()
    [[0.0, -inf, -inf], [0.0, 0.0, 0.0]]
    """

    def event(self, items: Ints, rows: Ints, mask: Bools) -> Floats:
        agrees = (items == np.arange(len(mask))) | (items == -1) | ~mask
        return np.where(agrees.all(axis=1), 0.0, -np.inf)

    def sample(self, length: int, rng: np.random.Generator, *, size: int = 1) -> Ints:
        return self.base(length, size)[:, :, :length]


def log_factorials(n: int) -> Floats:
    """Return log 0!, log 1!, ..., log n!: (n + 1,)."""
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])
