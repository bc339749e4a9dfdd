"""From values to places on an axis."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from counterrank.report.numbers import known


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis from `low` to `high`, linear or logarithmic.

    >>> Scale(0, 10).at(2.5), Scale(1, 100, log=True).at(10), Scale(0, 1).ticks(4)
    (0.25, 0.5, [0.0, 0.5, 1.0])
    """

    low: float
    high: float
    log: bool = False

    def at(self, value: float) -> float:
        """Return where a value lies, 0 to 1 inside the axis; the middle of an axis without length."""
        if self.low == self.high:
            return 0.5
        if self.log:
            tiny = min(self.low, self.high) * 1e-6
            return (math.log(max(value, tiny)) - math.log(self.low)) / (
                math.log(self.high) - math.log(self.low)
            )
        return (value - self.low) / (self.high - self.low)

    def clipped(self, value: float) -> float:
        """Return where a value lies, moved to the nearer end when outside."""
        return min(max(self.at(value), 0.0), 1.0)

    def inside(self, value: float) -> bool:
        """Return whether a value lies on the axis."""
        return -1e-9 <= self.at(value) <= 1 + 1e-9

    def ticks(self, most: int = 5) -> list[float]:
        """Return at most about `most` round values."""
        if self.low == self.high:
            return [self.low]
        return self._decades(most) if self.log else self._steps(most)

    def _steps(self, most: int) -> list[float]:
        raw = (self.high - self.low) / max(most - 1, 1)
        power = 10.0 ** math.floor(math.log10(raw))
        # The 0.999 lets a range that is round but for rounding keep its round step.
        step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= raw * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [round(index * step, 12) for index in range(first, last + 1)]

    def _decades(self, most: int) -> list[float]:
        first, last = (
            math.ceil(math.log10(self.low) - 1e-9),
            math.floor(math.log10(self.high) + 1e-9),
        )
        if last - first < 1:
            return [value for value in self._fine(first) if self.inside(value)]
        stride = max(1, math.ceil((last - first + 1) / most))
        return [10.0**power for power in range(first, last + 1, stride)]

    def _fine(self, first: int) -> list[float]:
        return [m * 10.0**power for power in (first - 1, first, first + 1) for m in (1, 2, 5)]


def around(values: Iterable[Any], *, also: Sequence[float] = (), margin: float = 0.06) -> Scale:
    """Return a linear axis that holds the finite values, with a margin.

    >>> around([1.0, None, 2.0], margin=0.1)
    Scale(low=0.9, high=2.1, log=False)
    """
    found = [float(v) for v in (*values, *also) if known(v)] or [0.0, 1.0]
    low, high = min(found), max(found)
    if high - low < 1e-12 * max(abs(high), 1e-300):
        low, high = low - (abs(low) * 0.1 or 1.0), high + (abs(high) * 0.1 or 1.0)
    pad = (high - low) * margin
    return Scale(round(low - pad, 12), round(high + pad, 12))


def around_intervals(rows: Sequence[Any], *, also: Sequence[float] = ()) -> Scale:
    """Return an axis for rows with value, low and high on which one hopeless interval cannot
    squeeze the others.

    An interval reaches at most six times the median half-width from its value; the rest is drawn as
    an arrow.
    """
    widths = sorted((r.high - r.low) / 2 for r in rows if known(r.low) and known(r.high))
    # The median, which one hopeless interval cannot move.
    reach = 6 * widths[len(widths) // 2] if widths else 0.0
    values: list[float] = []
    for row in rows:
        if known(row.value):
            low = row.low if known(row.low) else row.value
            high = row.high if known(row.high) else row.value
            values += [row.value, max(low, row.value - reach), min(high, row.value + reach)]
    return around(values, also=also)


def logarithmic(values: Iterable[Any]) -> Scale | None:
    """Return a logarithmic axis over the positive values, None when there is no range."""
    found = [float(v) for v in values if known(v) and v > 0]
    if not found or max(found) <= min(found):
        return None
    return Scale(min(found) / 1.15, max(found) * 1.15, log=True)
