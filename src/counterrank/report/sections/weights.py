"""Can we trust the weights? Effective rows, tails, and E[w] = 1."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from counterrank.report.charts import plot
from counterrank.report.charts.scale import Scale, around, logarithmic
from counterrank.report.charts.svg import percent as place
from counterrank.report.charts.svg import tag
from counterrank.report.numbers import count, known, percent, short
from counterrank.report.reading import Reading, numbers, rows, table
from counterrank.report.sections import parts

#: Curves beyond these are hard to tell apart.
MOST = 4
#: Lighter rows than this hardly count, and would fill the axis.
LIGHT = 0.02
PREFERRED = ("ips", "rips", "iips", "order-2")


def section(reading: Reading) -> parts.Section | None:
    """Return effective rows, survival curves and the test of mean weights for each target."""
    figures = [_rows(reading, t) for t in reading.targets]
    figures += [_survival(reading, t) for t in reading.targets]
    figures += [_means(reading, t) for t in reading.targets]
    figures += [_support(reading, t) for t in reading.targets]
    body = parts.grid(*figures)
    if not body:
        return None
    lead = (
        "Every estimate reweights logged rows. When few rows carry most of the weight, the "
        "estimate rests on them."
    )
    return parts.Section("weights", "Can we trust the weights?", lead, body)


def _found(reading: Reading, target: str) -> list[tuple[str, Mapping[str, Any]]]:
    names = list(dict.fromkeys(str(e.get("estimator")) for e in reading.of(target)))
    return [(name, found) for name in names if (found := reading.diagnostics(target, name))]


def _rows(reading: Reading, target: str) -> Markup:
    style = parts.style_of(reading, target)
    total = reading.log.get("n")
    lines, body = [], []
    for e in reading.of(target):
        name = str(e.get("estimator"))
        found = reading.diagnostics(target, name)
        ess, half = e.get("ess"), found.get("rows_carrying_50")
        if not (known(ess) and known(total) and total):
            continue
        share = min(max(float(ess) / float(total), 0.0), 1.0)
        tip = f"{name}: {count(ess)} effective rows of {count(total)}"
        tip += f"\nhalf of the weight on {percent(half)} of the rows" if known(half) else ""
        tip += f"\ntail index {short(found.get('tail_index'))}"
        lines.append(_bar(name, share, count(ess), tip, style.look))
        body.append(
            (
                name,
                count(ess),
                percent(share),
                percent(half),
                percent(found.get("rows_carrying_90")),
                # fmt: skip
                short(found.get("tail_index")),
                percent(found.get("largest_share")),
            )
        )
    drawn = (
        tag("div", *lines, class_="rows bars chart", role="group", tabindex="0")
        if lines
        else Markup("")
    )
    head = (
        "estimator",
        "effective rows",
        "share",
        "half on",
        "90 % on",
        "tail index",
        "largest row",
    )
    aid = f"Of {count(total)} rows, so many carry information. A tail index above 0.7 is a warning."
    title = parts.named(reading, target, "effective rows")
    return parts.figure(title, aid, drawn, parts.table(head, body), target=target)


def _bar(name: str, share: float, shown: str, tip: str, look: str) -> Markup:
    bar = tag(
        "svg",
        tag("rect", x=0, y=9, width="100%", height=12, rx=3, class_="bar-all"),
        tag("rect", x=0, y=9, width=place(share), height=12, rx=3, class_="bar"),
        width="100%", height=30, class_=f"track {look}", aria_hidden="true",
    )  # fmt: skip
    cells = (
        tag("div", name, class_="label"),
        tag("div", bar, class_="cell"),
        tag("div", shown, class_="shown"),
    )
    return tag("div", *cells, class_="row mark", data_tip=tip)


def drawing(reading: Reading, target: str) -> plot.Drawing | None:
    """Return the survival curves of the weights that matter most."""
    best = reading.recommended(target)
    wanted = list(dict.fromkeys((best, *PREFERRED)))
    found = [(n, _curve(d)) for n, d in _found(reading, target) if n in wanted]
    curves = sorted(
        ((n, c) for n, c in found if len(c) > 1), key=lambda item: wanted.index(item[0])
    )[:MOST]
    x = logarithmic([w for _, curve in curves for w, _ in curve])
    y = logarithmic([s for _, curve in curves for _, s in curve])
    if x is None or y is None:
        return None
    series = [_series(index, name, curve) for index, (name, curve) in enumerate(curves)]
    frame = plot.Frame(
        x=x,
        y=y,
        x_title="weight of a row (log)",
        y_title="share of rows at least as heavy (log)",
        uprights=[(1.0, "")],
        y_percent=True,
    )
    return plot.Drawing(
        series, frame, f"Survival curve of the weights of {target}", [name for name, _ in curves]
    )


def _survival(reading: Reading, target: str) -> Markup:
    found = drawing(reading, target)
    if found is None:
        return Markup("")
    legend = tag(
        "p", *(_legend(index, name) for index, name in enumerate(found.names)), class_="legend"
    )
    drawn = legend + found.svg()
    aid = "A curve that falls steeply is safe; one that runs far to the right has rare, heavy rows."
    title = parts.named(reading, target, "tail of the weights")
    curves = zip(found.names, found.series, strict=True)
    body = [(name, short(p.x), percent(p.y)) for name, curve in curves for p in curve.points]
    return parts.figure(
        title, aid, drawn, parts.table(("estimator", "weight", "share above"), body), target=target
    )


def _curve(found: Mapping[str, Any]) -> list[tuple[float, float]]:
    data = table(found.get("survival"))
    pairs = zip(numbers(data.get("weight")), numbers(data.get("share")), strict=False)
    return [(w, s) for w, s in pairs if w is not None and s is not None and w >= LIGHT and s > 0]


def _series(index: int, name: str, curve: list[tuple[float, float]]) -> plot.Series:
    points = [
        plot.Point(w, s, tip=f"{name}\n{percent(s)} of rows weigh {short(w)} or more")
        for w, s in curve
    ]
    return plot.Series(points=points, look=f"t{index} dash{index}", dots=False)


def _legend(index: int, name: str) -> Markup:
    stroke = tag("line", x1=0, x2=26, y1=7, y2=7, class_="curve")
    return tag(
        "span", tag("svg", stroke, width=26, height=14, class_=f"t{index} dash{index}"), " ", name
    )


def _means(reading: Reading, target: str) -> Markup:
    # IIPS first: its weights are one ratio each, so they point at the position whose propensities
    # are wrong.
    names = ("iips", *(name for name, _ in _found(reading, target)))
    name = next((n for n in names if _mean_points(reading.diagnostics(target, n))), None)
    if name is None:
        return Markup("")
    found = reading.diagnostics(target, name)
    points = _mean_points(found)
    style = parts.style_of(reading, target)
    scale = around([v for p in points for v in (p.y, p.low, p.high)], also=[1.0])
    frame = plot.Frame(
        x=Scale(0.5, len(points) + 0.5), y=scale, x_title="position", y_title="mean weight",
        lines=[(1.0, "should be 1")],
        x_ticks=[(p.x, str(int(p.x))) for p in points][:: max(1, (len(points) + 9) // 10)], height=170,
    )  # fmt: skip
    one = plot.Series(
        points=points, look=style.look, shape=style.shape, joined=False, whiskers=True
    )
    drawn = plot.Drawing([one], frame, f"Mean weight of {target} by position").svg()
    aid = (
        f"Bars that miss 1 mean wrong propensities (p = {short(found.get('mean_weight_p'))} for "
        "all positions)."
    )
    body = [(int(p.x), short(p.y), short(p.low), short(p.high)) for p in points]
    title = parts.named(reading, target, f"do the weights of {name} average to 1?")
    return parts.figure(
        title,
        aid,
        drawn,
        parts.table(("position", "mean weight", "low", "high"), body),
        target=target,
    )


def _mean_points(found: Mapping[str, Any]) -> list[plot.Point]:
    means, tests = numbers(found.get("mean_weight")), numbers(found.get("mean_weight_z"))
    points = []
    for k, mean in enumerate(means, start=1):
        z = tests[k - 1] if k <= len(tests) else None
        if mean is None:
            continue
        tip = f"position {k}: mean weight {short(mean)}"
        if not z and mean != 1:  # one ranking or unit: its error is not known
            points.append(plot.Point(float(k), mean, tip=tip))
            continue
        reach = 2.576 * abs(mean - 1) / abs(z) if z else 0.0
        tip += f"\n99 % interval {short(mean - reach)} to {short(mean + reach)}"
        points.append(plot.Point(float(k), mean, mean - reach, mean + reach, tip))
    return points


def _support(reading: Reading, target: str) -> Markup:
    found = reading.support(target)
    rare, never = numbers(found.get("rare_share")), numbers(found.get("unlogged_share"))
    if not rare or not any(rare):
        return Markup("")
    below = short(found.get("rare_below") or 1e-3)
    never += [None] * (len(rare) - len(never))
    tips = [f"position {k}: {percent(r)} of what {target} shows\n{percent(u)} is never logged"
            for k, (r, u) in enumerate(zip(rare, never, strict=False), start=1)]  # fmt: skip
    style = parts.style_of(reading, target)
    most = max(value or 0.0 for value in rare)
    bars = [_bar(f"position {k}", (v or 0.0) / most, percent(v), tip, style.look)
            for k, (v, tip) in enumerate(zip(rare, tips, strict=True), start=1)]  # fmt: skip
    drawn = tag("div", *bars, class_="rows bars chart", role="group", tabindex="0")
    items = ", ".join(
        f"{a.get('action')} ({percent(a.get('share'))})" for a in rows(found.get("actions"))
    )
    aid = (
        f"Share of what {target} shows that today's policy shows with a probability below {below}."
    )
    aid += f" Most of all: {items}." if items else ""
    body = [
        (k, percent(r), percent(u))
        for k, (r, u) in enumerate(zip(rare, never, strict=False), start=1)
    ]
    title = parts.named(reading, target, "support")
    data = parts.table(("position", "rarely logged", "never logged"), body)
    return parts.figure(title, aid, drawn, data, target=target)
