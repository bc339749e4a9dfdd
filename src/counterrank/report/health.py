"""The health of a log: how many checks failed, the failures first, and what a log cannot show."""

import json

from counterrank.checks import Audit
from counterrank.common.findings import FAILED, PASSED, SKIPPED, TITLES, WARNED, Finding
from counterrank.common.texts import comma_separated
from counterrank.report.document import (
    BRIEF,
    PAGE,
    VERBOSE,
    Block,
    Document,
    Fold,
    Note,
    Paragraph,
    Row,
    around_intervals,
    section,
)
from counterrank.report.evaluation_view import Reading
from counterrank.report.forest import Column, Forest, Line
from counterrank.report.words import sentence

#: What troubles most comes first.
ORDER = ("failed", "warned", "passed", "skipped")
#: What no log can show, for a person to think about before a policy is shipped.
CHECKLIST = (
    "Novelty: would users still like it once they are used to it?",
    "Season: are the days of this log like the days to come?",
    "Fraud and robots: were the rewards given by people?",
    "Attribution: does the reward belong to the ranking that it is counted for?",
    "Declarations: is what was declared about rows and targets true?",
)


def tally(audit: Audit) -> str:
    """Return how many checks failed, ask, warned, were answered and passed."""
    counts = dict.fromkeys(("failed", "question", "warned", "accepted", "passed", "skipped"), 0)
    for finding in audit:
        asks = finding.kind == "question" and finding.status is WARNED
        name = "question" if asks else "accepted" if finding.accepted else finding.status.value
        counts[name] += not finding.explained_by
    del counts["skipped"]
    return " · ".join(
        f"{number} {name}{'s' if name == 'question' and number > 1 else ''}"
        for name, number in counts.items()
        if number or name in ("failed", "passed")
    )


def document(audit: Audit, detail: int = PAGE) -> Document:
    """Return the audit of a log, failures first; what passed is listed where a terminal shows more."""
    findings = {status: getattr(audit, status) for status in ORDER}
    shown = ORDER if detail == VERBOSE else ORDER[:2]
    notes = [note(finding, detail=BRIEF) for status in shown for finding in findings[status]]
    rows = [
        Row(label=name, value=len(members), shown=str(len(members)))
        for name, members in findings.items()
    ]
    scale = around_intervals(rows, also=[0.0])
    column = Column(name="checks", scale=scale, ticks=scale.ticks(), unit="checks")
    lines = [Line(label=row.label, cells=[row]) for row in rows]
    caption = "Checks by outcome"
    forest = Forest(kind="checks", caption=caption, columns=[column], lines=lines, measure="")
    return Document(f"{tally(audit)} checks of the log", [*notes, forest])


def health(reading: Reading) -> list[Block]:
    """Return the tally, what failed, asks and warns, and one click away what passed and what a log cannot show."""
    audit, findings = reading.result.audit, reading.findings
    if not audit:
        return []
    # What the page has above already is not said twice.
    failed = findings[FAILED][1:] if reading.failed else []
    warned = sorted(findings[WARNED], key=lambda finding: finding.kind != "question")
    blocks: list[Block] = [Paragraph(f"{tally(audit)} checks of the log", "counts", detail=BRIEF)]
    blocks += [note(finding, detail=BRIEF) for finding in (*failed, *warned)]
    if reading.detail >= PAGE:
        quiet = [*map(note, (*findings[PASSED], *findings[SKIPPED]))]
        blocks += [
            Fold(f"{len(quiet)} checks that passed or had nothing to look at", quiet),
            Fold("What no log can answer: consider it before you ship", [*map(Note, CHECKLIST)]),
        ]
    return section("Health of the log", "health", *blocks)


def counted_checks(number: int) -> str:
    """Return a number of other checks in words.

    >>> counted_checks(1), counted_checks(7)
    ('another check', '7 other checks')
    """
    return "another check" if number == 1 else f"{number} other checks"


def note(finding: Finding, detail: int = PAGE) -> Note:
    """Return a finding as a line, with its cause, its remedy and the condition that leaves it out."""
    lines = [f"Likely cause: {finding.cause}"] if finding.cause else []
    if finding.explains:
        codes = (code.rstrip("*") for code in finding.explains)
        titles = comma_separated([*dict.fromkeys(TITLES.get(code, code) for code in codes)])
        lines.append(f"Explains {counted_checks(len(finding.explains))}: {titles}")
    lines += [f"Remedy: {finding.help}"] if finding.help else []
    lines += [f'To leave it out: --where "{finding.where}"'] if finding.where else []
    lines += [f'If so: --accept "{finding.answer}"'] if finding.answer and finding.blamed else []
    lines += (
        [f"Accepted: {finding.accepted['reason'] or 'without a reason'}"]
        if finding.accepted
        else []
    )
    examples = [
        json.dumps(example, ensure_ascii=False, default=str) for example in finding.examples
    ]
    return Note(
        sentence(finding.text), finding.status.value, finding.title, lines, examples, detail=detail
    )
