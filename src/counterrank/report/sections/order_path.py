"""The order path: the estimate from each item alone (IIPS) to the whole ranking (IPS)."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from counterrank.report.charts import plot
from counterrank.report.charts.scale import Scale, around
from counterrank.report.charts.svg import marker, tag
from counterrank.report.numbers import count, known, plain
from counterrank.report.reading import Reading
from counterrank.report.sections import parts
from counterrank.report.sentences import level
from counterrank.report.sentences import path as path_in_words

ALONE = "weights alone"
MODELLED = "with a reward model"


def section(reading: Reading) -> parts.Section | None:
    """Return a path for each target that has one."""
    body = parts.grid(*(_figure(reading, target) for target in reading.targets))
    if not body:
        return None
    lead = (
        "How many items at a time must be looked at together? Flat: items do not act on each "
        "other. A drift: they do. A funnel: the data ends."
    )
    return parts.Section("order", "From each item alone to the whole ranking", lead, body)


def drawing(reading: Reading, target: str) -> plot.Drawing | None:
    """Return the path of the weights alone and the one around a reward model."""
    alone, modelled = reading.order_path(target), reading.model_path(target)
    if len(alone) < 2 and len(modelled) < 2:
        return None
    style = parts.style_of(reading, target)
    both = [(ALONE, [_point(reading, row, ALONE) for row in alone]),
            (MODELLED, [_point(reading, row, MODELLED) for row in modelled])]  # fmt: skip
    points = [point for _, path in both for point in path]
    today = reading.log.get("value")
    lines = [(float(today), "today")] if known(today) else []
    first, last = min(p.x for p in points), max(p.x for p in points)
    # Logarithmic: the first orders matter most, and the last may be far away.
    margin = (last / first) ** 0.07
    frame = plot.Frame(
        x=Scale(first / margin, last * margin, log=True), y=_heights(points, [value for value, _ in lines]),
        x_title="items looked at together", y_title=" per ".join(reading.words()), lines=lines,
        x_ticks=[(x, _name(int(x), first, last)) for x in sorted({p.x for p in points})],
    )  # fmt: skip
    shown = [(name, path) for name, path in both if path]
    series = [_series(name, path, style) for name, path in shown]
    return plot.Drawing(series, frame, f"Order path of {target}", [name for name, _ in shown])


def _figure(reading: Reading, target: str) -> Markup:
    found = drawing(reading, target)
    if found is None:
        return Markup("")
    alone, modelled = reading.order_path(target), reading.model_path(target)
    legend = _legend(parts.style_of(reading, target)) if len(found.series) > 1 else Markup("")
    drawn = legend + found.svg()
    aid = path_in_words(alone or modelled)
    return parts.figure(
        parts.named(reading, target), aid, drawn, _table(alone, modelled), target=target
    )


def _series(name: str, path: list[plot.Point], style: parts.Style) -> plot.Series:
    if name == ALONE:
        return plot.Series(
            points=path, look=style.look, shape=style.shape, band=True, whiskers=True
        )
    # Beside the first series rather than on top of it.
    return plot.Series(points=path, look=f"{style.look} hollow dash1", shape=style.shape)


def _legend(style: parts.Style) -> Markup:
    looks = ((ALONE, style.look), (MODELLED, f"{style.look} hollow dash1"))
    return tag("p", *(_entry(name, look, style.shape) for name, look in looks), class_="legend")


def _entry(name: str, look: str, shape: int) -> Markup:
    stroke = tag("line", x1=0, x2=40, y1=8, y2=8, class_="curve")
    return tag(
        "span",
        tag("svg", stroke, marker(shape, "20", 8, class_="dot"), width=40, height=16, class_=look),
        " ",
        name,
    )


def _heights(points: list[plot.Point], today: list[float]) -> Scale:
    """An axis for the estimates: neither hopeless last orders nor a far-away today may flatten
    them.
    """
    widths = sorted((p.high or p.y) - (p.low or p.y) for p in points)
    reach = 1.5 * widths[len(widths) // 2]
    values = [
        v
        for p in points
        for v in (p.y, max(p.low or p.y, p.y - reach), min(p.high or p.y, p.y + reach))
    ]
    low, high = min(values), max(values)
    near = [value for value in today if low - (high - low) <= value <= high + (high - low)]
    return around(values, also=near)


def _name(order: int, first: float, last: float) -> str:
    return (
        f"{order} IIPS" if order == first == 1 else f"{order} IPS" if order == last else str(order)
    )


def _point(reading: Reading, found: Mapping[str, Any], name: str) -> plot.Point:
    error = found.get("stderr")
    low, high = found.get("low"), found.get("high")
    tip = f"order {found['order']}, {name}: {plain(found['value'], error)}"
    if known(low) and known(high):
        tip += f"\n{level(reading)} interval {plain(low, error)} to {plain(high, error)}"
    if known(found.get("ess")):
        tip += f"\neffective rows {count(found['ess'])}"
    ends = (float(low), float(high)) if known(low) and known(high) else (None, None)
    return plot.Point(float(found["order"]), float(found["value"]), ends[0], ends[1], tip)


def _table(alone: list[Mapping[str, Any]], modelled: list[Mapping[str, Any]]) -> Markup:
    body = [
        (name, p["order"], plain(p.get("value"), p.get("stderr")), plain(p.get("low"), p.get("stderr")),
         plain(p.get("high"), p.get("stderr")), count(p.get("ess")))
        for name, path in ((ALONE, alone), (MODELLED, modelled)) for p in path
    ]  # fmt: skip
    return parts.table(("", "order", "value", "low", "high", "effective rows"), body)
