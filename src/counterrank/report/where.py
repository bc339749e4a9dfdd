"""For whom a policy gains, and at which positions."""

import math

from counterrank.evaluation import SegmentLift
from counterrank.report.document import (
    BRIEF,
    Block,
    Figure,
    Row,
    RowChart,
    Table,
    interval_row,
    normal,
    section,
)
from counterrank.report.numbers import NONE, count, known, span
from counterrank.report.reading import Reading, column_name

#: Segments that a terminal shows: both ends, who gains most and who loses most.
MOST_SEGMENTS = 14


def segments(reading: Reading) -> list[Block]:
    """Return a forest for each target."""
    lead = "Sorted by lift. Segments with too little evidence are dashed, not hidden."
    figures = (_forest(reading, name) for name in reading.candidates)
    return section("For whom", "segments", *figures, lead=lead)


def adjusted(lift: SegmentLift) -> tuple[float, float]:
    """Return the interval that allows for looking at all segments, never shorter than the segment's own."""
    low, high = lift.adjusted_low, lift.adjusted_high
    if not known(high - low):
        return math.nan, math.nan
    return min(low, lift.low), max(high, lift.high)


def _forest(reading: Reading, target: str) -> Figure:
    """Return the segments by column, the largest lift first; in a terminal, those of all columns."""
    own = [s for s in reading.result.segments if s.target == target]
    found = sorted(own, key=lambda s: -s.lift.value if known(s.lift.value) else 0.0)
    # One column, one number of digits: those that the median error supports.
    errors = sorted(s.lift.stderr for s in found if known(s.lift.stderr))
    typical = errors[len(errors) // 2] if errors else None
    mark, rows, cells, styles = reading.mark(target), dict[str, list[Row]](), [], []
    for s in found:
        lift, few, size = s.lift, s.evidence == "insufficient", f"{count(s.n)} rows"
        outer = adjusted(lift)
        wide = span(*outer, typical, sign=True) or NONE
        lines = [
            f"adjusted interval {wide}",
            f"{count(s.ess)} effective rows",
            *(f"⚑ {f}" for f in s.flags),
        ]
        note = f"{size}, too little evidence" if few else size
        row = interval_row(
            s.label, lift, mark, error=typical, outer=outer, note=note, faded=few, more=lines
        )
        rows.setdefault(s.column, []).append(row)
        name = f"{column_name(s.column)} = {s.label}"
        cells.append((name, count(s.n), row.shown, row.reach or NONE, wide, count(s.ess)))
        styles.append("dim" if few else "")
    shown = [
        one
        for column in dict.fromkeys(s.column for s in own)
        for one in (Row(label=column_name(column), heading=True), *rows[column])
    ]
    aid = (
        f"Thick: {reading.level_words} interval of the segment. Thin: adjusted for looking at {len(found)} segments; "
        "only what stays on one side of zero with the thin line stands out."
    )
    title, unit = f"Lift of {target} by segment", f"lift in {reading.unit}"
    head = ("segment", "rows", "lift", "interval", "adjusted interval", "effective rows")
    most = max(MOST_SEGMENTS // len(reading.candidates), 2)
    data = Table(title, head, cells, styles=styles, minor=(5, 3, 1), most=most)
    return Figure("segments", "", aid, RowChart(shown, unit, title), data, mark, detail=BRIEF)


def positions(reading: Reading) -> list[Block]:
    """Return the lift of every position, for each target."""
    aid = f"Right of the line the position gains, left of it it loses; bars are {reading.level_words} intervals."
    figures = []
    for target in reading.candidates:
        mark, rows = reading.mark(target), list[Row]()
        found = reading.lift(target).by_position
        for k, one in enumerate(found, start=1):
            number = normal(one.value, one.stderr, reading.level)
            rows.append(interval_row(f"position {k}", number, mark, error=found[0].stderr))
        chart = RowChart(rows, f"lift in {reading.reward}", f"Lift of {target} by position")
        figures.append(Figure("positions", "", aid, chart, mark=mark))
    lead = "The lifts of the positions add up to the whole."
    return section(f"Where in the {reading.ranking}", "positions", *figures, lead=lead)
