"""What a person sees: the same model in a terminal, a notebook, a self-contained page and as
pictures.
"""

from counterrank.report.charts import Axis, Frame, Plot, Point, Row, Rows, Scale, Series, around
from counterrank.report.html import page, render
from counterrank.report.learning import learning_page, learning_picture, learning_terminal
from counterrank.report.numbers import count, known, percent, plain, span
from counterrank.report.parts import figure, grid, table
from counterrank.report.provenance import describe
from counterrank.report.reading import Reading
from counterrank.report.sentences import EVIDENCE, SIGNS, headline, relative_ends
from counterrank.report.validating import validation_page, validation_picture, validation_terminal

__all__ = [
    "EVIDENCE",
    "SIGNS",
    "Axis",
    "Frame",
    "Plot",
    "Point",
    "Reading",
    "Row",
    "Rows",
    "Scale",
    "Series",
    "around",
    "count",
    "describe",
    "figure",
    "grid",
    "headline",
    "known",
    "learning_page",
    "learning_picture",
    "learning_terminal",
    "page",
    "percent",
    "plain",
    "relative_ends",
    "render",
    "span",
    "table",
    "validation_page",
    "validation_picture",
    "validation_terminal",
]
