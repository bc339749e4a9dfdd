"""The report's charts as matplotlib figures: the same data, colours and shapes, for papers, slides and notebooks."""

import re
from functools import cache
from typing import TYPE_CHECKING

from counterrank.common.errors import ConfigError, require
from counterrank.report.document import Document
from counterrank.report.document import Figure as Chart
from counterrank.report.html import asset

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Why there may be nothing to draw.
_ABSENT = {
    "segments": "there are no segments; name some with segments=[...]",
    "order-path": "there is no path: it needs at least two of iips, order-2, order-3, ips",
    "weights": "no estimator here rests on weights",
}
#: Charts that an evaluation may have.
KINDS = ("segments", "lifts", "values", "agreement", "order-path", "positions", "weights", "path")
_SHAPES = "oDs^v"
_ROW = 0.32
#: The sign and the size of the marks of a row, but for its value.
_MARKS = {"outer": ("-", 1.0), "span": ("-", 3.5), "left": ("<", 6.0), "right": (">", 6.0)}


def draw(document: Document, kind: str = "") -> "Figure":
    """Return the charts of one kind as a matplotlib figure, a panel for each policy; by default the first kind.

    The figure belongs to no window: save it with `figure.savefig("values.svg")`, or let a notebook
    show it.
    """
    kinds = list(dict.fromkeys(chart.kind for chart in document.figures()))
    chosen = kind or next(iter(kinds), "")
    drawings = [chart for chart in document.figures() if chart.kind == chosen]
    if not drawings and chosen and chosen not in KINDS:
        raise ConfigError(f"there is no plot '{kind}'; choose one of {', '.join(kinds)}")
    if not drawings:
        why = _ABSENT.get(chosen, "this result has no such numbers")
        subject = f" for '{chosen}'" if chosen else ""
        raise ConfigError(f"nothing to draw{subject}: {why}")
    require("matplotlib", extra="plots")
    from matplotlib.figure import Figure

    heights = [1.3 + _ROW * len(chart.shown) for chart in drawings]
    figure = Figure(figsize=(8.0, sum(heights)), layout="constrained", facecolor=_colours()["card"])
    panels = figure.subplots(len(drawings), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, chart in zip(panels, drawings, strict=True):
        _draw_rows(axes, chart)
    return figure


@cache
def _colours() -> dict[str, str]:
    """Return the page's colours in daylight, by name: one home for them, the style sheet."""
    daylight = asset("style.css").partition("}")[0]
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", daylight))


def _draw_rows(axes: "Axes", chart: Chart) -> None:
    colours, scale, rows = _colours(), chart.scale, chart.shown
    ink, soft = colours["ink"], colours["soft"]
    axes.set_title(chart.name, loc="left", fontsize=11, fontweight="bold", color=ink)
    axes.set_facecolor(colours["card"])
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(colours["line"])
    axes.tick_params(colors=soft, length=0, labelsize=9)
    axes.set_axisbelow(True)
    # A dollar sign would start a formula.
    labels = [f"{row.label}  {row.shown}".strip().replace("$", r"\$") for row in rows]
    named = [name for value, name in chart.lines if name and scale.inside(value)]
    title = f"{chart.axis} (line: {', '.join(named)})" if named else chart.axis
    places, names = zip(*chart.ticks, strict=True)
    axes.set(xlim=(scale.low, scale.high), xticks=places, xticklabels=names)
    axes.set_xlabel(title.replace("$", r"\$"), color=soft, fontsize=9)
    axes.set(ylim=(len(rows) - 0.5, -0.7), yticks=range(len(rows)), yticklabels=labels)
    axes.grid(axis="x", color=colours["grid"], linewidth=0.8)
    for value, _ in chart.lines:
        axes.axvline(value, color=colours["zero"], linewidth=1)
    for height, (label, row) in enumerate(zip(axes.get_yticklabels(), rows, strict=True)):
        label.set(color=ink, fontweight="bold" if row.heading else "normal")
        point = _SHAPES[row.mark.shape], 8.0
        for name, start, end in row.marks(scale) if not row.heading else ():
            sign, size = _MARKS.get(name, point)
            axes.plot(
                [start, end],
                [height, height],
                sign,
                color=colours[row.mark.look],
                alpha=0.45 if row.faded else 1.0,
                linewidth=size,
                markersize=size,
                solid_capstyle="round",
                clip_on=False,
                markevery=[0],
            )
