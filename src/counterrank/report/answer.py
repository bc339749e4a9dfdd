"""The answer: a headline by action, a line of facts, and the lifts of all policies in all metrics as one picture."""

import math
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import PurePath
from typing import NamedTuple

from counterrank.common.findings import WRONG
from counterrank.common.texts import plural
from counterrank.estimators import Lift
from counterrank.evaluation import (
    COUNTED_UNITS,
    Comparison,
    GuardrailResult,
    MetricResult,
    causes_first,
    what_would_help,
)
from counterrank.report.document import (
    BRIEF,
    PAGE,
    Block,
    Fold,
    Paragraph,
    Phrase,
    Row,
    interval_row,
    section,
)
from counterrank.report.evaluation_view import Reading, Target, column_name, no_difference
from counterrank.report.forest import STATES, Column, Forest, Line, column_over, outcome
from counterrank.report.health import note
from counterrank.report.words import (
    count,
    days_between,
    known,
    percent,
    plain,
    sentence,
    span,
    width,
)
from counterrank.statistics import Number

#: Remedies of a policy at most, and metrics that stand side by side; the others are folded by as many less one.
MOST_REMEDIES, MOST_METRICS = 2, 5
#: What a guardrail says, the gravest first.
GRAVE = ("broken", "open", "safe")
NO_INTERVAL = "these rows give no interval"
#: Names that a sentence lists; of more, all but one are shown.
MOST_NAMES = 4


def answer(reading: Reading, told_facts: Sequence[str] = ()) -> list[Block]:
    """Return the facts of the log and the picture; where the log is refused, the cause in its place."""
    entries = told_facts or facts_of(reading)
    facts = Paragraph(" · ".join(entries), "facts", detail=BRIEF)
    if reading.failed:
        return [facts, *_refused(reading)]
    first, *further = forests(reading)
    folds = [
        Fold(
            f"More metrics: {', '.join(column.name for column in forest.columns[1:])}",
            [replace(forest, detail=BRIEF)],
        )
        for forest in further
    ]
    if reading.detail >= PAGE:
        told = " ".join([*map(str, first.lines), *entries[:1]])
        folds.append(Fold("Text to paste into a message", [Paragraph(told)]))
    return [facts, first, *folds]


def _refused(reading: Reading) -> list[Block]:
    """Return the policies without a number, and the first cause with its remedy: nothing else helps before."""
    lines = [
        Line(label=target.name, note="no estimate from this log", state="unknown")
        for target in reading.candidates
    ]
    lead = "So there is no lift here, and nothing that says whether a policy is good or bad."
    return [
        Paragraph(lead, "lead", detail=BRIEF),
        Forest(kind="lifts", caption="Policies", columns=[], lines=lines, detail=BRIEF),
        *section("The cause, and what to do", "cause", note(reading.failed[0], detail=BRIEF)),
    ]


def headline(reading: Reading) -> Phrase:
    """Return what to do about every policy, grouped by action; a log that failed its audit comes first."""
    if failed := reading.failed:
        return Phrase.of_pieces(f"{WRONG.get(failed[0].about, WRONG['rows'])}: fix this first")
    groups: dict[str, list[str]] = {}
    for target in in_order(reading):
        groups.setdefault(target.state, []).append(target.name)
    pieces: list[str | tuple[str, ...]] = []
    for state, verb in ((name, state.verb) for name, state in STATES.items() if state.verb):
        names = groups.get(state, [])
        first = names[:1] if state == "ship" else names
        if first:
            joined = "or" if state == "hold" else "and"
            pieces += [f"{verb} ", *names_apart(first, joined), ". "]
        if names[len(first) :]:
            pieces += [*names_apart(names[len(first) :], "and"), " could be shipped too. "]
    if not pieces and (identical := groups.get("same")):
        pieces = [*names_apart([*identical, reading.baseline], "and"), " are the same."]
    return Phrase.of_pieces(*pieces) if pieces else Phrase.of_pieces("Evaluation")


def names_apart(names: Sequence[str], joined: str) -> Iterator[str | tuple[str, ...]]:
    """Yield names, which a sentence sets apart, with what stands between them; many are counted.

    >>> list(names_apart(["a", "b"], "or"))
    [('a',), ' or ', ('b',)]
    """
    shown = names if len(names) <= MOST_NAMES else names[: MOST_NAMES - 1]
    unnamed = len(names) - len(shown)
    for place, name in enumerate(shown):
        last = place == len(shown) - 1 and not unnamed
        if place:
            yield f" {joined} " if last else ", "
        yield (name,)
    if unnamed:
        yield f" {joined} {unnamed} more"


def joined_names(names: Sequence[str], word: str) -> str:
    """Return names as people list them.

    >>> joined_names(["a", "b", "c"], "or")
    'a, b or c'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {word} {names[-1]}"


def in_order(reading: Reading) -> list[Target]:
    """Return the policies by what to do, then by lift, the one to ship before all."""
    sign, best = -1 if reading.metric.lower_is_better else 1, reading.result.decision.target

    def place(target: Target) -> tuple[int, bool, float]:
        value = target.lift.value
        return (
            [*STATES].index(target.state),
            target.name != best,
            -sign * value if known(value) else 0.0,
        )

    return sorted(reading.candidates, key=place)


def facts_of(reading: Reading) -> list[str]:
    """Return what the log is: where it is, its dates, size and users, the metric with its unit, when it was run."""
    log, provenance = reading.log, reading.result.provenance
    facts = [source_of(provenance.command or "")]
    facts += [days_between(*log.period)] if log.period else []
    prefix = "up to " if log.shorter else ""
    facts.append(f"{counted(log.n, reading.ranking)} of {prefix}{counted(log.K, 'position')}")
    if 0 < log.units < log.n:
        facts.append(
            f"{'' if log.units < COUNTED_UNITS else 'at least '}{counted(log.units, 'user')}"
        )
    if known(log.value):
        owner = "today" if reading.over_logger else "the logging policy earned"
        name = "primary metric" if len(reading.result.metrics) > 1 else "metric"
        facts.append(f"{name}: {reading.unit}, {owner} {plain(log.value, log.stderr)}")
    if provenance.created:
        facts.append(f"run {datetime.fromisoformat(provenance.created):%-d %B %Y, %H:%M}")
    return [fact for fact in facts if fact]


def source_of(command: str) -> str:
    """Return the file that a command line reads; nothing where it names none.

    >>> source_of("counterrank evaluate logs/shop.parquet --target new"), source_of("counterrank demo --out x")
    ('shop.parquet', '')
    """
    try:
        words = shlex.split(command)[2:3]
    except ValueError:
        return ""
    return PurePath(words[0]).name if words and not words[0].startswith("-") else ""


def limit_of(rail: GuardrailResult) -> str:
    """Return the limit of a guardrail as people write it."""
    sign = "≤" if at_most(rail) else "≥"
    shown = percent(rail.limit, sign=True) if rail.relative else f"{plain(rail.limit)} {rail.unit}"
    return f"{sign} {shown}"


def at_most(rail: GuardrailResult) -> bool:
    """Return whether the lift may not be above the limit."""
    return "<=" in rail.expression or "≤" in rail.expression


def forests(reading: Reading) -> list[Forest]:
    """Return a line for each policy over a column for each metric; beyond `MOST_METRICS` in several pictures.

    The primary comes first in each; then guardrails that are broken or open, safe ones, other metrics.
    """
    measures = _measures(reading)
    primary, *secondary = measures
    if len(measures) > MOST_METRICS:
        secondary.sort(key=lambda measure: min(map(_gravity, measure.rails), default=len(GRAVE)))
    size = MOST_METRICS - 1
    starts = range(0, max(len(secondary), 1), size)
    return [_forest(reading, [primary, *secondary[start : start + size]]) for start in starts]


_NO_ENDS = (math.nan, math.nan)


class Measure(NamedTuple):
    """A metric as the picture shows it."""

    name: str
    unit: str
    metric: MetricResult
    rails: Sequence[GuardrailResult]
    #: Its lifts mean something in per cent.
    relative: bool


def _measures(reading: Reading) -> list[Measure]:
    """Return every metric with its name and unit in words, the primary first."""
    result, measures = reading.result, []
    secondary = [metric for metric in result.metrics if metric.recommended and not metric.primary]
    for metric in (reading.metric, *secondary):
        plain_unit = metric.unit in ("per ranking", "")
        lifts = [metric.estimate(target.name).lift for target in reading.candidates]
        valued = [lift for lift in lifts if known(lift.value)]
        measures.append(
            Measure(
                reading.reward if metric is reading.metric else metric.name,
                f"per {reading.ranking}" if plain_unit else metric.unit,
                metric,
                [rail for rail in result.guardrails if rail.metric == metric.name],
                bool(valued) and all(known(lift.relative_low) for lift in valued),
            )
        )
    return measures


def _forest(reading: Reading, measures: Sequence[Measure]) -> Forest:
    targets = in_order(reading)
    cells = {
        target.name: [_cell(reading, target, measure) for measure in measures] for target in targets
    }
    columns = [
        _column(reading, measure, [cells[target.name][place] for target in targets], len(measures))
        for place, measure in enumerate(measures)
    ]
    unit = "in per cent" if columns[0].unit == "%" else f"in {columns[0].unit}"
    return Forest(
        kind="lifts",
        caption=f"Lift over {reading.baseline}, {unit}",
        columns=columns,
        lines=[_line(reading, target, cells[target.name]) for target in targets],
        aid=f"Line: {reading.level_words} interval",
        band="too small to matter",
        detail=BRIEF,
    )


def _cell(reading: Reading, target: Target, measure: Measure) -> Row | None:
    """Return the lift of a policy in a metric, with what its guardrail says of it."""
    metric, relative = measure.metric, measure.relative
    estimate = metric.estimate(target.name)
    lift: Lift = estimate.lift
    if estimate.not_estimable or not known(lift.value) or target.missing:
        return None
    grade = metric.verdict.level_of(target.name)
    rails = [rail for rail in measure.rails if rail.target == target.name]
    guardrail = next(
        (rail for rail in rails if not rail.column and rail.relative == relative), None
    )
    scale = 100.0 if relative else 1.0
    row = interval_row(
        measure.name,
        lift,
        outcome(*lift.decisive, lower_is_better=metric.lower_is_better),
        relative=relative,
        note=grade,
        faded=grade == "insufficient",
        status=min(rails, key=_gravity).status if rails else "",
        hints=[_amount(reading, lift, metric)],
        outer=(scale * guardrail.low, scale * guardrail.high) if guardrail else _NO_ENDS,
        second=reading.seconds.get((target.name, measure.name)),
    )
    return replace(row, reach=row.reach or NO_INTERVAL)


def _amount(reading: Reading, lift: Number, metric: MetricResult) -> str:
    unit = reading.unit if metric.primary else f"{metric.name} {metric.unit}"
    reach = span(lift.low, lift.high, width(lift), sign=True)
    return f"{plain(lift.value, width(lift), sign=True)} {unit} ({reach})" if reach else ""


def _gravity(rail: GuardrailResult) -> int:
    return GRAVE.index(rail.status)


def _column(
    reading: Reading, measure: Measure, cells: Sequence[Row | None], metrics: int
) -> Column:
    """Return a metric with the axis that holds its intervals, the limit that matters, and its guardrail."""
    name, unit, metric, rails, relative = measure
    practical = reading.result.provenance.options.get("practical")
    base = metric.value if reading.over_logger else metric.estimate(reading.result.baseline).value
    owner = "today" if reading.over_logger else reading.baseline
    way = "lower is better" if metric.lower_is_better else "higher is better"
    limits = dict.fromkeys(
        f"{limit_of(rail)}{f' by {column_name(rail.column)}' if rail.column else ''}"
        for rail in rails
    )
    facts = [", ".join(filter(None, (unit, f"{owner} {plain(base, metric.stderr)}")))]
    facts.append(f"guardrail {joined_names([*limits], 'and')}" if limits else way)
    band = harm = None
    marked: list[float] = []
    if metric.primary and relative and known(practical):
        band = (-100 * practical, 100 * practical)
        facts[-1] += f"; less than ±{percent(practical)} is too small to matter"
        marked += band
    drawn = [rail for rail in rails if rail.relative == relative and known(rail.limit)]
    if drawn:
        edge = drawn[0].limit * (100 if relative else 1)
        harm = (edge, math.inf) if at_most(drawn[0]) else (-math.inf, edge)
        marked += [1.5 * edge]
    max_ticks = 7 if metrics == 1 else 6 if metric.primary or metrics == 2 else 3
    return column_over(
        name,
        cells,
        marked,
        max_ticks,
        facts=facts,
        primary=metric.primary and metrics > 1,
        unit="%" if relative else reading.unit if metric.primary else unit,
        band=band,
        harm=harm,
    )


def _line(reading: Reading, target: Target, cells: Sequence[Row | None]) -> Line:
    state, label = target.state, target.evidence or "not judged"
    if target.missing:
        return Line(
            label=target.name,
            note="not estimable",
            state=state,
            cause=sentence(target.missing),
            advice=_advice(target),
        )
    if target.state == "same":
        cause = (
            f"This log shows no difference between it and {reading.baseline}: all weights are one, "
            "or all rewards are the same. Nothing to decide."
        )
        return Line(label=target.name, note="identical", state=state, cause=cause)
    if target.doubtful:
        label += ": a best guess"
    return Line(
        label=target.name,
        note=label,
        state=state,
        cells=cells,
        cause=" ".join(_causes(reading, target)),
        advice=_advice(target),
    )


def _causes(reading: Reading, target: Target) -> Iterator[str]:
    """Yield what decides about a policy, or leaves it open: guardrails, then doubts about the measurement."""
    yield from _guardrail_reasons(reading, target)
    if target.evidence == "reliable":
        low, high = target.lift.decisive
        if target.state in ("test", "wait") and low <= 0 <= high:
            yield "The interval includes no change."
        return
    if doubts := causes_first(target.reasons):
        yield sentence(doubts[0].text)


def _guardrail_reasons(reading: Reading, target: Target) -> Iterator[str]:
    """Yield which guardrails are broken, or keep a policy from being shipped; groups of one in one sentence."""
    rails = [rail for rail in reading.result.guardrails if rail.target == target.name]
    for expression in dict.fromkeys(rail.expression for rail in rails):
        members = [rail for rail in rails if rail.expression == expression]
        worst = min(members, key=_gravity)
        verb = {"broken": "breaks", "open": "may break"}.get(worst.status)
        if verb and (worst.status == "broken" or target.state in ("test", "wait")):
            groups = f" ({group_words(members)})" if worst.column else ""
            yield f"It {verb} the limit of {worst.metric} ({limit_of(worst)}): {_reach(worst)}{groups}."


def _reach(rail: GuardrailResult) -> str:
    where = f" in {rail.group}" if rail.column else ""
    if not known(rail.high - rail.low):
        return f"no interval{where}"
    if rail.relative:
        return f"{percent(rail.low, sign=True)} to {percent(rail.high, sign=True)}{where}"
    return f"{span(rail.low, rail.high, (rail.high - rail.low) / 4, sign=True)} {rail.unit}{where}"


def group_words(rails: Sequence[GuardrailResult]) -> str:
    """Return how many groups are safe, and the names of those that are not."""
    unsafe = [rail for rail in rails if rail.status != "safe"]
    if rails[0].group and len(rails) == 1:
        return f"{rails[0].group} {rails[0].status}"
    total = counted(len(rails), column_name(rails[0].column))
    words = [f"{len(rails) - len(unsafe)} of {total} safe"]
    words += [f"{rail.group} {rail.status}" for rail in unsafe[:MOST_NAMES]]
    return "; ".join([*words, *(["…"] if unsafe[MOST_NAMES:] else [])])


def _advice(target: Target) -> tuple[str, ...]:
    """Return what would change the label."""
    remedies = what_would_help(target.reasons)
    remedies += ["an A/B test would settle it without weights"] * target.doubtful
    return tuple(map(sentence, remedies[:MOST_REMEDIES]))


def counted(number: int, word: str) -> str:
    """Return a number of things.

    >>> counted(1, "country"), counted(4, "country"), counted(2, "search")
    ('1 country', '4 countries', '2 searches')
    """
    return f"{count(number)} {word if number == 1 else plural(word)}"


def comparison(reading: Reading, row: Comparison) -> str:
    """Return which of two targets is better, by how much, and whether that is settled."""
    if not known(row.value):
        return ""
    first, second, value, low, high = row.better, row.than, row.value, row.low, row.high
    if no_difference(row):
        return f"{first} and {second} do not differ at all on this log."
    # The one that earns more is named first, and the ends of the interval change places.
    if value < 0:
        first, second, value, low, high = second, first, -value, -high, -low
    error = width(row)
    return (
        f"{first} {'earns' if low > 0 else 'may earn'} {plain(value, error)} {reading.unit} more than "
        f"{second} (adjusted {reading.level_words} interval {span(low, high, error, sign=True)})."
    )


def reading_of(reading: Reading, metric: MetricResult) -> Reading:
    """Return the evaluation as if a metric were its only one."""
    result = reading.result
    log = replace(
        result.log,
        value=metric.value,
        stderr=metric.stderr,
        words={**result.log.words, "reward": metric.name},
    )
    metrics = tuple(replace(row, primary=row is metric) for row in result.metrics)
    return Reading(replace(result, log=log, metrics=metrics, sensitivity={}, planning={}))
