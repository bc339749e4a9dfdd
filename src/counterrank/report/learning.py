"""What a manager reads before shipping what was learned: the certificate, the path, who gains, what moves."""

import math

from counterrank.common.messages import say
from counterrank.evaluation import round_up
from counterrank.learning import Certificate
from counterrank.report.document import (
    BRIEF,
    PAGE,
    Block,
    Document,
    Figure,
    Note,
    Paragraph,
    Row,
    interval_row,
    section,
)
from counterrank.report.forest import OUTCOMES, Column, Forest, Line, around_zero, outcome
from counterrank.report.reading import column_name
from counterrank.report.words import at_least, count, known, percent, plain
from counterrank.statistics import Number

_ASSUMED = {
    "free": (
        "Nothing is assumed about how users behave, and the bound is valid for any number of rows. "
        "Assumed is that the log is right (today's policy drew what it says it drew, rewards were "
        "recorded), that users do not influence each other, and that tomorrow's users are like "
        "those of the log."
    ),
    "assumed": (
        "The bound is that of a t test: it needs many rows with rewards of ordinary tails. "
        "Assumed is also that the log is right, that users do not influence each other, and that "
        "tomorrow's users are like those of the log."
    ),
}
_NEXT_TIME = (
    "Log more randomness: the better of two rankings can only be found among rankings that were "
    "shown.",
    "Log every candidate with its features, not only what was shown: then the model can tell "
    "items apart.",
    "Log what users did after the click, if that is what you care about: a policy that is learned "
    "from clicks earns clicks, not satisfaction.",
)


def document(certificate: Certificate, _: int = PAGE) -> Document:
    """Return the certificate, how it came about, and what it does not promise."""
    title = (
        "A better policy, with a certificate" if certificate.certified else "Nothing to ship yet"
    )
    rows = (
        f"The policy was learned and chosen on {count(certificate.rows.get('learn'))} rows, and certified on "
        f"{count(certificate.rows.get('certify'))} other rows."
    )
    blocks: list[Block] = [
        _forest(certificate),
        Paragraph(rows, "aid", detail=BRIEF),
    ]
    lost = [
        f"{column_name(row.column)} = {row.label}" for row in certificate.segments if row.high < 0
    ]
    if lost:
        told = f"These segments lose, adjusted for looking at all of them: {', '.join(lost)}."
        blocks.append(Paragraph(told, "strong", detail=BRIEF))
    aid = (
        "Lifts on the rows on which the step was chosen, not those of the certificate; each bar begins at the "
        "expected bound."
    )
    unit, name = (
        "lift per ranking",
        "Lift of each step, from the expected bound to the estimate (★ chosen)",
    )
    path = Figure(
        "path",
        _path(certificate),
        unit,
        name,
        [(0.0, "today")],
        "Lift and bound by step",
        aid,
        detail=BRIEF,
    )
    who = Figure(
        "segments",
        _segments(certificate),
        unit,
        "Lift by segment",
        title="For whom",
        aid="Bars are adjusted for looking at all segments.",
        detail=BRIEF,
    )
    blocks += section("How it was chosen, and for whom", "path", path, who)
    promised = (
        "A plain sort by score is not certified: today's policy almost never shows exactly that ranking, so "
        "no log of it can tell what it earns without assuming how users behave."
    )
    blocks += section(
        "What is promised, and what is not",
        "promise",
        Paragraph(_ASSUMED.get(certificate.grade, "")),
        Paragraph(promised),
    )
    blocks += section("For a better certificate next time", "next", *map(Note, _NEXT_TIME))
    return Document(title, blocks)


def _forest(certificate: Certificate) -> Forest:
    """Return the certified lift with its lower bound, in per cent of what today's policy earns where that is known."""
    lift, today = certificate.lift, certificate.logger["value"]
    relative = known(today) and today > 0
    scale = 100 / today if relative else 1.0
    shown = (
        percent(lift.value / today, sign=True)
        if relative
        else plain(lift.value, lift.stderr, sign=True)
    )
    bound = math.floor(lift.low * scale * 10) / 10 if relative else lift.low
    at_worst = (
        percent(bound / 100, sign=True) if relative else at_least(lift.low, lift.stderr, sign=True)
    )
    cell = Row(
        label="reward",
        value=lift.value * scale,
        low=lift.low * scale,
        high=lift.value * scale,
        shown=shown,
        reach=f"at least {at_worst}",
        tip=certificate.sentence,
        mark=outcome(lift.low, lift.value) if certificate.certified else OUTCOMES["unclear"],
    )
    state = "ship" if certificate.certified else "unknown"
    scale_of, ticks = around_zero([cell], max_ticks=7, room=0.05)
    facts = (
        f"per ranking, today {plain(today, lift.stderr)}",
        f"{percent(lift.level, digits=0)} lower bound",
    )
    column = Column(
        name="reward", scale=scale_of, ticks=ticks, facts=facts, unit="%" if relative else "reward"
    )
    note = "certified" if certificate.certified else "not certified"
    line = Line(
        label=certificate.name or "learned policy",
        note=note,
        state=state,
        cells=[cell] if known(lift.value) and known(lift.low) else [None],
        cause=certificate.sentence,
    )
    return Forest(
        kind="lifts",
        caption="Lift over today's policy",
        columns=[column],
        lines=[line],
        detail=BRIEF,
        aid="The line begins at the lower bound.",
    )


def sentence(certificate: Certificate) -> str:
    """Return the certificate in one sentence, all of whose numbers are those of the certifying rows."""
    error, sure = certificate.stderr, percent(certificate.lift.level, digits=0)
    bound, estimate = at_least(certificate.low, error), plain(certificate.value, error, sign=True)
    if certificate.certified:
        means = (
            "whatever users do" if certificate.grade == "free" else "given enough rows for a t test"
        )
        guardrails = ", ".join(
            dict.fromkeys(f"'{guardrail.expression}'" for guardrail in certificate.guardrails)
        )
        safe = f" No guardrail is broken: {guardrails}." if guardrails else ""
        return (
            f"{certificate.name[:1].upper() + certificate.name[1:]} earns at least {bound} more per ranking than "
            f"today's {plain(certificate.logger['value'], error)} (estimate {estimate}), with {sure} "
            f"confidence, {means}.{safe}"
        )
    if certificate.low > 0:
        shown = "; ".join(
            f"'{guardrail.expression}'{f' in {guardrail.group}' if guardrail.group else ''}, whose bound is "
            + (
                f"{plain(guardrail.low)} {guardrail.unit}"
                if guardrail.unit
                else percent(guardrail.low, sign=True)
            )
            for guardrail in certificate.open_guardrails
        )
        return (
            f"Not certified: {certificate.name} earns at least {bound} more per ranking, but these rows "
            f"cannot show that a guardrail is safe: {shown}. Use more rows, or a wider limit."
        )
    seems = f"{certificate.name} seems to earn {estimate} per ranking"
    if not certificate.declared and (certificate.more_rows is not None or certificate.low >= 0):
        return (
            f"Not certified: {seems}, but the log has no users or "
            f"sessions, and the {sum(certificate.rows[side] for side in ('learn', 'certify')):,} rows may not be "
            "independent. Name the column of users or sessions (--unit), or say "
            f"{say('--independent-rows', python='independent_rows=True')} if no visitor has two rows."
        )
    return _not_yet(
        certificate,
        f"Not yet: {seems}, but the {sure} bound is {at_least(certificate.low, error, sign=True)}.",
    )


def _not_yet(certificate: Certificate, seems: str) -> str:
    if certificate.more_rows is None:
        return "Nothing could be certified: what was learned earns no more than today's policy on new rows."
    enough = f"About {round_up(certificate.more_rows):,} rows like these would show it."
    if not certificate.agreed:
        return f"{seems} The gain cannot be told from chance on the rows it was learned on either. {enough}"
    if certificate.heaviest is not None:
        return (
            f"{seems} One unit, {certificate.heaviest.unit}, has {percent(certificate.heaviest.share)} of "
            "these rows, and the bound has to allow for all of them turning out alike: leave "
            "it out if it is a robot or a default id."
        )
    return f"{seems} {enough}"


def _path(certificate: Certificate) -> list[Row]:
    """Return the lift of each step and the bound to expect of it: ambition against evidence."""
    rows = []
    for step in certificate.path:
        number, note = (
            Number(step.value, low=step.low, high=step.value),
            f"{count(step.ess)} effective rows",
        )
        chosen = "★ " * (step.m == certificate.m)
        rows.append(
            interval_row(f"{chosen}best of {step.m}", number, error=certificate.stderr, note=note)
        )
    return rows


def _segments(certificate: Certificate) -> list[Row]:
    """Return the lift of each segment, intervals adjusted for looking at all of them."""
    rows: list[Row] = []
    for column in dict.fromkeys(row.column for row in certificate.segments):
        rows.append(Row(label=column_name(column), heading=True))
        members = (row for row in certificate.segments if row.column == column)
        for segment in sorted(members, key=lambda row: -row.value):
            size = f"{count(segment.n)} rows"
            rows.append(interval_row(segment.label, segment, error=segment.stderr, note=size))
    return rows
