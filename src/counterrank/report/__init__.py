"""What a person sees: one result in a terminal, in a notebook, as a page and as figures.

`evaluation`, `learning`, `abtesting`, `validating` and `plan` each show one kind of result: `page`,
`fragment` (a notebook's), `terminal`, `picture`.
"""

from counterrank.report import abtesting, evaluation, learning, plan, validating
from counterrank.report.charts import (
    Axis,
    AxisScale,
    Plot,
    PlotFrame,
    Point,
    Row,
    RowChart,
    Series,
    around,
)
from counterrank.report.html import filled
from counterrank.report.metrics import reading_of as metric_reading
from counterrank.report.numbers import at_least, count, known, percent, plain, span
from counterrank.report.parts import figure, grid, style_of, table
from counterrank.report.provenance import describe, made_with
from counterrank.report.reading import Reading
from counterrank.report.sentences import EVIDENCE, SIGNS, headline, relative_ends

__all__ = [
    "EVIDENCE",
    "SIGNS",
    "Axis",
    "PlotFrame",
    "Plot",
    "Point",
    "Reading",
    "Row",
    "RowChart",
    "AxisScale",
    "Series",
    "abtesting",
    "around",
    "at_least",
    "count",
    "describe",
    "evaluation",
    "figure",
    "filled",
    "grid",
    "headline",
    "known",
    "learning",
    "made_with",
    "metric_reading",
    "percent",
    "plain",
    "plan",
    "relative_ends",
    "span",
    "style_of",
    "table",
    "validating",
]
