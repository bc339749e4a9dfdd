"""What a person sees: the same model in a terminal, a notebook, a self-contained page and as
pictures.
"""

from counterrank.report.charts.plot import Drawing as Plot
from counterrank.report.charts.plot import Frame, Point, Series
from counterrank.report.charts.rows import Axis, Row
from counterrank.report.charts.rows import Drawing as Rows
from counterrank.report.charts.scale import Scale, around
from counterrank.report.html import page, render
from counterrank.report.learning import learning_page, learning_picture, learning_terminal
from counterrank.report.numbers import count, known, percent, plain, span
from counterrank.report.reading import Reading
from counterrank.report.sections.methods import describe
from counterrank.report.sections.parts import figure, grid, table
from counterrank.report.sentences import EVIDENCE, SIGNS, headline
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
    "render",
    "span",
    "table",
    "validation_page",
    "validation_picture",
    "validation_terminal",
]
