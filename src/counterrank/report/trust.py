"""Can it be trusted.

The weights, the audit of the log, what the log can detect, and how wrong propensities may be.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from markupsafe import Markup

from counterrank.report.charts import AxisScale, Plot, PlotFrame, Point, Series, around, logarithmic
from counterrank.report.numbers import NONE, count, known, percent, plain, roughly, short
from counterrank.report.parts import (
    Section,
    bars,
    figure_of,
    folded,
    grid,
    grid_of,
    named,
    section,
    style_of,
    table,
    tag,
)
from counterrank.report.reading import Reading, ends

if TYPE_CHECKING:
    from counterrank.evaluation import SamplePlan, Sensitivity
    from counterrank.findings import Finding
    from counterrank.weights.diagnostics import WeightReport

Part = TypeVar("Part")

#: Curves beyond these are hard to tell apart.
MOST = 4
#: Lighter rows than this hardly count, and would fill the axis.
LIGHT = 0.02
PREFERRED = ("ips", "rips", "iips", "order-2")


def weights(reading: Reading) -> Section | None:
    """Return effective rows, survival curves, the test of mean weights and rare support."""
    body = grid_of(reading, _effective_rows, _survival, _means, _support)
    lead = (
        "Every estimate reweights logged rows. When few rows carry most of the weight, the "
        "estimate rests on them."
    )
    return section("weights", "Can we trust the weights?", lead, body)


def _found(reading: Reading, target: str) -> "list[tuple[str, WeightReport]]":
    names = dict.fromkeys(e.estimator for e in reading.of(target))
    return [(name, found) for name in names if (found := reading.diagnostics(target, name))]


def _effective_rows(reading: Reading, target: str) -> Markup:
    total = reading.log.n
    lines, body = [], []
    for e in reading.of(target):
        if not known(e.ess) or not total:
            continue
        name, ess = e.estimator, count(e.ess)
        share = min(max(e.ess / total, 0.0), 1.0)
        found = reading.diagnostics(target, name)
        half, most, tail, largest = (NONE,) * 4
        tip = f"{name}: {ess} effective rows of {count(total)}"
        if found is not None:
            half, most = percent(found.rows_carrying_50), percent(found.rows_carrying_90)
            tail, largest = short(found.tail_index), percent(found.largest_share)
            tip += f"\nhalf of the weight on {half} of the rows"
        lines.append((name, share, ess, f"{tip}\ntail index {tail}"))
        body.append((name, ess, percent(share), half, most, tail, largest))
    head = ("estimator", "effective rows", "share", "half on", "90 % on", "tail index", "largest row")  # fmt: skip
    aid = f"Of {count(total)} rows, so many carry information. A tail index above 0.7 is a warning."
    drawn = bars(lines, style_of(reading, target).look)
    return figure_of(reading, target, aid, drawn, table(head, body), "effective rows")


def weights_drawing(reading: Reading, target: str) -> Plot | None:
    """Return the survival curves of the weights that matter most."""
    curves = _survival_curves(reading, target)
    x = logarithmic([w for _, curve in curves for w, _ in curve])
    y = logarithmic([s for _, curve in curves for _, s in curve])
    if x is None or y is None:
        return None
    series = [_survival_series(index, name, curve) for index, (name, curve) in enumerate(curves)]
    frame = PlotFrame(
        x=x, y=y, x_title="weight of a row (log)", y_title="share of rows at least as heavy (log)",
        uprights=[(1.0, "")], y_percent=True,
    )  # fmt: skip
    title = f"Survival curve of the weights of {target}"
    return Plot(series, frame, title, [name for name, _ in curves])


def _survival_curves(reading: Reading, target: str) -> list[tuple[str, list[tuple[float, float]]]]:
    wanted = list(dict.fromkeys((reading.recommended(target), *PREFERRED)))
    found = [(n, _survival_curve(d)) for n, d in _found(reading, target) if n in wanted]
    every = ((n, curve) for n, curve in found if len(curve) > 1)
    return sorted(every, key=lambda item: wanted.index(item[0]))[:MOST]


def _survival(reading: Reading, target: str) -> Markup:
    found = weights_drawing(reading, target)
    if found is None:
        return Markup("")
    drawn = found.legend(least=1) + found.svg()
    aid = "A curve that falls steeply is safe; one that runs far to the right has rare, heavy rows."
    curves = zip(found.names, found.series, strict=True)
    body = [(name, short(p.x), percent(p.y)) for name, curve in curves for p in curve.points]
    data = table(("estimator", "weight", "share above"), body)
    return figure_of(reading, target, aid, drawn, data, "tail of the weights")


def _survival_curve(found: "WeightReport") -> list[tuple[float, float]]:
    pairs = zip(found.survival.weight, found.survival.share, strict=True)
    return [(w, s) for w, s in pairs if w >= LIGHT and s > 0]


def _survival_series(index: int, name: str, curve: list[tuple[float, float]]) -> Series:
    points = [
        Point(w, s, tip=f"{name}\n{percent(s)} of rows weigh {short(w)} or more") for w, s in curve
    ]
    return Series(points=points, look=f"t{index} dash{index}", dots=False)


def _means(reading: Reading, target: str) -> Markup:
    # IIPS first: its weights are one ratio each, so they point at the position whose propensities
    # are wrong.
    ordered = sorted(_found(reading, target), key=lambda one: one[0] != "iips")
    drawn_ones = ((n, one, points) for n, one in ordered if (points := _mean_points(one)))
    name, found, points = next(drawn_ones, ("", None, []))
    if found is None:
        return Markup("")
    style = style_of(reading, target)
    scale = around([v for p in points for v in (p.y, p.low, p.high)], also=[1.0])
    frame = PlotFrame(
        x=AxisScale(0.5, len(points) + 0.5), y=scale, x_title="position", y_title="mean weight",
        lines=[(1.0, "should be 1")],
        x_ticks=[(p.x, str(int(p.x))) for p in points][:: max(1, (len(points) + 9) // 10)], height=170,
    )  # fmt: skip
    one = Series(points=points, look=style.look, shape=style.shape, joined=False, whiskers=True)
    drawn = Plot([one], frame, f"Mean weight of {target} by position").svg()
    aid = (
        f"Bars that miss 1 mean wrong propensities (p = {short(found.mean_weight_p)} for "
        "all positions)."
    )
    body = [(int(p.x), short(p.y), short(p.low), short(p.high)) for p in points]
    data = table(("position", "mean weight", "low", "high"), body)
    return figure_of(reading, target, aid, drawn, data, f"do the weights of {name} average to 1?")


def _mean_points(found: "WeightReport") -> list[Point]:
    points = []
    pairs = zip(found.mean_weight, found.mean_weight_z, strict=True)
    for k, (mean, z) in enumerate(pairs, start=1):
        if not known(mean):
            continue
        tip = f"position {k}: mean weight {short(mean)}"
        if not known(z) or (not z and mean != 1):  # one ranking or unit: its error is not known
            points.append(Point(float(k), mean, tip=tip))
            continue
        # The log holds z = (mean - 1) / error; 2.576 errors are 99 %: there is a bar for each position.
        reach = 2.576 * abs(mean - 1) / abs(z) if z else 0.0
        tip += f"\n99 % interval {short(mean - reach)} to {short(mean + reach)}"
        points.append(Point(float(k), mean, mean - reach, mean + reach, tip))
    return points


def _support(reading: Reading, target: str) -> Markup:
    found = reading.support(target)
    most = max(found.rare_share, default=0.0) if found is not None else 0.0
    if found is None or not most > 0:
        return Markup("")
    lines, body = [], []
    for k, (r, u) in enumerate(zip(found.rare_share, found.unlogged_share, strict=True), start=1):
        tip = f"position {k}: {percent(r)} of what {target} shows\n{percent(u)} is never logged"
        lines.append((f"position {k}", r / most, percent(r), tip))
        body.append((k, percent(r), percent(u)))
    items = ", ".join(f"{one.action} ({percent(one.share)})" for one in found.actions)
    aid = (
        f"Share of what {target} shows that today's policy shows with a probability below "
        f"{short(found.rare_below)}."
    )
    aid += f" Most of all: {items}." if items else ""
    drawn = bars(lines, style_of(reading, target).look)
    data = table(("position", "rarely logged", "never logged"), body)
    return figure_of(reading, target, aid, drawn, data, "support")


#: What troubles most comes first.
_SIGNS = {"failed": "✗", "warned": "!", "passed": "✓", "skipped": "·"}


def audit(reading: Reading) -> Section | None:
    """Return the checks of the log as lines, the troubling ones first, the others folded."""
    given = reading.result.audit
    by_status = {status: [one for one in given if one.status == status] for status in _SIGNS}
    tally = [f"{len(found)} {status}" for status, found in by_status.items() if found]
    calm = by_status["passed"] + by_status["skipped"]
    loud = by_status["failed"] + by_status["warned"]
    body = tag("ul", *map(_check, loud), class_="checks") if loud else Markup("")
    if calm:
        name = (
            f"{len(calm)} checks passed or were not needed"
            if loud
            else f"All {len(calm)} checks: nothing to worry about"
        )
        body += folded(name, tag("ul", *map(_check, calm), class_="checks calm"))
    return section("audit", "Audit of the log", ", ".join(tally) + ".", body)


def _check(one: "Finding") -> Markup:
    name = one.code.replace("_", " ").replace("-", " ")
    head = (tag("strong", name), " ", tag("span", one.status, class_="status"))
    lines = [tag("p", *head, class_="check-name")]
    lines += [tag("p", one.text)] if one.text else []
    for text, title in ((one.cause, "Likely cause: "), (one.help, "Remedy: ")):
        if text:
            lines.append(tag("p", tag("em", title), text))
    if one.examples:
        shown = "\n".join(json.dumps(example, ensure_ascii=False) for example in one.examples)
        lines.append(folded("Examples", tag("pre", shown, tabindex="0")))
    sign = tag("span", _SIGNS[one.status], class_="sign", aria_hidden="true")
    return tag("li", sign, tag("div", *lines), class_=f"check {one.status}")


#: An error that shrinks by less than this is not worth a change of the logger.
WORTHWHILE = 0.98
#: Lifts people ask about; the curve and its table hold the others.
SHOWN = (0.01, 0.02, 0.05)


def planning(reading: Reading) -> Section | None:
    """Return detectable lifts, A/B equivalents, and sensitivity curves."""

    def each(
        make: Callable[[Reading, str, Part], Markup], found: Mapping[str, Part]
    ) -> Iterable[Markup]:
        return [make(reading, name, found[name]) for name in reading.targets if name in found]

    plans = reading.result.planning
    body = grid(*each(_facts, plans))
    body += grid(*each(_detectable, plans), *each(_sensitivity, reading.result.sensitivity))
    lead = "What this log can detect, and what more data would buy."
    return section("planning", "Planning", lead, body)


def _facts(reading: Reading, target: str, plan: "SamplePlan") -> Markup:
    ranking = reading.words()[1]
    lines = []
    if known(plan.detectable_relative):
        lines.append(("smallest lift this log can detect", percent(plan.detectable_relative)))
    elif known(plan.detectable_lift):
        lines.append(("smallest lift this log can detect", plain(plan.detectable_lift)))
    if plan.ab_rows is not None:
        lines.append(("an A/B test as precise needs", f"{roughly(plan.ab_rows)} {ranking}s"))
    for row in plan.rows_for:
        if row.rows is not None and row.relative in SHOWN:
            wanted = f"to detect {percent(row.relative, digits=0)}, log"
            lines.append((wanted, f"{roughly(row.rows)} {ranking}s"))
    lines += _exploration(plan)
    if not lines:
        return Markup("")
    doubt = Markup("")
    if reading.evidence(target) == "insufficient":
        words = "The evidence is insufficient: these numbers rest on an error that may be far too small."
        doubt = tag("p", words, class_="aid")
    facts = tag(
        "dl", *(tag("div", tag("dt", name), tag("dd", v)) for name, v in lines), class_="facts"
    )
    return tag("div", tag("h3", named(reading, target)), doubt, facts, data_target=target)


def _exploration(plan: "SamplePlan") -> list[tuple[str, str]]:
    useful = [r for r in plan.exploration if r.stderr_ratio < WORTHWHILE and r.epsilon < 1]
    if plan.exploration and not useful:
        return [("more random exploration", "would not help")]
    return [(f"with {percent(r.epsilon, digits=0)} random exploration, the error",
             percent(r.stderr_ratio - 1, digits=0)) for r in useful]  # fmt: skip


def _detectable(reading: Reading, target: str, plan: "SamplePlan") -> Markup:
    found = [row for row in plan.curve if known(row.lift)]
    x, y = logarithmic([r.rows for r in found]), logarithmic([r.lift for r in found])
    if x is None or y is None:
        return Markup("")
    reward, ranking = reading.words()
    points = [
        Point(float(r.rows), r.lift, tip=f"{count(r.rows)} {ranking}s\ndetect {short(r.lift)} {reward}")
        for r in found
    ]  # fmt: skip
    frame = PlotFrame(
        x=x, y=y, x_title=f"logged {ranking}s (log)", y_title=f"detectable lift in {reward} (log)",
        uprights=[(float(reading.log.n), "this log")],
    )  # fmt: skip
    style = style_of(reading, target)
    series = [Series(points=points, look=style.look, shape=style.shape)]
    drawn = Plot(series, frame, "Detectable lift").svg()
    body = [(count(r.rows), short(r.lift)) for r in found]
    data = table((f"{ranking}s", "detectable lift"), body, texts=0)
    aid = "Four times the rows halve the smallest lift that can be told from noise"
    bias = plan.allowance_relative
    if known(bias) and bias > 0:
        aid += f", but not the allowance for bias, {percent(bias)}"
    aid += "."
    return figure_of(reading, target, aid, drawn, data, "detectable lift")


def _sensitivity(reading: Reading, target: str, found: "Sensitivity") -> Markup:
    turn = found.sign_changes_at
    curve = [
        (row.gamma, *both) for row in found.curve if (both := ends(row.lift_low, row.lift_high))
    ]
    if turn is not None:  # beyond the point of interest the range only hides it
        curve = [r for r in curve if r[0] <= max(1.2, 1 + 3 * (turn - 1))]
    if len(curve) < 2:
        return Markup("")
    points = [
        Point(gamma, (low + high) / 2, low, high,
              f"wrong by up to a factor {short(gamma)}\nlift {short(low)} to {short(high)}")
        for gamma, low, high in curve
    ]  # fmt: skip
    frame = PlotFrame(
        x=around([gamma for gamma, _, _ in curve], margin=0.02),
        y=around([end for _, *ends in curve for end in ends], also=[0.0]),
        x_title="propensities wrong by up to this factor", y_title=f"lift in {reading.words()[0]}",
        lines=[(0.0, "no change")],
    )  # fmt: skip
    look = style_of(reading, target).look
    band = Series(points=points, look=look, band=True, dots=False, joined=False)
    aid = (
        f"The sign holds until propensities are wrong by a factor of {short(turn)}."
        if known(turn)
        else "The sign holds over the whole range shown."
    )
    data = table(("factor", "low", "high"), [tuple(map(short, row)) for row in curve])
    drawn = Plot([band], frame, "Sensitivity").svg()
    return figure_of(reading, target, aid, drawn, data, "if propensities were wrong")
