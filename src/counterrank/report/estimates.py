"""The estimates as charts: what each policy earns, for whom, at which positions, and whether the estimators agree."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from counterrank.common.texts import plural
from counterrank.estimators import Estimate
from counterrank.evaluation import OrderPoint, Segment, SegmentLift
from counterrank.report.answer import comparison, in_order, reading_of
from counterrank.report.document import (
    BRIEF,
    MEASURED,
    PAGE,
    VERBOSE,
    Block,
    Fold,
    Mark,
    Note,
    Paragraph,
    Row,
    Table,
    around_intervals,
    interval_row,
    normal,
    section,
)
from counterrank.report.evaluation_view import Reading, Target, column_name, family, known_bias
from counterrank.report.forest import Column, Forest, Line, around_zero, lines_of, outcome
from counterrank.report.words import NONE, count, known, percent, plain, sentence, span, width
from counterrank.statistics import Number


def values(reading: Reading) -> list[Block]:
    """Return today's policy and every target on one axis, their lifts, and every estimate as a table."""
    lines = [line for row in reading.metric.comparisons if (line := comparison(reading, row))]
    told = [Paragraph(line, detail=BRIEF if len(lines) == 1 else VERBOSE) for line in lines]
    drawn = [_values(reading)] if reading.detail >= PAGE else []
    return section("What each policy earns", "values", *drawn, *told, _table(reading))


def _values(reading: Reading) -> Forest:
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
    return Forest(
        kind="values",
        caption="Values of all policies with intervals",
        columns=[_value_column(reading, reading.unit, rows)],
        lines=[Line(label=row.label, note=row.note, cells=[row]) for row in rows],
        measure="",
        aid=f"Each mark is a value, each line its {reading.level_words} interval. Dashed: today.",
    )


def _value_column(reading: Reading, name: str, rows: Sequence[Row]) -> Column:
    """Return a column of values, with a line at what today's policy earned."""
    today = reading.log.value if known(reading.log.value) else None
    scale = around_intervals(rows, also=[] if today is None else [today])
    return Column(name=name, scale=scale, ticks=scale.ticks(), unit=reading.unit, total=today)


def _table(reading: Reading) -> Table:
    """Return every estimate of every target; what an interval is made of stands beside it."""
    rows: list[tuple[str, ...]] = []
    styles: list[str] = []
    for target in reading.targets:
        rows.append((target.name,))
        styles.append("head")
        best = target.best
        estimates = [e for e in reading.metric.estimates if e.target == target.name]
        for estimate in sorted(estimates, key=lambda e: (e is not best, bool(e.not_estimable))):
            none, mine = estimate.not_estimable, estimate is best
            cells = ("not estimable", *("",) * 6) if none else _cells(reading, estimate, best)
            rows.append((f"{'★' if mine else ' '} {estimate.estimator}", *cells))
            dim = none or known_bias(estimate.estimator)
            styles.append("bold" if mine and not none else "dim" if dim else "")
    head = (
        "estimator",
        "lift",
        f"{reading.level_words} interval",
        "relative",
        "value",
        "sampling error",
        "bias allowance",
        "effective rows",
    )
    return Table(
        "Estimates (★ recommended)", head, rows, styles=styles, minor=(7, 4, 5, 3, 6), detail=BRIEF
    )


def _cells(reading: Reading, estimate: Estimate, best: Estimate) -> tuple[str, ...]:
    """Return the cells of an estimate with the digits that the recommended one's interval supports."""
    lift, sampling_error = estimate.lift, normal(0.0, estimate.lift.stderr, reading.level).high
    spread, error = _error(best.lift, lift), _error(best, estimate)
    return (
        plain(lift.value, spread, sign=True),
        span(lift.low, lift.high, spread, sign=True) or NONE,
        percent(lift.relative, sign=True),
        plain(estimate.value, error),
        f"± {plain(sampling_error, sampling_error)}" if known(sampling_error) else NONE,
        f"± {plain(estimate.allowance, estimate.allowance)}" if estimate.allowance else NONE,
        count(estimate.ess),
    )


def _error(best: Number | Estimate, number: Number | Estimate) -> float:
    """Return the error whose digits per column has: the recommended one's, where it has one."""
    return width(best) if known(width(best)) and width(best) else width(number)


#: What estimators rest on, in the order they are shown.
_GROUPS = {
    "best": "Recommended",
    "weights": "From weights alone",
    "model": "With a model of the reward",
    "biased": "Biased if items affect each other",
}


def agreement(reading: Reading) -> list[Block]:
    """Return the lifts by every estimator, policies side by side, the flags, and what was left out."""
    lead = "The methods make different assumptions. If those that should agree do, the result can be trusted more."
    targets = [target for target in reading.candidates if target.estimates]
    if not targets:
        return []
    notes = [
        *(
            sentence(f"{target.name}: {reason.text}")
            for target in targets
            for reason in target.reasons
            if reason.code == "agreement"
        ),
        *dict.fromkeys(
            f"{target.name}, {target.best.estimator}: {why}"
            for target in targets
            if (why := target.best.details.get("why"))
        ),
        "Estimates with a known bias are dashed.",
    ]
    told = [Paragraph(text, "aid") for text in notes]
    forest = _agreement(reading, targets)
    return section(
        "Do the estimators agree?", "estimators", forest, *told, *_flags(reading), lead=lead
    )


def _agreement(reading: Reading, targets: Sequence[Target]) -> Forest:
    """Return the lift by every estimator, the recommended one first, then by what they rest on."""
    relative = all(
        known(estimate.lift.relative_low) for target in targets for estimate in target.estimates
    )
    recommended = {target.best.estimator for target in targets}
    columns = [
        {row.estimator: _by(target, row, relative=relative) for row in target.estimates}
        for target in targets
    ]
    lines = []
    for line in lines_of(columns):
        group = "best" if line.label in recommended else family(line.label)
        note = known_bias(line.label) if group == "biased" else ""
        lines.append(replace(line, note=note, group=_GROUPS[group]))
    lines.sort(key=lambda line: [*_GROUPS.values()].index(line.group))
    unit = "%" if relative else reading.unit
    wholes = [interval_row(target.name, target.lift, relative=relative) for target in targets]
    return side_by_side("agreement", "Lift by estimator", targets, lines, unit, wholes)


def _by(target: Target, estimate: Estimate, *, relative: bool) -> Row:
    lift, name = estimate.lift, estimate.estimator
    # One column, one number of digits: those that the recommended estimate's error supports.
    error = width(target.lift) if known(width(target.lift)) else width(lift)
    return interval_row(
        name + (" ⚑" if estimate.flags else ""),
        lift,
        outcome(*lift.decisive),
        relative=relative,
        error=error,
        faded=bool(known_bias(name)),
        hints=[f"effective rows {count(estimate.ess)}", *(f"⚑ {flag}" for flag in estimate.flags)],
    )


def side_by_side(
    kind: str,
    caption: str,
    targets: Sequence[Target],
    lines: Sequence[Line],
    unit: str,
    wholes: Sequence[Row] = (),
) -> Forest:
    """Return lines over a column for each policy, all on one axis; `wholes` are marked behind them."""
    # Thin evidence does not stretch the axis: its intervals end in an arrow.
    rows = [cell for line in lines for cell in line.cells if cell and not cell.faded]
    scale, ticks = around_zero([*rows, *wholes], max_ticks=5 if len(targets) > 2 else 6, room=0.09)
    columns = [
        Column(
            name=target.name,
            scale=scale,
            ticks=ticks,
            unit=unit,
            state=target.state,
            band=ends_of(wholes[place]) if wholes else None,
            total=wholes[place].value if wholes else None,
        )
        for place, target in enumerate(targets)
    ]
    share = "in per cent" if unit == "%" else f"in {unit}"
    return Forest(kind=kind, caption=f"{caption}, {share}", columns=columns, lines=lines)


def ends_of(row: Row) -> tuple[float, float] | None:
    """Return both ends of an interval; None where there is none."""
    return (row.low, row.high) if known(row.high - row.low) else None


def _flags(reading: Reading) -> list[Block]:
    """Return the flags of estimates, and which estimators were skipped and why."""
    flagged: dict[str, list[str]] = {}
    for e in reading.estimates:
        for flag in e.flags:
            flagged.setdefault(flag, []).append(f"{e.target}/{e.estimator}")
    skipped = dict.fromkeys((row.subject, row.text) for row in reading.metric.skipped)
    lists = {
        "Flags of estimates": [(", ".join(who), flag) for flag, who in flagged.items()],
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
    paths = {target.name: _path(reading, target) for target in reading.targets}
    paths = {name: rows for name, rows in paths.items() if len(rows) > 1}
    if not paths:
        return []
    shared = [row for rows in paths.values() for row in rows.values()]
    forest = Forest(
        kind="order-path",
        caption=f"Order path, in {reading.unit}",
        columns=[_value_column(reading, name, shared) for name in paths],
        lines=lines_of([*paths.values()]),
        measure="",
    )
    told = [
        Paragraph(f"{name}: {path_in_words(reading.result.diagnostics.order_path[name])}", "aid")
        for name in paths
    ]
    return section("From each item alone to the whole ranking", "order", forest, *told, lead=lead)


def path_in_words(points: Sequence[OrderPoint]) -> str:
    """Return what an order path says: flat, drifting, or out of data."""
    measured = [p for p in points if known(p.low) and known(p.high)]
    if len(measured) < 2:
        return ""
    first = measured[0]
    apart = [p for p in measured[1:] if not p.low <= first.value <= p.high]
    # Four times as wide is a sixteenth of the rows: there the data ends.
    wide = measured[-1].high - measured[-1].low > 4 * (first.high - first.low)
    if apart:
        text = "Weights of single items give a different answer: items affect each other here."
    elif wide:
        return "No drift beyond the noise, but the intervals widen towards the whole ranking: too few rows to tell."
    else:
        text = "No drift beyond the noise: no sign that items affect each other."
    return text + (
        " The intervals widen towards the whole ranking: too few rows to tell." if wide else ""
    )


def _path(reading: Reading, target: Target) -> dict[str, Row]:
    """Return the value at each order, by its name."""
    names = {1: "each item alone", reading.log.K: "the whole ranking"}
    points = reading.result.diagnostics.order_path.get(target.name, ())
    return {
        name: interval_row(
            name,
            point,
            Mark("", "plain"),
            error=point.stderr,
            sign=False,
            note=point.estimator,
            hints=[f"effective rows {count(point.ess)}"],
        )
        for point in points
        if known(point.value)
        for name in (names.get(point.order, f"{point.order} items together"),)
    }


#: Policies whose segments stand side by side.
MOST_ABREAST = 4


def segments(reading: Reading) -> list[Block]:
    """Return the segments of all policies, four side by side, the first four open; other metrics are folded."""
    if not any(metric.segments for metric in reading.result.metrics):
        return []
    first, *further = _segment_forests(reading)
    names = [", ".join(column.name for column in forest.columns) for forest in further]
    folds = [
        Fold(f"The same for {name}", [forest]) for name, forest in zip(names, further, strict=True)
    ]
    for metric in reading.result.metrics:
        if not metric.primary and metric.segments:
            alike = _segment_forests(reading_of(reading, metric))
            folds += [Fold(f"The same for {metric.name}", alike)] if alike[0].lines else []
    lead = " ".join(_differs(first))
    return section("For whom", "segments", first, *folds, lead=lead)


def _differs(forest: Forest) -> Iterator[str]:
    """Yield what the marks show of each policy: the segment that differs most from the whole, or that none does."""
    for place, column in enumerate(forest.columns):
        apart = [
            (abs(cell.value - (column.total or 0.0)), line, cell)
            for line in forest.lines
            if (cell := line.cells[place]) is not None and cell.apart and not cell.faded
        ]
        if not apart:
            yield f"No segment of {column.name} differs clearly from the whole."
            continue
        _, line, cell = max(apart, key=lambda entry: entry[0])
        yield f"{column.name} differs most in {line.group} {line.label}: {cell.shown}."


def _segment_forests(reading: Reading) -> list[Forest]:
    members: dict[str, dict[tuple[str, str], Segment]] = {}
    for segment in reading.metric.segments:
        members.setdefault(segment.target, {})[segment.column, segment.label] = segment
    targets = [
        target for target in in_order(reading) if target.name in members and not target.missing
    ]
    return [
        _segment_forest(reading, targets[start : start + MOST_ABREAST], members)
        for start in range(0, max(len(targets), 1), MOST_ABREAST)
    ]


def _segment_forest(
    reading: Reading,
    targets: Sequence[Target],
    members: Mapping[str, Mapping[tuple[str, str], Segment]],
) -> Forest:
    """Return a line for all rows and one for each segment; the axis is that of all policies."""
    keys = dict.fromkeys(key for target in targets for key in members[target.name])
    relative = all(
        known(target.lift.relative_low)
        and all(known(_base(s)) and _base(s) > 0 for s in members[target.name].values())
        for target in targets
    )
    lower = reading.metric.lower_is_better
    totals = {target.name: _whole(target, lower, relative=relative) for target in targets}
    cells = {
        target.name: {
            key: _segment_cell(segment, totals[target.name], lower, relative=relative)
            for key, segment in members[target.name].items()
        }
        for target in targets
    }
    lines = [Line(label=f"All {plural(reading.ranking)}", cells=[*totals.values()])]
    for column, label in keys:
        row = [cells[target.name].get((column, label)) for target in targets]
        size = next(
            count(members[t.name][column, label].n)
            for t in targets
            if (column, label) in members[t.name]
        )
        lines.append(Line(label=label, note=size, group=column_name(column), cells=row))
    unit = "%" if relative else reading.unit
    caption = f"Lift in {reading.reward} by segment"
    forest = side_by_side(
        "segments", caption, targets, lines if keys else [], unit, [*totals.values()]
    )
    rows = plural(reading.ranking)
    aid = (
        f"Line: {reading.level_words} interval. Shaded: that of all {rows}. Dashed: thin evidence. "
        "Bold: differs from the whole."
    )
    return replace(forest, detail=BRIEF, aid=aid)


def _base(segment: Segment) -> float:
    """Return what the baseline earned in a segment."""
    return segment.value - segment.lift.value


def _whole(target: Target, lower: bool, *, relative: bool) -> Row:
    lift = target.lift
    mark = outcome(*lift.decisive, lower_is_better=lower)
    return interval_row("all", lift, mark, relative=relative)


def _segment_cell(segment: Segment, total: Row, lower: bool, *, relative: bool) -> Row:
    lift, share = segment.lift, 1 / _base(segment) if relative else None
    outer = [end * (100 * share if share else 1.0) for end in adjusted(lift)]
    lines = [
        f"adjusted for all segments {span(*outer) or NONE}",
        f"{count(segment.n)} rows, {count(segment.ess)} effective",
        *(f"⚑ {flag}" for flag in segment.flags),
    ]
    row = interval_row(
        segment.label,
        lift,
        outcome(lift.low, lift.high, lower_is_better=lower),
        share=share,
        hints=lines,
        faded=segment.evidence == "insufficient",
    )
    return replace(row, apart=row.low > total.high or row.high < total.low)


def adjusted(lift: SegmentLift) -> tuple[float, float]:
    """Return the interval that allows for looking at all segments, never shorter than the segment's own."""
    low, high = lift.adjusted_low, lift.adjusted_high
    if not known(high - low):
        return math.nan, math.nan
    return min(low, lift.low), max(high, lift.high)


def positions(reading: Reading) -> list[Block]:
    """Return the lift of every position, policies side by side; other metrics are folded."""
    lead = "The lifts of the positions add up to the whole."
    metrics = (
        metric
        for metric in reading.result.metrics
        if not metric.primary and metric.kind == "position"
    )
    folds = [
        Fold(f"The same for {metric.name}", [_by_position(reading_of(reading, metric))])
        for metric in metrics
    ]
    title = f"Where in the {reading.ranking}"
    return section(title, "positions", _by_position(reading), *folds, lead=lead)


def _by_position(reading: Reading) -> Forest:
    targets = [target for target in reading.candidates if target.lift.by_position]
    columns = []
    for target in targets:
        cells, error = {}, target.lift.by_position[0].stderr
        for place, amount in enumerate(target.lift.by_position, start=1):
            number = normal(amount.value, amount.stderr, reading.level)
            mark = outcome(number.low, number.high)
            cells[f"position {place}"] = interval_row(target.name, number, mark, error=error)
        columns.append(cells)
    lines = lines_of(columns)
    return side_by_side("positions", "Lift by position", targets, lines, reading.unit)
