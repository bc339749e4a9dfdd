"""What a worker does with its part of a log: read, sum, and say plainly what went wrong."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import pyarrow as pa

from counterrank.errors import CounterrankError
from counterrank.log import RankingLog
from counterrank.readers import LogSpec, Survey, batch_rows, decode
from counterrank.source import summed
from counterrank.sources.files import FileSource

#: Rows of partition p are numbered from p * 2**32, whatever the order in which partitions are done.
ROWS_OF_A_PARTITION = 2**32


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one partition, or of several added: a state, the number of rankings, or the
    first problem.
    """

    state: Any = None
    rows: int = 0
    problem: str = ""

    def __add__(self, other: Self) -> Self:
        if self.problem or other.problem:
            return replace(self, state=None, problem=self.problem or other.problem)
        states = [state for state in (self.state, other.state) if state is not None]
        total = states[0] + states[1] if len(states) == 2 else states[0] if states else None
        return replace(self, state=total, rows=self.rows + other.rows)


class Work(Protocol):
    """Something to be done with every partition; it travels to the workers."""

    def __call__(self, index: int, tables: Iterator[pa.Table]) -> tuple[Any, int]:
        """Return the state of partition `index` and its number of rankings."""

    def name(self, index: int) -> str:
        """Return what a message calls a partition."""


def outcome_of(work: Work, index: int, tables: Iterator[pa.Table]) -> Outcome:
    """Return what came of a partition; a failure is a result too, since trying bad data again does
    not mend it.
    """
    try:
        state, rows = work(index, tables)
        return Outcome(state, rows)
    except CounterrankError as problem:
        return Outcome(problem=f"{work.name(index)}: {problem}")
    except Exception as problem:
        return Outcome(problem=f"{work.name(index)}: {one_line(problem)}")


def one_line(problem: BaseException) -> str:
    """Return the kind of an exception and the first line of its message.

    >>> one_line(KeyError("new"))
    "KeyError: 'new'"
    """
    lines = str(problem).strip().splitlines()
    return f"{type(problem).__name__}: {lines[0][:300]}" if lines else type(problem).__name__


@dataclass(frozen=True, slots=True)
class FramePass:
    """Sum `partial` over the rankings in the tables of a partition of a frame."""

    spec: LogSpec
    partial: Callable[[RankingLog], Any]

    def __call__(self, index: int, tables: Iterator[pa.Table]) -> tuple[Any, int]:
        """Return the sum over the partition."""
        return summed(self.batches(index, tables), self.partial)

    def name(self, index: int) -> str:
        """Return "partition 3"."""
        return f"partition {index}"

    def batches(self, index: int, tables: Iterator[pa.Table]) -> Iterator[RankingLog]:
        """Yield the rankings; messages count rows inside the partition, buckets and samples over
        all of them.
        """
        size, row = batch_rows(self.spec), 0
        for table in tables:
            for first in range(0, table.num_rows, size):
                piece = table.slice(first, size)
                start = index * ROWS_OF_A_PARTITION + row
                log = decode(
                    piece, self.spec, start=row, bucket=_row_buckets(start, piece.num_rows)
                )
                object.__setattr__(log, "start", start)
                row += piece.num_rows
                yield log


@dataclass(frozen=True, slots=True)
class FilePass:
    """Sum `partial` over part `index` of a log in files, which the worker reads itself."""

    files: FileSource
    partial: Callable[[RankingLog], Any]

    def __call__(self, index: int, tables: Iterator[pa.Table]) -> tuple[Any, int]:
        """Return the sum over the part."""
        return summed(self.files.read_part(self.files.parts[index]), self.partial)

    def name(self, index: int) -> str:
        """Return the part and the file and row groups it is made of."""
        part = self.files.parts[index]
        groups = f", row groups {part.groups[0]} to {part.groups[-1]}" if part.groups else ""
        return f"partition {index} ({part.file.path}{groups})"


@dataclass(frozen=True, slots=True)
class Surveyed:
    """A survey that adds."""

    survey: Survey

    def __add__(self, other: Self) -> Self:
        mine, yours = self.survey, other.survey
        keys = mine.labels.keys() | yours.labels.keys()
        labels = {key: mine.labels.get(key, set()) | yours.labels.get(key, set()) for key in keys}
        return type(self)(
            replace(
                mine,
                longest=max(mine.longest, yours.longest),
                lowest=min(mine.lowest, yours.lowest),
                labels=labels,
                has_names=mine.has_names or yours.has_names,
                largest=max(mine.largest, yours.largest),
            )
        )


@dataclass(frozen=True, slots=True)
class SurveyPass:
    """Look at the columns that only all rows can tell about: lengths of rankings, names."""

    spec: LogSpec
    encode_actions: bool = False

    def __call__(self, index: int, tables: Iterator[pa.Table]) -> tuple[Surveyed | None, int]:
        """Return what the partition tells."""
        survey, rows = Survey(self.spec, self.encode_actions), 0
        for table in tables:
            if table.num_rows:
                survey.absorb(table)
                rows += table.num_rows
        return (Surveyed(survey) if rows else None), rows

    def name(self, index: int) -> str:
        """Return "partition 3"."""
        return f"partition {index}"


def _row_buckets(start: int, n: int) -> Any:
    import numpy as np

    from counterrank.kernels import hashing

    result = np.empty(n, dtype=np.int64)
    hashing.row_buckets(start, result)
    return result
