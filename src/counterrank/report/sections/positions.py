"""Lift by position, as small multiples."""

from markupsafe import Markup

from counterrank.report.charts import plot
from counterrank.report.charts.scale import Scale, around
from counterrank.report.numbers import known, plain
from counterrank.report.reading import Reading, rows
from counterrank.report.sections import parts
from counterrank.report.sentences import level


def section(reading: Reading) -> parts.Section | None:
    """Return a small chart for each target, all on one scale."""
    body = parts.grid(*(_figure(reading, target) for target in reading.targets))
    if not body:
        return None
    return parts.Section(
        "positions",
        f"Where in the {reading.words()[1]}",
        "The lifts of the positions add up to the whole.",
        body,
    )


def _points(reading: Reading, target: str) -> list[plot.Point]:
    reward = reading.words()[0]
    points = []
    for k, row in enumerate(rows(reading.lift(target).get("by_position")), start=1):
        value, error = row.get("value"), row.get("stderr")
        if not known(value):
            continue
        reach = 1.96 * float(error) if known(error) else 0.0
        low, high = float(value) - reach, float(value) + reach
        tip = f"position {k}: {plain(value, error, sign=True)} {reward}\n± {plain(error, error)}"
        points.append(plot.Point(float(k), float(value), low, high, tip))
    return points


def drawing(reading: Reading, target: str) -> plot.Drawing | None:
    """Return the lift at each position, on the scale of all targets."""
    found = {name: _points(reading, name) for name in reading.targets}
    points = found[target]
    if not points:
        return None
    scale = around([v for one in found.values() for p in one for v in (p.low, p.high)], also=[0.0])
    style = parts.style_of(reading, target)
    last = int(points[-1].x)
    stride = max(1, (last + 9) // 10)
    frame = plot.Frame(
        x=Scale(0.5, last + 0.5),
        y=scale,
        x_title="position",
        y_title=f"lift in {reading.words()[0]}",
        lines=[(0.0, "")],
        signed=True,
        height=180,
        x_ticks=[(k, str(k)) for k in range(1, last + 1, stride)],
    )
    one = plot.Series(
        points=points, look=style.look, shape=style.shape, joined=False, whiskers=True
    )
    return plot.Drawing([one], frame, f"Lift of {target} by position")


def _figure(reading: Reading, target: str) -> Markup:
    drawn = drawing(reading, target)
    if drawn is None:
        return Markup("")
    points = drawn.series[0].points
    body = [
        (
            int(p.x),
            *(plain(v, (p.high or 0) - p.y or None, sign=True) for v in (p.y, p.low, p.high)),
        )
        for p in points
    ]
    data = parts.table(("position", "lift", "low", "high"), body)
    aid = f"Above zero the position gains, below it loses; bars are {level(reading)} intervals."
    return parts.figure(parts.named(reading, target), aid, drawn.svg(), data, target=target)
