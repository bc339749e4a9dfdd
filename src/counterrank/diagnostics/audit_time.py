"""Checks along time: drift of rewards, and days themselves."""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.diagnostics.columns import by_label, column_of
from counterrank.diagnostics.finding import PASSED, SKIPPED, WARNED, Finding, Subject
from counterrank.diagnostics.tally import Tally
from counterrank.log import RankingLog

#: Columns that look like time, in order of preference.
TIME_NAMES = ("timestamp", "time", "datetime", "date", "day", "ts")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def time_column(log: RankingLog) -> str | None:
    """Return a carried column whose name says time."""
    lower = {name.lower(): name for name in log.columns}
    return next((lower[name] for name in TIME_NAMES if name in lower), None)


def days_of(batch: RankingLog, name: str) -> NDArray[np.str_]:
    """Return the day of each row (n,) as text: dates, seconds or milliseconds since 1970, or the values as they are."""
    values = column_of(batch, name)
    if values.dtype.kind == "M":
        return values.astype("datetime64[D]").astype(str)
    if values.dtype.kind in "iuf":
        return _days_of_numbers(values.astype(np.float64))
    texts = values.astype(str)
    return texts.astype("<U10") if len(texts) and _DATE.match(str(texts[0])) else texts


def _days_of_numbers(values: NDArray[np.float64]) -> NDArray[np.str_]:
    largest = float(np.nanmax(values)) if len(values) else 0.0
    for unit, limit in (("ns", 1e17), ("us", 1e14), ("ms", 1e11), ("s", 1e8)):
        if largest > limit:
            return (
                np.nan_to_num(values).astype(np.int64).astype(f"datetime64[{unit}]").astype("datetime64[D]").astype(str)
            )
    return np.char.zfill(np.nan_to_num(values).astype(np.int64).astype(str), 6)


class Drift:
    """What the logger earned, day by day."""

    name = "drift"

    def partial(self, batch: RankingLog, subject: Subject) -> Tally:
        """Sum the rows' rewards by day."""
        if subject.time is None:
            return Tally()
        earned = batch.reward @ batch.position_weights
        sums: dict[str, Any] = {}
        for day, rows in by_label(days_of(batch, subject.time)):
            sums[day] = np.array([len(rows), earned[rows].sum(), (earned[rows] ** 2).sum()])
        return Tally(sums=sums)

    def finish(self, tally: Tally, subject: Subject) -> list[Finding]:
        """Chi-square of day means about the overall mean; material when two days differ by a fifth."""
        from scipy import special

        if subject.time is None:
            return [Finding(self.name, SKIPPED, "no time column; name one with --time")]
        days = sorted(day for day, sums in tally.sums.items() if sums[0] >= 30)
        if len(days) < 2:
            return [Finding(self.name, SKIPPED, f"fewer than two days with 30 rankings in '{subject.time}'")]
        table = np.stack([tally.sums[day] for day in days])
        mean = table[:, 1] / table[:, 0]
        error = np.maximum(table[:, 2] / table[:, 0] - mean**2, 1e-300) / table[:, 0]
        centre = float((mean / error).sum() / (1 / error).sum())
        p = float(special.chdtrc(len(days) - 1, ((mean - centre) ** 2 / error).sum()))
        scale = abs(centre) or 1.0
        size = float(mean.max() - mean.min()) / scale
        text = (
            f"the logger earned between {mean.min():.4g} ({days[int(mean.argmin())]}) and {mean.max():.4g} "
            f"({days[int(mean.argmax())]}) a day"
        )
        if p > 0.001 or size < 0.2:
            return [Finding(self.name, PASSED, f"{text}, no more than usual", ())]
        return [
            Finding(
                self.name, WARNED, f"{text}, more than chance allows (p = {p:.1g})",
                cause="seasons, campaigns, a tracking outage, or a change of policy",
                remedy="evaluate a period that is like the one to come; segment by day",
            )
        ]  # fmt: skip
