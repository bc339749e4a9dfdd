"""Predictions beside outcomes of a past test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterrank.report.charts import Axis, Mark, Plot, Point, Series, around
from counterrank.report.document import (
    BRIEF,
    Block,
    Document,
    Figure,
    Heading,
    Paragraph,
    Table,
)
from counterrank.report.numbers import NONE, known, percent, plain, span

if TYPE_CHECKING:
    from counterrank.evaluation import Validation, ValidationSummary

#: None: a prediction without an interval can neither contain the outcome nor miss it.
_WORDS = {True: "yes", False: "no", None: NONE}


def document(report: Validation) -> Document:
    """Return what the comparison says, metric by metric, the primary first."""
    title, *lines = sentences(report)
    blocks: list[Block] = [Paragraph(line, detail=BRIEF) for line in lines]
    aid = "On the dashed line predictions are right; bars are their intervals."
    blocks += [Figure("pairs", "Predicted against earned", aid, _chart(report)), _pairs(report)]
    for one in report.metrics:
        if one.name != report.name:
            blocks.append(Heading(one.name, detail=BRIEF))
            blocks += [Paragraph(line, detail=BRIEF) for line in sentences(one)]
            blocks.append(_pairs(one))
    return Document(title, blocks)


def sentences(report: Validation) -> list[str]:
    """Return what the comparison says, one thing per sentence, the most important first."""
    found, pairs = report.agreement, report.pairs
    contained = sum(pair.covered is True for pair in pairs)
    judged = sum(pair.covered is not None for pair in pairs)
    signs = sum(pair.sign_right is True for pair in pairs)
    of = f"{report.name}: " if report.name else ""
    lines = [
        f"{of}{contained} of {judged} intervals contained the outcome (level "
        f"{percent(found.level, digits=0)}), and {signs} of {len(pairs)} predictions had the right sign.",
        _bias(found, missed=judged - contained, judged=judged),
    ]
    if found.claimed_better:
        lines.append(
            f"Of {found.claimed_better} claims of “better”, {found.false_better} were wrong."
        )
    if len(pairs) < 10:
        lines.append(
            f"{len(pairs)} pairs of one test say little about coverage: collect the results of "
            "several tests before you rely on it."
        )
    return lines


def _bias(found: ValidationSummary, *, missed: int, judged: int) -> str:
    low, high = found.bias_low, found.bias_high
    if not known(high - low):
        return "The mean error is not known: a prediction has no value."
    # A 95 % interval is about four standard errors wide; it says how many digits to show.
    error = (high - low) / 4
    reach = span(low, high, error, sign=True)
    size = plain(found.bias, error, sign=True)
    if low > 0 or high < 0:
        side = "too high" if low > 0 else "too low"
        return (
            f"Predictions were {side} on average: {size} per ranking ({reach}). Look for wrong "
            "propensities, for something that differs between the arms besides the ranking, or for "
            "feedback that one log does not show."
        )
    average = f"predictions missed by {size} per ranking on average ({reach})"
    # Errors of two arms predicted from each other have opposite signs, and cancel in the mean.
    if 2 * missed >= judged > 0:
        return f"The errors cancel on average, but most intervals missed: {average}."
    return f"No constant error was found: {average}."


def _pairs(report: Validation) -> Table:
    head = ("predicted from", "arm", "predicted", "interval", "earned", "std. error", "contained",
            "right sign", "evidence")  # fmt: skip
    rows = []
    for pair in report.pairs:
        error, spread = pair.stderr, pair.earned_stderr
        interval = span(pair.low, pair.high, error) or NONE
        numbers = (
            plain(pair.predicted, error),
            interval,
            plain(pair.earned, spread),
            plain(spread, spread),
        )
        words = (_WORDS[pair.covered], _WORDS[pair.sign_right], pair.verdict or NONE)
        rows.append((pair.source, pair.to, *numbers, *words))
    of = f" in {report.name}" if report.name else ""
    caption = f"Each arm{of}, predicted from each other"
    return Table(caption, head, rows, texts=2, minor=(5, 8, 7), detail=BRIEF)


def _chart(report: Validation) -> Plot:
    """Return predicted against earned, with the line on which both are the same."""
    points = []
    for pair in report.pairs:
        if known(pair.predicted):
            tip = (
                f"{pair.to} from {pair.source}\npredicted {plain(pair.predicted, pair.stderr)}\n"
                f"earned {plain(pair.earned)}"
            )
            points.append(Point(pair.earned, pair.predicted, pair.low, pair.high, tip))
    # One scale for both axes: only then is the line of right predictions the diagonal.
    both = around([v for p in points for v in (p.x, p.y, p.low, p.high)])
    same = [Point(both.low, both.low), Point(both.high, both.high)]
    series = [
        Series(same if points else [], Mark("", "today"), "dash1", dots=False, name="the same"),
        Series(points, joined=False, whiskers=True, name="pairs of arms"),
    ]
    x, y = Axis("earned per ranking", both), Axis("predicted per ranking", both)
    return Plot(series, x, y, "Predicted against earned", 320)
