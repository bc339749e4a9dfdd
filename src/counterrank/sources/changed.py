"""A source each of whose batches is changed on the way: other propensities, resampled rows."""

from collections.abc import Callable

import numpy as np

from counterrank.log import RankingLog
from counterrank.source import Partial, Source, State
from counterrank.sources.memory import MemorySource

Change = Callable[[RankingLog], RankingLog]


def mapped(source: Source, change: Change) -> Source:
    """Return the source with every batch changed; a log in memory is changed once, here."""
    if isinstance(source, MemorySource):
        return MemorySource(change(source.log), threads=source.threads)
    return MappedSource(source, change)


class MappedSource:
    """A source each of whose batches is changed on the way."""

    def __init__(self, source: Source, change: Change) -> None:
        self.source = source
        self.change = change

    @property
    def first(self) -> RankingLog:
        """The first rows, changed."""
        return self.change(self.source.first)

    @property
    def n(self) -> int | None:
        """Number of rankings."""
        return self.source.n

    def reduce(self, partial: Partial[State], *, label: str = "") -> State:
        """Return the sum over changed batches."""
        change = self.change
        return self.source.reduce(lambda batch: partial(change(batch)), label=label)

    def sample(self, rows: int, rng: np.random.Generator) -> RankingLog:
        """Return a sample, changed."""
        return self.change(self.source.sample(rows, rng))
