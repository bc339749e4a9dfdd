"""A log that can be passed over, in whatever form it lies: in memory, in files, on a cluster.

Everything that grows with n is a sum, so one verb is enough: `reduce(partial)` applies `partial` to
every batch and adds the results. Several passes are several calls. A log in memory is such a source
here; files and clusters are in `sources`.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np

from counterrank.common.arrays import Bools
from counterrank.common.errors import CounterrankError, EngineError
from counterrank.data.log import RankingLog
from counterrank.policies import Policy


class Reporter:
    """Takes the progress of passes over a log; this one shows nothing, but moves the `stage` it stands in."""

    stage: "Reporter | None" = None
    #: Parts of the stage that are done.
    done = 0.0

    def begin(self, label: str, total: int | None) -> None:
        """Start a pass over `total` rows; None where their number is unknown."""

    def advance(self, rows: float) -> None:
        """Add rows that are done."""

    def step(self, share: float) -> None:
        """Add a share of one of the stage's parts."""
        if self.stage is not None:
            self.done += share
            self.stage.advance(share)


_SILENT = Reporter()
_REPORTER: ContextVar[Reporter] = ContextVar("reporter", default=_SILENT)


def reporter() -> Reporter:
    """Return the reporter in force here."""
    return _REPORTER.get()


@contextmanager
def reporting_to(listener: Reporter) -> Iterator[None]:
    """Send the progress of passes inside the block to `listener`."""
    token = _REPORTER.set(listener)
    try:
        yield
    finally:
        _REPORTER.reset(token)


class Summand(Protocol):
    """Anything that adds: the result of a pass over a part of the log."""

    def __add__(self, other: Self, /) -> Self: ...


State = TypeVar("State", bound=Summand)
Partial = Callable[[RankingLog], State]
Change = Callable[[RankingLog], RankingLog]


#: Samples of this many times the rows that are wanted are drawn before too few rows are too few.
_MORE = 8
#: Rows of the small batch from which names and kinds are read.
_FIRST_ROWS = 1000


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
#: Parts of a long log, for which chunks may be longer, up to four times: whatever passes over them
#: in blocks of its own then has less Python between.
_PARTS = 16

#: Least rows of a chunk of a log with a policy that ranks without replacement.
_COSTLY = 4_096


def chunk_rows(length: int, n: int = 0) -> int:
    """Return how many rankings of `length` positions, of n in all, go through a partial at a time.

    >>> chunk_rows(8), chunk_rows(8, 500_000), chunk_rows(8, 10_000_000)
    (16384, 31250, 65536)
    """
    usual = max(256, _NUMBERS // length)
    return min(max(usual, n // _PARTS), 4 * usual)


def summed(batches: Iterable[RankingLog], partial: Partial[State]) -> tuple[State | None, int]:
    """Return the sum of `partial` over batches, in cache-sized chunks, and the number of rankings."""
    total: State | None = None
    rows = 0
    for batch in batches:
        for chunk in batch.chunks(chunk_rows(batch.K, batch.n)):
            state = partial(chunk)
            total = state if total is None else total + state
        rows += batch.n
    return total, rows


#: Number of threads that share the cores with this one, which is one of them.
_SHARING: ContextVar[int] = ContextVar("sharing", default=1)


def default_threads() -> int:
    """Return how many threads to use: the cores this process may run on, less those that others use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max((cores or 1) // _SHARING.get(), 1)


class MemorySource:
    """A `RankingLog` as a source: chunks of fixed size, added in order whatever the number of threads."""

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
        size = chunk_rows(self.log.K, self.log.n)
        if isinstance(self.log.propensity, Policy) and not self.log.propensity.factored:
            # Rows of a policy cost a hundred times as much: a few thousand are work for two threads.
            size = min(size, max(_COSTLY, -(-self.log.n // 4)))
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

    def batches(self) -> Iterator[RankingLog]:
        """Yield all rankings in batches, in order."""
        return self.log.chunks(chunk_rows(self.log.K, self.log.n))

    def sample(self, rows: int, rng: np.random.Generator) -> RankingLog:
        """Return `rows` rankings without replacement, in their order."""
        if rows >= self.log.n:
            return self.log
        drawn = np.zeros(self.log.n, dtype=bool)
        drawn[rng.choice(self.log.n, size=rows, replace=False)] = True
        return self.log.take(np.flatnonzero(drawn))


def at_most(source: Source, rows: int, rng: np.random.Generator) -> Source:
    """Return the source, or a sample of `rows` rows where it is longer or of unknown length."""
    if source.n is not None and source.n <= rows:
        return source
    return MemorySource(source.sample(rows, rng))


def map_in_order(
    items: Iterable[Any], function: Callable[[Any], Any], *, threads: int
) -> Iterator[Any]:
    """Yield function(item) in order; one item more than there are threads is held at a time."""
    if threads <= 1:
        yield from map(function, items)
        return

    def shared(item: Any) -> Any:
        _SHARING.set(_SHARING.get() * threads)
        return function(item)

    with ThreadPoolExecutor(threads, thread_name_prefix="counterrank") as pool:
        waiting: deque[Future[Any]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(copy_context().run, shared, item))
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
    """A source each of whose batches is changed on the way, or one that others extend."""

    def __init__(self, source: Source, change: Change = lambda batch: batch) -> None:
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

    def batches(self) -> Iterator[RankingLog]:
        """Yield all rankings in batches, in order, changed."""
        batches = getattr(self.source, "batches", None)
        if batches is None:
            raise EngineError(
                "rankings are read one by one only by this process; use the engine 'local' for that"
            )
        return map(self.change, batches())

    def sample(self, rows: int, rng: np.random.Generator) -> RankingLog:
        """Return a sample, changed."""
        return self.change(self.source.sample(rows, rng))

    def close(self) -> None:
        """Stop what was started for the source."""
        close = getattr(self.source, "close", None)
        if close is not None:
            close()


@dataclass(frozen=True, slots=True)
class _Kept(Generic[State]):
    """The sum over the rows of a batch that are kept, if any, with how many there were and are kept."""

    state: State | None
    rows: int
    fitting: int

    def __add__(self, other: Self) -> Self:
        states = [state for state in (self.state, other.state) if state is not None]
        total = states[0] + states[1] if len(states) == 2 else next(iter(states), None)
        return type(self)(total, self.rows + other.rows, self.fitting + other.fitting)


class FilteredSource:
    """A source of which some rows count: those where `keep(batch)` (n,) is true.

    `refuse` makes the error for a log without any; `counted` is told the rows and the rows kept after
    each pass.
    """

    def __init__(
        self,
        source: Source,
        keep: Callable[[RankingLog], Bools],
        refuse: Callable[[], CounterrankError],
        counted: Callable[[int, int], None] | None = None,
        n: int | None = None,
    ) -> None:
        self.source, self.keep, self.refuse, self.counted = source, keep, refuse, counted
        #: Number of rankings, where it is known without a pass.
        self.n = n

    @cached_property
    def first(self) -> RankingLog:
        """Some of the rows: those at the start of a log are often not among them."""
        rows = _fitting(self.source.first, self.keep)
        return rows if rows.n else self.sample(_FIRST_ROWS, np.random.default_rng(0))

    def reduce(self, partial: Partial[State], *, label: str = "") -> State:
        """Return the sum over the rows that are kept."""
        keep = self.keep

        def kept_part(batch: RankingLog) -> _Kept[State]:
            rows = _fitting(batch, keep)
            return _Kept(partial(rows) if rows.n else None, batch.n, rows.n)

        total = self.source.reduce(kept_part, label=label)
        if self.counted is not None:
            self.counted(total.rows, total.fitting)
        if total.state is None:
            raise self.refuse()
        return total.state

    def sample(self, rows: int, rng: np.random.Generator) -> RankingLog:
        """Return at most `rows` rankings; fewer where they are few among the others."""
        drawn = _fitting(self.source.sample(rows, rng), self.keep)
        if drawn.n < rows:
            drawn = _fitting(self.source.sample(_MORE * rows, rng), self.keep)
        if not drawn.n:
            raise self.refuse()
        if drawn.n <= rows:
            return drawn
        return drawn.take(np.sort(rng.choice(drawn.n, rows, replace=False)))

    def batches(self) -> Iterator[RankingLog]:
        """Yield the rankings that are kept in batches, in order."""
        filtered = (_fitting(batch, self.keep) for batch in MappedSource(self.source).batches())
        return (batch for batch in filtered if batch.n)


def _fitting(batch: RankingLog, keep: Callable[[RankingLog], Bools]) -> RankingLog:
    rows = np.flatnonzero(keep(batch))
    return batch if len(rows) == batch.n else batch.take(rows)


def innermost(source: Source) -> Source:
    """Return the source that others change on the way or leave out rows of."""
    while isinstance(source, MappedSource | FilteredSource):
        source = source.source
    return source


class SampledOnce(MappedSource):
    """A source that remembers its samples, and draws those of a log elsewhere from one reading of it.

    The first sample of a log that is not in memory has at least `least` rows; smaller ones are drawn
    from it, so that they cost no pass of their own.
    """

    def __init__(self, source: Source, least: int = 0) -> None:
        super().__init__(source)
        self._drawn: dict[tuple[int, str], tuple[RankingLog, Any]] = {}
        self._nested = not isinstance(innermost(source), MemorySource)
        #: The rows asked for of the largest sample, and what was drawn.
        self._asked = least
        self._largest: RankingLog | None = None

    def sample(self, rows: int, rng: np.random.Generator) -> RankingLog:
        """Return a sample; the same one, without a pass, to a generator in the same state."""
        key = (rows, str(rng.bit_generator.state))
        if key not in self._drawn:
            draw = self._from_largest if self._nested else self.source.sample
            self._drawn[key] = draw(rows, rng), rng.bit_generator.state
        drawn, rng.bit_generator.state = self._drawn[key]
        return drawn

    def _from_largest(self, rows: int, rng: np.random.Generator) -> RankingLog:
        """Return rows of the largest sample, which is drawn here where it is not large enough."""
        if self._largest is None or rows > self._asked:
            self._asked = max(rows, self._asked)
            self._largest = self.source.sample(self._asked, rng)
        return MemorySource(self._largest).sample(rows, rng)

    def release(self) -> None:
        """Forget the samples: beside the batches of a pass they would only take memory."""
        self._drawn.clear()
        self._largest = None
