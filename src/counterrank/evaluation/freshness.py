"""Was a target trained on the very rows that judge it? What the user declares, and the later rows alone.

A ranker that was fitted to a log has learned its noise too. On the same rows that noise looks like a
lift: item click rates of pure noise as scores are judged better by about a tenth, with a short
interval. Nothing in the log shows it, so the evaluation asks.
"""

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from counterrank.common.arrays import Bools
from counterrank.common.errors import ConfigError, LogError
from counterrank.common.messages import say
from counterrank.data.columns import column_of, epoch_unit
from counterrank.data.log import RankingLog
from counterrank.data.source import FilteredSource, MemorySource, Source


@dataclass(frozen=True, slots=True)
class Later:
    """Keeps the rows whose time is after a date, or after the end of a day."""

    column: str
    until: str

    @classmethod
    def parse(cls, until: "str | date | float", column: str | None) -> Self:
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

    def __call__(self, batch: RankingLog) -> Bools:
        """Return which rows (n,) are later; one without a time is not."""
        values = column_of(batch, self.column)
        number, moment = _number(self.until), _moment(self.until)
        times = _times(values) if values.dtype.kind in "iufM" else _parsed(values, self.column)
        if times is None:
            if number is None:
                raise ConfigError(
                    f"the target was trained until '{self.until}', but column '{self.column}' "
                    f"holds plain numbers like {values[0]}; give such a number"
                )
            return np.asarray(values > number)
        if moment is None:
            raise ConfigError(
                f"the target was trained until '{self.until}', a number, but column "
                f"'{self.column}' holds dates; give a date like 2026-01-31"
            )
        end, whole_day = moment
        times = times.astype("datetime64[us]")
        return np.asarray(times >= end + np.timedelta64(1, "D") if whole_day else times > end)


def _number(text: str) -> float | None:
    with suppress(ValueError):
        return number if np.isfinite(number := float(text)) else None
    return None


def _moment(text: str) -> tuple[np.datetime64, bool] | None:
    """Return the time of a text in UTC, and whether it is a whole day; None where it is no time."""
    with suppress(ValueError):
        return np.datetime64(date.fromisoformat(text), "us"), True
    with suppress(ValueError):
        moment = datetime.fromisoformat(text)
        utc = moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
        return np.datetime64(utc, "us"), False
    return None


def _times(values: NDArray[Any]) -> NDArray[np.datetime64] | None:
    """Return dates, or numbers that count from 1970, as times; None for plain numbers."""
    if values.dtype.kind == "M":
        return values
    unit = epoch_unit(values.astype(np.float64))
    # A number that is missing becomes a time that is.
    return None if unit is None else values.astype(f"datetime64[{unit}]")


def time_ends(batch: RankingLog, column: str) -> NDArray[np.datetime64] | None:
    """Return the first and last time in a column (2,); None where it has no times."""
    values = column_of(batch, column)
    if values.dtype.kind in "iufM":
        return _times(np.array([np.fmin.reduce(values), np.fmax.reduce(values)]))
    # Texts of times are in the order of times; what is missing has no year.
    dated = [text for text in values.tolist() if text[:4].isdigit()]
    with suppress(LogError, ValueError):
        return _parsed(np.array([min(dated), max(dated)]), column)
    return None


def _parsed(values: NDArray[Any], column: str) -> NDArray[np.datetime64]:
    """Return the times of texts; one that is empty is missing."""
    texts, back = np.unique(values.astype(str), return_inverse=True)
    times = np.full(len(texts), np.datetime64("NaT"), dtype="datetime64[us]")
    for index, text in enumerate(texts.tolist()):
        if text in ("", "None", "nan", "NaT"):
            continue
        moment = _moment(text)
        if moment is None:
            row = int(np.flatnonzero(back == index)[0])
            raise LogError(
                f"column '{column}' holds '{text}' (row {row}), which is no date like 2026-01-31"
            )
        times[index] = moment[0]
    return times[back]


def later_rows(source: Source, later: Later) -> Source:
    """Return the source of the later rows alone."""
    column_of(source.first, later.column)
    if isinstance(source, MemorySource):
        keep = later(source.log)
        if not keep.any():
            raise _none(later)
        return MemorySource(source.log.where(keep), threads=source.threads)
    return FilteredSource(source, later, lambda: _none(later))


def _none(later: Later) -> ConfigError:
    return ConfigError(
        f"no row is later than {later.until} by column '{later.column}': the target was trained on "
        "all of this log; evaluate it on rows that came after"
    )
