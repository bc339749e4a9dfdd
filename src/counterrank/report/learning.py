"""What a manager reads before shipping what was learned: the certificate, the path, who gains, what moves."""

from collections.abc import Sequence
from dataclasses import replace

from counterrank.common.messages import say
from counterrank.common.texts import NARROW
from counterrank.evaluation import round_up
from counterrank.learning import Certificate
from counterrank.report.document import (
    BRIEF,
    PAGE,
    Block,
    Document,
    Note,
    Paragraph,
    Phrase,
    Row,
    interval_row,
    section,
)
from counterrank.report.evaluation_view import column_name
from counterrank.report.forest import OUTCOMES, Column, Forest, Line, column_over, outcome
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
    rows = (
        f"learned and chosen on {count(certificate.rows.get('learn'))} rows",
        f"certified on {count(certificate.rows.get('certify'))} other rows",
        f"metric: {certificate.metric} per ranking, today {plain(certificate.logger['value'], certificate.stderr)}",
    )
    blocks: list[Block] = [
        Paragraph(" · ".join(rows), "facts", detail=BRIEF),
        _forest(certificate),
    ]
    lost = [
        f"{column_name(row.column)} = {row.label}" for row in certificate.segments if row.high < 0
    ]
    if lost:
        told = f"These segments lose, adjusted for looking at all of them: {', '.join(lost)}."
        blocks.append(Paragraph(told, "strong", detail=BRIEF))
    blocks += section("For whom", "segments", _segments(certificate))
    lead = (
        "Lifts on the rows on which the step was chosen, not those of the certificate; each line begins at "
        "the expected bound. ★: the step that was chosen."
    )
    blocks += section("How it was chosen", "path", _path(certificate), lead=lead)
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
    return Document(headline(certificate), blocks, certificate.to_dict)


def headline(certificate: Certificate) -> Phrase:
    """Return what to do, with the certified bound."""
    if not certificate.certified:
        return Phrase.of_pieces("Nothing to ship yet")
    bound = _bound(certificate).removeprefix("+")
    gain = f": at least {bound} more {certificate.metric} per ranking, with a certificate."
    return Phrase.of_pieces("Ship ", (certificate.name or "the learned policy",), gain)


def _share(certificate: Certificate) -> float | None:
    """Return what turns a lift into a share of what today's policy earns; None where that means nothing."""
    today = certificate.logger["value"]
    return 1 / today if known(today) and today > 0 else None


def _scale(certificate: Certificate) -> tuple[float, str]:
    """Return what turns a lift into per cent of what today's policy earns, and the sign; 1 where that means nothing."""
    share = _share(certificate)
    return (1.0, "") if share is None else (100 * share, f"{NARROW}%")


def _bound(certificate: Certificate) -> str:
    """Return the certified bound, rounded down: the one number wherever it is told."""
    scale, unit = _scale(certificate)
    return at_least(scale * certificate.low, scale * certificate.stderr, sign=True) + unit


def _estimate(certificate: Certificate) -> str:
    scale, unit = _scale(certificate)
    return plain(scale * certificate.value, scale * certificate.stderr, sign=True) + unit


def _forest(certificate: Certificate) -> Forest:
    """Return the certified lift with its lower bound, in per cent of what today's policy earns where that is known."""
    lift, (scale, sign) = certificate.lift, _scale(certificate)
    cell = Row(
        label=certificate.metric,
        value=lift.value * scale,
        low=lift.low * scale,
        high=lift.value * scale,
        shown=_estimate(certificate),
        reach=f"at least {_bound(certificate)}",
        tip=certificate.sentence,
        mark=outcome(lift.low, lift.value) if certificate.certified else OUTCOMES["unclear"],
    )
    facts = (
        f"per ranking, today {plain(certificate.logger['value'], certificate.stderr)}",
        f"{percent(lift.level, digits=0)} lower bound",
    )
    line = Line(
        label=certificate.name or "learned policy",
        note="certified" if certificate.certified else "not certified",
        state="ship" if certificate.certified else "unknown",
        cells=[cell] if known(lift.value) and known(lift.low) else [None],
        cause=certificate.sentence,
    )
    return Forest(
        kind="lifts",
        caption="Lift over today's policy" + (", in per cent" if sign else ""),
        columns=[_column(certificate, certificate.metric, [cell], facts)],
        lines=[line],
        detail=BRIEF,
        aid="The line begins at the lower bound.",
    )


def _column(
    certificate: Certificate, name: str, cells: Sequence[Row], facts: Sequence[str] = ()
) -> Column:
    unit = "%" if _scale(certificate)[1] else certificate.metric
    return column_over(name, cells, max_ticks=7, facts=facts, unit=unit)


def sentence(certificate: Certificate) -> str:
    """Return the certificate in one sentence, all of whose numbers are those of the certifying rows."""
    sure, metric = percent(certificate.lift.level, digits=0), certificate.metric
    bound, estimate = _bound(certificate).removeprefix("+"), _estimate(certificate)
    if certificate.certified:
        means = (
            "whatever users do" if certificate.grade == "free" else "given enough rows for a t test"
        )
        guardrails = ", ".join(
            dict.fromkeys(f"'{guardrail.expression}'" for guardrail in certificate.guardrails)
        )
        safe = f" No guardrail is broken: {guardrails}." if guardrails else ""
        return (
            f"{certificate.name[:1].upper() + certificate.name[1:]} earns at least {bound} more {metric} per ranking "
            f"than today's {plain(certificate.logger['value'], certificate.stderr)} (estimate {estimate}), with {sure} "
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
            f"Not certified: {certificate.name} earns at least {bound} more {metric} per ranking, but these "
            f"rows cannot show that a guardrail is safe: {shown}. Use more rows, or a wider limit."
        )
    seems = f"{certificate.name} seems to earn {estimate} {metric} per ranking"
    if not certificate.declared and (certificate.more_rows is not None or certificate.low >= 0):
        return (
            f"Not certified: {seems}, but the log has no users or "
            f"sessions, and the {sum(certificate.rows[side] for side in ('learn', 'certify')):,} rows may not be "
            "independent. Name the column of users or sessions (--unit), or say "
            f"{say('--independent-rows', python='independent_rows=True')} if no visitor has two rows."
        )
    return _not_yet(
        certificate,
        f"Not yet: {seems}, but the {sure} bound is {_bound(certificate)}.",
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


def _path(certificate: Certificate) -> Forest:
    """Return the lift of each step and the bound to expect of it: ambition against evidence."""
    lines = []
    for step in certificate.path:
        number = Number(step.value, low=step.low, high=step.value)
        mark, share = outcome(step.low, step.value), _share(certificate)
        cell = interval_row("lift", number, mark, error=certificate.stderr, share=share)
        label = "★ " * (step.m == certificate.m) + f"best of {step.m}"
        lines.append(Line(label=label, note=f"{count(step.ess)} effective rows", cells=[cell]))
    return _lines(certificate, "path", "Lift of each step, from the expected bound", lines)


def _segments(certificate: Certificate) -> Forest:
    """Return the lift of each segment, intervals adjusted for looking at all of them."""
    share, lines = _share(certificate), []
    columns = [*dict.fromkeys(row.column for row in certificate.segments)]
    order = sorted(certificate.segments, key=lambda row: (columns.index(row.column), -row.value))
    for segment in order:
        mark, error = outcome(segment.low, segment.high), segment.stderr
        cell = interval_row("lift", segment, mark, error=error, share=share)
        size, column = f"{count(segment.n)} rows", column_name(segment.column)
        lines.append(Line(label=segment.label, note=size, group=column, cells=[cell]))
    forest = _lines(certificate, "segments", "Lift by segment", lines)
    unit = "" if share is None else " of what today's policy earns in all rows"
    return replace(
        forest, aid=f"Lines: intervals adjusted for looking at all segments; per cent{unit}."
    )


def _lines(certificate: Certificate, kind: str, caption: str, lines: Sequence[Line]) -> Forest:
    cells = [cell for line in lines for cell in line.cells if cell]
    name = f"{certificate.name or 'learned policy'}: {certificate.metric}"
    columns = [_column(certificate, name, cells)]
    return Forest(kind=kind, caption=caption, columns=columns, lines=lines, detail=BRIEF)
