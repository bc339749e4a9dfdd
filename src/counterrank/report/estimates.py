"""The estimates as charts: what each policy earns, for whom, at which positions, and whether the estimators agree."""

import math
from collections.abc import Sequence

from counterrank.estimators import Estimate
from counterrank.evaluation import OrderPoint, SegmentLift
from counterrank.report.answer import comparison, lifts
from counterrank.report.document import (
    BRIEF,
    MEASURED,
    VERBOSE,
    Block,
    Figure,
    Note,
    Paragraph,
    Row,
    Table,
    interval_row,
    normal,
    section,
)
from counterrank.report.reading import Reading, Target, column_name, family, known_bias
from counterrank.report.words import NONE, count, known, percent, plain, sentence, span, width
from counterrank.statistics import Number


def values(reading: Reading) -> list[Block]:
    """Return today's policy and every target on one axis, their lifts, and every estimate as a table."""
    log = reading.log
    logged = normal(log.value, log.stderr, reading.level)
    rows = [
        interval_row(
            reading.logger, logged, MEASURED, error=log.stderr, sign=False, note="measured"
        )
    ]
    for target in reading.targets:
        by, faded = f"by {target.best.estimator}", target.doubtful
        rows.append(
            interval_row(target.name, target.best, target.mark, sign=False, note=by, faded=faded)
        )
    aid = f"Each mark is a value, each bar its {reading.level_words} interval."
    name, title = "Values of all policies with intervals", reading.unit.capitalize()
    value = Figure("values", rows, reading.unit, name, _today(reading), title, aid)
    lines = [line for row in reading.result.comparisons if (line := comparison(reading, row))]
    told = [Paragraph(line, detail=BRIEF if len(lines) == 1 else VERBOSE) for line in lines]
    return section(
        "What each policy earns", "values", lifts(reading), value, *told, _table(reading)
    )


def _today(reading: Reading) -> list[tuple[float, str]]:
    today = reading.log.value
    return [(today, "today" if reading.over_logger else "logger")] if known(today) else []


def _table(reading: Reading) -> Table:
    """Return every estimate of every target; what an interval is made of stands beside it."""
    rows: list[tuple[str, ...]] = []
    styles: list[str] = []
    for target in reading.targets:
        rows.append((target.name,))
        styles.append("head")
        best = target.best
        own = [e for e in reading.result.estimates if e.target == target.name]
        for one in sorted(own, key=lambda e: (e is not best, bool(e.not_estimable))):
            none, mine = one.not_estimable, one is best
            cells = ("not estimable", *("",) * 6) if none else _cells(reading, one, best)
            rows.append((f"{'★' if mine else ' '} {one.estimator}", *cells))
            dim = none or known_bias(one.estimator)
            styles.append("bold" if mine and not none else "dim" if dim else "")
    head = ("estimator", "lift", f"{reading.level_words} interval", "relative", "value", "sampling error",
            "bias allowance", "effective rows")  # fmt: skip
    return Table(
        "Estimates (★ recommended)", head, rows, styles=styles, minor=(6, 5, 7, 4, 3), detail=BRIEF
    )


def _cells(reading: Reading, one: Estimate, best: Estimate) -> tuple[str, ...]:
    """Return the cells of an estimate with the digits that the recommended one's interval supports."""
    lift, part = one.lift, normal(0.0, one.lift.stderr, reading.level).high
    spread, error = _error(best.lift, lift), _error(best, one)
    return (
        plain(lift.value, spread, sign=True),
        span(lift.low, lift.high, spread, sign=True) or NONE,
        percent(lift.relative, sign=True),
        plain(one.value, error),
        f"± {plain(part, part)}" if known(part) else NONE,
        f"± {plain(one.allowance, one.allowance)}" if one.allowance else NONE,
        count(one.ess),
    )


def _error(best: Number | Estimate, one: Number | Estimate) -> float:
    """Return the error whose digits per column has: the recommended one's, where it has one."""
    return width(best) if known(width(best)) and width(best) else width(one)


#: What estimators rest on, in the order they are shown.
_GROUPS = {
    "weights": ("From weights alone", "no model of the reward"),
    "model": ("With a model of the reward", "weights correct what the model gets wrong"),
    "biased": ("Biased if items affect each other", "shown for comparison"),
}


def agreement(reading: Reading) -> list[Block]:
    """Return one figure a target, the flags, and what was left out."""
    lead = "The methods make different assumptions. If those that should agree do, the result can be trusted more."
    figures = [_agreement(reading, target) for target in reading.targets if target.estimates]
    more = _flags(reading) if figures else []
    return section("Do the estimators agree?", "estimators", *figures, *more, lead=lead)


def _agreement(reading: Reading, target: Target) -> Figure:
    """Return every estimate of a target, the recommended one first, then by what they rest on."""
    best, rows = target.best, list[Row]()
    groups = {"best": ("Recommended", ""), **_GROUPS}
    for name, (title, note) in groups.items():
        members = [
            e for e in target.estimates if name == ("best" if e is best else family(e.estimator))
        ]  # fmt: skip
        rows += [Row(label=title, note=note, heading=True)] if members else []
        for e in members:
            lines = [f"lift {percent(e.lift.relative, sign=True)}", f"effective rows {count(e.ess)}",
                     *(f"⚑ {flag}" for flag in e.flags)]  # fmt: skip
            label = e.estimator + (" ⚑" if e.flags else "")
            # One column, one number of digits: those that the recommended estimate's error supports.
            error = best.stderr if known(best.stderr) and best.stderr else e.stderr
            rows.append(
                interval_row(label, e, target.mark, error=error, sign=False, more=lines, faded=name == "biased",
                             note="★ recommended" if name == "best" else known_bias(e.estimator))
            )  # fmt: skip
    verdict = [sentence(one.text) for one in target.reasons if one.code == "agreement"]
    aid = " ".join([*verdict, "Estimates with a known bias are dashed."])
    if why := best.details.get("why"):
        aid += f" {best.estimator}: {why}"
    name, today = f"Estimates of {target.name}", _today(reading)
    return Figure("agreement", rows, reading.unit, name, today, aid=aid, mark=target.mark)


def _flags(reading: Reading) -> list[Block]:
    """Return the flags of estimates, and which estimators were skipped and why."""
    found: dict[str, list[str]] = {}
    for e in reading.estimates:
        for flag in e.flags:
            found.setdefault(flag, []).append(f"{e.target}/{e.estimator}")
    skipped = dict.fromkeys((row.subject, row.text) for row in reading.result.skipped)
    lists = {
        "Flags of estimates": [(", ".join(who), flag) for flag, who in found.items()],
        "Estimators that were skipped, and why": list(skipped),
    }
    return [
        block
        for title, rows in lists.items()
        if rows
        for block in (
            Paragraph(title, "strong", detail=VERBOSE),
            *(Note(text, name=name, detail=VERBOSE) for name, text in rows),
        )
    ]


def order_path(reading: Reading) -> list[Block]:
    """Return a path for each target that has one."""
    lead = (
        "How many items must be weighted together? Flat: items do not affect each other. A drift: they "
        "do. A funnel: there are too few rows to tell."
    )
    figures = [_path_figure(reading, target) for target in reading.targets]
    return section("From each item alone to the whole ranking", "order", *figures, lead=lead)


def path_in_words(points: Sequence[OrderPoint]) -> str:
    """Return what an order path says: flat, drifting, or out of data."""
    found = [p for p in points if known(p.low) and known(p.high)]
    if len(found) < 2:
        return ""
    first = found[0]
    apart = [p for p in found[1:] if not p.low <= first.value <= p.high]
    # Four times as wide is a sixteenth of the rows: there the data ends.
    wide = found[-1].high - found[-1].low > 4 * (first.high - first.low)
    if apart:
        text = "Weights of single items give a different answer: items affect each other here."
    elif wide:
        return "No drift beyond the noise, but the intervals widen towards the whole ranking: too few rows to tell."
    else:
        text = "No drift beyond the noise: no sign that items affect each other."
    return text + (
        " The intervals widen towards the whole ranking: too few rows to tell." if wide else ""
    )


def _path_figure(reading: Reading, target: Target) -> Figure | None:
    recorded = reading.result.diagnostics.order_path.get(target.name, ())
    path = [point for point in recorded if known(point.value)]
    if len(path) < 2:
        return None
    names = {1: "each item alone", reading.log.K: "the whole ranking"}
    rows = [
        interval_row(
            names.get(p.order, f"{p.order} items together"), p, target.mark, error=p.stderr, sign=False,
            note=p.estimator, more=[f"effective rows {count(p.ess)}"],
        )
        for p in path
    ]  # fmt: skip
    name, lines, aid = f"Order path of {target.name}", _today(reading), path_in_words(path)
    return Figure("order-path", rows, reading.unit, name, lines, aid=aid, mark=target.mark)


#: Segments that a terminal shows: both ends, who gains most and who loses most.
MOST_SEGMENTS = 14


def segments(reading: Reading) -> list[Block]:
    """Return a forest for each target."""
    lead = "Sorted by lift. Segments with too little evidence are dashed, not hidden."
    figures = (_forest(reading, name) for name in reading.candidates)
    return section("For whom", "segments", *figures, lead=lead)


def adjusted(lift: SegmentLift) -> tuple[float, float]:
    """Return the interval that allows for looking at all segments, never shorter than the segment's own."""
    low, high = lift.adjusted_low, lift.adjusted_high
    if not known(high - low):
        return math.nan, math.nan
    return min(low, lift.low), max(high, lift.high)


def _forest(reading: Reading, target: Target) -> Figure:
    """Return the segments by column, the largest lift first; in a terminal, those of all columns."""
    own = [s for s in reading.result.segments if s.target == target.name]
    found = sorted(own, key=lambda s: -s.lift.value if known(s.lift.value) else 0.0)
    # One column, one number of digits: those that the median error supports.
    errors = sorted(s.lift.stderr for s in found if known(s.lift.stderr))
    typical = errors[len(errors) // 2] if errors else None
    rows, cells, styles = dict[str, list[Row]](), [], []
    for s in found:
        lift, few, size = s.lift, s.evidence == "insufficient", f"{count(s.n)} rows"
        outer = adjusted(lift)
        wide = span(*outer, typical, sign=True) or NONE
        lines = [
            f"adjusted interval {wide}",
            f"{count(s.ess)} effective rows",
            *(f"⚑ {f}" for f in s.flags),
        ]
        note = f"{size}, too little evidence" if few else size
        row = interval_row(
            s.label, lift, target.mark, error=typical, outer=outer, note=note, faded=few, more=lines
        )
        rows.setdefault(s.column, []).append(row)
        name = f"{column_name(s.column)} = {s.label}"
        cells.append((name, count(s.n), row.shown, row.reach or NONE, wide, count(s.ess)))
        styles.append("dim" if few else "")
    shown = [
        one
        for column in dict.fromkeys(s.column for s in own)
        for one in (Row(label=column_name(column), heading=True), *rows[column])
    ]
    aid = (
        f"Thick: {reading.level_words} interval of the segment. Thin: adjusted for looking at {len(found)} segments; "
        "only what stays on one side of zero with the thin line stands out."
    )
    title, unit = f"Lift of {target.name} by segment", f"lift in {reading.unit}"
    head = ("segment", "rows", "lift", "interval", "adjusted interval", "effective rows")
    most = max(MOST_SEGMENTS // len(reading.candidates), 2)
    data = Table(title, head, cells, styles=styles, minor=(5, 3, 1), most=most)
    return Figure(
        "segments", shown, unit, title, aid=aid, data=data, mark=target.mark, detail=BRIEF
    )


def positions(reading: Reading) -> list[Block]:
    """Return the lift of every position, for each target."""
    aid = f"Right of the line the position gains, left of it it loses; bars are {reading.level_words} intervals."
    figures = []
    for target in reading.candidates:
        rows = list[Row]()
        found = target.lift.by_position
        for k, one in enumerate(found, start=1):
            number = normal(one.value, one.stderr, reading.level)
            rows.append(interval_row(f"position {k}", number, target.mark, error=found[0].stderr))
        name, unit = f"Lift of {target.name} by position", f"lift in {reading.reward}"
        figures.append(Figure("positions", rows, unit, name, aid=aid, mark=target.mark))
    lead = "The lifts of the positions add up to the whole."
    return section(f"Where in the {reading.ranking}", "positions", *figures, lead=lead)
