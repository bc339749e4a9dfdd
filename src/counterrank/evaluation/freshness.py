"""Was a target trained on the very rows that judge it? What the user declares, and the later rows alone.

A ranker that was fitted to a log has learned its noise too. On the same rows that noise looks like a
lift: item click rates of pure noise as scores are judged better by about a tenth, with a short
interval. Nothing in the log shows it, so the evaluation asks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Generic, Self

import numpy as np
from numpy.typing import NDArray

from counterrank.data.columns import column_of, epoch_unit
from counterrank.data.log import RankingLog
from counterrank.data.source import MemorySource, Partial, Source, State
from counterrank.errors import ConfigError, LogError
from counterrank.messages import say

#: Samples of this many times the rows that are wanted are drawn before too few later rows are too few.
_MORE = 8
#: Rows of the small batch from which names and kinds are read.
_FIRST_ROWS = 1000


@dataclass(frozen=True, slots=True)
class Later:
    """Keeps the rows whose time is after a date, or after the end of a day."""

    column: str
    until: str

    @classmethod
    def of(cls, until: "str | date | float", column: str | None) -> Self:
        """Return the filter of what a user gave: a text, a date, a time, or the number of a day."""
        if column is None:
            raise ConfigError(
                f"{say('--target-trained-until', python='target_trained_until')} compares rows with a "
                f"date: name the column of their time with {say('--time', 'COLUMN')}"
            )
        text = until.isoformat() if isinstance(until, date) else str(until).strip()
        if _number(text) is None and _moment(text) is None:
            raise ConfigError(
                f"'{text}' is no date; target_trained_until is one like 2026-01-31 or "
                "2026-01-31T12:00, or a number where the time column holds numbers of days"
            )
        return cls(column, text)

    def __call__(self, batch: RankingLog) -> NDArray[np.bool_]:
        """Return which rows (n,) are later; one without a time is not."""
        values = column_of(batch, self.column)
        if values.dtype.kind in "iuf":
            numbers = values.astype(np.float64)
            unit = epoch_unit(numbers)
            if unit is None:
                return np.asarray(numbers > self._plain_number(values))
            whole = np.where(np.isnan(numbers), 0.0, numbers).astype(np.int64)
            times = whole.astype(f"datetime64[{unit}]").astype("datetime64[us]")
            times[np.isnan(numbers)] = np.datetime64("NaT")
        elif values.dtype.kind == "M":
            times = values.astype("datetime64[us]")
        else:
            times = _parsed(values, self.column)
        moment = _moment(self.until)
        if moment is None:
            raise ConfigError(
                f"the target was trained until '{self.until}', a number, but column "
                f"'{self.column}' holds dates; give a date like 2026-01-31"
            )
        end, whole_day = moment
        return np.asarray(times >= end + np.timedelta64(1, "D") if whole_day else times > end)

    def _plain_number(self, values: NDArray[Any]) -> float:
        number = _number(self.until)
        if number is None:
            raise ConfigError(
                f"the target was trained until '{self.until}', but column '{self.column}' holds "
                f"plain numbers like {values[0]}; give such a number"
            )
        return number


def _number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if np.isfinite(found) else None


def _moment(text: str) -> tuple[np.datetime64, bool] | None:
    """Return the time of a text in UTC, and whether it is a whole day; None where it is no time."""
    try:
        return np.datetime64(date.fromisoformat(text), "us"), True
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
        utc = moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
        return np.datetime64(utc, "us"), False
    except ValueError:
        return None


def _parsed(values: NDArray[Any], column: str) -> NDArray[np.datetime64]:
    """Return the times of texts; one that is empty is missing."""
    texts, back = np.unique(values.astype(str), return_inverse=True)
    found = np.full(len(texts), np.datetime64("NaT"), dtype="datetime64[us]")
    for index, text in enumerate(texts.tolist()):
        if text in ("", "None", "nan", "NaT"):
            continue
        moment = _moment(text)
        if moment is None:
            row = int(np.flatnonzero(np.asarray(back).reshape(-1) == index)[0])
            raise LogError(
                f"column '{column}' holds '{text}' (row {row}), which is no date like 2026-01-31"
            )
        found[index] = moment[0]
    return found[np.asarray(back).reshape(-1)]


def later_rows(source: Source, later: Later) -> Source:
    """Return the source of the later rows alone."""
    column_of(source.first, later.column)
    if isinstance(source, MemorySource):
        keep = later(source.log)
        if not keep.any():
            raise _none(later)
        return MemorySource(source.log.where(keep), threads=source.threads)
    return LaterSource(source, later)


def _none(later: Later) -> ConfigError:
    return ConfigError(
        f"no row is later than {later.until} by column '{later.column}': the target was trained on "
        "all of this log; evaluate it on rows that came after"
    )


@dataclass(frozen=True, slots=True)
class _Perhaps(Generic[State]):
    """The sum of a batch, or nothing where no row of it counts."""

    state: State | None

    def __add__(self, other: Self) -> Self:
        if self.state is None or other.state is None:
            return other if self.state is None else self
        return type(self)(self.state + other.state)


class LaterSource:
    """A source of which only the later rows count; how many there are is not known without a pass."""

    n = None

    def __init__(self, source: Source, later: Later) -> None:
        self.source = source
        self.later = later
        self._first: RankingLog | None = None

    @property
    def first(self) -> RankingLog:
        """Some of the later rows: those at the start of a log are often not among them."""
        if self._first is None:
            own = self._kept(self.source.first)
            self._first = own if own.n else self.sample(_FIRST_ROWS, np.random.default_rng(0))
        return self._first

    def reduce(self, partial: Partial[State], *, label: str = "") -> State:
        """Return the sum over later rows."""
        total = self.source.reduce(_only(self.later, partial), label=label)
        if total.state is None:
            raise _none(self.later)
        return total.state

    def sample(self, rows: int, rng: np.random.Generator) -> RankingLog:
        """Return at most `rows` later rankings; fewer where they are few among the others."""
        kept = self._kept(self.source.sample(rows, rng))
        if kept.n < rows:
            kept = self._kept(self.source.sample(_MORE * rows, rng))
        if not kept.n:
            raise _none(self.later)
        if kept.n <= rows:
            return kept
        return kept.take(np.sort(rng.choice(kept.n, rows, replace=False)))

    def _kept(self, batch: RankingLog) -> RankingLog:
        return batch.take(np.flatnonzero(self.later(batch)))


def _only(later: Later, partial: Partial[State]) -> Callable[[RankingLog], _Perhaps[State]]:
    def kept(batch: RankingLog) -> _Perhaps[State]:
        rows = np.flatnonzero(later(batch))
        if not len(rows):
            return _Perhaps(None)
        return _Perhaps(partial(batch if len(rows) == batch.n else batch.take(rows)))

    return kept
