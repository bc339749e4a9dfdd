"""Can the weights be trusted: effective rows, tails, support, planning, and wrong propensities."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from counterrank.report.charts import Row, RowChart
from counterrank.report.document import Block, Figure, Table, section
from counterrank.report.numbers import NONE, count, known, percent, plain, roughly, short
from counterrank.report.reading import Reading

if TYPE_CHECKING:
    from counterrank.evaluation import SamplePlan, Sensitivity


def weights(reading: Reading) -> list[Block]:
    """Return effective rows and rare support."""
    tables = (_effective_rows(reading), _support(reading))
    figures = [_carrying(reading, target) for target in reading.targets]
    lead = "Every estimate reweights logged rows. When few rows carry most of the weight, the estimate rests on them."
    return section("Can we trust the weights?", "weights", *figures, *tables, lead=lead)


def _effective_rows(reading: Reading) -> Table:
    total = reading.log.n
    rows = []
    for target in reading.targets:
        for e in reading.of(target):
            found = reading.result.diagnostics.of(target, e.estimator)
            cells = (NONE,) * 4
            if found is not None:
                cells = (percent(found.rows_carrying_50), percent(found.rows_carrying_90),
                         short(found.tail_index), percent(found.largest_share))  # fmt: skip
            if known(e.ess) and total:
                share = percent(min(max(e.ess / total, 0.0), 1.0))
                rows.append((target, e.estimator, count(e.ess), share, *cells))
    head = ("policy", "estimator", "effective rows", "share", "half on", "90 % on", "tail index",
            "largest row")  # fmt: skip
    caption = (
        f"Of {count(total)} rows, this many carry information; a tail index above 0.7 is a warning"
    )
    return Table(caption, head, rows, texts=2)


def _carrying(reading: Reading, target: str) -> Figure:
    """Return the share of rows that carry information, for each estimator that rests on weights."""
    mark, rows = reading.mark(target), list[Row]()
    for e in reading.of(target):
        share = e.ess / reading.log.n if reading.log.n else math.nan
        if reading.result.diagnostics.of(target, e.estimator) is not None and known(share):
            shown, note = percent(share), f"{count(e.ess)} rows"
            tip = f"{e.estimator}\n{shown} of the rows"
            rows.append(
                Row(
                    label=e.estimator, value=100 * share, shown=shown, note=note, tip=tip, mark=mark
                )
            )
    aid = "The fewer rows carry an estimate, the more it depends on single ones."
    chart = RowChart(rows, "% of the rows", f"Effective rows of {target}", [(100.0, "all rows")])
    return Figure("weights", "rows that carry information", aid, chart, mark=mark)


def _support(reading: Reading) -> Table:
    """Return what the logger rarely or never shows of each target."""
    rows = []
    for target in reading.targets:
        found = reading.result.diagnostics.support.get(target)
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
    rows: list[tuple[str, ...]] = []
    for name in reading.targets:
        # Plans rest on the estimate's own error, which cannot be trusted where evidence is insufficient.
        if name in reading.result.planning and not reading.doubtful(name):
            facts = _facts(reading.result.planning[name], reading.ranking)
            rows += [(name, *fact) for fact in facts]
        if name in reading.result.sensitivity:
            rows.append(
                (name, "the lift keeps its sign", _tolerance(reading.result.sensitivity[name]))
            )
    table = Table("What this log can detect, and bear", ("policy", "", ""), rows, texts=3)
    return section("Planning", "planning", table)


def _facts(plan: SamplePlan, ranking: str) -> Iterator[tuple[str, str]]:
    if known(plan.detectable_lift):
        share = plan.detectable_relative
        least = percent(share) if known(share) else plain(plan.detectable_lift)
        yield "smallest lift that this log can detect", least
    if plan.ab_rows is not None:
        yield "an A/B test as precise as this log needs", f"{roughly(plan.ab_rows)} {ranking}s"
    for row in plan.rows_for:
        if row.rows is not None and row.relative in SHOWN:
            what = f"to detect a lift of {percent(row.relative, digits=0)}, log about"
            yield what, f"{roughly(row.rows)} {ranking}s"


def _tolerance(found: Sensitivity) -> str:
    turn = found.sign_changes_at
    if known(turn):
        return f"until propensities are wrong by a factor of {short(turn)}"
    most = max((row.gamma for row in found.curve), default=1.0)
    return f"with propensities wrong by any factor up to {short(most)}"
