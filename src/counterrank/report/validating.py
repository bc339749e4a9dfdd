"""Predictions beside outcomes, for a page, a terminal and a figure: should this team believe this
tool?
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from counterrank.report import parts
from counterrank.report.charts import Frame, Plot, Point, Series, around
from counterrank.report.html import in_short, page
from counterrank.report.numbers import percent, plain, span
from counterrank.report.reading import Model, complete, ends, rows, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

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


def sentences(model: Model) -> list[str]:
    """Return what the comparison says, one thing a sentence, the most important first."""
    found, pairs = table(model.get("summary")), rows(model.get("pairs"))
    held = sum(pair.get("covered") is True for pair in pairs)
    judged = sum(pair.get("covered") is not None for pair in pairs)
    signs = sum(pair.get("sign_right") is True for pair in pairs)
    level = percent(found.get("level"), digits=0)
    lines = [
        f"{held} of {judged} intervals held (level {level}), and {signs} of {len(pairs)} "
        "predictions had the right sign.",
        _bias(found, missed=judged - held, judged=judged),
    ]
    if found.get("claimed_better"):
        lines.append(
            f"Of {found['claimed_better']} claims of “better”, {found.get('false_better')} were "
            "wrong."
        )
    if len(pairs) < 10:
        lines.append(
            f"{len(pairs)} pairs of one test say little about coverage: collect the results of "
            "several tests before you rely on it."
        )
    return lines


def _bias(found: Mapping[str, Any], *, missed: int, judged: int) -> str:
    both = ends(found, "bias_low", "bias_high")
    if both is None:
        return "The mean error is not known: a prediction has no value."
    low, high = both
    # A 95 % interval is about four standard errors wide; it says how many digits to show.
    error = (high - low) / 4
    reach = span(low, high, error, sign=True)
    size = plain(found.get("bias"), error, sign=True)
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


def lines_of(model: Model) -> list[tuple[str, ...]]:
    """Return a line of the table for each pair."""
    lines: list[tuple[str, ...]] = []
    for pair in rows(model.get("pairs")):
        error, spread = pair.get("stderr"), pair.get("earned_stderr")
        lines.append(
            (
                str(pair.get("from")),
                str(pair.get("to")),
                plain(pair.get("predicted"), error),
                span(pair.get("low"), pair.get("high"), error) or "–",
                plain(pair.get("earned"), spread),
                plain(spread, spread),
                _WORDS[pair.get("covered")],
                _WORDS[pair.get("sign_right")],
                str(pair.get("verdict") or "–"),
            )
        )
    return lines


def drawing(model: Model) -> Plot:
    """Return predicted against earned, with the line on which both are the same."""
    points = []
    for pair in complete(model.get("pairs"), "predicted", "earned"):
        value, earned = pair["predicted"], pair["earned"]
        low, high = ends(pair) or (None, None)
        tip = (
            f"{pair.get('to')} from {pair.get('from')}\npredicted "
            f"{plain(value, pair.get('stderr'))}\nearned {plain(earned)}"
        )
        points.append(Point(float(earned), float(value), low, high, tip))
    # One scale for both axes: only then is the line of right predictions the diagonal.
    both = around([v for p in points for v in (p.x, p.y, p.low, p.high)])
    same = [Point(both.low, both.low), Point(both.high, both.high)]
    series = [
        Series(points=same, look="today dash1", dots=False),
        Series(points=points, joined=False, whiskers=True),
    ]
    frame = Frame(
        x=both, y=both, x_title="earned per ranking", y_title="predicted per ranking", height=320
    )
    return Plot(series, frame, "Predicted against earned", ["the same", "pairs of arms"])


def validation_page(model: Model, *, back: str | None = None) -> str:
    """Return one self-contained page; `back` links to a list."""
    aid, drawn = (
        "On the dashed line predictions are right; bars are their intervals.",
        drawing(model),
    )
    return page(
        "validation.html.j2",
        sentences=sentences(model),
        chart=parts.figure("Predicted against earned", aid, drawn.legend() + drawn.svg()),
        pairs=parts.table(HEAD, lines_of(model), texts=2),
        back=back,
    )


def validation_fragment(model: Model) -> str:
    """Return what a notebook shows."""
    return in_short(sentences(model), validation_page(model))


def validation_picture(model: Model) -> "Figure":
    """Return predicted against earned as a matplotlib figure."""
    from counterrank.report.pictures import figure_of

    return figure_of([drawing(model)])


def validation_terminal(model: Model) -> "Iterator[RenderableType]":
    """Yield what a terminal shows."""
    from rich.table import Table

    from counterrank.report.terminal import LOOK, safe

    for index, line in enumerate(sentences(model)):
        yield safe(line, "bold" if index == 0 else "")
    shown = Table(title="Each arm, predicted from each other", **LOOK)
    for name in HEAD:
        shown.add_column(name)
    for cells in lines_of(model):
        shown.add_row(*(safe(cell) for cell in cells))
    yield shown
