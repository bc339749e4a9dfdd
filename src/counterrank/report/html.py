"""The self-contained page."""

from jinja2 import Environment, PackageLoader, StrictUndefined

from counterrank.report import sentences
from counterrank.report.reading import Model, Reading


def render(model: Model) -> str:
    """Return the whole report as one HTML page that needs nothing else."""
    reading = Reading(model)
    loader = PackageLoader("counterrank.report")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    answers = [(sentences.answer(reading, t), reading.evidence(t)) for t in reading.targets]
    return environment.get_template("page.html.j2").render(answers=answers, logged=sentences.logged(reading))
