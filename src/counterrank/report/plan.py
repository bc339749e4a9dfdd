"""What to randomise, for a page, a terminal and a figure: what a loss buys."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from counterrank.errors import ConfigError
from counterrank.exploration import Cost, DetectableLift, ExplorationOption, ExplorationPlan
from counterrank.report import parts
from counterrank.report.charts import AxisScale, Plot, PlotFrame, Point, Series, logarithmic
from counterrank.report.html import filled, in_short
from counterrank.report.numbers import count, percent, roughly

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult


def sentences(plan: ExplorationPlan) -> list[str]:
    """Return what the plan says, one thing a sentence, the most important first."""
    best, names = plan.choice, _names(plan.judged)
    cost = f"{percent(best.cost.value)} of the metric ({_ends(best.cost)})"
    seen = best.worst(plan.judged)
    lines = []
    if plan.reached:
        lines.append(
            f"Serve {best.kind}: it costs {cost} and shows lifts from "
            f"{percent(seen)} of {names} in {count(plan.rows)} rankings."
        )
    else:
        lines.append(
            f"Nothing that was tried shows lifts of {percent(plan.detect)} of {names} in "
            f"{count(plan.rows)} rankings. Within the budget of {percent(plan.budget)}, {best.kind} "
            "shows most"
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


#: The columns of the spec, too wide for a terminal, and of the cost's interval.
SPEC, INTERVAL = 1, 3


def at_budget(plan: ExplorationPlan) -> set[int]:
    """Return the options worth a line of a terminal: the frontier, and of each kind the one nearest to the budget."""
    kinds: dict[str, int] = {}
    for index, one in enumerate(plan.options):
        best = kinds.setdefault(one.kind, index)
        if abs(one.cost.value - plan.budget) < abs(plan.options[best].cost.value - plan.budget):
            kinds[one.kind] = index
    return {*kinds.values(), *plan.frontier, plan.chosen}


#: How the chosen option, those of the frontier and the others are marked in the page's table.
_MARKS = ("← chosen", "frontier", "")


def lines_of(
    plan: ExplorationPlan, some: set[int] | None = None, marks: tuple[str, str, str] = _MARKS
) -> list[tuple[str, ...]]:
    """Return a line of the table for each option, or for some of them, the cheapest first."""
    order = sorted(range(len(plan.options)), key=lambda i: plan.options[i].cost.value)
    lines = []
    for index in order if some is None else [i for i in order if i in some]:
        one = plan.options[index]
        mark = marks[0 if index == plan.chosen else 1 if index in plan.frontier else 2]
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
        x_title="loss of the metric",
        y_title="detectable lift",
        x_percent=True,
        y_percent=True,
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
    if _free(plan):
        aid += f" {_FREE}"
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


#: Why an option of the table is not drawn.
_FREE = "Options that cost nothing, or gain, have no place on a logarithmic axis: see the table."


def _free(plan: ExplorationPlan) -> bool:
    """Return whether an option that shows something costs nothing, or gains."""
    return any(
        one.cost.value <= 0 and math.isfinite(one.worst(plan.judged)) for one in plan.options
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
    from counterrank.report.terminal import safe

    for index, line in enumerate(sentences(plan)):
        yield safe(line, "bold" if index == 0 else "")
    yield safe(f"For the server, and for --logger of what it logs: {plan.spec}", "dim")
    yield _Options(plan)
    for line in sketch(plan):
        yield safe(line)
    for note in (*plan.notes, *starred(plan)):
        yield safe(f"  {note}", "dim")


@dataclass(frozen=True, slots=True)
class _Options:
    """The table of options; a narrow terminal gets fewer columns rather than cut numbers."""

    plan: ExplorationPlan

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        from counterrank.report.terminal import WIDE, safe, titled

        targets = [one.target for one in self.plan.options[0].detectable]
        names = ("option", "spec", "cost", "interval", *targets, "")
        hidden = {SPEC} if options.max_width >= WIDE else {SPEC, INTERVAL}
        # Below this width there is room for the targets that count, each with a title of two lines.
        narrow = options.max_width < 72
        if narrow:
            others = {name for name in targets if name not in self.plan.judged}
            hidden |= {index for index, name in enumerate(names) if name in others}
        shown = titled("What could be randomised, its cost, and the lifts it shows")
        for index, name in enumerate(names):
            if index not in hidden:
                title = Text("\n").join(map(safe, name.split(" ", 1))) if narrow else safe(name)
                shown.add_column(title, justify="right" if index else "left", no_wrap=index > 0)
        # The marks of the picture below: words would take the room of a number.
        for cells in lines_of(self.plan, at_budget(self.plan), ("★", "●", "")):
            kept = [cell for index, cell in enumerate(cells) if index not in hidden]
            shown.add_row(*map(safe, kept))
        yield shown


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
    return [title, *body, *under, *([_FREE] if _free(plan) else [])]
