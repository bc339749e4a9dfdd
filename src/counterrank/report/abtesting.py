"""An A/B test read with its log: which arm earns more, and by how much."""

from counterrank.evaluation import ABTest, ArmLift
from counterrank.report.document import (
    BRIEF,
    PAGE,
    Document,
    Figure,
    Paragraph,
    Row,
    Table,
    interval_row,
)
from counterrank.report.words import count, known, percent, plain, sentence, span

#: What the two readings are called in tables and in the picture.
NAMES = {"pooled": "every row", "plain": "difference in means"}


def document(test: ABTest, _: int = PAGE) -> Document:
    """Return what the test says."""
    title, *lines = sentences(test)
    aid = (
        "Left of the line the arm earns less than the baseline, right of it more; bars are intervals. "
        "The pale one is the other way to read the same test."
    )
    told = (Paragraph(line, detail=BRIEF) for line in lines)
    chart = Figure(
        "lifts", _rows(test), "more per ranking than the baseline", "Lifts with their intervals",
        [(0.0, "no difference")], "Lifts per ranking", aid, detail=BRIEF,
    )  # fmt: skip
    return Document(title, [*told, chart, _arms(test)])


def sentences(test: ABTest) -> list[str]:
    """Return what the test says, one thing per sentence, the most important first."""
    # What invalidates a test is said before anything that it seems to say.
    lines = [sentence(f"this test is not valid: {note.text}") for note in test.notes if note.fatal]
    for one in test.lifts:
        lines += [_answer(test, one), *([_saving(one)] if test.valid else [])]
    if test.sequential:
        lines.append("The intervals are valid at every look at the growing test.")
    notes = [note for one in test.lifts for note in one.notes]
    lines += [sentence(note.text) for note in (*notes, *test.notes) if not note.fatal]
    return list(dict.fromkeys(lines))


def _answer(test: ABTest, one: ArmLift) -> str:
    to, source, lift = one.to, one.source, one.lift
    value, low, high, error = lift.value, lift.low, lift.high, lift.stderr
    if not (known(value) and known(low) and known(high)):
        return f"{to} and {source} cannot be compared."
    earned = next((arm.earned for arm in test.arms if arm.name == source), 0.0)
    share = f"{percent(value / earned, sign=True)}, " if earned > 0 else ""
    reach = f"({share}{percent(test.level, digits=0)} interval {span(low, high, error, sign=True)})"
    if low <= 0.0 <= high:
        size = plain(value, error, sign=True)
        return f"No difference between {to} and {source} was found: {size} per ranking {reach}."
    more = "more" if low > 0 else "less"
    return f"{to} earns {plain(abs(value), error)} {more} per ranking than {source} {reach}."


def _saving(one: ArmLift) -> str:
    other = one.plain
    if one.headline == "pooled" and known(one.saved):
        reach = span(other.low, other.high, other.stderr, sign=True)
        size = plain(other.value, other.stderr, sign=True)
        times = 1.0 / max(1.0 - one.saved, 1e-9)
        return (
            f"Every row was read for both rankers, which saves {percent(one.saved, digits=0)} of the "
            f"traffic: the plain difference in means, {size} ({reach}), would need "
            f"{plain(times, times / 5)} times the rankings for an interval as short. Both agree."
        )
    if one.agree and not one.notes:
        return (
            "This is the plain difference in means: reading every row for both rankers makes the "
            "interval no shorter here."
        )
    return "This is the plain difference in means, which assumes nothing but a random division of users."


def _arms(test: ABTest) -> Table:
    rows = [
        (arm.name, count(arm.rows), count(arm.units), plain(arm.earned, arm.stderr), plain(arm.stderr, arm.stderr))
        for arm in test.arms
    ]  # fmt: skip
    head = ("arm", "rankings", "units", "earned", "std. error")
    return Table("What each arm earned per ranking", head, rows, detail=BRIEF)


def _rows(test: ABTest) -> list[Row]:
    """Return both readings of each lift."""
    rows: list[Row] = []
    for one in test.lifts:
        rows.append(Row(label=f"{one.to} over {one.source}", heading=True))
        for name, title in NAMES.items():
            found, chosen = one.plain if name == "plain" else one.pooled, one.headline == name
            note = "★ reported" if chosen else ""
            number = interval_row(title, found, error=found.stderr, note=note, faded=not chosen)
            rows.append(number)
    return rows
