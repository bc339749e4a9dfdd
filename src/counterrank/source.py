"""A log that can be passed over, in whatever form it lies: in memory, in files, on a cluster.

Everything that grows with n is a sum, so one verb is enough: `reduce(partial)` applies `partial` to
every batch and adds the results. Several passes are several calls.
"""

from collections.abc import Callable, Iterable
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


#: Numbers in one (n, K) array of a chunk: 1 MB, so that a few of them stay in the cache. Half as
#: many cost a tenth more, for Python between the kernels.
_NUMBERS = 131_072


def chunk_rows(length: int) -> int:
    """Return how many rankings of `length` positions go through a partial at a time.

    >>> chunk_rows(8)
    16384
    """
    return max(256, _NUMBERS // length)


def summed(batches: Iterable[RankingLog], partial: Partial[State]) -> tuple[State | None, int]:
    """Return the sum of `partial` over batches, in cache-sized chunks, and the number of rankings."""
    total: State | None = None
    rows = 0
    for batch in batches:
        for chunk in batch.chunks(chunk_rows(batch.K)):
            state = partial(chunk)
            total = state if total is None else total + state
        rows += batch.n
    return total, rows
