"""Predictions beside outcomes of a past test."""

from counterrank.evaluation import Validation, ValidationSummary
from counterrank.report.document import (
    BRIEF,
    MEASURED,
    PAGE,
    Block,
    Document,
    Figure,
    Heading,
    Paragraph,
    Row,
    Table,
    interval_row,
    normal,
)
from counterrank.report.words import NONE, known, percent, plain, span
from counterrank.statistics import Number

#: None: a prediction without an interval can neither contain the outcome nor miss it.
_WORDS = {True: "yes", False: "no", None: NONE}


def document(report: Validation, _: int = PAGE) -> Document:
    """Return what the comparison says, metric by metric, the primary first."""
    title, *lines = sentences(report)
    blocks: list[Block] = [Paragraph(line, detail=BRIEF) for line in lines]
    aid = "Each prediction stands above what the arm earned; bars are intervals."
    name, (rows, table) = "Predicted against earned", _pairs(report)
    blocks += [Figure("pairs", rows, "per ranking", name, [], name, aid), table]
    for metric in report.metrics:
        if metric.name != report.name:
            blocks.append(Heading(metric.name, detail=BRIEF))
            blocks += [Paragraph(line, detail=BRIEF) for line in sentences(metric)]
            blocks.append(_pairs(metric)[1])
    return Document(title, blocks)


def sentences(report: Validation) -> list[str]:
    """Return what the comparison says, one thing per sentence, the most important first."""
    summary, pairs = report.agreement, report.pairs
    contained = sum(pair.covered is True for pair in pairs)
    judged = sum(pair.covered is not None for pair in pairs)
    signs = sum(pair.sign_right is True for pair in pairs)
    metric = f"{report.name}: " if report.name else ""
    lines = [
        f"{metric}{contained} of {judged} intervals contained the outcome (level "
        f"{percent(summary.level, digits=0)}), and {signs} of {len(pairs)} predictions had the right sign.",
        _bias(summary, missed=judged - contained, judged=judged),
    ]
    if summary.claimed_better == 1:
        lines.append(
            f"The one claim of “better” was {'wrong' if summary.false_better else 'right'}."
        )
    elif summary.claimed_better:
        were = "was" if summary.false_better == 1 else "were"
        lines.append(
            f"Of {summary.claimed_better} claims of “better”, {summary.false_better} {were} wrong."
        )
    if len(pairs) < 10:
        lines.append(
            f"{len(pairs)} pairs of one test say little about coverage: collect the results of "
            "several tests before you rely on it."
        )
    return lines


def _bias(summary: ValidationSummary, *, missed: int, judged: int) -> str:
    low, high = summary.bias_low, summary.bias_high
    if not known(high - low):
        return "The mean error is not known: a prediction has no value."
    # A 95 % interval is about four standard errors wide; it says how many digits to show.
    error = (high - low) / 4
    reach = span(low, high, error, sign=True)
    size = plain(summary.bias, error, sign=True)
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


def _pairs(report: Validation) -> tuple[list[Row], Table]:
    """Return what each arm earned below what was predicted of it, as a chart and as a table."""
    rows, cells = list[Row](), []
    for pair in report.pairs:
        predicted = Number(pair.predicted, pair.stderr, pair.low, pair.high)
        earned = normal(pair.earned, pair.earned_stderr, report.agreement.level)
        rows += [
            Row(label=f"{pair.to} from {pair.source}", heading=True),
            interval_row("predicted", predicted, sign=False),
            interval_row("earned", earned, MEASURED, sign=False),
        ]
        error, spread = pair.stderr, pair.earned_stderr
        cells.append(
            (
                pair.source,
                pair.to,
                plain(pair.predicted, error),
                span(pair.low, pair.high, error) or NONE,
                plain(pair.earned, spread),
                plain(spread, spread),
                _WORDS[pair.covered],
                _WORDS[pair.sign_right],
                pair.verdict or NONE,
            )
        )
    metric = f" in {report.name}" if report.name else ""
    head = (
        "predicted from",
        "arm",
        "predicted",
        "interval",
        "earned",
        "std. error",
        "contained",
        "right sign",
        "evidence",
    )
    caption = f"Each arm{metric}, predicted from each other"
    return rows, Table(caption, head, cells, texts=2, minor=(5, 8, 7), detail=BRIEF)
