"""Predictions beside outcomes, on a page, in a terminal, as a figure."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from counterrank.report import parts
from counterrank.report.charts import Plot, PlotFrame, Point, Series, around
from counterrank.report.html import filled, in_short
from counterrank.report.numbers import known, percent, plain, span
from counterrank.report.reading import ends

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

    from counterrank.evaluation import ValidationReport, ValidationSummary

HEAD = (
    "predicted from",
    "arm",
    "predicted",
    "interval",
    "earned",
    "± se",
    "held",
    "sign",
    "evidence",
)
#: None: a prediction without an interval can neither hold nor fail.
_WORDS = {True: "yes", False: "no", None: "–"}


def sentences(report: "ValidationReport") -> list[str]:
    """Return what the comparison says, one thing a sentence, the most important first."""
    found, pairs = report.summary, report.pairs
    held = sum(pair.covered is True for pair in pairs)
    judged = sum(pair.covered is not None for pair in pairs)
    signs = sum(pair.sign_right is True for pair in pairs)
    level = percent(found.level, digits=0)
    of = f"{report.name}: " if report.name else ""
    lines = [
        f"{of}{held} of {judged} intervals held (level {level}), and {signs} of {len(pairs)} "
        "predictions had the right sign.",
        _bias(found, missed=judged - held, judged=judged),
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


def _bias(found: "ValidationSummary", *, missed: int, judged: int) -> str:
    both = ends(found.bias_low, found.bias_high)
    if both is None:
        return "The mean error is not known: a prediction has no value."
    low, high = both
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


def lines_of(report: "ValidationReport") -> list[tuple[str, ...]]:
    """Return a line of the table for each pair."""
    lines: list[tuple[str, ...]] = []
    for pair in report.pairs:
        error, spread = pair.stderr, pair.earned_stderr
        lines.append(
            (
                pair.source,
                pair.to,
                plain(pair.predicted, error),
                span(pair.low, pair.high, error) or "–",
                plain(pair.earned, spread),
                plain(spread, spread),
                _WORDS[pair.covered],
                _WORDS[pair.sign_right],
                pair.verdict or "–",
            )
        )
    return lines


def drawing(report: "ValidationReport") -> Plot:
    """Return predicted against earned, with the line on which both are the same."""
    points = []
    for pair in report.pairs:
        if not known(pair.predicted):
            continue
        low, high = ends(pair.low, pair.high) or (None, None)
        tip = (
            f"{pair.to} from {pair.source}\npredicted "
            f"{plain(pair.predicted, pair.stderr)}\nearned {plain(pair.earned)}"
        )
        points.append(Point(pair.earned, pair.predicted, low, high, tip))
    # One scale for both axes: only then is the line of right predictions the diagonal.
    both = around([v for p in points for v in (p.x, p.y, p.low, p.high)])
    same = [Point(both.low, both.low), Point(both.high, both.high)]
    series = [
        Series(points=same, look="today dash1", dots=False),
        Series(points=points, joined=False, whiskers=True),
    ]
    frame = PlotFrame(
        x=both, y=both, x_title="earned per ranking", y_title="predicted per ranking", height=320
    )
    return Plot(series, frame, "Predicted against earned", ["the same", "pairs of arms"])


def page(report: "ValidationReport", *, back: str | None = None) -> str:
    """Return one self-contained page; `back` links to a list."""
    aid, drawn = (
        "On the dashed line predictions are right; bars are their intervals.",
        drawing(report),
    )
    return filled(
        "validation.html.j2",
        sentences=sentences(report),
        chart=parts.figure("Predicted against earned", aid, drawn.legend() + drawn.svg()),
        pairs=parts.table(HEAD, lines_of(report), texts=2),
        name=report.name,
        others=[
            {
                "name": one.name,
                "sentences": sentences(one),
                "pairs": parts.table(HEAD, lines_of(one), texts=2),
            }
            for one in report.metrics
            if one.name != report.name
        ],
        back=back,
    )


def fragment(report: "ValidationReport") -> str:
    """Return what a notebook shows."""
    return in_short(sentences(report), page(report))


def picture(report: "ValidationReport") -> "Figure":
    """Return predicted against earned as a matplotlib figure."""
    from counterrank.report.pictures import figure_of

    return figure_of([drawing(report)])


def terminal(report: "ValidationReport") -> "Iterator[RenderableType]":
    """Yield what a terminal shows."""
    from counterrank.report.terminal import safe, tabled

    for one in report.metrics or (report,):
        for index, line in enumerate(sentences(one)):
            yield safe(line, "bold" if index == 0 else "")
        of = f" in {one.name}" if one.name else ""
        yield tabled(safe(f"Each arm{of}, predicted from each other"), HEAD, lines_of(one))
