"""Can the weights be trusted: effective rows, tails, support, planning, and wrong propensities."""

import math
from collections.abc import Iterator

from counterrank.common.texts import plural
from counterrank.evaluation import SamplePlan, Sensitivity
from counterrank.report.document import Block, Figure, Row, Table, section
from counterrank.report.reading import Reading, Target
from counterrank.report.words import count, known, percent, plain, roughly, short


def weights(reading: Reading) -> list[Block]:
    """Return effective rows and rare support."""
    figures = [_effective_rows(reading, target) for target in reading.targets]
    lead = "Every estimate reweights logged rows. When few rows carry most of the weight, the estimate rests on them."
    return section("Can we trust the weights?", "weights", *figures, _support(reading), lead=lead)


def _effective_rows(reading: Reading, target: Target) -> Figure:
    """Return the share of rows that carry information, for each estimator that rests on weights."""
    rows, cells = list[Row](), []
    for e in target.estimates:
        share = e.ess / reading.log.n if reading.log.n else math.nan
        diagnostics = reading.result.diagnostics.weight_report(target.name, e.estimator)
        if diagnostics is not None and known(share):
            name, shown, size = e.estimator, percent(min(share, 1.0)), count(e.ess)
            rows.append(
                Row(
                    label=name,
                    value=100 * share,
                    shown=shown,
                    note=f"{size} rows",
                    tip=f"{name}\n{shown} of the rows",
                    mark=target.mark,
                )
            )
            cells.append(
                (
                    name,
                    size,
                    shown,
                    percent(diagnostics.rows_carrying_50),
                    percent(diagnostics.rows_carrying_90),
                    short(diagnostics.tail_index),
                    percent(diagnostics.largest_share),
                )
            )
    aid = "The fewer rows carry an estimate, the more it depends on single ones."
    name = f"Effective rows of {target.name}"
    head = (
        "estimator",
        "effective rows",
        "share",
        "half on",
        "90 % on",
        "tail index",
        "largest row",
    )
    data = Table("Rows that carry information; a tail index above 0.7 is a warning", head, cells)
    return Figure(
        "weights",
        rows,
        "% of the rows",
        name,
        [(100.0, "all rows")],
        "rows that carry information",
        aid,
        data,
        target.mark,
    )


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
