"""The document of an evaluation: four open sections, and all else folded for data scientists."""

from dataclasses import replace

from counterrank.evaluation import Evaluation
from counterrank.report.answer import answer, headline
from counterrank.report.behavior import behavior, reads
from counterrank.report.document import BRIEF, PAGE, VERBOSE, Block, Document, Fold, section
from counterrank.report.estimates import agreement, order_path, positions, segments, values
from counterrank.report.evaluation_view import Reading
from counterrank.report.health import ORDER, health, note
from counterrank.report.method import method
from counterrank.report.weights import planning, weights


def document(result: Evaluation, detail: int = PAGE) -> Document:
    """Return what was found, in as much detail as is shown."""
    reading = Reading(result, detail)
    opened, folded = (
        [
            block
            for least, make in parts
            if least <= detail and (make in WITHOUT_LIFT or not reading.failed)
            for block in make(reading)
        ]
        for parts in (OPEN, MORE)
    )
    fold = Fold("For data scientists", folded, "details")
    return Document(headline(reading), [*opened, fold], result.to_dict)


def _reasons(reading: Reading) -> list[Block]:
    """Return every check of the verdict, for each policy, the doubts first."""
    reasons = sorted(reading.metric.verdict.reasons, key=lambda reason: ORDER.index(reason.status))
    notes = (replace(note(reason), name=f"{reason.target}: {reason.title}") for reason in reasons)
    return section("Reasons for the measurement", "reasons", *notes)


#: What is open and what is folded, in the order of reading, each with the detail from which on some of it is
#: shown.
OPEN = ((BRIEF, answer), (BRIEF, segments), (PAGE, reads), (BRIEF, health))
MORE = (
    (PAGE, _reasons),
    (BRIEF, values),
    (VERBOSE, agreement),
    (PAGE, order_path),
    (PAGE, positions),
    (PAGE, behavior),
    (PAGE, weights),
    (PAGE, planning),
    (PAGE, method),
)
#: What remains of it where the log is refused: nothing with a lift.
WITHOUT_LIFT = (answer, health, method)
