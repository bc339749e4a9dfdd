"""Where a policy gains, and for whom.

Lift by position, and a forest of segments with intervals adjusted for looking at many.
"""

from typing import TYPE_CHECKING

from markupsafe import Markup

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
from counterrank.report.numbers import count, known, plain
from counterrank.report.parts import Section, figure_of, grid_of, section, style_of, table
from counterrank.report.reading import Reading, column_name, ends
from counterrank.report.sentences import level

if TYPE_CHECKING:
    from counterrank.evaluation import Segment, SegmentLift


def positions(reading: Reading) -> Section | None:
    """Return a small chart for each target, all on one scale."""
    body = grid_of(reading, _positions_figure)
    lead = "The lifts of the positions add up to the whole."
    return section("positions", f"Where in the {reading.words()[1]}", lead, body)


def _points(reading: Reading, target: str) -> list[Point]:
    reward = reading.words()[0]
    points = []
    for k, row in enumerate(reading.lift(target).by_position, start=1):
        value, error = row.value, row.stderr
        if not known(value):
            continue
        reach = reading.reach(error) if known(error) else 0.0
        tip = f"position {k}: {plain(value, error, sign=True)} {reward}\n± {plain(error, error)}"
        points.append(Point(float(k), value, value - reach, value + reach, tip))
    return points


def positions_drawing(reading: Reading, target: str) -> Plot | None:
    """Return the lift at each position, on the scale of all targets."""
    found = {name: _points(reading, name) for name in reading.targets}
    points = found[target]
    if not points:
        return None
    scale = around([v for one in found.values() for p in one for v in (p.low, p.high)], also=[0.0])
    style = style_of(reading, target)
    last = int(points[-1].x)
    frame = PlotFrame(
        x=AxisScale(0.5, last + 0.5), y=scale, x_title="position", y_title=f"lift in {reading.words()[0]}",
        lines=[(0.0, "")], signed=True, height=180,
        x_ticks=[(k, str(k)) for k in range(1, last + 1, max(1, (last + 9) // 10))],
    )  # fmt: skip
    one = Series(points=points, look=style.look, shape=style.shape, joined=False, whiskers=True)
    return Plot([one], frame, f"Lift of {target} by position")


def _positions_figure(reading: Reading, target: str) -> Markup:
    drawn = positions_drawing(reading, target)
    if drawn is None:
        return Markup("")
    body = [
        (
            int(p.x),
            *(plain(v, (p.high or 0) - p.y or None, sign=True) for v in (p.y, p.low, p.high)),
        )  # fmt: skip
        for p in drawn.series[0].points
    ]
    data = table(("position", "lift", "low", "high"), body)
    aid = f"Above zero the position gains, below it loses; bars are {level(reading)} intervals."
    return figure_of(reading, target, aid, drawn.svg(), data)


def segments(reading: Reading) -> Section | None:
    """Return a forest for each target."""
    lead = (
        "Sorted by lift within each column. Segments with too little evidence are faded, not "
        "hidden."
    )
    body = grid_of(reading, _segments_figure)
    return section("segments", "For whom", lead, body)


def adjusted(lift: "SegmentLift") -> tuple[float, float] | None:
    """Return the interval that holds for all segments at once.

    Looking at more segments never makes an interval shorter, also where the first one is not symmetric.
    """
    outer, inner = ends(lift.adjusted_low, lift.adjusted_high), ends(lift.low, lift.high)
    if outer is None or inner is None:
        return outer
    return min(outer[0], inner[0]), max(outer[1], inner[1])


def _of(reading: Reading, target: str) -> "list[Segment]":
    return [s for s in reading.result.segments if s.target == target]


def by_lift(s: "Segment") -> float:
    """Return what sorts segments by lift, the largest first; one without a value is like none."""
    return -s.lift.value if known(s.lift.value) else 0.0


def segments_drawing(reading: Reading, target: str) -> RowChart:
    """Return the lift of every segment of a target."""
    found, shown = _of(reading, target), []
    # One column, one number of digits: those that the median error supports.
    errors = sorted(s.lift.stderr for s in found if known(s.lift.stderr))
    typical = errors[len(errors) // 2] if errors else None
    for column in dict.fromkeys(s.column for s in found):
        members = sorted((s for s in found if s.column == column), key=by_lift)
        shown.append(Row(label=column_name(column), value=None, heading=True))
        shown += [_segment(reading, s, typical) for s in members]
    title = f"lift in {' per '.join(reading.words())}"
    axis = Axis(title, line=0.0, line_name="no change", signed=True)
    return RowChart(shown, axis, f"Lift of {target} by segment")


def _segments_figure(reading: Reading, target: str) -> Markup:
    found, drawn = _of(reading, target), segments_drawing(reading, target).svg()
    aid = (
        f"Thick: {level(reading)} interval of that segment. Thin: adjusted for looking at "
        f"{len(found)} segments; only what stays on one side of zero with the thin line stands out."
    )
    return figure_of(reading, target, aid, drawn, _segments_table(found))


def _segment(reading: Reading, s: "Segment", typical: float | None) -> Row:
    lift, error = s.lift, s.lift.stderr
    style, outer = style_of(reading, s.target), adjusted(lift)
    told, shown = (plain(lift.value, e, sign=True) for e in (error, typical or error))
    few = s.evidence == "insufficient"
    lines = [
        f"{column_name(s.column)} = {s.label}",
        f"lift {told} ± {plain(error, error)}",
    ]
    if outer is not None:
        ends = " to ".join(plain(end, error, sign=True) for end in outer)
        lines.append(f"adjusted interval {ends}")
    lines.append(f"{count(s.n)} rows, {count(s.ess)} effective")
    lines += [f"⚑ {flag}" for flag in s.flags]
    note = f"{count(s.n)} rows" + (", too little evidence" if few else "")
    return Row(
        label=s.label, note=note, value=lift.value, low=lift.low, high=lift.high,
        outer=outer, shown=shown, tip="\n".join(lines), look=style.look, shape=style.shape, faded=few,
    )  # fmt: skip


def _segments_table(found: "list[Segment]") -> Markup:
    head = ("column", "segment", "rows", "effective", "lift", "low", "high")
    body = []
    for s in found:
        numbers = (s.lift.value, s.lift.low, s.lift.high, *(adjusted(s.lift) or (None, None)))
        shown = (plain(v, s.lift.stderr, sign=True) for v in numbers)
        body.append((column_name(s.column), s.label, count(s.n), count(s.ess), *shown))
    return table((*head, "adjusted low", "adjusted high"), body, texts=2)
