"""Where a policy gains, and for whom: lift by position, and a forest of segments with intervals
adjusted for looking at many.
"""

from collections.abc import Mapping
from statistics import NormalDist
from typing import Any

from markupsafe import Markup

from counterrank.report.charts import Axis, Frame, Plot, Point, Row, Rows, Scale, Series, around
from counterrank.report.numbers import count, known, plain
from counterrank.report.parts import Section, figure_of, grid_of, section, style_of, table
from counterrank.report.reading import Reading, column_name, ends, rows, texts
from counterrank.report.reading import table as mapping
from counterrank.report.sentences import level

#: Below so many effective rows a segment is faded.
FEW = 100


def positions(reading: Reading) -> Section | None:
    """Return a small chart for each target, all on one scale."""
    body = grid_of(reading, _positions_figure)
    lead = "The lifts of the positions add up to the whole."
    return section("positions", f"Where in the {reading.words()[1]}", lead, body)


def _points(reading: Reading, target: str) -> list[Point]:
    reward = reading.words()[0]
    points = []
    for k, row in enumerate(rows(reading.lift(target).get("by_position")), start=1):
        value, error = row.get("value"), row.get("stderr")
        if not known(value):
            continue
        reach = reading.reach(float(error)) if known(error) else 0.0
        low, high = float(value) - reach, float(value) + reach
        tip = f"position {k}: {plain(value, error, sign=True)} {reward}\n± {plain(error, error)}"
        points.append(Point(float(k), float(value), low, high, tip))
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
    frame = Frame(
        x=Scale(0.5, last + 0.5), y=scale, x_title="position", y_title=f"lift in {reading.words()[0]}",
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


def adjusted(reading: Reading, lift: Mapping[str, Any], looks: int) -> tuple[float, float] | None:
    """Return the interval that holds for all segments at once: the recorded one, or Bonferroni over
    `looks`.
    """
    if recorded := ends(lift, "adjusted_low", "adjusted_high"):
        return _around(lift, *recorded)
    value, error = lift.get("value"), lift.get("stderr")
    if not (known(value) and known(error)):
        return None
    reach = NormalDist().inv_cdf(1 - (1 - reading.level) / 2 / max(looks, 1)) * float(error)
    return _around(lift, float(value) - reach, float(value) + reach)


def _around(lift: Mapping[str, Any], low: float, high: float) -> tuple[float, float]:
    """Looking at more segments never makes an interval shorter, also where the first one is not
    symmetric.
    """
    first, last = lift.get("low"), lift.get("high")
    return min(low, first) if known(first) else low, max(high, last) if known(last) else high


def _weak(s: Mapping[str, Any]) -> bool:
    """Return whether a segment's evidence is insufficient: as judged, or by its effective rows."""
    if s.get("evidence"):
        return bool(s["evidence"] == "insufficient")
    return known(s.get("ess")) and float(s["ess"]) < FEW


def _of(reading: Reading, target: str) -> list[Mapping[str, Any]]:
    return [s for s in rows(reading.model.get("segments")) if s.get("target") == target]


def segments_drawing(reading: Reading, target: str) -> Rows:
    """Return the lift of every segment of a target."""
    found, shown = _of(reading, target), []
    # One column, one number of digits: those that the median error supports.
    errors = sorted(e for s in found if known(e := mapping(s.get("lift")).get("stderr")))
    typical = errors[len(errors) // 2] if errors else None
    for column in dict.fromkeys(str(s.get("column")) for s in found):
        members = [s for s in found if str(s.get("column")) == column]
        members.sort(key=lambda s: -float(mapping(s.get("lift")).get("value") or 0.0))
        shown.append(Row(label=column_name(column), value=None, heading=True))
        shown += [_segment(reading, target, s, len(found), typical) for s in members]
    title = f"lift in {' per '.join(reading.words())}"
    axis = Axis(title, line=0.0, line_name="no change", signed=True)
    return Rows(shown, axis, f"Lift of {target} by segment")


def _segments_figure(reading: Reading, target: str) -> Markup:
    found, drawn = _of(reading, target), segments_drawing(reading, target).svg()
    aid = (
        f"Thick: {level(reading)} interval of that segment. Thin: adjusted for looking at "
        f"{len(found)} segments; only what stays on one side of zero with the thin line stands out."
    )
    return figure_of(reading, target, aid, drawn, _segments_table(reading, found))


def _segment(reading: Reading, target: str, s: Mapping[str, Any], looks: int, typical: Any) -> Row:
    lift = mapping(s.get("lift"))
    error = lift.get("stderr")
    style = style_of(reading, target)
    outer = adjusted(reading, lift, looks)
    told, shown = (plain(lift.get("value"), e, sign=True) for e in (error, typical or error))
    few = _weak(s)
    lines = [
        f"{column_name(s.get('column'))} = {s.get('label')}",
        f"lift {told} ± {plain(error, error)}",
    ]
    if outer is not None:
        ends = " to ".join(plain(end, error, sign=True) for end in outer)
        lines.append(f"adjusted interval {ends}")
    lines.append(f"{count(s.get('n'))} rows, {count(s.get('ess'))} effective")
    lines += [f"⚑ {flag}" for flag in texts(s.get("flags"))]
    note = f"{count(s.get('n'))} rows" + (", too little evidence" if few else "")
    return Row(
        label=str(s.get("label")), note=note, value=lift.get("value"), low=lift.get("low"), high=lift.get("high"),
        outer=outer, shown=shown, tip="\n".join(lines), look=style.look, shape=style.shape, faded=few,
    )  # fmt: skip


def _segments_table(reading: Reading, found: list[Mapping[str, Any]]) -> Markup:
    head = ("column", "segment", "rows", "effective", "lift", "low", "high")
    body = []
    for s in found:
        lift = mapping(s.get("lift"))
        outer = adjusted(reading, lift, len(found)) or (None, None)
        numbers = (*(lift.get(key) for key in ("value", "low", "high")), *outer)
        shown = (plain(v, lift.get("stderr"), sign=True) for v in numbers)
        name = (column_name(s.get("column")), s.get("label"))
        body.append((*name, count(s.get("n")), count(s.get("ess")), *shown))
    return table((*head, "adjusted low", "adjusted high"), body, texts=2)
