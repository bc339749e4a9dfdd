"""A log on a cluster: the same passes, sent to where the rows are."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from counterrank.errors import EngineError, LogError
from counterrank.log import RankingLog
from counterrank.progress import reporter
from counterrank.readers import FileSource, LogSpec, ReadOptions, Survey, decode, resolve
from counterrank.source import Partial, State
from counterrank.sources.sampling import Sampler, share_for
from counterrank.sources.work import FilePass, FramePass, Outcome, SurveyPass, Work


class Runner(Protocol):
    """An engine: does a piece of work on every partition."""

    def run(self, work: Work, columns: Sequence[str]) -> Iterator[Outcome]:
        """Yield what came of the partitions, in their order; neighbours may come added."""


class FrameRunner(Runner, Protocol):
    """An engine that holds the rows of a frame."""

    def head(self, rows: int) -> pa.Table:
        """Return the first rows, all columns."""


class OnWorker:
    """What is left of a source on a worker: its start. A pass cannot begin another."""

    def __init__(self, first: RankingLog, n: int | None) -> None:
        self.first = first
        self.n = n

    def reduce(self, partial: Partial[State], *, label: str = "") -> State:
        """Refuse."""
        raise EngineError("a pass over the log was begun inside another pass, on a worker")

    def sample(self, rows: int, rng: np.random.Generator) -> RankingLog:
        """Refuse."""
        raise EngineError("a sample was drawn inside a pass, on a worker")


class _ClusterSource:
    """What frames and files on a cluster have in common."""

    runner: Runner
    _n: int | None
    closing: AbstractContextManager[Any]

    @property
    def first(self) -> RankingLog:
        """The first rankings."""
        raise NotImplementedError

    @property
    def n(self) -> int | None:
        """Number of rankings, where it is known already."""
        return self._n

    def reduce(self, partial: Partial[State], *, label: str = "") -> State:
        """Return the sum of `partial` over all partitions, added in their order."""
        outcome = self._total(self._pass(partial), label)
        if outcome.state is None:
            raise LogError("the log is empty: no partition holds a ranking")
        self._n = outcome.rows
        state: State = outcome.state
        return state

    def sample(self, rows: int, rng: np.random.Generator) -> RankingLog:
        """Return at most `rows` rankings, drawn uniformly, in the order of the log."""
        if self._n is None:
            self.reduce(_count, label="counting")
        assert self._n is not None
        sampler = Sampler(int(rng.integers(2**63)), share_for(rows, self._n))
        return self.reduce(sampler, label="sampling").at_most(rows)

    def close(self) -> None:
        """Stop the cluster, if it was started for this source."""
        self.closing.__exit__(None, None, None)

    def _pass(self, partial: Partial[State]) -> Work:
        raise NotImplementedError

    def _columns(self) -> Sequence[str]:
        return ()

    def _total(self, work: Work, label: str, columns: Sequence[str] | None = None) -> Outcome:
        report = reporter()
        report.begin(label, self._n)
        total = Outcome()
        for outcome in self.runner.run(work, self._columns() if columns is None else columns):
            if outcome.problem:
                raise EngineError(outcome.problem)
            total = total + outcome
            report.advance(outcome.rows)
        return total

    def __reduce__(self) -> tuple[Any, ...]:
        # Plans refer to their source; neither the data nor the connection travels with them.
        return OnWorker, (self.first.take(slice(0, 64)), self._n)


class FilesOnCluster(_ClusterSource):
    """Files that every worker can reach: each reads the parts it is given."""

    def __init__(
        self, files: FileSource, runner: Runner, *, closing: AbstractContextManager[Any] | None = None
    ) -> None:
        self.files, self.runner, self._n = files, runner, files.n
        self.closing = closing or nullcontext()

    @property
    def first(self) -> RankingLog:
        """The first rankings, read here."""
        return self.files.first

    def _pass(self, partial: Partial[State]) -> Work:
        return FilePass(self.files, partial)


class FrameOnCluster(_ClusterSource):
    """A distributed frame: its schema is looked at here, its rows only where they are."""

    def __init__(
        self, runner: FrameRunner, options: ReadOptions, *, closing: AbstractContextManager[Any] | None = None
    ) -> None:
        self.runner: FrameRunner = runner
        self._n = None
        self.closing = closing or nullcontext()
        self.head = runner.head(1000)
        if self.head.num_rows == 0:
            raise LogError("the log is empty: the frame has columns but no rows")
        self.spec = self._spec(options)

    @cached_property
    def first(self) -> RankingLog:
        """The first rankings."""
        return decode(self.head, self.spec)

    def _pass(self, partial: Partial[State]) -> Work:
        return FramePass(self.spec, partial)

    def _columns(self) -> Sequence[str]:
        return self.spec.columns

    def _spec(self, options: ReadOptions) -> LogSpec:
        survey = Survey(resolve(self.head, options, in_memory=False), options.encode_actions)
        if survey.spec.layout == "long":
            raise LogError(
                "this frame has one row a position, and a ranking may lie in two partitions; "
                "collect positions into lists first (one row a ranking)"
            )
        survey.absorb(self.head)
        numbered = survey.spec.fields["action"].form in ("wide", "scalar")
        if not (numbered and not survey.labels and not options.encode_actions):
            work = SurveyPass(survey.spec, options.encode_actions)
            outcome = self._total(work, "looking", survey.columns)
            self._n = outcome.rows
            survey = outcome.state.survey
        return survey.finish(self.head)


def filtered_names(where: Mapping[str, Any] | None) -> dict[str, list[Any]]:
    """Return the allowed values of each column of a segment as lists."""
    many = (list, tuple, set, frozenset)
    return {name: list(value) if isinstance(value, many) else [value] for name, value in (where or {}).items()}


class _Count:
    """Nothing but the number of rows, which every pass brings along."""

    def __add__(self, other: "_Count") -> "_Count":
        return self


def _count(batch: RankingLog) -> _Count:
    return _Count()


__all__ = ["FilesOnCluster", "FrameOnCluster", "FrameRunner", "OnWorker", "Runner", "filtered_names"]
