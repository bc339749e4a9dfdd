"""Predictions beside outcomes of a past test."""

from collections.abc import Sequence
from dataclasses import replace

from counterrank.evaluation import Pair, Validation, ValidationSummary
from counterrank.report.document import (
    BRIEF,
    MEASURED,
    MISSED,
    PAGE,
    VERBOSE,
    Block,
    Document,
    Fold,
    Mark,
    Paragraph,
    Row,
    Table,
    interval_row,
    normal,
    section,
)
from counterrank.report.forest import Forest, Line, column_over
from counterrank.report.words import NONE, known, percent, plain, span
from counterrank.statistics import Number

#: None: a prediction without an interval can neither contain the outcome nor miss it.
_WORDS = {True: "yes", False: "no", None: NONE}


def document(report: Validation, _: int = PAGE) -> Document:
    """Return what the comparison says, every pair over every metric, and below it each metric in words."""
    metrics = report.metrics or (report,)
    title, *lines = dict.fromkeys(line for metric in metrics for line in sentences(metric))
    pictures = (_forest(metrics[start : start + MOST]) for start in range(0, len(metrics), MOST))
    blocks: list[Block] = [*(Paragraph(line, "facts", detail=BRIEF) for line in lines), *pictures]
    tables = [_table(metric) for metric in metrics]
    blocks.append(Fold("For data scientists", section("Every pair", "pairs", *tables), "details"))
    return Document(title, blocks, report.to_dict)


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


#: Metrics side by side at most.
MOST = 2


def _forest(metrics: Sequence[Validation]) -> Forest:
    """Return a line for each pair over a column for each metric: what was predicted, below it what was earned."""
    first = metrics[0]
    relative = all(pair.base > 0 for metric in metrics for pair in metric.pairs)
    cells = [
        [
            _cell(metric, pair, relative=relative, further=metric is not first)
            for pair in metric.pairs
        ]
        for metric in metrics
    ]
    facts, unit = ["lift over the arm it was predicted from"], "%" if relative else "per ranking"
    columns = [
        column_over(metric.name or "reward", column, facts=facts, unit=unit)
        for metric, column in zip(metrics, cells, strict=True)
    ]
    lines = [
        Line(
            label=pair.to,
            note=f"predicted from {pair.source}",
            state=_state(pair),
            cells=[column[place] for column in cells],
            cause="" if known(pair.predicted) else "These rows predict nothing about it.",
        )
        for place, pair in enumerate(first.pairs)
    ]
    order = ("missed", "contained", "unknown")
    return Forest(
        kind="pairs",
        caption="Predicted and earned" + (", in per cent" if relative else ""),
        columns=columns,
        lines=sorted(lines, key=lambda line: order.index(line.state)),
        plural="pairs",
        head="arm, and whose rows predicted it",
        aid=f"Line: {percent(first.agreement.level, digits=0)} interval of the prediction",
        second="earned: what the arm measured, with its interval",
        detail=BRIEF,
    )


def _state(pair: Pair) -> str:
    return "unknown" if pair.covered is None else "contained" if pair.covered else "missed"


def _cell(metric: Validation, pair: Pair, *, relative: bool, further: bool) -> Row | None:
    """Return a prediction with what was earned below it, both less what the predicting arm earned.

    The badge of a pair is that of the first metric; `further` ones say it beside the number.
    """
    if not known(pair.predicted):
        return None
    base = pair.base if known(pair.base) else 0.0
    share = 1 / base if relative else None
    predicted = Number(pair.predicted - base, pair.stderr, pair.low - base, pair.high - base)
    earned = normal(pair.earned - base, pair.earned_stderr, metric.agreement.level)
    mark = MISSED if pair.covered is False else Mark("contained", "unclear", 2)
    return replace(
        interval_row("predicted", predicted, mark, share=share),
        second=interval_row("earned", earned, MEASURED, share=share),
        status=_state(pair) if further else "",
    )


def _table(report: Validation) -> Table:
    """Return what each arm earned beside what was predicted of it."""
    cells = []
    for pair in report.pairs:
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
    return Table(caption, head, cells, texts=2, minor=(5, 8, 7), detail=VERBOSE)
