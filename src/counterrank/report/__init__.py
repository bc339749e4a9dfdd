"""What a person sees: the same model in a terminal, a notebook and a self-contained page."""

from counterrank.report.numbers import count, known, percent, plain
from counterrank.report.reading import Reading
from counterrank.report.sections.methods import describe

__all__ = [
    "Reading",
    "count",
    "describe",
    "known",
    "percent",
    "plain",
]
