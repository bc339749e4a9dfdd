"""The report's charts as matplotlib figures: the same data, colours and shapes, for papers, slides and notebooks."""

import re
from functools import cache, partial
from typing import TYPE_CHECKING

from counterrank.errors import ConfigError, require
from counterrank.report.charts import Axis, Plot, Row, RowChart, Series
from counterrank.report.document import Document
from counterrank.report.html import asset
from counterrank.report.numbers import known

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
#: Dash patterns of the page's curves, in points.
_DASHES = {"dash1": (5, 3), "dash2": (1.5, 2.5), "dash3": (8, 3, 2, 3)}
_ROW = 0.32


def draw(document: Document, kind: str = "") -> "Figure":
    """Return the charts of one kind as a matplotlib figure, a panel for each policy; by default the first kind.

    The figure belongs to no window: save it with `figure.savefig("values.svg")`, or let a notebook
    show it.
    """
    kinds = list(dict.fromkeys(one.kind for one in document.figures()))
    chosen = kind or next(iter(kinds), "")
    if found := [one.drawing for one in document.figures() if one.kind == chosen]:
        return figure_of(found)
    if chosen not in KINDS and chosen:
        raise ConfigError(f"there is no plot '{kind}'; choose one of {', '.join(kinds)}")
    why = _ABSENT.get(chosen, "this result has no such numbers")
    of = f" for '{chosen}'" if chosen else ""
    raise ConfigError(f"nothing to draw{of}: {why}")


def figure_of(drawings: "list[RowChart | Plot]") -> "Figure":
    """Return the drawings below each other."""
    require("matplotlib", extra="plots")
    from matplotlib.figure import Figure

    colours = _colours()
    heights = [1.3 + _ROW * len(one.rows) if isinstance(one, RowChart) else 3.2 for one in drawings]
    figure = Figure(figsize=(8.0, sum(heights)), layout="constrained", facecolor=colours["card"])
    panels = figure.subplots(len(drawings), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, one in zip(panels, drawings, strict=True):
        axes.set_title(one.name, loc="left", fontsize=11, fontweight="bold", color=colours["ink"])
        axes.set_facecolor(colours["card"])
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.spines["bottom"].set_color(colours["line"])
        axes.tick_params(colors=colours["soft"], length=0, labelsize=9)
        axes.set_axisbelow(True)
        if isinstance(one, RowChart):
            _draw_rows(axes, one)
        else:
            _draw_plot(axes, one)
    return figure


@cache
def _colours() -> dict[str, str]:
    """Return the page's colours in daylight, by name: one home for them, the style sheet."""
    daylight = asset("style.css").partition("}")[0]
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", daylight))


def _dress(axes: "Axes", side: str, axis: Axis) -> None:
    """Draw what a horizontal ("x") or upright axis ("y") has: limits, ticks, title and marked lines."""
    scale = axis.scale
    # One position has an axis without length: its point stands in the middle.
    room = 0.5 if scale.low == scale.high else 0.0
    places, names = zip(*axis.named_ticks(), strict=True)
    given = {"lim": (scale.low - room, scale.high + room), "ticks": places, "ticklabels": names}
    axes.set(**{f"{side}scale": "log" if scale.log else "linear"})
    axes.set(**{f"{side}{name}": value for name, value in given.items()})
    axes.minorticks_off()
    set_label = axes.set_xlabel if side == "x" else axes.set_ylabel
    set_label(axis.words("line"), color=_colours()["soft"], fontsize=9)
    draw_line = axes.axvline if side == "x" else axes.axhline
    for value, _ in axis.lines:
        draw_line(value, color=_colours()["zero"], linewidth=1)


def _draw_rows(axes: "Axes", one: RowChart) -> None:
    _dress(axes, "x", one.axis)
    axes.set_ylim(len(one.rows) - 0.5, -0.7)
    axes.grid(axis="x", color=_colours()["grid"], linewidth=0.8)
    # A dollar sign would start a formula.
    labels = [f"{row.label}  {row.shown}".strip().replace("$", r"\$") for row in one.rows]
    axes.set_yticks(range(len(labels)), labels)
    for place, (label, row) in enumerate(zip(axes.get_yticklabels(), one.rows, strict=True)):
        label.set(color=_colours()["ink"], fontweight="bold" if row.heading else "normal")
        if not row.heading:
            _draw_row(axes, place, row, one.axis)


def _draw_row(axes: "Axes", place: int, row: Row, axis: Axis) -> None:
    scale, colour = axis.scale, _colours()[row.mark.look]
    plot = partial(axes.plot, color=colour, alpha=0.45 if row.faded else 1.0)
    for ends, thick in ((row.outer, 1.0), ((row.low, row.high), 3.5)):
        if all(map(known, ends)):
            plot(ends, [place, place], linewidth=thick, solid_capstyle="round")
    for end, edge, arrow in ((row.low, scale.low, "<"), (row.high, scale.high, ">")):
        if known(end) and not scale.inside(end):
            plot([edge], [place], arrow, markersize=6, clip_on=False)
    value = min(max(row.value, scale.low), scale.high)
    plot([value], [place], _SHAPES[row.mark.shape % len(_SHAPES)], markersize=8)


def _draw_plot(axes: "Axes", one: Plot) -> None:
    _dress(axes, "x", one.x)
    _dress(axes, "y", one.y)
    axes.grid(axis="y", color=_colours()["grid"], linewidth=0.8)
    for series in one.series:
        _draw_series(axes, series)
    if one.named:
        axes.legend(frameon=False, fontsize=9)


def _draw_series(axes: "Axes", one: Series) -> None:
    colour = _colours()[one.mark.look]
    ends = [(p.x, p.low, p.high) for p in one.points if known(p.low) and known(p.high)]
    if one.band and len(ends) > 1:
        places, lows, highs = zip(*ends, strict=True)
        axes.fill_between(places, lows, highs, color=colour, alpha=0.15, linewidth=0)
    if one.whiskers and ends:
        axes.vlines(*zip(*ends, strict=True), color=colour, linewidth=2)
    dash = next((_DASHES[word] for word in one.style.split() if word in _DASHES), None)
    axes.plot(
        [p.x for p in one.points],
        [p.y for p in one.points],
        color=colour,
        linestyle="none" if not one.joined else (0, dash) if dash else "-",
        marker=_SHAPES[one.mark.shape % len(_SHAPES)] if one.dots else "none",
        markerfacecolor=_colours()["card"] if "hollow" in one.style else colour,
        markersize=7,
        label=one.name,
    )
