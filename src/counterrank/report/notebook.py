"""The report in a notebook cell: answer, evidence, estimates, flags."""

from typing import Any

from counterrank.report import sentences
from counterrank.report.answers import cards
from counterrank.report.html import environment
from counterrank.report.html import render as page
from counterrank.report.numbers import count, percent, plain
from counterrank.report.reading import Model, Reading, family, texts


def render(model: Model) -> str:
    """Return a fragment in the notebook's own colours, and below it, folded, the whole page in a
    frame of its own.

    The frame is sandboxed: the page may run its script and save files, and knows nothing of the
    notebook.
    """
    reading = Reading(model)
    return environment().get_template("notebook.html.j2").render(
        logged=sentences.logged(reading), cards=cards(reading), level=sentences.level(reading),
        groups=[(target, _lines(reading, target)) for target in reading.targets], page=page(model),
    )  # fmt: skip


def _lines(reading: Reading, target: str) -> list[dict[str, Any]]:
    lines = []
    for index, e in enumerate(reading.of(target)):
        error = e.get("stderr")
        lift = reading.lift(target, str(e.get("estimator")))
        lines.append(
            {
                "best": index == 0,
                "dim": family(e) == "biased",
                "estimator": e.get("estimator"),
                "value": plain(e.get("value"), error),
                "interval": f"{plain(e.get('low'), error)} to {plain(e.get('high'), error)}",
                "lift": plain(lift.get("value"), lift.get("stderr"), sign=True),
                "relative": percent(lift.get("relative"), sign=True),
                "ess": count(e.get("ess")),
                "flags": texts(e.get("flags")),
            }
        )
    return lines
