"""A log that can be passed over, in whatever form it lies: in memory, in files, on a cluster.

Everything that grows with n is a sum, so one verb is enough: `reduce(partial)` applies `partial` to every batch
and adds the results. Several passes are several calls.
"""

from collections.abc import Callable
from typing import Protocol, Self, TypeVar

import numpy as np

from counterrank.log import RankingLog


class Summand(Protocol):
    """Anything that adds: the result of a pass over a part of the log."""

    def __add__(self, other: Self, /) -> Self: ...


State = TypeVar("State", bound=Summand)
Partial = Callable[[RankingLog], State]


class Source(Protocol):
    """A log as a sequence of batches that many passes can sum over."""

    @property
    def first(self) -> RankingLog:
        """A small batch from the start: K, names, kinds, what is there. Never the whole log."""

    @property
    def n(self) -> int | None:
        """Number of rankings, where it is known without a pass."""

    def reduce(self, partial: Partial[State], *, label: str = "") -> State:
        """Return the sum of `partial(batch)` over all batches, always added in the same order."""

    def sample(self, rows: int, rng: np.random.Generator) -> RankingLog:
        """Return at most `rows` rankings drawn from all of them (all, when there are no more)."""
