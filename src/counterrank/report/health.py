"""The health of a log: how many checks failed, the failures first, and what a log cannot show."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from counterrank.report.charts import Row, RowChart
from counterrank.report.document import (
    BRIEF,
    PAGE,
    VERBOSE,
    Block,
    Document,
    Figure,
    Note,
    Paragraph,
    section,
)
from counterrank.texts import sentence

if TYPE_CHECKING:
    from counterrank.audit import Audit
    from counterrank.findings import Finding

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
    """Return how many checks failed, warned, passed and were skipped."""
    found = Counter(one.status.value for one in audit)
    return " · ".join(f"{found[status]} {status}" for status in ORDER)


def document(audit: Audit, *, everything: bool = False) -> Document:
    """Return the audit of a log, failures first; what passed is listed where everything is asked for."""
    shown = ORDER if everything else ORDER[:2]
    found = [one for status in shown for one in audit if one.status == status]
    counts = Counter(one.status.value for one in audit)
    rows = [Row(label=status, value=counts[status], shown=str(counts[status])) for status in ORDER]
    chart = RowChart(rows, "checks", "Checks by outcome", [])
    figure = Figure("checks", "Checks by outcome", "", chart)
    return Document(tally(audit), [*(note(one, detail=BRIEF) for one in found), figure])


def health(audit: Audit) -> list[Block]:
    """Return the tally, what failed and warned, and what a log cannot show."""
    if not audit:
        return []
    loud = [
        note(one, detail=BRIEF if one.status == "failed" else VERBOSE)
        for one in (*audit.failed, *audit.warned)
    ]
    ask = Paragraph("A log cannot answer these questions; consider them before you ship:", "aid")
    summary = Paragraph(f"{tally(audit)} checks of the log", "strong", detail=BRIEF)
    return section(
        "Health of the log",
        "health",
        summary,
        *loud,
        ask,
        *map(Note, CHECKLIST),
    )


def calm(audit: Audit) -> list[Block]:
    """Return the checks that passed or had nothing to look at."""
    return section(
        "Checks that passed or were skipped", "checks", *map(note, (*audit.passed, *audit.skipped))
    )


def note(one: Finding, detail: int = PAGE) -> Note:
    """Return a finding as a line, with its cause, its remedy and the condition that leaves it out."""
    more = [f"Likely cause: {one.cause}"] if one.cause else []
    more += [f"Remedy: {one.help}"] if one.help else []
    more += [f'To leave it out: --where "{one.where}"'] if one.where else []
    examples = [json.dumps(example, ensure_ascii=False, default=str) for example in one.examples]
    return Note(sentence(one.text), one.status.value, one.title, more, examples, detail=detail)
