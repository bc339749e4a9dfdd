"""Can the weights be trusted: effective rows, tails, support, planning, and wrong propensities."""

from collections.abc import Iterator

from counterrank.common.texts import plural
from counterrank.estimators import Estimate
from counterrank.evaluation import SamplePlan, Sensitivity
from counterrank.report.document import AxisScale, Block, Mark, Row, Table, section
from counterrank.report.evaluation_view import Reading
from counterrank.report.forest import Column, Forest, lines_of
from counterrank.report.words import count, known, percent, plain, roughly, short

WEIGHT_COLUMNS = (
    "estimator",
    "policy",
    "effective rows",
    "half on",
    "90 % on",
    "tail index",
    "largest row",
)


def weights(reading: Reading) -> list[Block]:
    """Return effective rows and rare support."""
    lead = "Every estimate reweights logged rows. When few rows carry most of the weight, the estimate rests on them."
    reports = {
        (target.name, estimate.estimator): (estimate, report)
        for target in reading.targets
        for estimate in target.estimates
        if (report := reading.result.diagnostics.weight_report(target.name, estimate.estimator))
        is not None
        and known(estimate.ess)
        and reading.log.n
    }
    cells: dict[str, dict[str, Row]] = {target.name: {} for target in reading.targets}
    for (target, name), (estimate, _) in reports.items():
        cells[target][name] = _share(reading, estimate)
    scale = AxisScale(-2.0, 108.0)
    columns = [
        Column(name=target.name, scale=scale, ticks=[50.0, 100.0], unit="% of the rows")
        for target in reading.targets
    ]
    lines = lines_of([*cells.values()])
    caption = "Rows that carry information, in per cent of all"
    aid = "The fewer rows carry an estimate, the more it depends on single ones."
    forest = Forest(
        kind="weights", caption=caption, columns=columns, lines=lines, measure="", aid=aid
    )
    rows = [
        (
            name,
            target,
            count(estimate.ess),
            percent(report.rows_carrying_50),
            percent(report.rows_carrying_90),
            short(report.tail_index),
            percent(report.largest_share),
        )
        for (target, name), (estimate, report) in reports.items()
    ]
    told = "Rows that carry information; a tail index above 0.7 is a warning"
    table = Table(told, WEIGHT_COLUMNS, rows, texts=2)
    return section(
        "Can we trust the weights?", "weights", forest, table, _support(reading), lead=lead
    )


def _share(reading: Reading, estimate: Estimate) -> Row:
    """Return the share of rows that carry an estimate."""
    share = min(estimate.ess / reading.log.n, 1.0)
    shown, name = percent(share), estimate.estimator
    tip = f"{name}\n{shown} of the rows, {count(estimate.ess)}"
    return Row(label=name, value=100 * share, shown=shown, tip=tip, mark=Mark("", "plain"))


def _support(reading: Reading) -> Table:
    """Return what the logger rarely or never shows of each target."""
    rows = []
    for target in reading.targets:
        support = reading.result.diagnostics.support.get(target.name)
        if support is None or not max(support.rare_share, default=0.0) > 0:
            continue
        items = ", ".join(f"{gap.action} ({percent(gap.share)})" for gap in support.actions)
        pairs = zip(support.rare_share, support.unlogged_share, strict=True)
        for k, (rare, never) in enumerate(pairs, start=1):
            cells = (str(k), percent(rare), percent(never), items if k == 1 else "")
            rows.append((target.name, *cells))
    head = ("policy", "position", "rarely logged", "never logged", "most of all")
    return Table(
        "Share of what a policy shows that today's policy rarely or never shows", head, rows
    )


#: Lifts people ask about.
SHOWN = (0.01, 0.02, 0.05)


def planning(reading: Reading) -> list[Block]:
    """Return what this log can detect, and how wrong propensities may be before the sign turns."""
    rows: list[tuple[str, ...]] = []
    for target in reading.targets:
        plan = reading.result.planning.get(target.name)
        # Plans rest on the estimate's own error, which cannot be trusted where evidence is insufficient.
        if plan is not None and not target.doubtful:
            rows += [(target.name, *fact) for fact in _facts(plan, reading.ranking)]
        if (sensitivity := reading.result.sensitivity.get(target.name)) is not None:
            rows.append((target.name, "the lift keeps its sign", _tolerance(sensitivity)))
    table = Table("What this log can detect, and bear", ("policy", "", ""), rows, texts=3)
    return section("Planning", "planning", table)


def _facts(plan: SamplePlan, ranking: str) -> Iterator[tuple[str, str]]:
    if known(plan.detectable_lift):
        share = plan.detectable_relative
        least = percent(share) if known(share) else plain(plan.detectable_lift)
        yield "smallest lift that this log can detect", least
    if plan.ab_rows is not None:
        yield (
            "an A/B test as precise as this log needs",
            f"{roughly(plan.ab_rows)} {plural(ranking)}",
        )
    for row in plan.rows_for:
        if row.rows is not None and row.relative in SHOWN:
            what = f"to detect a lift of {percent(row.relative, digits=0)}, log about"
            yield what, f"{roughly(row.rows)} {plural(ranking)}"


def _tolerance(sensitivity: Sensitivity) -> str:
    turn = sensitivity.sign_changes_at
    if known(turn):
        return f"until propensities are wrong by a factor of {short(turn)}"
    largest = max((row.gamma for row in sensitivity.curve), default=1.0)
    return f"with propensities wrong by any factor up to {short(largest)}"
