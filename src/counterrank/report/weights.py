"""Can the weights be trusted: effective rows, tails, means, support, planning, and wrong propensities."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from counterrank.report.charts import (
    AxisScale,
    Bars,
    Plot,
    PlotFrame,
    Point,
    Series,
    around,
    logarithmic,
)
from counterrank.report.document import Block, Figure, Table, section
from counterrank.report.numbers import NONE, count, known, percent, plain, roughly, short
from counterrank.report.reading import Reading, ends

if TYPE_CHECKING:
    from counterrank.evaluation import SamplePlan, Sensitivity
    from counterrank.weights.diagnostics import WeightReport

#: Curves beyond these are hard to tell apart.
MOST = 4
#: Lighter rows than this hardly count, and would fill the axis.
LIGHT = 0.02
PREFERRED = ("ips", "rips", "iips", "order-2")


def weights(reading: Reading) -> list[Block]:
    """Return effective rows, survival curves, the test of mean weights and rare support."""
    makers = (_effective_rows, _survival, _means, _support)
    figures = [make(reading, target) for make in makers for target in reading.targets]
    lead = "Every estimate reweights logged rows. When few rows carry most of the weight, the estimate rests on them."
    return section("Can we trust the weights?", "weights", *figures, lead=lead)


def _found(reading: Reading, target: str) -> list[tuple[str, WeightReport]]:
    names = dict.fromkeys(e.estimator for e in reading.of(target))
    return [(name, found) for name in names if (found := reading.diagnostics(target, name))]


def _effective_rows(reading: Reading, target: str) -> Figure:
    total = reading.log.n
    bars, rows = [], []
    for e in reading.of(target):
        if not known(e.ess) or not total:
            continue
        name, ess = e.estimator, count(e.ess)
        share = min(max(e.ess / total, 0.0), 1.0)
        found = reading.diagnostics(target, name)
        cells = (NONE,) * 4
        if found is not None:
            cells = (percent(found.rows_carrying_50), percent(found.rows_carrying_90), short(found.tail_index),
                     percent(found.largest_share))  # fmt: skip
        tip = f"{name}: {ess} effective rows of {count(total)}\nhalf of the weight on {cells[0]} of the rows"
        bars.append((name, share, ess, f"{tip}\ntail index {cells[2]}"))
        rows.append((name, ess, percent(share), *cells))
    head = (
        "estimator",
        "effective rows",
        "share",
        "half on",
        "90 % on",
        "tail index",
        "largest row",
    )
    aid = (
        f"Of {count(total)} rows, this many carry information. A tail index above 0.7 is a warning."
    )
    data = Table(f"Effective rows of {target}", head, rows)
    mark = reading.mark(target)
    return Figure("effective-rows", "effective rows", aid, Bars(bars, mark.look), data, mark)


def _survival(reading: Reading, target: str) -> Figure | None:
    wanted = list(dict.fromkeys((reading.recommended(target), *PREFERRED)))
    every = [(name, _curve(found)) for name, found in _found(reading, target) if name in wanted]
    curves = sorted(
        ((n, c) for n, c in every if len(c) > 1), key=lambda item: wanted.index(item[0])
    )[:MOST]
    x = logarithmic([w for _, curve in curves for w, _ in curve])
    y = logarithmic([s for _, curve in curves for _, s in curve])
    if x is None or y is None:
        return None
    series = [
        Series(points=[Point(w, s, tip=f"{name}: {percent(s)} of the rows weigh {short(w)} or more") for w, s in curve],
               look=f"t{index} dash{index}", dots=False)
        for index, (name, curve) in enumerate(curves)
    ]  # fmt: skip
    frame = PlotFrame(
        x=x, y=y, x_title="weight of a row (log)", y_title="share of rows at least as heavy (log)",
        uprights=[(1.0, "")], y_percent=True,
    )  # fmt: skip
    names = [name for name, _ in curves]
    aid = "A curve that falls steeply is safe; one that runs far to the right has rare, heavy rows."
    rows = [(name, short(w), percent(s)) for name, curve in curves for w, s in curve]
    data = Table(f"Tail of the weights of {target}", ("estimator", "weight", "share above"), rows)
    chart = Plot(series, frame, f"Survival curve of the weights of {target}", names)
    return Figure("weights", "tail of the weights", aid, chart, data, reading.mark(target))


def _curve(found: WeightReport) -> list[tuple[float, float]]:
    pairs = zip(found.survival.weight, found.survival.share, strict=True)
    return [(w, s) for w, s in pairs if w >= LIGHT and s > 0]


def _means(reading: Reading, target: str) -> Figure | None:
    # IIPS first: its weights are one ratio each, so they point at the position whose propensities are wrong.
    ordered = sorted(_found(reading, target), key=lambda one: one[0] != "iips")
    every = ((n, one, points) for n, one in ordered if (points := list(_mean_points(one))))
    name, found, points = next(every, ("", None, []))
    if found is None:
        return None
    mark = reading.mark(target)
    frame = PlotFrame(
        x=AxisScale(0.5, len(points) + 0.5), y=around([v for p in points for v in (p.y, p.low, p.high)], also=[1.0]),
        x_title="position", y_title="mean weight", lines=[(1.0, "should be 1")],
        x_ticks=[(p.x, str(int(p.x))) for p in points][:: max(1, (len(points) + 9) // 10)], height=170,
    )  # fmt: skip
    one = Series(points=points, look=mark.look, shape=mark.shape, joined=False, whiskers=True)
    chart = Plot([one], frame, f"Mean weight of {target} by position")
    aid = f"Bars that miss 1 mean wrong propensities (p = {short(found.mean_weight_p)} for all positions)."
    rows = [(str(int(p.x)), short(p.y), short(p.low), short(p.high)) for p in points]
    data = Table(f"Mean weights of {target}", ("position", "mean weight", "low", "high"), rows)
    return Figure("mean-weights", f"do the weights of {name} average to 1?", aid, chart, data, mark)


def _mean_points(found: WeightReport) -> Iterator[Point]:
    pairs = zip(found.mean_weight, found.mean_weight_z, strict=True)
    for k, (mean, z) in enumerate(pairs, start=1):
        if not known(mean):
            continue
        tip = f"position {k}: mean weight {short(mean)}"
        if not known(z) or (not z and mean != 1):  # one ranking or unit: its error is not known
            yield Point(float(k), mean, tip=tip)
            continue
        # The log holds z = (mean - 1) / error; 2.576 errors are 99 %: there is a bar for each position.
        reach = 2.576 * abs(mean - 1) / abs(z) if z else 0.0
        tip += f"\n99 % interval {short(mean - reach)} to {short(mean + reach)}"
        yield Point(float(k), mean, mean - reach, mean + reach, tip)


def _support(reading: Reading, target: str) -> Figure | None:
    found = reading.support(target)
    most = max(found.rare_share, default=0.0) if found is not None else 0.0
    if found is None or not most > 0:
        return None
    bars, rows = [], []
    for k, (r, u) in enumerate(zip(found.rare_share, found.unlogged_share, strict=True), start=1):
        tip = f"position {k}: {percent(r)} of what {target} shows\n{percent(u)} is never logged"
        bars.append((f"position {k}", r / most, percent(r), tip))
        rows.append((str(k), percent(r), percent(u)))
    items = ", ".join(f"{one.action} ({percent(one.share)})" for one in found.actions)
    aid = f"Share of what {target} shows that today's policy shows with a probability below {short(found.rare_below)}."
    aid += f" Most of all: {items}." if items else ""
    data = Table(f"Support of {target}", ("position", "rarely logged", "never logged"), rows)
    mark = reading.mark(target)
    return Figure("support", "support", aid, Bars(bars, mark.look), data, mark)


#: Lifts people ask about.
SHOWN = (0.01, 0.02, 0.05)


def planning(reading: Reading) -> list[Block]:
    """Return what this log can detect, and how wrong propensities may be before the sign turns."""
    plans, sensitivity = reading.result.planning, reading.result.sensitivity
    rows = [
        row
        for name in reading.targets
        if name in plans
        for row in _facts(reading, name, plans[name])
    ]
    table = Table("What this log can detect", ("policy", "", ""), rows, texts=2)
    wrong = [
        _sensitivity(reading, name, sensitivity[name])
        for name in reading.targets
        if name in sensitivity
    ]
    return section("Planning", "planning", table, *wrong)


def _facts(reading: Reading, target: str, plan: SamplePlan) -> Iterator[tuple[str, str, str]]:
    # Plans rest on the estimate's own error, which is what cannot be trusted where evidence is insufficient.
    if reading.evidence(target) == "insufficient":
        return
    ranking = reading.words()[1]
    if known(plan.detectable_relative):
        yield target, "smallest lift that this log can detect", percent(plan.detectable_relative)
    elif known(plan.detectable_lift):
        yield target, "smallest lift that this log can detect", plain(plan.detectable_lift)
    if plan.ab_rows is not None:
        yield (
            target,
            "an A/B test as precise as this log needs",
            f"{roughly(plan.ab_rows)} {ranking}s",
        )
    for row in plan.rows_for:
        if row.rows is not None and row.relative in SHOWN:
            what = f"to detect a lift of {percent(row.relative, digits=0)}, log about"
            yield target, what, f"{roughly(row.rows)} {ranking}s"


def _sensitivity(reading: Reading, target: str, found: Sensitivity) -> Figure | None:
    turn = found.sign_changes_at
    curve = [
        (row.gamma, *both) for row in found.curve if (both := ends(row.lift_low, row.lift_high))
    ]
    if turn is not None:  # beyond the point of interest the range only hides it
        curve = [r for r in curve if r[0] <= max(1.2, 1 + 3 * (turn - 1))]
    if len(curve) < 2:
        return None
    points = [
        Point(gamma, (low + high) / 2, low, high,
              f"wrong by up to a factor {short(gamma)}\nlift {short(low)} to {short(high)}")
        for gamma, low, high in curve
    ]  # fmt: skip
    frame = PlotFrame(
        x=around([gamma for gamma, _, _ in curve], margin=0.02),
        y=around([end for _, *both in curve for end in both], also=[0.0]),
        x_title="propensities wrong by up to this factor", y_title=f"lift in {reading.words()[0]}",
        lines=[(0.0, "no change")],
    )  # fmt: skip
    mark = reading.mark(target)
    band = Series(points=points, look=mark.look, band=True, dots=False, joined=False)
    until = (
        f"until propensities are wrong by a factor of {short(turn)}"
        if known(turn)
        else "over the whole range shown"
    )
    data = Table(
        f"Lift of {target} with wrong propensities",
        ("factor", "low", "high"),
        [tuple(map(short, row)) for row in curve],
    )
    chart = Plot([band], frame, "Sensitivity")
    return Figure(
        "sensitivity",
        "if propensities were wrong",
        f"The sign stays the same {until}.",
        chart,
        data,
        mark,
    )
