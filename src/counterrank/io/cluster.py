"""A log on a cluster: the same passes, sent to where the rows are, and what a worker does with them."""

import importlib
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any, Self

import numpy as np
import pyarrow as pa

from counterrank.common.arrays import Floats
from counterrank.common.errors import ConfigError, CounterrankError, EngineError, LogError
from counterrank.common.texts import first_line
from counterrank.data.log import RankingLog, concat
from counterrank.data.source import Partial, State, reporter, summed
from counterrank.io.arrow_log import decode
from counterrank.io.file_source import FileSource
from counterrank.io.options import ReadOptions
from counterrank.io.schema import LogSpec, resolve
from counterrank.io.survey import Survey, batch_rows, no_match, sample_rows
from counterrank.kernels import hashing

#: Rows of partition p are numbered from p * 2**32, whatever the order in which partitions are done.
ROWS_OF_A_PARTITION = 2**32


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """What came of one partition, or of several added: a state, the number of rankings, or the first problem."""

    state: Any = None
    rows: int = 0
    problem: str = ""

    def __add__(self, other: Self) -> Self:
        if self.problem or other.problem:
            return replace(self, state=None, problem=self.problem or other.problem)
        # A partition without rows has no state: none that is right for every kind could be made up.
        states = [state for state in (self.state, other.state) if state is not None]
        total = states[0] + states[1] if len(states) == 2 else states[0] if states else None
        return replace(self, state=total, rows=self.rows + other.rows)


#: Something to be done with every partition, given its number and tables; it travels to the workers.
Work = Callable[[int, Iterator[pa.Table]], TaskOutcome]
#: An engine: does a piece of work on these columns of every partition and yields what came of them,
#: in their order; neighbours may come added.
Runner = Callable[[Work, Sequence[str]], Generator[TaskOutcome]]


def added(outcomes: Iterable[TaskOutcome]) -> TaskOutcome:
    """Return the sum of outcomes, in their order."""
    return sum(outcomes, start=TaskOutcome())


def outcome_of(
    run: Callable[[int, Iterator[pa.Table]], tuple[Any, int]],
    index: int,
    tables: Iterator[pa.Table],
    *,
    files: FileSource | None = None,
) -> TaskOutcome:
    """Return what came of a partition: its state and its number of rankings.

    A failure is a result too, since trying bad data again does not mend it.
    """
    try:
        return TaskOutcome(*run(index, tables))
    except Exception as problem:
        name, ours = f"partition {index}", isinstance(problem, CounterrankError)
        if files is not None:
            file_part = files.parts[index]
            name += f" ({file_part.file.title}, row groups {file_part.groups[0]} to {file_part.groups[-1]})"
        return TaskOutcome(problem=f"{name}: {problem if ours else one_line(problem)}")


def packed(content: Any, pickler: str) -> bytes:
    """Return what travels to a worker; `pickler` is the module of the engine that packs functions too."""
    dumps: Callable[[Any], bytes] = importlib.import_module(pickler).dumps
    return dumps(content)


# Once a worker, not once per partition: a pass may carry whole models along.
@lru_cache(maxsize=4)
def unpacked(payload: bytes, pickler: str) -> Any:
    """Return what was packed."""
    return importlib.import_module(pickler).loads(payload)


def one_line(problem: BaseException) -> str:
    """Return the kind of an exception and the first line of its message.

    >>> one_line(KeyError("new")), one_line(KeyError())
    ("KeyError: 'new'", 'KeyError')
    """
    kind, message = type(problem).__name__, first_line(problem)
    return kind if message == kind else f"{kind}: {message}"


def frame_batches(spec: LogSpec, index: int, tables: Iterator[pa.Table]) -> Iterator[RankingLog]:
    """Yield the rankings of a partition of a frame.

    Messages count rows inside the partition, buckets and samples over all of them.
    """
    size, row, before = batch_rows(spec), 0, index * ROWS_OF_A_PARTITION
    for table in tables:
        for first in range(0, table.num_rows, size):
            piece = table.slice(first, size)
            log = decode(piece, spec, start=before + row, before=before)
            row += piece.num_rows
            if log is not None:
                yield log


def _sum_of_frame(
    spec: LogSpec, partial: Partial[Any], index: int, tables: Iterator[pa.Table]
) -> tuple[Any, int]:
    return summed(frame_batches(spec, index, tables), partial)


def _sum_of_part(
    files: FileSource, partial: Partial[Any], index: int, tables: Iterator[pa.Table]
) -> tuple[Any, int]:
    """Return the sum over a part of files, which the worker reads itself."""
    file_part = files.parts[index]
    if file_part.file.shown and not os.path.exists(file_part.file.path):
        raise LogError(
            f"this worker does not reach the temporary Parquet file made of {file_part.file.shown}",
            remedy="set TMPDIR to a folder that all workers reach, or write the log as Parquet with "
            "one row per ranking",
        )
    return summed(files.read_part(file_part), partial)


def survey_of(survey: Survey, index: int, tables: Iterator[pa.Table]) -> tuple[Survey | None, int]:
    """Return what a partition adds to an empty survey: lengths of rankings, names."""
    total, rows = replace(survey, labels={}, numbers=set()), 0
    for table in tables:
        if table.num_rows:
            total.absorb(table)
            rows += table.num_rows
    return (total if rows else None), rows


@dataclass(slots=True)
class ClusterSource:
    """A log on a cluster: a frame, whose schema is looked at here, or files that every worker can reach."""

    runner: Runner
    spec: LogSpec
    #: Returns the first rankings.
    start: Callable[[], RankingLog]
    #: Makes the work of a pass out of what is summed.
    work: Callable[[Partial[Any]], Work]
    #: Number of rankings, where it is known already.
    n: int | None
    columns: tuple[str, ...] = ()
    #: Stops what was started for the source.
    closing: AbstractContextManager[Any] = nullcontext()
    _first: RankingLog | None = None

    @property
    def first(self) -> RankingLog:
        """The first rankings."""
        if self._first is None:
            self._first = self.start()
        return self._first

    def reduce(self, partial: Partial[State], *, label: str = "") -> State:
        """Return the sum of `partial` over all partitions, added in their order."""
        outcome = _total(self.runner(self.work(partial), self.columns), label, self.n)
        if outcome.state is None:
            raise LogError("the log is empty: no partition holds a ranking")
        # Every pass counts; the next has a bar with an end, and samples need no pass of their own.
        self.n = outcome.rows
        state: State = outcome.state
        return state

    def sample(self, rows: int, rng: np.random.Generator) -> RankingLog:
        """Return at most `rows` rankings, drawn uniformly, in the order of the log."""
        rows = sample_rows(self.spec, rows)
        n = self.reduce(attrgetter("n"), label="counting") if self.n is None else self.n
        # Each row decides by itself (a hash of its number), so partitions need not talk to each
        # other; the few that are too many are cut here.
        draw = partial(_drawn, int(rng.integers(2**63)), share_for(rows, n))
        return self.reduce(draw, label="sampling").at_most(rows)

    def close(self) -> None:
        """Stop the cluster, if it was started for this source."""
        self.closing.__exit__(None, None, None)

    def __reduce__(self) -> tuple[Any, ...]:
        # Plans refer to their source; neither the data nor the connection travels with them.
        return _on_worker, (self.first.take(slice(0, 64)), self.spec, self.n)


def _on_worker(first: RankingLog, spec: LogSpec, n: int | None) -> ClusterSource:
    """Return what is left of a source on a worker: its start. A pass cannot begin another."""

    def refuse(*arguments: Any) -> Any:
        raise EngineError("a pass over the log was begun inside another pass, on a worker")

    return ClusterSource(refuse, spec, lambda: first, refuse, n)


def _total(outcomes: Generator[TaskOutcome], label: str, n: int | None) -> TaskOutcome:
    report = reporter()
    report.begin(label, n)
    total = TaskOutcome()
    # Closed here after a failure: the garbage collector may do it where the cluster cannot be asked.
    with closing(outcomes):
        for outcome in outcomes:
            if outcome.problem:
                raise EngineError(outcome.problem)
            total = total + outcome
            report.advance(outcome.rows)
    return total


def files_on_cluster(
    files: FileSource, runner: Runner, closing: AbstractContextManager[Any]
) -> ClusterSource:
    """Return files of which each worker reads the parts it is given."""

    def work(counts: Partial[Any]) -> Work:
        return partial(outcome_of, partial(_sum_of_part, files, counts), files=files)

    return ClusterSource(runner, files.spec, lambda: files.first, work, files.n, closing=closing)


def frame_on_cluster(runner: Runner, head: pa.Table, options: ReadOptions) -> ClusterSource:
    """Return the log in a distributed frame, of which `head` are the first rows."""
    if options.events is not None or options.scores:
        raise ConfigError(
            f"{'scores' if options.scores else 'events'} are joined to logs in files or in memory; "
            "write this frame to Parquet first"
        )
    if head.num_rows == 0:
        raise LogError("the log is empty: the frame has columns but no rows")
    survey, n = Survey.begin(resolve(head, options, in_memory=False), options, head), None
    if survey.spec.layout == "long":
        raise LogError(
            "this frame has one row per position, and a ranking may lie in two partitions; "
            "collect positions into lists first (one row per ranking)"
        )
    survey.absorb(head)
    # Numbered columns of plain ids are told by the schema; lengths of lists, names and candidates
    # only by all rows.
    if (
        survey.spec.fields["action"].has_lists
        or survey.labels
        or survey.encode_actions
        or survey.spec.candidates
    ):
        empty = Survey(survey.spec, survey.encode_actions)
        work = partial(outcome_of, partial(survey_of, empty))
        outcome = _total(runner(work, survey.columns), "looking", None)
        n, survey = outcome.rows, outcome.state
    spec = survey.finish(head)

    def first() -> RankingLog:
        log = decode(head, spec)
        if log is None:
            raise no_match(None)
        return log

    def work_of(counts: Partial[Any]) -> Work:
        return partial(outcome_of, partial(_sum_of_frame, spec, counts))

    return ClusterSource(runner, spec, first, work_of, n, spec.columns)


@dataclass(frozen=True, slots=True)
class Sampled:
    """Rankings that were drawn, and their keys (n,): uniform numbers that decide who stays."""

    logs: tuple[RankingLog, ...]
    keys: Floats

    def __add__(self, other: Self) -> Self:
        return type(self)((*self.logs, *other.logs), np.concatenate([self.keys, other.keys]))

    def at_most(self, rows: int) -> RankingLog:
        """Return the rankings with the `rows` smallest keys, in the order of the log."""
        log = concat(self.logs)
        if log.n <= rows:
            return log
        # The smallest keys, not the first rows: those would favour the first partitions.
        return log.take(np.sort(np.argpartition(self.keys, rows - 1)[:rows]))


def _drawn(seed: int, share: float, batch: RankingLog) -> Sampled:
    """Keep each ranking with probability `share`, decided by the seed and the ranking's number alone."""
    keys = uniforms(seed, batch.start, batch.n)
    rows = np.flatnonzero(keys < share)
    return Sampled((batch.take(rows),) if len(rows) else (), keys[rows])


def share_for(rows: int, n: int) -> float:
    """Return the probability with which at least `rows` of n are kept, but for one time in a billion.

    >>> round(share_for(100, 10_000), 4), share_for(100, 50)
    (0.018, 1.0)
    """
    # Seven standard deviations above the mean of a binomial count, and a few for tiny samples.
    return min(1.0, (rows + 7 * rows**0.5 + 10) / n) if n > rows else 1.0


def uniforms(seed: int, start: int, n: int) -> Floats:
    """Return numbers in [0, 1) for rows start, start+1, ... (n,), by SplitMix64.

    >>> np.array_equal(uniforms(7, 2, 3), uniforms(7, 0, 5)[2:])
    True
    """
    # Seeds are moved far apart: with start + seed, seed 8 would be seed 7 from the next row on.
    z = np.arange(n, dtype=np.uint64) + np.uint64((start + seed * 0xD1342543DE82EF95) % 2**64)
    bits = np.asarray(hashing.mixed(z)) >> np.uint64(11)
    return bits.astype(np.float64) / 2.0**53
