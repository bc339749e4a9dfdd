"""An A/B test read with its log: can its arms be compared, which earns more, and what to do."""

from collections.abc import Iterator

from counterrank.common.messages import say
from counterrank.evaluation import ABTest, ArmLift, ArmMetric, GuardrailResult
from counterrank.report.answer import joined_names
from counterrank.report.document import (
    BRIEF,
    PAGE,
    Block,
    Chip,
    Document,
    Figure,
    Paragraph,
    Row,
    Table,
    interval_row,
    section,
)
from counterrank.report.words import (
    count,
    known,
    percent,
    percents,
    plain,
    roughly,
    sentence,
    span,
    width,
)

#: What the two readings are called in tables and in the picture.
NAMES = {"pooled": "every row", "plain": "difference in means"}


def document(test: ABTest, _: int = PAGE) -> Document:
    """Return what the test says: first whether it is one, at last what to do."""
    title, *lines = sentences(test)
    # The decision is the last thing on a page and in a terminal.
    told = lines[:-1] if test.decision is not None else lines
    blocks: list[Block] = [Paragraph(line, detail=BRIEF) for line in told]
    blocks += [_chart(test), *_metrics(test), _guardrails(test), _segments(test), _arms(test)]
    blocks = [block for block in blocks if not (isinstance(block, Table) and not block.rows)]
    if test.decision is not None:
        blocks += section("Decision", "decision", Paragraph(lines[-1], "strong", detail=BRIEF))
    return Document(title, blocks, answer=lines[-1] if test.decision is not None else "")


def sentences(test: ABTest) -> list[str]:
    """Return what the test says: what invalidates it first, then each metric, the decision at last."""
    fatal = [note for note in test.notes if note.fatal]
    lines = [sentence(f"this test is not valid: {note.text}") for note in fatal]
    if not any(note.code == "sample-ratio" for note in fatal):
        lines = [*_sample_ratio(test), *lines]
    # Of arms that cannot be compared neither a difference nor its absence is known.
    metrics = sorted(test.metrics, key=lambda measure: not measure.primary) if test.valid else ()
    for metric in metrics:
        for lift in metric.lifts:
            lines += [_answer(test, metric, lift), _saving(metric, lift)]
    if test.sequential:
        lines.append("The intervals are valid at every look at the growing test.")
    notes = [note for metric in test.metrics for lift in metric.lifts for note in lift.notes]
    lines += [sentence(note.text) for note in (*notes, *test.notes) if not note.fatal]
    if test.decision is not None:
        lines.append(_decision(test))
    return list(dict.fromkeys(lines))


def _sample_ratio(test: ABTest) -> Iterator[str]:
    """Yield how the arms share the rows; nothing where an older file does not say."""
    ratio = test.sample_ratio
    if ratio is None or not ratio.counts:
        return
    counts = joined_names([f"{name} {count(size)}" for name, size in ratio.counts.items()], "and")
    planned = "as planned" if ratio.planned else "as chance divides them"
    p = "p > 0.99" if ratio.p_value > 0.99 else f"p = {ratio.p_value:.2g}"
    yield f"The sample ratio is right: {counts} {ratio.counted}, {planned} ({p})."


def _answer(test: ABTest, metric: ArmMetric, lift: ArmLift) -> str:
    to, source, number = lift.to, lift.source, lift.lift
    if not (known(number.value) and known(number.low) and known(number.high)):
        return f"{to} and {source} cannot be compared in {metric.name}."
    error = number.stderr
    share = f"{percent(lift.relative.value, sign=True)}, " if known(lift.relative.value) else ""
    reach = span(number.low, number.high, error, sign=True)
    reach = f"({share}{percent(test.level, digits=0)} interval {reach})"
    unit = metric.unit or "per ranking"
    low, high = lift.decisive
    if low <= 0.0 <= high:
        size = plain(number.value, error, sign=True)
        return f"No difference between {to} and {source} in {metric.name} was found: {size} {unit} {reach}."
    size = plain(abs(number.value), error)
    if unit == "per ranking":
        comparison = "more" if low > 0 else "less"
        return f"{to} earns {size} {comparison} {metric.name} per ranking than {source} {reach}."
    comparison = "higher" if low > 0 else "lower"
    return f"{metric.name} ({unit}) is {size} {comparison} with {to} than with {source} {reach}."


def _saving(metric: ArmMetric, lift: ArmLift) -> str:
    difference = lift.plain
    if lift.headline == "pooled" and known(lift.saved):
        reach = span(difference.low, difference.high, difference.stderr, sign=True)
        size = plain(difference.value, difference.stderr, sign=True)
        times = 1.0 / max(1.0 - lift.saved, 1e-9)
        return (
            f"For {metric.name} every row was read for both rankers, which saves "
            f"{percent(lift.saved, digits=0)} of the traffic: the plain difference in means, {size} ({reach}), "
            f"would need {plain(times, times / 5)} times the rankings for an interval as short. Both agree."
        )
    if lift.agree and not lift.notes:
        return (
            f"For {metric.name} this is the plain difference in means: reading every row for both rankers "
            "makes the interval no shorter here."
        )
    return (
        f"For {metric.name} this is the plain difference in means, which assumes nothing but a random "
        "division of users."
    )


def _decision(test: ABTest) -> str:
    decision = test.decision
    assert decision is not None
    why = " ".join(sentence(reason.text) for reason in decision.reasons if not reason.fatal)
    if decision.action == "ship":
        return f"Decision: ship {decision.target}. {why}"
    if decision.action == "stop":
        remedies = dict.fromkeys(
            sentence(way) for reason in decision.reasons if reason.fatal for way in reason.remedies
        )
        return (
            f"Decision: stop. {why or 'The arms cannot be compared.'} {' '.join(remedies)}".strip()
        )
    if decision.rows is None:
        return f"Decision: go on. {why} How long cannot be said from so few rankings."
    amount = f"about {roughly(decision.rows)} more rankings"
    if decision.days is not None:
        days = count(decision.days)
        amount = f"{days} more {'day' if decision.days == 1 else 'days'}, {amount}"
    aim = f"a lift of {percent(decision.practical)} would then show four times in five"
    look = (
        ""
        if test.sequential
        else (
            f" Look again then, or give {say('--sequential', python='sequential=True')} for intervals that are "
            "valid at every look."
        )
    )
    return f"Decision: go on for {amount}: {aim}. {why}{look}"


def _chart(test: ABTest) -> Figure:
    """Return both readings of each lift in the primary metric."""
    rows: list[Row] = []
    primary = test.metric()
    for lift in primary.lifts:
        rows.append(Row(label=f"{lift.to} over {lift.source}", heading=True))
        for name, title in NAMES.items():
            number, chosen = (
                lift.plain if name == "plain" else lift.pooled,
                lift.headline == name,
            )
            note = "★ reported" if chosen else ""
            rows.append(
                interval_row(title, number, error=number.stderr, note=note, faded=not chosen)
            )
    aid = (
        "Left of the line the arm earns less than the baseline, right of it more; bars are intervals. "
        "The pale one is the other way to read the same test."
    )
    axis = f"more {primary.name} per ranking than the baseline"
    return Figure(
        "lifts",
        rows,
        axis,
        "Lifts with their intervals",
        [(0.0, "no difference")],
        f"Lifts in {primary.name} per ranking",
        aid,
        detail=BRIEF,
    )


def _metrics(test: ABTest) -> Iterator[Table]:
    """Yield the reported lift in every metric, where there are several."""
    if len(test.metrics) < 2:
        return
    rows = [
        (
            metric.name,
            lift.to,
            plain(number.value, number.stderr, sign=True),
            span(number.low, number.high, number.stderr, sign=True),
            percent(lift.relative.value, sign=True),
            percents(lift.relative.low, lift.relative.high),
            NAMES[lift.headline],
        )
        for metric in test.metrics
        for lift in metric.lifts
        for number in (lift.lift,)
    ]
    head = ("metric", "arm", "lift", "interval", "relative", "interval", "read from")
    caption = f"Lifts over {test.baseline} in every metric"
    yield Table(caption, head, rows, texts=2, minor=(6, 5), detail=BRIEF)


def _guardrails(test: ABTest) -> Table:
    rows = [
        (
            rail.expression,
            rail.target,
            f"{rail.column} = {rail.group}" if rail.group else "all",
            *_limited(rail),
            Chip(rail.status, rail.status),
        )
        for rail in test.guardrails
    ]
    head = ("guardrail", "arm", "rows", "lift", "interval", "it is")
    return Table("Guardrails, their intervals together", head, rows, texts=3, detail=BRIEF)


def _limited(rail: GuardrailResult) -> tuple[str, str]:
    if rail.relative:
        return percent(rail.lift, sign=True), percents(rail.low, rail.high)
    error = (rail.high - rail.low) / 4
    return plain(rail.lift, error, sign=True), span(rail.low, rail.high, error, sign=True)


def _segments(test: ABTest) -> Table:
    """Return the lifts of the primary in groups of rows."""
    rows = [
        (
            f"{row.column} = {row.label}",
            row.target,
            count(row.n),
            plain(lift.value, lift.stderr, sign=True),
            span(lift.low, lift.high, width(lift), sign=True),
            span(lift.adjusted_low, lift.adjusted_high, width(lift), sign=True),
        )
        for row in test.metric().segments
        for lift in (row.lift,)
    ]
    head = ("rows", "arm", "rankings", "lift", "interval", "adjusted for all groups")
    caption = f"Lifts in {test.metric().name} by group, over {test.baseline}"
    return Table(caption, head, rows, texts=2, minor=(2,), detail=BRIEF)


def _arms(test: ABTest) -> Table:
    rows: list[tuple[str, ...]] = []
    styles: list[str] = []
    for metric in test.metrics:
        if len(test.metrics) > 1:
            rows.append((metric.name,))
            styles.append("head")
        rows += [
            (
                arm.name,
                count(arm.rows),
                count(arm.units),
                plain(arm.earned, arm.stderr),
                plain(arm.stderr, arm.stderr),
            )
            for arm in metric.arms
        ]
        styles += [""] * len(metric.arms)
    primary = test.metric().name
    caption = (
        f"What each arm earned{f' of {primary} per ranking' if len(test.metrics) == 1 else ''}"
    )
    head = ("arm", "rankings", "units", "earned", "std. error")
    return Table(caption, head, rows, styles=styles, detail=BRIEF)
