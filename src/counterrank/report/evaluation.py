"""An evaluation as a page, in a notebook, in a terminal and as figures."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from markupsafe import Markup

from counterrank.report import metrics, sentences
from counterrank.report.behavior import behavior
from counterrank.report.estimates import agreement, order_path, values
from counterrank.report.html import environment, filled, framed
from counterrank.report.numbers import count, percent, plain, span
from counterrank.report.parts import Section
from counterrank.report.pictures import draw as picture
from counterrank.report.provenance import provenance
from counterrank.report.reading import Reading, family
from counterrank.report.terminal import renderables as terminal
from counterrank.report.trust import audit, planning, weights
from counterrank.report.visibility import visibility
from counterrank.report.where import positions, segments

if TYPE_CHECKING:
    from counterrank.evaluation import Evaluation

__all__ = ["fragment", "page", "picture", "terminal", "title"]

#: In the order of reading.
SECTIONS: tuple[Callable[[Reading], Section | None], ...] = (
    metrics.metrics, values, agreement, order_path, positions, segments, visibility, behavior, weights,
    audit, planning, provenance,
)  # fmt: skip


def page(result: "Evaluation", *, back: str | None = None) -> str:
    """Return the whole report as one HTML page that needs nothing else; `back` links to a list of reports."""
    reading = Reading(result)
    return filled(
        "page.html.j2",
        title=title(reading),
        decision=_decision(reading),
        back=back,
        logged=sentences.logged(reading),
        cards=sentences.cards(reading),
        targets=reading.targets,
        sections=[section for make in SECTIONS if (section := make(reading)) is not None],
        data=_embedded(result),
    )


def title(reading: Reading) -> str:
    """Return the title of the page: the decision where there is more than one metric."""
    return metrics.headline(reading) if metrics.several(reading) else sentences.headline(reading)


def _decision(reading: Reading) -> list[str]:
    """Return the reasons of the decision, none where one metric speaks for itself."""
    return metrics.reasons(reading) if metrics.several(reading) else []


def _embedded(result: "Evaluation") -> Markup:
    """The numbers travel with the page; `<` is escaped so that no text can end the element."""
    text = json.dumps(result.to_dict(), ensure_ascii=False, default=str)
    for char, code in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        text = text.replace(char, code)
    return Markup(text)


def fragment(result: "Evaluation") -> str:
    """Return a fragment in the notebook's own colours, and below it, folded, the whole page in a frame of its own."""
    reading = Reading(result)
    return environment().get_template("notebook.html.j2").render(
        logged=sentences.logged(reading), cards=sentences.cards(reading), level=sentences.level(reading),
        groups=[(target, _lines(reading, target)) for target in reading.targets], whole=framed(page(result)),
        decision=title(reading) if metrics.several(reading) else "", reasons=_decision(reading),
        metrics=metrics.summary_rows(reading) if metrics.several(reading) else [],
    )  # fmt: skip


def _lines(reading: Reading, target: str) -> list[dict[str, object]]:
    lines = []
    for index, e in enumerate(reading.of(target)):
        # As in the report: one column, one number of digits.
        error = reading.error(target, e)
        spread = reading.lift(target).stderr or e.lift.stderr
        lines.append(
            {
                "best": index == 0,
                "dim": family(e.estimator) == "biased",
                "estimator": e.estimator,
                "value": plain(e.value, error),
                "lift": plain(e.lift.value, spread, sign=True),
                "interval": span(e.lift.low, e.lift.high, spread, sign=True),
                "relative": percent(e.lift.relative, sign=True),
                "ess": count(e.ess),
                "flags": e.flags,
            }
        )
    return lines
