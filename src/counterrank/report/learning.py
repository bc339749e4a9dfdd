"""The page a manager reads before shipping what was learned: the certificate, the path, who gains,
what moves.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from counterrank.errors import ConfigError
from counterrank.report import parts
from counterrank.report.charts import Axis, Frame, Plot, Point, Row, Rows, Scale, Series, around
from counterrank.report.html import in_short, page
from counterrank.report.numbers import at_least, count, known, percent, plain, span
from counterrank.report.reading import Model, column_name, table
from counterrank.report.reading import rows as listed

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

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


def _path_words(model: Model) -> tuple[str, str, str]:
    return _PATHS.get(str(model.get("kind")), _PATHS["best-of"])


def _step_name(step: Mapping[str, Any]) -> str:
    strength = step.get("strength")
    return f"{step.get('m')}" if strength is None else f"{strength:g} x"


def path_drawing(model: Model) -> Plot:
    """Return lift and promised bound by step: ambition against evidence."""
    points, bounds = [], []
    word, under, _ = _path_words(model)
    names: list[tuple[float, str]] = []
    for step in listed(model.get("path")):
        place, value, low = step.get("step"), step.get("value"), step.get("low")
        if not (known(place) and known(value)):
            continue
        # A step is stored as 1 - 1/m, or 1 - 1/(1 + strength): back to m, on a log axis.
        x, name = 1.0 / (1.0 - float(place)), _step_name(step)
        words = (
            f"{word} {name}\nlift {plain(value, sign=True)}\n{count(step.get('ess'))} "
            "effective rows"
        )
        names.append((x, name))
        points.append(Point(x, float(value), tip=words))
        if known(low):
            bounds.append(Point(x, float(low), tip=f"{word} {name}\nbound {plain(low, sign=True)}"))
    last = max((p.x for p in points), default=2.0)
    frame = Frame(
        x=Scale(0.9, max(last, 2.0) * 1.1, log=True),
        y=around([p.y for p in (*points, *bounds)], also=[0.0]),
        x_title=under,
        y_title="lift per ranking",
        lines=[(0.0, "today")],
        signed=True,
        x_ticks=names,
    )
    series = [Series(points=points), Series(points=bounds, look="t1 dash1", shape=1)]
    return Plot(series, frame, "Ambition against evidence", ["estimated lift", "bound to expect"])


def segments_drawing(model: Model) -> Rows:
    """Return the lift of each segment, intervals adjusted for looking at all of them."""
    shown: list[Row] = []
    found = listed(model.get("segments"))
    for column in dict.fromkeys(str(row.get("column")) for row in found):
        shown.append(Row(label=column_name(column), value=None, heading=True))
        for row in sorted(
            (r for r in found if str(r.get("column")) == column), key=lambda r: -float(r["value"])
        ):
            error = row.get("stderr")
            text = plain(row.get("value"), error, sign=True)
            shown.append(
                Row(label=str(row.get("label")), value=row.get("value"), low=row.get("low"), high=row.get("high"),
                         shown=text, note=f"{count(row.get('n'))} rows", tip=f"{row.get('label')}: {text}")
            )  # fmt: skip
    axis = Axis("lift per ranking", line=0.0, line_name="no change", signed=True)
    return Rows(shown, axis, "Lift by segment")


def losers(model: Model) -> list[str]:
    """Return the segments that lose for certain, after looking at all."""
    found = [
        row for row in listed(model.get("segments")) if known(row.get("high")) and row["high"] < 0
    ]
    return [f"{column_name(row.get('column'))} = {row.get('label')}" for row in found]


def learning_page(model: Model, *, back: str | None = None) -> str:
    """Return one self-contained page; `back` links to a list."""
    path_table = parts.table(
        (_path_words(model)[0], "estimated lift", "bound to expect", "effective rows"),
        [(_step_name(s), plain(s.get("value"), sign=True), plain(s.get("low"), sign=True), count(s.get("ess")))
         for s in listed(model.get("path"))],
    )  # fmt: skip
    aid = (
        "Further steps are more ambitious; the further the bound falls behind, the less of it this "
        "log can show."
    )
    path = path_drawing(model)
    figures = [
        parts.figure("Ambition against evidence", aid, path.legend() + path.svg(), path_table)
    ]
    if listed(model.get("segments")):
        told = "Bars are adjusted for looking at all of them."
        figures.append(parts.figure("For whom", told, segments_drawing(model).svg()))
    lift, sort = table(model.get("lift")), table(model.get("sort")).get("value")
    return page(
        "learning.html.j2",
        certified=bool(model.get("certified")),
        sentence=str(model.get("sentence")),
        number=at_least(lift.get("low"), lift.get("stderr"), sign=True),
        level=percent(lift.get("level"), digits=0),
        name=str(model.get("name")),
        estimate=plain(lift.get("value"), lift.get("stderr"), sign=True),
        today=plain(table(model.get("logger")).get("value"), lift.get("stderr")),
        figures=parts.grid(*figures),
        losers=losers(model),
        exposure=_exposure(model),
        sort=plain(sort, lift.get("stderr"), sign=True) if known(sort) else "",
        assumed=_ASSUMED.get(str(model.get("grade")), ""),
        next_time=_NEXT_TIME,
        rows=_rows_in_words(model),
        file=model.get("policy"),
        back=back,
    )


def learning_fragment(model: Model) -> str:
    """Return what a notebook shows."""
    return in_short([str(model.get("sentence")), _rows_in_words(model)], learning_page(model))


def _exposure(model: Model) -> Markup:
    found = listed(model.get("exposure"))
    body = [
        (str(row.get("group")), percent(row.get("before")), percent(row.get("after")),
         plain(100 * ((row.get("after") or 0.0) - (row.get("before") or 0.0)), 0.5, sign=True))
        for row in found
    ]  # fmt: skip
    return (
        parts.table(("shown", "share today", "share learned", "change in points"), body)
        if body
        else Markup("")
    )


def _rows_in_words(model: Model) -> str:
    found: Mapping[str, Any] = table(model.get("rows"))
    return (
        f"{count(found.get('learn'))} rows taught and chose the policy; the certificate rests on "
        f"{count(found.get('certify'))} others that chose nothing."
    )


def learning_picture(model: Model, kind: str) -> "Figure":
    """Return one of the page's charts as a matplotlib figure."""
    from counterrank.report.pictures import figure_of

    kinds: dict[str, Callable[[Model], Plot | Rows]] = {
        "path": path_drawing,
        "segments": segments_drawing,
    }
    if kind not in kinds:
        raise ConfigError(
            f"there is no plot '{kind}' of learning; choose one of {', '.join(kinds)}"
        )
    if kind == "segments" and not listed(model.get("segments")):
        raise ConfigError(
            "nothing to draw for 'segments': there are none; name some with learn(..., "
            "segments=[...])"
        )
    return figure_of([kinds[kind](model)])


def learning_terminal(model: Model) -> "Iterator[RenderableType]":
    """Yield what a terminal shows."""
    from rich.table import Table

    from counterrank.report.terminal import LOOK, safe

    yield safe(model.get("sentence"), "bold")
    yield safe(_rows_in_words(model), "dim")
    shown = Table(title=_path_words(model)[2], **LOOK)
    for name in (_path_words(model)[0], "estimated lift", "bound to expect", "effective rows", ""):
        shown.add_column(name, justify="right" if name else "left")
    for step in listed(model.get("path")):
        mark = "← chosen" if step.get("step") == model.get("step") else ""
        cells = (
            _step_name(step),
            plain(step.get("value"), sign=True),
            plain(step.get("low"), sign=True),
        )
        shown.add_row(*(safe(cell) for cell in (*cells, count(step.get("ess")), mark)))
    yield shown
    if known(ambitious := table(model.get("sort")).get("value")):
        yield safe(
            f"  a plain sort by score: the model expects {plain(ambitious, sign=True)}; not "
            "certified",
            "dim",
        )
    for row in listed(model.get("segments")):
        ends = span(row.get("low"), row.get("high"), row.get("stderr"), sign=True)
        label = f"{column_name(row.get('column'))} = {row.get('label')}"
        yield safe(f"  {label}: {plain(row.get('value'), row.get('stderr'), sign=True)} ({ends})")
    if found := losers(model):
        yield safe(f"These lose for certain: {', '.join(found)}", "bold red")
