"""What a person sees: the same model in a terminal, a notebook, a self-contained page and as
pictures.
"""

from counterrank.report.abtesting import (
    abtest_fragment,
    abtest_page,
    abtest_picture,
    abtest_terminal,
)
from counterrank.report.abtesting import sentences as abtest_sentences
from counterrank.report.charts import Axis, Frame, Plot, Point, Row, Rows, Scale, Series, around
from counterrank.report.html import page, render, title
from counterrank.report.learning import (
    learning_fragment,
    learning_page,
    learning_picture,
    learning_terminal,
)
from counterrank.report.metrics import reading_of as metric_reading
from counterrank.report.numbers import at_least, count, known, percent, plain, span
from counterrank.report.parts import figure, grid, style_of, table
from counterrank.report.plan import plan_fragment, plan_page, plan_picture, plan_terminal
from counterrank.report.plan import sentences as plan_sentences
from counterrank.report.provenance import describe, made_with
from counterrank.report.reading import Reading
from counterrank.report.sentences import EVIDENCE, SIGNS, headline, relative_ends
from counterrank.report.validating import sentences as validation_sentences
from counterrank.report.validating import (
    validation_fragment,
    validation_page,
    validation_picture,
    validation_terminal,
)

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
    "abtest_fragment",
    "abtest_page",
    "abtest_picture",
    "abtest_sentences",
    "abtest_terminal",
    "around",
    "at_least",
    "count",
    "describe",
    "figure",
    "grid",
    "headline",
    "known",
    "learning_fragment",
    "learning_page",
    "learning_picture",
    "learning_terminal",
    "made_with",
    "metric_reading",
    "page",
    "percent",
    "plain",
    "plan_fragment",
    "plan_page",
    "plan_picture",
    "plan_sentences",
    "plan_terminal",
    "relative_ends",
    "render",
    "span",
    "style_of",
    "table",
    "title",
    "validation_fragment",
    "validation_page",
    "validation_picture",
    "validation_sentences",
    "validation_terminal",
]
