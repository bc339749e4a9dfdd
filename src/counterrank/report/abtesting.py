"""An A/B test read with its log, for a page, a terminal and a figure: which arm, and by how much?"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from counterrank.report import parts
from counterrank.report.charts import Axis, Row, Rows
from counterrank.report.html import in_short, page
from counterrank.report.numbers import count, known, percent, plain, span
from counterrank.report.reading import Model, rows, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

ARMS = ("arm", "rankings", "units", "earned", "± se")
LIFTS = ("arm", "reading", "lift", "interval", "± se", "reported")
#: What the two readings are called in tables and in the picture.
NAMES = {"pooled": "every row", "plain": "difference in means"}


def sentences(model: Model) -> list[str]:
    """Return what the test says, one thing a sentence, the most important first."""
    lines: list[str] = []
    for one in rows(model.get("lifts")):
        lines.append(_answer(model, one))
        lines.append(_saving(one))
    if model.get("sequential"):
        lines.append("The intervals hold at every look at the growing test.")
    for one in rows(model.get("lifts")):
        lines += notes(one)
    return list(dict.fromkeys([*lines, *notes(model)]))


def notes(found: Mapping[str, Any]) -> list[str]:
    """Return the notes of a result or of a lift as sentences."""
    texts = [str(note.get("text") or "") for note in rows(found.get("notes"))]
    return [f"{text[:1].upper()}{text[1:]}{'' if text[-1:] in '.?' else '.'}" for text in texts]


def _answer(model: Model, one: Mapping[str, Any]) -> str:
    to, source, lift = one.get("to"), one.get("from"), headline(one)
    value, low, high, error = (lift.get(name) for name in ("value", "low", "high", "stderr"))
    base = next((a for a in rows(model.get("arms")) if a.get("name") == source), {})
    share = ""
    if known(value) and known(base.get("earned")) and base["earned"] > 0:
        share = f"{percent(value / base['earned'], sign=True)}, "
    level = percent(model.get("level"), digits=0)
    reach = f"({share}{level} interval {span(low, high, error, sign=True)})"
    if not (known(value) and known(low) and known(high)):
        return f"Nothing can be said of {to} against {source}."
    if low <= 0.0 <= high:
        size = plain(value, error, sign=True)
        return f"No difference between {to} and {source} was found: {size} per ranking {reach}."
    more = "more" if low > 0 else "less"
    return f"{to} earns {plain(abs(value), error)} {more} per ranking than {source} {reach}."


def headline(one: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the difference that is to be reported."""
    return table(one.get("plain" if one.get("headline") == "plain" else "pooled"))


def _saving(one: Mapping[str, Any]) -> str:
    saved, other = one.get("saved"), table(one.get("plain"))
    reach = span(other.get("low"), other.get("high"), other.get("stderr"), sign=True)
    size = plain(other.get("value"), other.get("stderr"), sign=True)
    if one.get("headline") == "pooled" and known(saved):
        times = 1.0 / max(1.0 - saved, 1e-9)
        return (
            f"Every row was read for both rankers, which saves {percent(saved, digits=0)} of the "
            f"traffic: the plain difference in means, {size} ({reach}), would need "
            f"{plain(times, times / 5)} times the rankings to be as sharp. Both agree."
        )
    if one.get("agree") and not one.get("notes"):
        return (
            "This is the plain difference in means: reading every row for both rankers makes it no "
            "sharper here."
        )
    return "This is the plain difference in means, which rests on nothing but the coin."


def arm_lines(model: Model) -> list[tuple[str, ...]]:
    """Return a line of the table for each arm."""
    return [
        (
            str(arm.get("name")),
            count(arm.get("rows")),
            count(arm.get("units")),
            plain(arm.get("earned"), arm.get("stderr")),
            plain(arm.get("stderr"), arm.get("stderr")),
        )
        for arm in rows(model.get("arms"))
    ]


def lift_lines(model: Model) -> list[tuple[str, ...]]:
    """Return two lines of the table for each lift, the headline marked."""
    lines: list[tuple[str, ...]] = []
    for one in rows(model.get("lifts")):
        for name, title in NAMES.items():
            found = table(one.get(name))
            error = found.get("stderr")
            lines.append(
                (
                    f"{one.get('to')} over {one.get('from')}",
                    title,
                    plain(found.get("value"), error, sign=True),
                    span(found.get("low"), found.get("high"), error, sign=True) or "–",
                    plain(error, error),
                    "★" if one.get("headline") == name else "",
                )
            )
    return lines


def drawing(model: Model) -> Rows:
    """Return both readings of each lift over one axis, with the line of no difference."""
    shown: list[Row] = []
    for one in rows(model.get("lifts")):
        shown.append(Row(label=f"{one.get('to')} over {one.get('from')}", value=None, heading=True))
        for name, title in NAMES.items():
            found = table(one.get(name))
            value, low, high = (found.get(key) for key in ("value", "low", "high"))
            reach = span(low, high, found.get("stderr"), sign=True)
            size = plain(value, found.get("stderr"), sign=True)
            shown.append(
                Row(
                    label=title,
                    value=value,
                    low=low,
                    high=high,
                    shown=size,
                    tip=f"{title}\n{size} ({reach})",
                    faded=one.get("headline") != name,
                )
            )
    axis = Axis("more per ranking than the baseline", line=0.0, line_name="no lift", signed=True)
    return Rows(shown, axis, "Lifts with their intervals")


def abtest_page(model: Model, *, back: str | None = None) -> str:
    """Return one self-contained page; `back` links to a list."""
    aid = (
        "Left of the line the arm earns less than the baseline, right of it more; bars are intervals. "
        "The pale one is the other way to read the same test."
    )
    return page(
        "abtest.html.j2",
        sentences=sentences(model),
        chart=parts.figure("Lifts", aid, drawing(model).svg()),
        lifts=parts.table(LIFTS, lift_lines(model), texts=2),
        arms=parts.table(ARMS, arm_lines(model), texts=1),
        back=back,
    )


def abtest_fragment(model: Model) -> str:
    """Return what a notebook shows."""
    return in_short(sentences(model), abtest_page(model))


def abtest_picture(model: Model) -> "Figure":
    """Return the lifts as a matplotlib figure."""
    from counterrank.report.pictures import figure_of

    return figure_of([drawing(model)])


def abtest_terminal(model: Model) -> "Iterator[RenderableType]":
    """Yield what a terminal shows."""
    from rich.table import Table

    from counterrank.report.terminal import LOOK, safe

    for index, line in enumerate(sentences(model)):
        yield safe(line, "bold" if index == 0 else "")
    for title, head, lines in (
        ("Lifts per ranking", LIFTS, lift_lines(model)),
        ("Arms", ARMS, arm_lines(model)),
    ):
        shown = Table(title=title, **LOOK)
        for name in head:
            shown.add_column(name)
        for cells in lines:
            shown.add_row(*(safe(cell) for cell in cells))
        yield shown
