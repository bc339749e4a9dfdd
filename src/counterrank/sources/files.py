"""scan_log: a log in files, passed over in batches; memory does not grow with the number of
rankings.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self, Unpack

import numpy as np

from counterrank.errors import ConfigError, LogError
from counterrank.log import RankingLog
from counterrank.progress import reporter
from counterrank.readers import (
    ADAPTERS,
    LogSpec,
    Options,
    Part,
    ReadOptions,
    Where,
    batch_rows,
    concat,
    plan,
    pruned,
    read_part,
    rows_each,
    sample_rows,
)
from counterrank.source import Partial, State, map_in_order, summed

#: At most this many parts are opened for a sample.
_SAMPLED_PARTS = 64


def scan_log(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    where: Mapping[str, Any] | None = None,
    workers: int = 2,
    **options: Unpack[Options],
) -> "FileSource":
    """Return the log in a file, folder or pattern as a source of batches; nothing but its start is
    read yet.

    `where` keeps one segment, {"device": "mobile"} or {"day": [1, 2]}. Names of actions and of
    categories, and the length of ragged rankings, need one pass over those columns. Options as in
    `ReadOptions`; columns that are neither roles nor context are read only when named as
    `segments`, target policies only when named.
    """
    return scan(path, ReadOptions.of(**options), format=format, where=where, workers=workers)


def scan(
    path: str | os.PathLike[str],
    options: ReadOptions,
    *,
    format: str | None = None,
    where: Mapping[str, Any] | None = None,
    workers: int = 2,
) -> "FileSource":
    """Return the source at `path`; the form of `scan_log` for ready-made options."""
    if format in ADAPTERS:
        raise ConfigError(
            f"the format '{format}' is read whole, not as a stream; convert it to Parquet to "
            "stream it"
        )
    if where:
        named = (*(options.segments or ()), *where)
        options = replace(options, segments=tuple(dict.fromkeys(named)))
    found = plan(path, options, format=format)
    parts = pruned(found.parts, where) if where else found.parts
    return FileSource(found.spec, parts, None if where else found.n, where, workers)


@dataclass(frozen=True, slots=True, eq=False)
class FileSource:
    """A log in files: a `counterrank.source.Source`. `parts` are what an engine hands to its
    workers.
    """

    spec: LogSpec
    parts: tuple[Part, ...]
    n: int | None
    where: Where | None = None
    workers: int = 2
    #: The first rankings, once they were read.
    _first: list[RankingLog] = field(default_factory=list, init=False, repr=False)

    @property
    def first(self) -> RankingLog:
        """The first rankings, a few thousand at most."""
        if not self._first:
            self._first.append(self._read_first())
        return self._first[0]

    def read_part(self, part: Part, *, rows: int | None = None) -> Iterator[RankingLog]:
        """Yield the rankings of one part in batches."""
        return read_part(part, self.spec, where=self.where, rows=rows)

    def batches(self, *, rows: int | None = None) -> Iterator[RankingLog]:
        """Yield all rankings in batches, in order."""
        for part in self.parts:
            yield from self.read_part(part, rows=rows)

    def with_position_weights(self, weights: str | tuple[float, ...]) -> Self:
        """Return the same source with other position weights."""
        return replace(self, spec=self.spec.with_position_weights(weights))

    def reduce(self, partial: Partial[State], *, label: str = "") -> State:
        """Return the sum of `partial(batch)` over all batches, added in the order of the rows."""
        steps: Iterator[Callable[[], tuple[State | None, int]]]
        # Many parts: workers read and sum their own. One part: this thread reads, workers sum.
        if len(self.parts) > 1:
            steps = (_Step(partial, self, part) for part in self.parts)
        else:
            steps = (_Single(partial, batch) for batch in self.batches())
        total: State | None = None
        report = reporter()
        report.begin(label, self.n)
        for state, rows in map_in_order(steps, _called, threads=self.workers):
            if state is not None:
                total = state if total is None else total + state
            report.advance(rows)
        if total is None:
            raise LogError(f"no ranking matches {dict(self.where or {})}")
        return total

    def sample(self, rows: int, rng: np.random.Generator) -> RankingLog:
        """Return at most `rows` rankings drawn without replacement, in the order of the log.

        Uniform over all rankings; of a Parquet log with more than 64 parts, uniform over 64
        randomly drawn ones. Fewer than asked for where a ranking has tens of thousands of numbers.
        """
        parts, rows = self.parts, sample_rows(self.spec, rows)
        # Opening every file of a large folder for a sample would be a pass over the log.
        if len(parts) > _SAMPLED_PARTS:
            chosen = np.sort(rng.choice(len(parts), _SAMPLED_PARTS, replace=False))
            parts = tuple(parts[i] for i in chosen)
        kept: list[RankingLog] = []
        keys = np.empty(0)
        for part in parts:
            for log in self.read_part(part):
                kept, keys = _smallest(kept, keys, log, rng.random(log.n), rows)
        return concat(kept)

    def _read_first(self) -> RankingLog:
        rows = min(4096 * rows_each(self.spec), batch_rows(self.spec))
        for part in self.parts:
            for log in read_part(part, self.spec, where=self.where, rows=rows):
                return log
        raise LogError(f"no ranking matches {dict(self.where or {})}")


def _called(step: Callable[[], Any]) -> Any:
    return step()


@dataclass(frozen=True, slots=True)
class _Step:
    """One part, read and summed by a worker."""

    partial: Callable[[RankingLog], Any]
    source: FileSource
    part: Part

    def __call__(self) -> tuple[Any, int]:
        return summed(self.source.read_part(self.part), self.partial)


@dataclass(frozen=True, slots=True)
class _Single:
    """One batch, read by the main thread and summed by a worker."""

    partial: Callable[[RankingLog], Any]
    log: RankingLog

    def __call__(self) -> tuple[Any, int]:
        return summed([self.log], self.partial)


def _smallest(
    kept: list[RankingLog], keys: Any, log: RankingLog, fresh: Any, rows: int
) -> tuple[list[RankingLog], Any]:
    """Keep the rows with the `rows` smallest keys seen so far."""
    # Reservoir by keys: the rows with the smallest uniform numbers are a uniform sample, whatever
    # the batches, and most batches of a long log add nothing.
    bound = np.inf if len(keys) < rows else keys.max()
    good = np.flatnonzero(fresh < bound)
    if not len(good):
        return kept, keys
    pool = concat([*kept, log.take(good)])
    every = np.concatenate([keys, fresh[good]])
    if len(every) > rows:
        best = np.sort(np.argpartition(every, rows - 1)[:rows])
        return [pool.take(best)], every[best]
    return [pool], every
