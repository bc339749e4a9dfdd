"""The page a manager reads before shipping what was learned: the certificate, the path, who gains, what moves."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from markupsafe import Markup

from counterrank.errors import ConfigError
from counterrank.report import parts
from counterrank.report.charts import (
    Axis,
    AxisScale,
    Plot,
    PlotFrame,
    Point,
    Row,
    RowChart,
    Series,
    around,
)
from counterrank.report.html import filled, in_short
from counterrank.report.numbers import at_least, count, known, percent, plain, span
from counterrank.report.reading import column_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

    from counterrank.learning import LearningReport, PathStep

_ASSUMED = {
    "free": (
        "Nothing is assumed about how users behave, and the bound holds for any number of rows. "
        "Assumed is that the log is right (today's policy drew what it says it drew, rewards were "
        "recorded), that users do not influence each other, and that tomorrow's users are like "
        "those of the log."
    ),
    "assumed": (
        "The bound is that of a t test: it holds for many rows with rewards of ordinary tails. "
        "Assumed is also that the log is right, that users do not influence each other, and that "
        "tomorrow's users are like those of it."
    ),
}
_NEXT_TIME = (
    "Log more randomness: the better of two rankings can only be found among rankings that were "
    "shown.",
    "Log every candidate with its features, not only what was shown: then the model can tell "
    "items apart.",
    "Log what users did after the click, if that is what you care about: a policy that is learned "
    "from clicks earns clicks, not satisfaction.",
)


#: What the steps of a path are called: above a column, under the picture, over the table.
_PATHS = {
    "best-of": (
        "best of",
        "rankings drawn from today's policy, the best is shown",
        "From today's policy to the best ranking it could have shown",
    ),
    "added": (
        "learned score",
        "how often the learned score is added to today's",
        "From today's policy to the learned score",
    ),
    "plackett-luce": (
        "learned score",
        "how often the learned score counts",
        "From any order to the learned score",
    ),
}


def _path_words(found: "LearningReport") -> tuple[str, str, str]:
    return _PATHS.get(found.kind, _PATHS["best-of"])


def _step_name(step: "PathStep") -> str:
    return f"{step.m}" if step.strength is None else f"{step.strength:g} x"


def path_drawing(found: "LearningReport") -> Plot:
    """Return lift and promised bound by step: ambition against evidence."""
    points, bounds = [], []
    word, under, _ = _path_words(found)
    names: list[tuple[float, str]] = []
    for step in found.path:
        # A step is stored as 1 - 1/m, or 1 - 1/(1 + strength): back to m, on a log axis.
        x, name = 1.0 / (1.0 - step.step), _step_name(step)
        lift, rows = plain(step.value, sign=True), count(step.ess)
        names.append((x, name))
        points.append(
            Point(x, step.value, tip=f"{word} {name}\nlift {lift}\n{rows} effective rows")
        )
        if known(step.low):
            bound = f"{word} {name}\nbound {plain(step.low, sign=True)}"
            bounds.append(Point(x, step.low, tip=bound))
    last = max((p.x for p in points), default=2.0)
    frame = PlotFrame(
        x=AxisScale(0.9, max(last, 2.0) * 1.1, log=True),
        y=around([p.y for p in (*points, *bounds)], also=[0.0]),
        x_title=under,
        y_title="lift per ranking",
        lines=[(0.0, "today")],
        signed=True,
        x_ticks=names,
    )
    series = [Series(points=points), Series(points=bounds, look="t1 dash1", shape=1)]
    return Plot(series, frame, "Ambition against evidence", ["estimated lift", "bound to expect"])


def segments_drawing(found: "LearningReport") -> RowChart:
    """Return the lift of each segment, intervals adjusted for looking at all of them."""
    shown: list[Row] = []
    for column in dict.fromkeys(row.column for row in found.segments):
        shown.append(Row(label=column_name(column), value=None, heading=True))
        members = (row for row in found.segments if row.column == column)
        for row in sorted(members, key=lambda row: -row.value):
            text = plain(row.value, row.stderr, sign=True)
            shown.append(
                Row(label=row.label, value=row.value, low=row.low, high=row.high, shown=text,
                    note=f"{count(row.n)} rows", tip=f"{row.label}: {text}")
            )  # fmt: skip
    axis = Axis("lift per ranking", line=0.0, line_name="no change", signed=True)
    return RowChart(shown, axis, "Lift by segment")


def losers(found: "LearningReport") -> list[str]:
    """Return the segments that lose for certain, after looking at all."""
    return [f"{column_name(row.column)} = {row.label}" for row in found.segments if row.high < 0]


def page(found: "LearningReport", *, back: str | None = None) -> str:
    """Return one self-contained page; `back` links to a list."""
    path_table = parts.table(
        (_path_words(found)[0], "estimated lift", "bound to expect", "effective rows"),
        [(_step_name(s), plain(s.value, sign=True), plain(s.low, sign=True), count(s.ess))
         for s in found.path],
    )  # fmt: skip
    aid = (
        "Further steps are more ambitious; the further the bound falls behind, the less of it this "
        "log can show."
    )
    path = path_drawing(found)
    figures = [
        parts.figure("Ambition against evidence", aid, path.legend() + path.svg(), path_table)
    ]
    if found.segments:
        told = "Bars are adjusted for looking at all of them."
        figures.append(parts.figure("For whom", told, segments_drawing(found).svg()))
    lift, sort = found.lift, found.sort.value
    return filled(
        "learning.html.j2",
        certified=found.certified,
        sentence=found.sentence,
        number=at_least(lift.low, lift.stderr, sign=True),
        level=percent(lift.level, digits=0),
        name=found.name,
        estimate=plain(lift.value, lift.stderr, sign=True),
        today=plain(found.logger.value, lift.stderr),
        figures=parts.grid(*figures),
        losers=losers(found),
        exposure=_exposure(found),
        sort=plain(sort, lift.stderr, sign=True) if known(sort) else "",
        assumed=_ASSUMED.get(found.grade, ""),
        next_time=_NEXT_TIME,
        rows=sentences(found)[1],
        file=found.policy,
        back=back,
    )


def sentences(found: "LearningReport") -> list[str]:
    """Return what was learned, the most important first."""
    rows = found.rows
    return [
        found.sentence,
        f"{count(rows.get('learn'))} rows taught and chose the policy; the certificate rests on "
        f"{count(rows.get('certify'))} others that chose nothing.",
    ]


def fragment(found: "LearningReport") -> str:
    """Return what a notebook shows."""
    return in_short(sentences(found), page(found))


def _exposure(found: "LearningReport") -> Markup:
    body = [
        (row.group, percent(row.before), percent(row.after), plain(100 * (row.after - row.before), 0.5, sign=True))
        for row in found.exposure
    ]  # fmt: skip
    return (
        parts.table(("shown", "share today", "share learned", "change in points"), body)
        if body
        else Markup("")
    )


def picture(found: "LearningReport", kind: str) -> "Figure":
    """Return one of the page's charts as a matplotlib figure."""
    from counterrank.report.pictures import figure_of

    kinds: dict[str, Callable[[LearningReport], Plot | RowChart]] = {
        "path": path_drawing,
        "segments": segments_drawing,
    }
    if kind not in kinds:
        raise ConfigError(
            f"there is no plot '{kind}' of learning; choose one of {', '.join(kinds)}"
        )
    if kind == "segments" and not found.segments:
        raise ConfigError(
            "nothing to draw for 'segments': there are none; name some with learn(..., "
            "segments=[...])"
        )
    return figure_of([kinds[kind](found)])


def terminal(found: "LearningReport") -> "Iterator[RenderableType]":
    """Yield what a terminal shows."""
    from counterrank.report.terminal import safe, titled

    for line, style in zip(sentences(found), ("bold", "dim"), strict=True):
        yield safe(line, style)
    shown = titled(_path_words(found)[2])
    for name in (_path_words(found)[0], "estimated lift", "bound to expect", "effective rows", ""):
        shown.add_column(name, justify="right" if name else "left")
    for step in found.path:
        mark = "← chosen" if step.step == found.step else ""
        cells = (_step_name(step), plain(step.value, sign=True), plain(step.low, sign=True))
        shown.add_row(*(safe(cell) for cell in (*cells, count(step.ess), mark)))
    yield shown
    if known(ambitious := found.sort.value):
        yield safe(
            f"  a plain sort by score: the model expects {plain(ambitious, sign=True)}; not "
            "certified",
            "dim",
        )
    for row in found.segments:
        ends = span(row.low, row.high, row.stderr, sign=True)
        label = f"{column_name(row.column)} = {row.label}"
        yield safe(f"  {label}: {plain(row.value, row.stderr, sign=True)} ({ends})")
    if lost := losers(found):
        yield safe(f"These lose for certain: {', '.join(lost)}", "bold red")
