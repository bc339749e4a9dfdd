"""What to randomise, for a page, a terminal and a figure: what a loss buys."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from counterrank.errors import ConfigError
from counterrank.exploration import Cost, DetectableLift, ExplorationOption, ExplorationPlan
from counterrank.report import parts
from counterrank.report.charts import AxisScale, Plot, PlotFrame, Point, Series, logarithmic
from counterrank.report.html import filled, in_short
from counterrank.report.numbers import count, percent, roughly

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType


def sentences(plan: ExplorationPlan) -> list[str]:
    """Return what the plan says, one thing a sentence, the most important first."""
    best, names = plan.choice, _names(plan.judged)
    cost = f"{percent(best.cost.value)} of the metric ({_ends(best.cost)})"
    seen = best.worst(plan.judged)
    lines = []
    if plan.reached:
        lines.append(
            f"Serve {best.kind} ({best.spec}): it costs {cost} and shows lifts from "
            f"{percent(seen)} of {names} in {count(plan.rows)} rankings."
        )
    else:
        lines.append(
            f"Nothing that was tried shows lifts of {percent(plan.detect)} of {names} in "
            f"{count(plan.rows)} rankings. Within the budget of {percent(plan.budget)}, {best.kind} "
            f"({best.spec}) shows most"
            + (f": lifts from {percent(seen)}, at a cost of {cost}." if seen < math.inf else ".")
        )
        lines.append(_needed(plan))
    if best.cost.rests_on == "models":
        lines.append(
            "The cost rests on models of users alone: the log never showed such pages. Start with a "
            "small share of the traffic, and plan again from what it logs."
        )
    lines += [_by_auto(best)] if best.auto else []
    return [line for line in lines if line]


def _needed(plan: ExplorationPlan) -> str:
    rows = plan.choice.needed(plan.judged)
    if math.isinf(rows):
        return (
            f"No sensible number of rankings shows {percent(plan.detect)} of all of them: ask for a "
            "larger lift, allow a larger loss, or test."
        )
    weeks = f", {roughly(rows / plan.rows_per_week)} weeks of them" if plan.rows_per_week else ""
    return f"{count(rows)} rankings would do{weeks}."


def _by_auto(option: ExplorationOption) -> str:
    told = [f"{percent(one.lift)} ({one.target})" for one in option.auto if one.lift is not None]
    return f"On drawn logs auto shows lifts from {', '.join(told)}." if told else ""


def _names(targets: tuple[str, ...]) -> str:
    return targets[0] if len(targets) == 1 else f"{', '.join(targets[:-1])} and {targets[-1]}"


def _ends(cost: Cost) -> str:
    return f"{percent(cost.low, sign=True)} to {percent(cost.high, sign=True)}"


def head(plan: ExplorationPlan) -> tuple[str, ...]:
    """Return the columns of the table."""
    targets = [one.target for one in plan.options[0].detectable]
    return ("option", "spec", "cost", "interval", *(f"lift of {name}" for name in targets), "")


#: The column of the spec, too wide for a terminal.
SPEC = 1


def at_budget(plan: ExplorationPlan) -> set[int]:
    """Return the options worth a line of a terminal: the frontier, and of each kind the one nearest to the budget."""
    kinds: dict[str, int] = {}
    for index, one in enumerate(plan.options):
        best = kinds.setdefault(one.kind, index)
        if abs(one.cost.value - plan.budget) < abs(plan.options[best].cost.value - plan.budget):
            kinds[one.kind] = index
    return {*kinds.values(), *plan.frontier, plan.chosen}


def lines_of(plan: ExplorationPlan, some: set[int] | None = None) -> list[tuple[str, ...]]:
    """Return a line of the table for each option, or for some of them, the cheapest first."""
    order = sorted(range(len(plan.options)), key=lambda i: plan.options[i].cost.value)
    lines = []
    for index in order if some is None else [i for i in order if i in some]:
        one = plan.options[index]
        mark = "← chosen" if index == plan.chosen else "frontier" if index in plan.frontier else ""
        shown = [words(each) for each in one.detectable]
        model = " *" if one.cost.rests_on == "models" else ""
        lines.append(
            (one.kind, shortened(one.spec), percent(one.cost.value), f"{_ends(one.cost)}{model}", *shown, mark)
        )  # fmt: skip
    return lines


def starred(plan: ExplorationPlan) -> list[str]:
    """Return what the star behind an interval means, where there is one."""
    some = any(one.cost.rests_on == "models" for one in plan.options)
    return ["* rests on models of users alone."] if some else []


def words(one: DetectableLift) -> str:
    """Return a detectable lift as tables show it."""
    if one.lift is not None:
        return percent(one.lift)
    return "never" if one.rows_needed is None else "too few rows"


def shortened(spec: str) -> str:
    """Return a spec with three digits a number, for tables.

    >>> shortened("0.97520000000000001*top+0.0248*shuffle")
    '0.975*top+0.0248*shuffle'
    """
    return re.sub(r"\d+\.\d+(e[-+]?\d+)?", lambda found: f"{float(found[0]):.3g}", spec)


def drawing(plan: ExplorationPlan) -> Plot:
    """Return cost against the detectable lift; options to the lower left are better."""
    points: dict[bool, list[Point]] = {True: [], False: []}
    for index, one in enumerate(plan.options):
        worst = one.worst(plan.judged)
        if math.isfinite(worst) and one.cost.value > 0:
            tip = f"{one.kind}\n{shortened(one.spec)}\ncost {percent(one.cost.value)}\nlifts from {percent(worst)}"
            points[index in plan.frontier].append(Point(one.cost.value, worst, tip=tip))
    everything = points[True] + points[False]
    frontier = sorted(points[True], key=lambda point: point.x)
    frame = PlotFrame(
        x=logarithmic([p.x for p in everything]) or AxisScale(1e-4, 1.0, log=True),
        y=logarithmic([*(p.y for p in everything), plan.detect]) or AxisScale(1e-4, 1.0, log=True),
        x_title="loss of the metric, as a share",
        y_title="detectable lift, as a share",
        lines=[(plan.detect, "wanted")],
        height=320,
    )
    series = [
        Series(points=points[False], look="t1", joined=False, shape=1),
        Series(points=frontier),
    ]
    return Plot(series, frame, "What a loss buys", ["others", "frontier"])


def page(plan: ExplorationPlan, *, back: str | None = None) -> str:
    """Return one self-contained page; `back` links to a list."""
    drawn = drawing(plan)
    aid = "Both axes are logarithmic. Options to the lower left cost less and show more."
    return filled(
        "plan.html.j2",
        sentences=sentences(plan),
        spec=plan.spec,
        chart=parts.figure("What a loss buys", aid, drawn.legend() + drawn.svg()),
        table=parts.table(head(plan), lines_of(plan), texts=2),
        notes=(*plan.notes, *starred(plan)),
        rows=count(plan.rows),
        back=back,
    )


def fragment(plan: ExplorationPlan) -> str:
    """Return what a notebook shows."""
    return in_short(sentences(plan), page(plan))


def picture(plan: ExplorationPlan) -> Figure:
    """Return cost against detectable lift as a matplotlib figure."""
    from counterrank.report.pictures import figure_of

    if not any(series.points for series in drawing(plan).series):
        raise ConfigError("nothing to draw: no option has a cost and a lift that it would show")
    return figure_of([drawing(plan)])


def terminal(plan: ExplorationPlan) -> Iterator[RenderableType]:
    """Yield what a terminal shows."""
    from rich.table import Table

    from counterrank.report.terminal import LOOK, safe

    for index, line in enumerate(sentences(plan)):
        yield safe(line, "bold" if index == 0 else "")
    shown = Table(title="What could be randomised, the cheapest first", **LOOK)
    for index, name in enumerate(head(plan)):
        if index != SPEC:
            shown.add_column(name, justify="left" if index == 0 else "right", no_wrap=index == 3)
    for cells in lines_of(plan, at_budget(plan)):
        shown.add_row(*(safe(cell) for index, cell in enumerate(cells) if index != SPEC))
    yield shown
    for line in sketch(plan):
        yield safe(line)
    for note in (*plan.notes, *starred(plan)):
        yield safe(f"  {note}", "dim")


#: Columns and lines of the terminal's picture.
WIDE, HIGH = 56, 12


def sketch(plan: ExplorationPlan) -> list[str]:
    """Return lines of cost (across) against detectable lift (up) in characters, both logarithmic."""
    drawn = [
        (one.cost.value, one.worst(plan.judged), index)
        for index, one in enumerate(plan.options)
        if one.cost.value > 0 and math.isfinite(one.worst(plan.judged))
    ]
    if len(drawn) < 2:
        return []
    across = logarithmic([x for x, _, _ in drawn]) or AxisScale(1e-4, 1.0, log=True)
    up = logarithmic([y for _, y, _ in drawn]) or AxisScale(1e-4, 1.0, log=True)
    cells = [[" "] * WIDE for _ in range(HIGH)]
    # The chosen one last: no other mark may hide it.
    for x, y, index in sorted(
        drawn, key=lambda one: (one[2] == plan.chosen, one[2] in plan.frontier)
    ):
        mark = "★" if index == plan.chosen else "●" if index in plan.frontier else "·"
        column = min(int(across.clipped(x) * WIDE), WIDE - 1)
        cells[HIGH - 1 - min(int(up.clipped(y) * HIGH), HIGH - 1)][column] = mark
    names = [f"{percent(up.high):>8}", *[" " * 8] * (HIGH - 2), f"{percent(up.low):>8}"]
    body = [f"{name} │{''.join(line)}" for name, line in zip(names, cells, strict=True)]
    ends = f"{percent(across.low)}{percent(across.high):>{WIDE - len(percent(across.low))}}"
    under = [f"{'':8} └{'─' * WIDE}", f"{'':10}{ends}"]
    title = "detectable lift (up) by loss (across): ★ chosen, ● frontier, · others"
    return [title, *body, *under]
