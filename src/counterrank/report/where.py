"""For whom a policy gains, and at which positions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterrank.report.answer import level
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
from counterrank.report.document import BRIEF, PAGE, Block, Figure, Table, section
from counterrank.report.numbers import NONE, count, known, plain, span
from counterrank.report.reading import Reading, column_name, ends

if TYPE_CHECKING:
    from counterrank.evaluation import Segment, SegmentLift

#: Segments that a terminal shows: both ends, who gains most and who loses most.
MOST_SEGMENTS = 14


def segments(reading: Reading) -> list[Block]:
    """Return a forest for each target."""
    lead = "Sorted by lift. Segments with too little evidence are dashed, not hidden."
    return section(
        "For whom", "segments", *(_forest(reading, name) for name in reading.targets), lead=lead
    )


def adjusted(lift: SegmentLift) -> tuple[float, float] | None:
    """Return the interval that allows for looking at all segments, never shorter than the segment's own."""
    outer, inner = ends(lift.adjusted_low, lift.adjusted_high), ends(lift.low, lift.high)
    if outer is None or inner is None:
        return outer
    return min(outer[0], inner[0]), max(outer[1], inner[1])


def _of(reading: Reading, target: str) -> list[Segment]:
    found = [s for s in reading.result.segments if s.target == target]
    return sorted(found, key=lambda s: -s.lift.value if known(s.lift.value) else 0.0)


def _forest(reading: Reading, target: str) -> Figure:
    found, shown = _of(reading, target), list[Row]()
    # One column, one number of digits: those that the median error supports.
    errors = sorted(s.lift.stderr for s in found if known(s.lift.stderr))
    typical = errors[len(errors) // 2] if errors else None
    for column in dict.fromkeys(s.column for s in reading.result.segments if s.target == target):
        shown.append(Row(label=column_name(column), value=None, heading=True))
        shown += [_segment(reading, s, typical) for s in found if s.column == column]
    axis = Axis(
        f"lift in {' per '.join(reading.words())}", line=0.0, line_name="no change", signed=True
    )
    aid = (
        f"Thick: {level(reading)} interval of the segment. Thin: adjusted for looking at {len(found)} segments; "
        "only what stays on one side of zero with the thin line stands out."
    )
    chart = RowChart(shown, axis, f"Lift of {target} by segment")
    return Figure("segments", "", aid, chart, mark=reading.mark(target))


def _segment(reading: Reading, s: Segment, typical: float | None) -> Row:
    lift, error, mark = s.lift, s.lift.stderr, reading.mark(s.target)
    outer, few = adjusted(lift), s.evidence == "insufficient"
    lines = [f"{column_name(s.column)} = {s.label}", f"lift {plain(lift.value, error, sign=True)}"]
    if outer is not None:
        lines.append(f"adjusted interval {span(*outer, error, sign=True)}")
    lines += [f"{count(s.n)} rows, {count(s.ess)} effective", *(f"⚑ {flag}" for flag in s.flags)]
    return Row(
        label=s.label, note=f"{count(s.n)} rows" + (", too little evidence" if few else ""), value=lift.value,
        low=lift.low, high=lift.high, outer=outer, shown=plain(lift.value, typical or error, sign=True),
        tip="\n".join(lines), look=mark.look, shape=mark.shape, faded=few,
    )  # fmt: skip


def segment_tables(reading: Reading) -> list[Block]:
    """Return the segments in numbers; a terminal gets both ends of a long list."""
    found = [s for target in reading.targets for s in _of(reading, target)]
    if not found:
        return []
    whole = _segment_table("Lift by segment", found, PAGE if len(found) > MOST_SEGMENTS else BRIEF)
    if len(found) <= MOST_SEGMENTS:
        return section("Segments in numbers", "segment-table", whole)
    half = max(MOST_SEGMENTS // (2 * len(reading.targets)), 1)
    some = [s for target in reading.targets for s in _both_ends(_of(reading, target), half)]
    ends_ = _segment_table(f"Lift by segment (top and bottom of {len(found)})", some, BRIEF)
    return section("Segments in numbers", "segment-table", ends_, whole)


def _both_ends(found: list[Segment], half: int) -> list[Segment]:
    return found if len(found) <= 2 * half else [*found[:half], *found[-half:]]


def _segment_table(caption: str, found: list[Segment], detail: int) -> Table:
    rows, styles = [], []
    for s in found:
        lift, outer = s.lift, adjusted(s.lift)
        error = lift.stderr
        reach = span(lift.low, lift.high, error, sign=True) or NONE
        wide = span(*outer, error, sign=True) if outer else NONE
        label = f"{column_name(s.column)} = {s.label}"
        rows.append(
            (
                s.target,
                label,
                count(s.n),
                plain(lift.value, error, sign=True),
                reach,
                wide,
                count(s.ess),
            )
        )
        styles.append("dim" if s.evidence == "insufficient" else "")
    head = ("policy", "segment", "rows", "lift", "interval", "adjusted interval", "effective rows")
    return Table(caption, head, rows, texts=2, styles=styles, minor=(6, 4, 2), detail=detail)


def positions(reading: Reading) -> list[Block]:
    """Return a small chart for each target, all on one scale."""
    found = {name: _points(reading, name) for name in reading.targets}
    scale = around([v for one in found.values() for p in one for v in (p.low, p.high)], also=[0.0])
    figures = [
        _positions_figure(reading, name, points, scale) for name, points in found.items() if points
    ]
    lead = "The lifts of the positions add up to the whole."
    return section(f"Where in the {reading.words()[1]}", "positions", *figures, lead=lead)


def _points(reading: Reading, target: str) -> list[Point]:
    reward = reading.words()[0]
    points = []
    for k, row in enumerate(reading.lift(target).by_position, start=1):
        if known(row.value):
            reach = reading.reach(row.stderr) if known(row.stderr) else 0.0
            tip = f"position {k}: {plain(row.value, row.stderr, sign=True)} {reward}"
            points.append(Point(float(k), row.value, row.value - reach, row.value + reach, tip))
    return points


def _positions_figure(
    reading: Reading, target: str, points: list[Point], scale: AxisScale
) -> Figure:
    mark, last = reading.mark(target), int(points[-1].x)
    frame = PlotFrame(
        x=AxisScale(0.5, last + 0.5), y=scale, x_title="position", y_title=f"lift in {reading.words()[0]}",
        lines=[(0.0, "")], signed=True, height=180,
        x_ticks=[(k, str(k)) for k in range(1, last + 1, max(1, (last + 9) // 10))],
    )  # fmt: skip
    one = Series(points=points, look=mark.look, shape=mark.shape, joined=False, whiskers=True)
    rows = [
        (
            str(int(p.x)),
            *(plain(v, (p.high or 0) - p.y or None, sign=True) for v in (p.y, p.low, p.high)),
        )
        for p in points
    ]
    aid = f"Above zero the position gains, below it loses; bars are {level(reading)} intervals."
    data = Table(f"Lift of {target} by position", ("position", "lift", "low", "high"), rows)
    return Figure(
        "positions", "", aid, Plot([one], frame, f"Lift of {target} by position"), data, mark
    )
