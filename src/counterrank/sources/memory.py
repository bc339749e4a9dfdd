"""A log in memory, summed in cache-sized chunks by a few threads; and any source whose batches are
changed on the way.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np

from counterrank.log import RankingLog
from counterrank.progress import reporter
from counterrank.source import Partial, Source, State, chunk_rows

Change = Callable[[RankingLog], RankingLog]


def default_threads() -> int:
    """Return how many threads to use: the cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class MemorySource:
    """A `RankingLog` as a source: chunks of fixed size, added in order whatever the number of
    threads.
    """

    def __init__(self, log: RankingLog, *, threads: int | None = None) -> None:
        self.log = log
        self.threads = default_threads() if threads is None else threads

    @cached_property
    def first(self) -> RankingLog:
        """The first rows."""
        return self.log.take(slice(0, min(self.log.n, 1000)))

    @property
    def n(self) -> int:
        """Number of rankings."""
        return self.log.n

    def reduce(self, partial: Partial[State], *, label: str = "") -> State:
        """Return the sum of `partial` over the chunks."""
        size = chunk_rows(self.log.K)
        # Threads for a handful of chunks cost more than they save.
        threads = self.threads if self.log.n > 2 * size else 1
        report = reporter()
        report.begin(label, self.log.n)
        total: State | None = None
        for i, state in enumerate(map_in_order(self.log.chunks(size), partial, threads=threads)):
            total = state if total is None else total + state
            report.advance(min(size, self.log.n - i * size))
        assert total is not None, "a log has at least one row"
        return total

    def sample(self, rows: int, rng: np.random.Generator) -> RankingLog:
        """Return `rows` rankings without replacement, in their order."""
        if rows >= self.log.n:
            return self.log
        return self.log.take(np.sort(rng.choice(self.log.n, size=rows, replace=False)))


def map_in_order(
    items: Iterable[Any], function: Callable[[Any], Any], *, threads: int
) -> Iterator[Any]:
    """Yield function(item) in order; one item more than there are threads is held at a time."""
    if threads <= 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(threads, thread_name_prefix="counterrank") as pool:
        waiting: deque[Future[Any]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                # A batch that waits in this frame would be one more in memory.
                del item
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            # After a failure nothing that has not begun needs to.
            for future in waiting:
                future.cancel()


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
