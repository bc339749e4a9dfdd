"""The order path: the estimate from each item alone (IIPS) to the whole ranking (IPS)."""

from markupsafe import Markup

from counterrank.report.charts import plot
from counterrank.report.charts.scale import Scale, around
from counterrank.report.numbers import count, known, plain
from counterrank.report.reading import Reading
from counterrank.report.sections import parts
from counterrank.report.sentences import level, path


def section(reading: Reading) -> parts.Section | None:
    """Return a path for each target that has one."""
    body = parts.grid(*(_figure(reading, target) for target in reading.targets))
    if not body:
        return None
    lead = (
        "How many items at a time must be looked at together? Flat: items do not act on each other. "
        "A drift: they do. A funnel: the data ends."
    )
    return parts.Section("order", "From each item alone to the whole ranking", lead, body)


def _figure(reading: Reading, target: str) -> Markup:
    found = [p for p in reading.order_path(target) if known(p.get("value"))]
    if len(found) < 2:
        return Markup("")
    style = parts.style_of(reading, target)
    points = [_point(reading, row) for row in found]
    today = reading.log.get("value")
    lines = [(float(today), "today")] if known(today) else []  # type: ignore[arg-type]
    first, last = points[0].x, points[-1].x
    margin = (last - first) * 0.06
    frame = plot.Frame(
        x=Scale(first - margin, last + margin), y=_heights(points, [value for value, _ in lines]),
        x_title="items looked at together", y_title=" per ".join(reading.words()), lines=lines,
        x_ticks=[(p.x, _name(int(p.x), first, last)) for p in points],
    )  # fmt: skip
    one = plot.Series(points=points, look=style.look, shape=style.shape, band=True, whiskers=True)
    drawn = plot.chart([one], frame, name=f"Order path of {target}")
    return parts.figure(parts.named(reading, target), path(found), drawn, _table(reading, target), target=target)


def _heights(points: list[plot.Point], also: list[float]) -> Scale:
    """The last orders may be hopeless; they may not flatten the rest."""
    widths = sorted((p.high or p.y) - (p.low or p.y) for p in points)
    reach = 3 * widths[len(widths) // 2]
    values = [v for p in points for v in (p.y, max(p.low or p.y, p.y - reach), min(p.high or p.y, p.y + reach))]
    return around(values, also=also)


def _name(order: int, first: float, last: float) -> str:
    return f"{order} IIPS" if order == first == 1 else f"{order} IPS" if order == last else str(order)


def _point(reading: Reading, row: object) -> plot.Point:
    from counterrank.report.reading import table

    found = table(row)
    error = found.get("stderr")
    low, high = found.get("low"), found.get("high")
    tip = f"order {found['order']}: {plain(found['value'], error)}"
    if known(low) and known(high):
        tip += f"\n{level(reading)} interval {plain(low, error)} to {plain(high, error)}"
    if known(found.get("ess")):
        tip += f"\neffective rows {count(found['ess'])}"
    ends = (float(low), float(high)) if known(low) and known(high) else (None, None)  # type: ignore[arg-type]
    return plot.Point(float(found["order"]), float(found["value"]), ends[0], ends[1], tip)


def _table(reading: Reading, target: str) -> Markup:
    rows = [
        (p["order"], plain(p.get("value"), p.get("stderr")), plain(p.get("low"), p.get("stderr")),
         plain(p.get("high"), p.get("stderr")), count(p.get("ess")))
        for p in reading.order_path(target)
    ]  # fmt: skip
    return parts.table(("order", "value", "low", "high", "effective rows"), rows)
