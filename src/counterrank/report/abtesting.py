"""An A/B test read with its log: which arm earns more and by how much, on a page, in a terminal, as a figure."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from counterrank.report import parts
from counterrank.report.charts import Axis, Row, RowChart
from counterrank.report.html import filled, in_short
from counterrank.report.numbers import count, known, percent, plain, span
from counterrank.texts import sentence

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

    from counterrank.evaluation import ABTest, ArmLift
    from counterrank.statistics import Number

ARMS = ("arm", "rankings", "units", "earned", "± se")
LIFTS = ("arm", "reading", "lift", "interval", "± se", "reported")
#: What the two readings are called in tables and in the picture.
NAMES = {"pooled": "every row", "plain": "difference in means"}


def sentences(test: "ABTest") -> list[str]:
    """Return what the test says, one thing a sentence, the most important first."""
    # What invalidates a test is said before anything that it seems to say.
    lines = [sentence(f"this test is not valid: {note.text}") for note in test.notes if note.fatal]
    for one in test.lifts:
        lines.append(_answer(test, one))
        lines += [_saving(one)] if test.valid else []
    if test.top_down:
        lines.append("As declared, what stands below a place does not change its reward.")
    if test.sequential:
        lines.append("The intervals hold at every look at the growing test.")
    for one in test.lifts:
        lines += [sentence(note.text) for note in one.notes]
    return list(
        dict.fromkeys([*lines, *(sentence(note.text) for note in test.notes if not note.fatal)])
    )


def _answer(test: "ABTest", one: "ArmLift") -> str:
    to, source, lift = one.to, one.source, one.lift
    value, low, high, error = lift.value, lift.low, lift.high, lift.stderr
    earned = next((arm.earned for arm in test.arms if arm.name == source), 0.0)
    share = f"{percent(value / earned, sign=True)}, " if known(value) and earned > 0 else ""
    level = percent(test.level, digits=0)
    reach = f"({share}{level} interval {span(low, high, error, sign=True)})"
    if not (known(value) and known(low) and known(high)):
        return f"Nothing can be said of {to} against {source}."
    if low <= 0.0 <= high:
        size = plain(value, error, sign=True)
        return f"No difference between {to} and {source} was found: {size} per ranking {reach}."
    more = "more" if low > 0 else "less"
    return f"{to} earns {plain(abs(value), error)} {more} per ranking than {source} {reach}."


def _saving(one: "ArmLift") -> str:
    other = one.plain
    reach = span(other.low, other.high, other.stderr, sign=True)
    size = plain(other.value, other.stderr, sign=True)
    if one.headline == "pooled" and known(one.saved):
        times = 1.0 / max(1.0 - one.saved, 1e-9)
        return (
            f"Every row was read for both rankers, which saves {percent(one.saved, digits=0)} of the "
            f"traffic: the plain difference in means, {size} ({reach}), would need "
            f"{plain(times, times / 5)} times the rankings to be as sharp. Both agree."
        )
    if one.agree and not one.notes:
        return (
            "This is the plain difference in means: reading every row for both rankers makes it no "
            "sharper here."
        )
    return "This is the plain difference in means, which rests on nothing but the coin."


def reading_of(one: "ArmLift", name: str) -> "Number":
    """Return one of the two readings of a lift."""
    return one.plain if name == "plain" else one.pooled


def arm_lines(test: "ABTest") -> list[tuple[str, ...]]:
    """Return a line of the table for each arm."""
    return [
        (
            arm.name,
            count(arm.rows),
            count(arm.units),
            plain(arm.earned, arm.stderr),
            plain(arm.stderr, arm.stderr),
        )
        for arm in test.arms
    ]


def lift_lines(test: "ABTest") -> list[tuple[str, ...]]:
    """Return two lines of the table for each lift, the headline marked."""
    lines: list[tuple[str, ...]] = []
    for one in test.lifts:
        for name, title in NAMES.items():
            found = reading_of(one, name)
            error = found.stderr
            lines.append(
                (
                    f"{one.to} over {one.source}",
                    title,
                    plain(found.value, error, sign=True),
                    span(found.low, found.high, error, sign=True) or "–",
                    plain(error, error),
                    "★" if one.headline == name else "",
                )
            )
    return lines


def drawing(test: "ABTest") -> RowChart:
    """Return both readings of each lift over one axis, with the line of no difference."""
    shown: list[Row] = []
    for one in test.lifts:
        shown.append(Row(label=f"{one.to} over {one.source}", value=None, heading=True))
        for name, title in NAMES.items():
            found = reading_of(one, name)
            reach = span(found.low, found.high, found.stderr, sign=True)
            size = plain(found.value, found.stderr, sign=True)
            shown.append(
                Row(
                    label=title,
                    value=found.value,
                    low=found.low,
                    high=found.high,
                    shown=size,
                    tip=f"{title}\n{size} ({reach})",
                    faded=one.headline != name,
                )
            )
    axis = Axis("more per ranking than the baseline", line=0.0, line_name="no lift", signed=True)
    return RowChart(shown, axis, "Lifts with their intervals")


def page(test: "ABTest", *, back: str | None = None) -> str:
    """Return one self-contained page; `back` links to a list."""
    aid = (
        "Left of the line the arm earns less than the baseline, right of it more; bars are intervals. "
        "The pale one is the other way to read the same test."
    )
    return filled(
        "abtest.html.j2",
        sentences=sentences(test),
        chart=parts.figure("Lifts", aid, drawing(test).svg()),
        lifts=parts.table(LIFTS, lift_lines(test), texts=2),
        arms=parts.table(ARMS, arm_lines(test), texts=1),
        back=back,
    )


def fragment(test: "ABTest") -> str:
    """Return what a notebook shows."""
    return in_short(sentences(test), page(test))


def picture(test: "ABTest") -> "Figure":
    """Return the lifts as a matplotlib figure."""
    from counterrank.report.pictures import figure_of

    return figure_of([drawing(test)])


def terminal(test: "ABTest") -> "Iterator[RenderableType]":
    """Yield what a terminal shows."""
    from counterrank.report.terminal import safe, tabled

    for index, line in enumerate(sentences(test)):
        yield safe(line, "bold" if index == 0 else "")
    yield tabled("Lifts per ranking", LIFTS, lift_lines(test))
    yield tabled("Arms", ARMS, arm_lines(test))
