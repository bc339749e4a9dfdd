"""The values of the paper's figures, and ours beside them: ratio, its Monte Carlo interval, whether
they agree.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from counterrank.paper import figures
from counterrank.paper.summary import Summary, read_rows, seeds_in, summarise

#: The figures with published values, and the number of runs behind them.
MAIN = ("data-size", "slate-size", "behavior")
PUBLISHED_RUNS = 300


@cache
def _table() -> dict[str, Any]:
    text = (
        files("counterrank.paper")
        .joinpath("data/published_figures.json")
        .read_text(encoding="utf-8")
    )
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def published(figure: str, metric: str, estimator: str, x: float) -> float | None:
    """Return the published value (divided by V^2), or None where there is none.

    >>> published("data-size", "mse", "iips", 8000)
    0.204
    """
    table = _table()
    estimator = estimator.replace(", cached", "")
    if figure not in table["x"] or estimator not in table[figure][metric]:
        return None
    if x not in table["x"][figure]:
        return None
    value: float | None = table[figure][metric][estimator][table["x"][figure].index(x)]
    return value


def published_seconds(estimator: str, n: float) -> float | None:
    """Return the published run time at K = 8."""
    table = _table()["runtime"]
    if estimator not in table or n not in table["n"]:
        return None
    return float(table[estimator][table["n"].index(n)])


@dataclass(frozen=True, slots=True)
class Comparison:
    """The MSE of one estimator at one point: ours, the published one, their ratio with a 95 %
    interval.
    """

    figure: str
    summary: Summary
    published: float

    @property
    def ratio(self) -> float:
        """Ours divided by the published."""
        return self.summary.metrics["mse"] / self.published

    @property
    def interval(self) -> tuple[float, float]:
        """The ratio's 95 % interval over seeds."""
        low, high = self.summary.bands["mse"]
        return low / self.published, high / self.published

    def within(self, share: float) -> bool:
        """Whether the ratio differs from 1 by no more than `share`."""
        return abs(self.ratio - 1) <= share

    def surely_outside(self, share: float) -> bool:
        """Whether the whole interval differs from 1 by more than `share`: not by chance alone."""
        low, high = self.interval
        return high < 1 - share or low > 1 + share


def summaries(
    out: Path, figure: str, preset: str = "published", most: int | None = None
) -> list[Summary]:
    """Return the summaries of a figure's finished seeds, at most the first `most`; none where there
    are none.
    """
    folder = out / figure
    seeds = [seed for seed in seeds_in(folder, preset) if most is None or seed < most]
    if not seeds:
        return []
    found = summarise(read_rows(folder, preset, seeds), common_truth=preset == "published")
    order = figures.get(figure).estimators
    return sorted(
        found, key=lambda s: (order.index(s.estimator) if s.estimator in order else len(order), s.x)
    )


def comparisons(out: Path) -> list[Comparison]:
    """Return every comparison that the results in a folder allow, over the published runs."""
    found = []
    for figure in MAIN:
        for summary in summaries(out, figure, most=PUBLISHED_RUNS):
            theirs = published(figure, "mse", summary.estimator, summary.x)
            if theirs is not None:
                found.append(Comparison(figure, summary, theirs))
    return found


def verdict(found: Sequence[Comparison], names: Iterable[str], share: float) -> str:
    """Return a sentence: at how many points these estimators agree, and how far the others are."""
    wanted = set(names)
    these = [c for c in found if c.summary.estimator in wanted]
    if not these:
        return "no results yet."
    inside = sum(c.within(share) for c in these)
    far = max(these, key=lambda c: abs(c.ratio - 1))
    text = (
        f"{inside} of {len(these)} values lie within {share:.0%} of the published ones; the "
        "farthest is "
        f"{far.summary.estimator} at {_point(far)}, ratio {far.ratio:.2f} ({_span(far.interval)})."
    )
    surely = [c for c in these if c.surely_outside(share)]
    if inside < len(these):
        names_of = ", ".join(f"{c.summary.estimator} at {_point(c)}" for c in surely)
        text += (
            f" Beyond chance: {names_of}."
            if surely
            else " None is outside beyond chance: their intervals reach in."
        )
    return text


def cell(comparison: Comparison) -> str:
    """Return ours, then the published value and the ratio with its interval in brackets."""
    c = comparison
    return f"{c.summary.metrics['mse']:.3g} ({c.published:.3g}; {c.ratio:.2f}, {_span(c.interval)})"


def _span(interval: tuple[float, float]) -> str:
    return f"{interval[0]:.2f} to {interval[1]:.2f}"


def _point(c: Comparison) -> str:
    return f"{figures.get(c.figure).parameter} = {c.summary.x:g}"
