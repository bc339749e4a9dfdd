"""Can the weights be trusted: effective rows, tails, means, support, planning, and wrong propensities."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from counterrank.report.charts import (
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
    """Return survival curves, effective rows, the test of mean weights and rare support."""
    tables = (_effective_rows(reading), _means(reading), _support(reading))
    figures = [_survival(reading, target) for target in reading.targets]
    lead = "Every estimate reweights logged rows. When few rows carry most of the weight, the estimate rests on them."
    return section("Can we trust the weights?", "weights", *figures, *tables, lead=lead)


def _found(reading: Reading, target: str) -> list[tuple[str, WeightReport]]:
    names = dict.fromkeys(e.estimator for e in reading.of(target))
    return [(name, found) for name in names if (found := reading.diagnostics(target, name))]


def _effective_rows(reading: Reading) -> Table:
    total = reading.log.n
    rows = []
    for target in reading.targets:
        for e in reading.of(target):
            found = reading.diagnostics(target, e.estimator)
            cells = (NONE,) * 4
            if found is not None:
                cells = (percent(found.rows_carrying_50), percent(found.rows_carrying_90),
                         short(found.tail_index), percent(found.largest_share))  # fmt: skip
            if known(e.ess) and total:
                share = percent(min(max(e.ess / total, 0.0), 1.0))
                rows.append((target, e.estimator, count(e.ess), share, *cells))
    head = (
        "policy",
        "estimator",
        "effective rows",
        "share",
        "half on",
        "90 % on",
        "tail index",
        "largest row",
    )
    caption = (
        f"Of {count(total)} rows, this many carry information; a tail index above 0.7 is a warning"
    )
    return Table(caption, head, rows, texts=2)


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


def _means(reading: Reading) -> Table:
    """Return the mean weight at each position, which should be 1."""
    rows = []
    for target in reading.targets:
        # IIPS first: its weights are one ratio each, so they point at the position whose propensities are wrong.
        ordered = sorted(_found(reading, target), key=lambda one: one[0] != "iips")
        for name, found in ordered[:1]:
            pairs = zip(found.mean_weight, found.mean_weight_z, strict=True)
            rows += [
                (target, name, str(k), short(mean), short(z))
                for k, (mean, z) in enumerate(pairs, start=1)
                if known(mean)
            ]
    head = ("policy", "weights of", "position", "mean weight", "standard errors from 1")
    return Table(
        "Mean weights should be 1; far from it, propensities are wrong", head, rows, texts=2
    )


def _support(reading: Reading) -> Table:
    """Return what the logger rarely or never shows of each target."""
    rows = []
    for target in reading.targets:
        found = reading.support(target)
        if found is None or not max(found.rare_share, default=0.0) > 0:
            continue
        items = ", ".join(f"{one.action} ({percent(one.share)})" for one in found.actions)
        pairs = zip(found.rare_share, found.unlogged_share, strict=True)
        for k, (rare, never) in enumerate(pairs, start=1):
            rows.append((target, str(k), percent(rare), percent(never), items if k == 1 else ""))
    head = ("policy", "position", "rarely logged", "never logged", "most of all")
    return Table(
        "Share of what a policy shows that today's policy rarely or never shows", head, rows
    )


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
