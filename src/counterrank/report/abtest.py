"""An A/B test read with its log: can its arms be compared, which earns more, and what to do."""

from collections.abc import Iterator
from dataclasses import replace

from counterrank.checks import Audit
from counterrank.common.findings import WARNED, Finding
from counterrank.common.messages import say
from counterrank.estimators import Estimate, Lift
from counterrank.evaluation import (
    ABTest,
    ArmLift,
    ArmMetric,
    Evaluation,
    LogSummary,
    MetricResult,
    Provenance,
    ShipDecision,
    Verdict,
)
from counterrank.report.answer import answer, headline, joined_names
from counterrank.report.document import (
    BRIEF,
    PAGE,
    Block,
    Document,
    Fold,
    Paragraph,
    Row,
    Table,
    interval_row,
    section,
)
from counterrank.report.estimates import segments
from counterrank.report.evaluation_view import Reading
from counterrank.report.forest import Forest, Line
from counterrank.report.health import note
from counterrank.report.words import count, known, percent, plain, roughly, sentence
from counterrank.statistics import Number

#: What the two readings are called.
NAMES = {"pooled": "from all rows", "plain": "difference in means"}
#: What the decision of an arm is called where policies are evaluated.
_STATES = {"ship": "ship", "go on": "wait", "stop": "hold"}


def document(test: ABTest, _: int = PAGE) -> Document:
    """Return what the test says: whether it is one, what to do, and the arms over the metrics as one picture."""
    reading = Reading(as_evaluation(test))
    reading.seconds = {
        (lift.to, metric.name): second
        for metric in test.metrics
        for lift in metric.lifts
        if (second := _plain_reading(metric, lift)) is not None
    }
    blocks = [
        replace(
            block,
            lines=[_line(test, line) for line in block.lines],
            head="arm, and how it was read",
            second="the test alone, without the log",
        )
        if isinstance(block, Forest) and test.valid
        else block
        for block in answer(reading, _facts(test))
    ]
    told, notes = _decision(test), _notes(test)
    warned = [finding for finding in notes if finding.status is WARNED]
    lines: list[Block] = [Paragraph(line, detail=BRIEF) for line in (told, *_savings(test)) if line]
    if test.valid:
        lines += [note(finding, BRIEF) for finding in warned]
        blocks[-1:-1] = lines
    else:
        unshown = [note(finding) for finding in (*reading.failed[1:], *warned)]
        blocks += [
            *lines,
            *([Fold(f"Further findings: {len(unshown)}", unshown)] if unshown else []),
        ]
    blocks += segments(reading) if test.valid else []
    further = [note(finding, BRIEF) for finding in notes if finding.status is not WARNED]
    details = [*_read(test), *section("What each arm earned", "arms", _arms(test), *further)]
    blocks.append(Fold("For data scientists", details, "details"))
    title = headline(reading) if test.valid else "This test is not valid: fix this first"
    return Document(title, blocks, test.to_dict, told, _sample_ratio(test))


def as_evaluation(test: ABTest) -> Evaluation:
    """Return the test as an evaluation of its arms, so that both have one picture."""
    primary, rows = test.metric(), sum(arm.rows for arm in test.arms)
    decision = test.decision
    actions = decision.targets if decision else {lift.to: "go on" for lift in primary.lifts}
    return Evaluation(
        log=LogSummary(rows, 0, words={"reward": primary.name}),
        metrics=tuple(_metric(test, metric) for metric in test.metrics),
        audit=Audit(note for note in test.notes if note.fatal),
        provenance=Provenance(options={"practical": decision.practical} if decision else {}),
        guardrails=test.guardrails,
        decision=ShipDecision(
            target=decision.target if decision else None,
            targets={name: _STATES[action] for name, action in actions.items()},
        ),
        baseline=test.baseline,
    )


def _metric(test: ABTest, metric: ArmMetric) -> MetricResult:
    lifts = {lift.to: lift for lift in metric.lifts}
    estimates = []
    for arm in metric.arms:
        chosen = lifts.get(arm.name)
        lift, relative = (chosen.lift, chosen.relative) if chosen else (Number(0.0), Number(0.0))
        ends = relative.value, relative.low, relative.high
        difference = Lift(*lift.figures, (), *ends)
        name = NAMES[chosen.headline] if chosen else "mean"
        sizes = float(arm.units), arm.rows
        estimates.append(
            Estimate(
                arm.name,
                name,
                arm.earned,
                arm.stderr,
                (),
                *sizes,
                test.level,
                difference,
                ends=(arm.earned, arm.earned),
            )
        )
    return MetricResult(
        name=metric.name,
        primary=metric.primary,
        unit=metric.unit,
        lower_is_better=metric.lower_is_better,
        estimates=tuple(estimates),
        recommended={estimate.target: estimate.estimator for estimate in estimates},
        verdict=Verdict("reliable"),
        segments=metric.segments,
    )


def _line(test: ABTest, line: Line) -> Line:
    """Return an arm with how its lift was read, and what the decision says of it."""
    lift = test.lift(line.label)
    reasons = test.decision.reasons if test.decision else ()
    texts = [sentence(reason.text) for reason in reasons if reason.target == line.label]
    cause = line.cause or " ".join(texts if line.state != "ship" else ())
    return replace(line, note=NAMES[lift.headline], cause=cause)


def _plain_reading(metric: ArmMetric, lift: ArmLift) -> Row | None:
    """Return the difference in means where the lift is read from every row."""
    relative = all(known(lift_of.relative.low) for lift_of in metric.lifts)
    base = next(arm.earned for arm in metric.arms if arm.name == lift.source)
    if lift.headline == "plain" or (relative and not base > 0):
        return None
    return interval_row("alone", lift.plain, share=1 / base if relative else None)


def _facts(test: ABTest) -> list[str]:
    rows = sum(arm.rows for arm in test.arms)
    units = sum(arm.units for arm in test.arms)
    facts = [f"{count(rows)} rankings in {len(test.arms)} arms"]
    facts += [f"{count(units)} users"] if units < rows else []
    facts.append(f"compared with {test.baseline}")
    facts += ["intervals valid at every look"] if test.sequential else []
    return facts


def _sample_ratio(test: ABTest) -> str:
    """Return how the arms share the rows; nothing where an older file does not say, or it is the fault."""
    ratio = test.sample_ratio
    if ratio is None or not ratio.counts or ratio.status == "failed":
        return ""
    counts = joined_names([f"{name} {count(size)}" for name, size in ratio.counts.items()], "and")
    planned = "as planned" if ratio.planned else "as chance divides them"
    p = "p > 0.99" if ratio.p_value > 0.99 else f"p = {ratio.p_value:.2g}"
    return f"The sample ratio is right: {counts} {ratio.counted}, {planned} ({p})."


def _savings(test: ABTest) -> Iterator[str]:
    """Yield what the log saves of the traffic."""
    saved = [
        (metric, min(lift.saved for lift in pooled))
        for metric in test.metrics
        if (
            pooled := [
                lift for lift in metric.lifts if lift.headline == "pooled" and known(lift.saved)
            ]
        )
    ]
    if test.valid and saved:
        shares = [f"{percent(share, digits=0)} for {metric.name}" for metric, share in saved]
        yield (
            f"Reading every row for all arms saves at least {joined_names(shares, 'and')} of the traffic that "
            "a plain difference in means would need for intervals as short."
        )


def _notes(test: ABTest) -> list[Finding]:
    """Return what else has to be said, each once."""
    notes = [finding for metric in test.metrics for lift in metric.lifts for finding in lift.notes]
    return [*{entry.text: entry for entry in (*notes, *test.notes) if not entry.fatal}.values()]


def _decision(test: ABTest) -> str:
    """Return what to do, and how long the test should go on."""
    decision = test.decision
    if decision is None:
        return ""
    why = " ".join(sentence(reason.text) for reason in decision.reasons if not reason.fatal)
    if decision.action == "ship":
        return f"Decision: ship {decision.target}. {why}"
    if decision.action == "stop":
        return (
            f"Decision: stop. {why}"
            if test.valid
            else "Decision: stop. The arms cannot be compared."
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


def _read(test: ABTest) -> list[Block]:
    """Return both readings of every lift in the units of the metric."""
    rows: list[tuple[str, ...]] = []
    styles = []
    for metric in test.metrics if test.valid else ():
        for lift in metric.lifts:
            for name, title in NAMES.items():
                number = lift.plain if name == "plain" else lift.pooled
                shown = interval_row(title, number, error=number.stderr)
                rows.append((metric.name, lift.to, title, shown.shown, shown.reach))
                styles.append("bold" * (lift.headline == name))
    head = ("metric", "arm", "read from", "lift", "interval")
    caption = f"Lifts over {test.baseline}, each read in both ways (bold: reported)"
    return section("Two ways to read a test", "readings", Table(caption, head, rows, 3, styles))


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
    head = ("arm", "rankings", "units", "earned", "std. error")
    caption = (
        f"What each arm earned of {test.metric().name} per ranking"
        if len(test.metrics) == 1
        else "What each arm earned"
    )
    return Table(caption, head, rows, styles=styles, detail=BRIEF)
