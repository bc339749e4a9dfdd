"""Planning: what this log can detect, what more would buy; and how wrong propensities may be."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from counterrank.report.charts import plot
from counterrank.report.charts.scale import around, logarithmic
from counterrank.report.charts.svg import tag
from counterrank.report.numbers import count, known, percent, plain, roughly, short
from counterrank.report.reading import Reading, rows, table
from counterrank.report.sections import parts

#: An error that shrinks by less than this is not worth a change of the logger.
WORTHWHILE = 0.98
#: Lifts people ask about; the curve and its table hold the others.
SHOWN = (0.01, 0.02, 0.05)


def section(reading: Reading) -> parts.Section | None:
    """Return detectable lifts, A/B equivalents, and sensitivity curves."""
    plans = table(reading.model.get("planning"))
    figures = [_curve(reading, target, table(plans.get(target))) for target in reading.targets]
    facts = [_facts(reading, target, table(plans.get(target))) for target in reading.targets]
    doubts = table(reading.model.get("sensitivity"))
    figures += [
        _sensitivity(reading, target, table(doubts.get(target))) for target in reading.targets
    ]
    body = parts.grid(*facts) + parts.grid(*figures)
    if not body:
        return None
    return parts.Section(
        "planning", "Planning", "What this log can detect, and what more data would buy.", body
    )


def _facts(reading: Reading, target: str, plan: Mapping[str, Any]) -> Markup:
    ranking = reading.words()[1]
    lines = []
    if known(plan.get("detectable_relative")):
        lines.append(("smallest lift this log can detect", percent(plan["detectable_relative"])))
    elif known(plan.get("detectable_lift")):
        lines.append(("smallest lift this log can detect", plain(plan["detectable_lift"])))
    if known(plan.get("ab_rows")):
        lines.append(("an A/B test as precise needs", f"{roughly(plan['ab_rows'])} {ranking}s"))
    for row in rows(plan.get("rows_for")):
        if known(row.get("rows")) and row.get("relative") in SHOWN:
            lines.append(
                (
                    f"to detect {percent(row.get('relative'), digits=0)}, log",
                    f"{roughly(row['rows'])} {ranking}s",
                )
            )
    lines += _exploration(plan)
    if not lines:
        return Markup("")
    body = [tag("div", tag("dt", name), tag("dd", value)) for name, value in lines]
    doubt = Markup("")
    if reading.evidence(target) == "insufficient":
        doubt = tag(
            "p",
            "The evidence is insufficient: these numbers rest on an error that may be far too "
            "small.",
            class_="aid",
        )
    title = tag("h3", parts.named(reading, target))
    return tag("div", title, doubt, tag("dl", *body, class_="facts"), data_target=target)


def _exploration(plan: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = [
        r
        for r in rows(plan.get("exploration"))
        if known(r.get("stderr_ratio")) and known(r.get("epsilon"))
    ]
    useful = [r for r in found if r["stderr_ratio"] < WORTHWHILE and r["epsilon"] < 1]
    if found and not useful:
        return [("more random exploration", "would not help")]
    return [
        (
            f"with {percent(r['epsilon'], digits=0)} random exploration, the error",
            percent(r["stderr_ratio"] - 1, digits=0),
        )
        for r in useful
    ]


def _curve(reading: Reading, target: str, plan: Mapping[str, Any]) -> Markup:
    found = [r for r in rows(plan.get("curve")) if known(r.get("rows")) and known(r.get("lift"))]
    x, y = logarithmic([r["rows"] for r in found]), logarithmic([r["lift"] for r in found])
    if x is None or y is None:
        return Markup("")
    reward, ranking = reading.words()
    tips = [f"{count(r['rows'])} {ranking}s\ndetect {short(r['lift'])} {reward}" for r in found]
    points = [
        plot.Point(float(r["rows"]), float(r["lift"]), tip=tip)
        for r, tip in zip(found, tips, strict=True)
    ]
    now = reading.log.get("n")
    frame = plot.Frame(
        x=x,
        y=y,
        x_title=f"logged {ranking}s (log)",
        y_title=f"detectable lift in {reward} (log)",
        uprights=[(float(now), "this log")] if known(now) else [],
    )
    style = parts.style_of(reading, target)
    series = [plot.Series(points=points, look=style.look, shape=style.shape)]
    drawn = plot.Drawing(series, frame, "Detectable lift").svg()
    data = parts.table(
        (f"{ranking}s", "detectable lift"),
        [(count(r["rows"]), short(r["lift"])) for r in found],
        texts=0,
    )
    aid = "Four times the rows halve the smallest lift that can be told from noise."
    title = parts.named(reading, target, "detectable lift")
    return parts.figure(title, aid, drawn, data, target=target)


def _sensitivity(reading: Reading, target: str, found: Mapping[str, Any]) -> Markup:
    turn = found.get("sign_changes_at")
    curve = _lifts(found)
    if known(turn):  # beyond the point of interest the range only hides it
        curve = [r for r in curve if r["gamma"] <= max(1.2, 1 + 3 * (float(turn) - 1))]
    if len(curve) < 2:
        return Markup("")
    points = [
        plot.Point(float(r["gamma"]), (r["low"] + r["high"]) / 2, r["low"], r["high"],
                   f"wrong by up to a factor {short(r['gamma'])}\nlift {short(r['low'])} to "
                   f"{short(r['high'])}")
        for r in curve
    ]  # fmt: skip
    frame = plot.Frame(
        x=around([r["gamma"] for r in curve], margin=0.02),
        y=around([v for r in curve for v in (r["low"], r["high"])], also=[0.0]),
        x_title="propensities wrong by up to this factor",
        y_title=f"lift in {reading.words()[0]}",
        lines=[(0.0, "no change")],
    )
    style = parts.style_of(reading, target)
    band = plot.Series(points=points, look=style.look, band=True, dots=False, joined=False)
    drawn = plot.Drawing([band], frame, "Sensitivity").svg()
    aid = (
        f"The sign holds until propensities are wrong by a factor of {short(turn)}."
        if known(turn)
        else "The sign holds over the whole range shown."
    )
    data = parts.table(
        ("factor", "low", "high"),
        [(short(r["gamma"]), short(r["low"]), short(r["high"])) for r in curve],
    )
    title = parts.named(reading, target, "if propensities were wrong")
    return parts.figure(title, aid, drawn, data, target=target)


def _lifts(found: Mapping[str, Any]) -> list[dict[str, float]]:
    """The range of the lift at each factor; older results call it low and high."""
    curve = []
    for row in rows(found.get("curve")):
        low, high = row.get("lift_low", row.get("low")), row.get("lift_high", row.get("high"))
        if known(row.get("gamma")) and known(low) and known(high):
            curve.append({"gamma": float(row["gamma"]), "low": float(low), "high": float(high)})
    return curve
