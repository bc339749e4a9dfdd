"""The document of an evaluation: four open sections, and all else folded for data scientists."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from counterrank.report.answer import answer, headline
from counterrank.report.behavior import behavior
from counterrank.report.document import PAGE, Block, Document, Fold, section
from counterrank.report.estimates import agreement, order_path, values
from counterrank.report.health import ORDER, calm, health, note
from counterrank.report.method import method
from counterrank.report.metrics import metrics, reading_of
from counterrank.report.reading import Reading
from counterrank.report.weights import planning, weights
from counterrank.report.where import positions, segments

if TYPE_CHECKING:
    from counterrank.evaluation import Evaluation


def document(result: Evaluation) -> Document:
    """Return what was found."""
    reading = Reading(result)
    more = [
        *section("Reasons for the measurement", "reasons", *_reasons(reading)),
        *values(reading), *agreement(reading), *order_path(reading), *positions(reading), *behavior(reading),
        *weights(reading), *_others(reading), *planning(reading), *calm(result.audit), *method(reading),
    ]  # fmt: skip
    blocks = [
        *answer(reading), *metrics(reading), *segments(reading), *health(result.audit),
        Fold("For data scientists", more, "details"),
    ]  # fmt: skip
    return Document(headline(reading), blocks, result.to_dict())


def _reasons(reading: Reading) -> list[Block]:
    """Return every check of the verdict, for each policy, the doubts first."""
    found = sorted(reading.result.verdict.reasons, key=lambda one: ORDER.index(one.status))
    return [replace(note(one), name=f"{one.target}: {one.title}") for one in found]


def _others(reading: Reading) -> list[Block]:
    """Return positions and segments of each further metric."""
    found: list[Block] = []
    for metric in reading.result.metrics:
        if not metric.primary and metric.kind != "ratio":
            own = reading_of(reading, metric)
            parts = [*(positions(own) if metric.kind == "position" else []), *segments(own)]
            parts = [replace(one, detail=PAGE) for one in parts]
            found += section(
                f"{metric.name}: positions and segments",
                f"metric-{metric.name}",
                Fold("Show", parts),
            )
    return found
