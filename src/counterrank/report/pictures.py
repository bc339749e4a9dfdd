"""The report's charts as matplotlib figures: the same data, colours and shapes, for papers, slides and notebooks."""

import re
from collections.abc import Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

from counterrank.errors import ConfigError, require
from counterrank.report.charts import Axis, AxisScale, Plot, PlotFrame, Row, RowChart, Series
from counterrank.report.document import Document
from counterrank.report.html import asset
from counterrank.report.numbers import known

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


Drawing = RowChart | Plot

#: Why there may be nothing to draw.
_ABSENT = {
    "segments": "there are no segments; name some with segments=[...]",
    "order-path": "there is no path: it needs at least two of iips, order-2, order-3, ips",
    "weights": "no estimator here rests on weights",
}
#: Charts that an evaluation may have.
KINDS = (
    "metrics",
    "segments",
    "lifts",
    "values",
    "agreement",
    "order-path",
    "positions",
    "weights",
    "path",
)
_SHAPES = "oDs^v"
#: Dash patterns of the page's curves, in points.
_DASHES = {"dash1": (5, 3), "dash2": (1.5, 2.5), "dash3": (8, 3, 2, 3)}
_ROW = 0.32


def draw(document: Document, kind: str = "") -> "Figure":
    """Return the charts of one kind as a matplotlib figure, a panel for each policy; by default the first kind.

    The figure belongs to no window: save it with `figure.savefig("values.svg")`, or let a notebook
    show it.
    """
    every = [one for one in document.figures() if isinstance(one.drawing, (RowChart, Plot))]
    kinds = list(dict.fromkeys(one.kind for one in every))
    chosen = kind or next(iter(kinds), "")
    if found := [one.drawing for one in every if one.kind == chosen]:
        return figure_of([one for one in found if isinstance(one, (RowChart, Plot))])
    if chosen not in KINDS and chosen:
        raise ConfigError(f"there is no plot '{kind}'; choose one of {', '.join(kinds)}")
    why = _ABSENT.get(chosen, "this result has no such numbers")
    of = f" for '{chosen}'" if chosen else ""
    raise ConfigError(f"nothing to draw{of}: {why}")


def figure_of(drawings: Sequence[Drawing]) -> "Figure":
    """Return the drawings below each other."""
    require("matplotlib", extra="plots")
    from matplotlib.figure import Figure

    heights = [_height(one) for one in drawings]
    figure = Figure(figsize=(8.0, sum(heights)), layout="constrained", facecolor=_colours()["card"])
    panels = figure.subplots(len(drawings), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, one in zip(panels, drawings, strict=True):
        axes.set_title(
            one.name, loc="left", fontsize=11, fontweight="bold", color=_colours()["ink"]
        )
        _bare(axes)
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


def _look(names: str) -> "tuple[str, str | tuple[int, tuple[float, ...]], bool]":
    """Return colour, line and whether it is hollow, of a look of the page such as "t0 hollow dash1"."""
    words = names.split()
    dash = next((_DASHES[word] for word in words if word in _DASHES), None)
    return (
        _colours().get(words[0], _colours()["t0"]),
        (0, dash) if dash is not None else "-",
        "hollow" in words,
    )


def _height(one: Drawing) -> float:
    return 1.3 + _ROW * len(one.rows) if isinstance(one, RowChart) else 3.2


def _bare(axes: "Axes") -> None:
    colours = _colours()
    axes.set_facecolor(colours["card"])
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(colours["line"])
    axes.tick_params(colors=colours["soft"], length=0, labelsize=9)
    axes.set_axisbelow(True)


def _draw_rows(axes: "Axes", one: RowChart) -> None:
    scale, colours = one.scale(), _colours()
    axes.set_xlim(scale.low, scale.high)
    axes.set_ylim(len(one.rows) - 0.5, -0.7)
    axes.set_xticks(scale.ticks(), one.axis.tick_names(scale.ticks()))
    axes.grid(axis="x", color=colours["grid"], linewidth=0.8)
    # Beside the line its name could meet the title or a mark.
    marked = one.axis.line is not None and one.axis.line_name
    named = f" (line: {marked})" if marked else ""
    axes.set_xlabel(one.axis.title + named, color=colours["soft"], fontsize=9)
    axes.set_yticks(range(len(one.rows)), [_label(row) for row in one.rows])
    for label, row in zip(axes.get_yticklabels(), one.rows, strict=True):
        label.set_color(colours["ink"])
        label.set_fontweight("bold" if row.heading else "normal")
    _draw_references(axes, one.axis)
    for place, row in enumerate(one.rows):
        if not row.heading and known(row.value):
            _draw_row(axes, place, row, scale)


def _draw_references(axes: "Axes", axis: Axis) -> None:
    if axis.line is not None:
        axes.axvline(axis.line, color=_colours()["zero"], linewidth=1)
    if axis.region is not None:
        axes.axvspan(*axis.region, color=_colours()["faint"], zorder=0)


def _label(row: Row) -> str:
    # A dollar sign would start a formula.
    return f"{row.label}  {row.shown}".strip().replace("$", r"\$")


def _draw_row(axes: "Axes", place: int, row: Row, scale: AxisScale) -> None:
    plot = partial(axes.plot, color=_look(row.look)[0], alpha=0.45 if row.faded else 1.0)
    if row.outer is not None and all(map(known, row.outer)):
        plot(row.outer, [place, place], linewidth=1)
    if known(row.low) and known(row.high):
        plot([row.low, row.high], [place, place], linewidth=3.5, solid_capstyle="round")
        for end, mark in ((row.low, "<"), (row.high, ">")):
            if not scale.inside(end):
                edge = scale.low if mark == "<" else scale.high
                plot([edge], [place], mark, markersize=6, clip_on=False)
    if row.limit is not None:
        axes.plot(
            [row.limit], [place], "|", markersize=14, color=_colours()["bad"], markeredgewidth=2
        )
    value = min(max(row.value, scale.low), scale.high)
    plot([value], [place], _SHAPES[row.shape % len(_SHAPES)], markersize=8)


def _draw_plot(axes: "Axes", one: Plot) -> None:
    frame, colours = one.frame, _colours()
    for scale, set_scale, set_limits in (
        (frame.x, axes.set_xscale, axes.set_xlim),
        (frame.y, axes.set_yscale, axes.set_ylim),
    ):
        if scale.log:
            set_scale("log")
        # One position has an axis without length: its point stands in the middle.
        room = 0.5 if scale.low == scale.high else 0.0
        set_limits(scale.low - room, scale.high + room)
    _label_axes(axes, frame)
    for value, _ in frame.lines:
        axes.axhline(value, color=colours["zero"], linewidth=1)
    for value, _ in frame.uprights:
        axes.axvline(value, color=colours["zero"], linewidth=1)
    for index, series in enumerate(one.series):
        if series.points:
            _draw_series(axes, series, one.names[index] if len(one.names) > 1 else None)
    if len(one.names) > 1:
        axes.legend(frameon=False, fontsize=9)


def _label_axes(axes: "Axes", frame: PlotFrame) -> None:
    colours = _colours()
    axes.set_xticks(*zip(*frame.named_x_ticks(), strict=True))
    axes.set_yticks(frame.y.ticks(), frame.y_names(frame.y.ticks()))
    axes.minorticks_off()
    axes.grid(axis="y", color=colours["grid"], linewidth=0.8)
    axes.set_xlabel(frame.x_title, color=colours["soft"], fontsize=9)
    axes.set_ylabel(frame.y_words("line"), color=colours["soft"], fontsize=9)


def _draw_series(axes: "Axes", series: Series, name: str | None) -> None:
    colour, line, hollow = _look(series.look)
    _draw_uncertainty(axes, series, colour)
    axes.plot(
        [p.x for p in series.points],
        [p.y for p in series.points],
        color=colour,
        linestyle=line if series.joined else "none",
        marker=_SHAPES[series.shape % len(_SHAPES)] if series.dots else "none",
        markerfacecolor=_colours()["card"] if hollow else colour,
        markersize=7,
        label=name,
    )


def _draw_uncertainty(axes: "Axes", series: Series, colour: str) -> None:
    ends = [(p.x, p.low, p.high) for p in series.points if p.low is not None and p.high is not None]
    if series.band and len(ends) > 1:
        places, lows, highs = zip(*ends, strict=True)
        axes.fill_between(places, lows, highs, color=colour, alpha=0.15, linewidth=0)
    if series.whiskers:
        for place, low, high in ends:
            axes.plot([place, place], [low, high], color=colour, linewidth=2)
