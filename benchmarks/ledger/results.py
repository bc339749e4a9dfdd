"""Results of the runs by figure: errors of an estimator at a point, and ratios of two on the same seeds."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from counterrank.common.arrays import Floats
from counterrank.research.paper import results
from counterrank.research.summary import Rows, cells, ratio_of_means
from counterrank.statistics import means_of

#: A number with its interval.
Number = tuple[float, tuple[float, float]]
LEVEL = 0.95


@dataclass(frozen=True)
class Errors:
    """Squared errors over V², by point and estimator; V of a point is the mean over its seeds, as in the paper."""

    rows: Rows

    @cached_property
    def squares(self) -> dict[tuple[Any, str], dict[int, float]]:
        """Squared errors by seed of each point and estimator, of the seeds with a value."""
        truth = {x: self.rows["truth"][self.rows["x"] == x].mean() for x in self.points}
        return {
            (x, name): {
                int(seed): float(((value - truth[x]) / truth[x]) ** 2)
                for seed, value in zip(cell["seed"], cell["value"], strict=True)
                if np.isfinite(value)
            }
            for x, name, cell in cells(self.rows)
        }

    @cached_property
    def points(self) -> list[Any]:
        """The values of the figure, or the names of the worlds."""
        return list(dict.fromkeys(self.rows["x"].tolist()))

    def has(self, *names: str) -> bool:
        """Whether every point has results of these estimators."""
        return all((x, name) in self.squares for x in self.points for name in names)

    def seeds(self, names: Sequence[str]) -> int:
        """Return the number of seeds that all points have of these estimators."""
        return min(len(self.squares[x, name]) for x in self.points for name in names)

    def mse(self, name: str, x: Any) -> Number:
        """Return the MSE / V² with its interval."""
        return ratio_of_means(np.array(list(self.squares[x, name].values())))

    def ratio(self, name: str, other: str, x: Any) -> Number:
        """Return the MSE over that of another estimator on the same seeds, with its interval."""
        return _ratio(self.squares[x, name], self.squares[x, other])

    def change(self, name: str, low: Any, high: Any) -> Number:
        """Return the MSE at one point over that at another, of the same seeds."""
        return _ratio(self.squares[high, name], self.squares[low, name])

    def best(self, names: Iterable[str], x: Any) -> str:
        """Return the estimator with the smallest MSE."""
        return min(names, key=lambda name: self.mse(name, x)[0])

    def coverage(self, name: str) -> tuple[int, int]:
        """Return how many intervals contained the truth, of how many."""
        mine = (self.rows["estimator"] == name) & np.isfinite(self.rows["value"])
        low, high, truth = (self.rows[key][mine] for key in ("low", "high", "truth"))
        return int(((low <= truth) & (truth <= high)).sum()), int(mine.sum())


def _ratio(mine: dict[int, float], theirs: dict[int, float]) -> Number:
    common = sorted(mine.keys() & theirs.keys())
    a, b = (np.array([by_seed[seed] for seed in common]) for by_seed in (mine, theirs))
    return ratio_of_means(a, b)


def of_figure(folder: Path, figure: str) -> Errors | None:
    """Return the results of a figure of `counterrank reproduce`, None where there are none."""
    seeds = results.seeds_in(folder / figure)
    return Errors(results.read_rows(folder / figure, seeds)) if seeds else None


def geometric(ratios: Sequence[float]) -> Number:
    """Return the geometric mean over worlds or points with a 95 % interval over them (Student's t)."""
    logs: Floats = np.log(np.array(ratios))
    (mean,) = means_of([logs], None)
    low, high = (float(np.exp(end)) for end in mean.interval(LEVEL))
    return float(np.exp(mean.value)), (low, high)


def text(number: Number) -> str:
    """Return a number with its interval.

    >>> text((0.0213, (0.01, 0.0456)))
    '0.021 (0.010 to 0.046)'
    """
    value, (low, high) = number
    return f"{short(value)} ({short(low)} to {short(high)})"


def short(value: float) -> str:
    """Return two digits that count, without an exponent.

    >>> short(0.00531), short(12.3), short(1234.0)
    ('0.0053', '12', '1,200')
    """
    if not np.isfinite(value) or value == 0.0:
        return f"{value:g}"
    digits = 1 - int(np.floor(np.log10(abs(value))))
    rounded = round(value, digits)
    return f"{rounded:,.{max(digits, 0)}f}"
