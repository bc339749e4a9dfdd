"""The answer: a headline by action, a card for each policy, the scorecard of metrics, and guardrails."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from counterrank.common.findings import WRONG
from counterrank.common.texts import plural
from counterrank.estimators import Lift
from counterrank.evaluation import (
    Comparison,
    GuardrailResult,
    MetricResult,
    causes_first,
    what_would_help,
)
from counterrank.report.document import (
    BRIEF,
    NO_CHANGE,
    SIGNS,
    VERBOSE,
    AxisScale,
    Block,
    Card,
    Chip,
    Figure,
    Meter,
    Paragraph,
    Row,
    Scorecard,
    Table,
    around,
    interval_row,
    section,
)
from counterrank.report.reading import Reading, Target, column_name
from counterrank.report.words import (
    NONE,
    count,
    known,
    percent,
    percents,
    plain,
    relative_ends,
    sentence,
    span,
    width,
    without_options,
)
from counterrank.statistics import Number

NO_INTERVAL = "these rows give no interval"
#: Remedies on a card at most.
MOST_REMEDIES = 2


def answer(reading: Reading) -> list[Block]:
    """Return what was logged, which guardrails stop a policy, and a card for each policy."""
    lines = _guardrail_reasons(reading)
    cards = [_card(reading, target) for target in reading.candidates]
    return [
        *([Paragraph(_fix(reading), "strong", detail=BRIEF)] if reading.failed else []),
        *(Paragraph(line, detail=BRIEF) for line in lines),
        Paragraph(logged(reading), "lead", detail=BRIEF),
        Scorecard(cards, detail=BRIEF),
    ]


def headline(reading: Reading) -> str:
    """Return what to do about every policy, grouped by action; a log that failed its audit comes first."""
    if failed := reading.failed:
        return f"{WRONG.get(failed[0].about, WRONG['rows'])}: fix this first"
    groups: dict[str, list[str]] = {}
    for target in reading.candidates:
        action = "unknown" if target.missing else "same" if target.same else target.action
        groups.setdefault(action, []).append(target.name)
    best = reading.result.decision.target
    ship = sorted(groups.get("ship", ()), key=lambda name: name != best)
    told = [f"Ship {ship[0]}."] if ship else []
    told += [f"{listed(ship[1:], 'and')} could be shipped too."] if ship[1:] else []
    told += [f"Test {listed(groups['test'], 'and')}."] if groups.get("test") else []
    told += [f"Do not ship {listed(groups['hold'], 'or')}."] if groups.get("hold") else []
    if unknown := groups.get("unknown"):
        reason = next(one.missing for one in reading.candidates if one.missing)
        about = "" if len(reading.candidates) == 1 else f" about {listed(unknown, 'and')}"
        told.append(sentence(f"Cannot tell yet{about}: {without_options(reason)}"))
    if same := groups.get("same"):
        told.append(f"{listed(same, 'and')} and {reading.baseline} are the same.")
    return " ".join(told) or "Evaluation"


def listed(names: Sequence[str], word: str) -> str:
    """Return names as people list them.

    >>> listed(["a", "b", "c"], "or")
    'a, b or c'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {word} {names[-1]}"


def _fix(reading: Reading) -> str:
    """Return the first cause with its remedy; nothing else helps before that is mended."""
    failed = reading.failed
    one = failed[0]
    told = [sentence(text) for text in (one.text, one.cause, without_options(one.help)) if text]
    rest = len(failed) - 1
    others = "another check" if rest == 1 else f"{rest} other checks"
    return " ".join([*told, *([sentence(f"{others} failed too; see below")] if rest else [])])


def _guardrail_reasons(reading: Reading) -> list[str]:
    """Return which guardrails stop a policy; the primary's reasons stand on its card."""
    lines = []
    for target in reading.candidates:
        for status, words in (("broken", "breaks"), ("open", "may break")):
            names = dict.fromkeys(
                f"{one.metric}{f' by {column_name(one.column)}' if one.column else ''} ({limit_of(one)})"
                for one in reading.result.guardrails
                if (one.target, one.status) == (target.name, status)
            )
            if names and (status == "broken" or target.action == "test"):
                lines.append(f"{target.name} {words} the limit of {listed([*names], 'and')}.")
    return lines


def limit_of(rail: GuardrailResult) -> str:
    """Return the limit of a guardrail as people write it."""
    sign = "≤" if "<=" in rail.expression or "≤" in rail.expression else "≥"
    shown = percent(rail.limit, sign=True) if rail.relative else f"{plain(rail.limit)} {rail.unit}"
    return f"{sign} {shown}"


def outcome(lift: Lift, *, lower_is_better: bool = False) -> str:
    """Return "better", "worse" or "unclear": where both intervals of the lift lie."""
    low, high = lift.decisive
    low, high = (-high, -low) if lower_is_better else (low, high)
    return "better" if low > 0 else "worse" if high < 0 else "unclear"


RESULTS = {"better": "better", "worse": "worse", "unclear": "no clear difference"}


def _card(reading: Reading, target: Target) -> Card:
    best, lift, missing = target.best, target.lift, target.missing
    less = any(one.lower_is_better for one in reading.result.metrics if one.primary)
    found = outcome(lift, lower_is_better=less)
    if known(lift.relative):
        number, reach = percent(lift.relative, sign=True), relative_ends(lift)
    elif known(lift.value):
        number = plain(lift.value, lift.stderr, sign=True)
        reach = span(lift.low, lift.high, width(lift), sign=True)
    else:
        number, reach = plain(best.value, best.stderr), span(best.low, best.high, width(best))
    reach = f"{reading.level_words} interval {reach}" if reach else NO_INTERVAL
    return Card(
        mark=target.mark,
        number="not estimable" if missing else number,
        interval="" if missing else reach,
        labels=[
            *([] if missing else [Chip(RESULTS[found], found, "Result")]),
            Chip(target.evidence or "not judged", target.evidence, "Measurement"),
        ],
        sentence=sentence_of(reading, target),
        cause=_cause(reading, target),
        advice=_advice(reading, target),
        above="best guess" if target.doubtful and not missing else "",
        level=target.evidence or "unknown",
    )


def sentence_of(reading: Reading, target: Target) -> str:
    """Return the answer for one target in one sentence, in units of the reward."""
    lift, name = target.lift, target.name
    if target.missing:
        return f"What {name} would earn is not estimable from this log: {target.missing}."
    if not known(lift.value):
        return f"{name} would earn {plain(target.best.value, target.best.stderr)} {reading.unit}."
    if no_difference(lift):
        return (
            f"This log shows no difference at all between {name} and {reading.baseline}: "
            "all weights are one, or all rewards are the same."
        )
    size = plain(abs(lift.value), width(lift))
    than = "today" if reading.over_logger else reading.baseline
    less = "less" if reading.reward == "reward" else "fewer"
    change = f"{size} {reading.unit} {'more' if lift.value >= 0 else less} than {than}"
    if not size.strip("0."):
        change = f"about as much as {than}"
    if target.doubtful:
        return f"This log cannot tell what {name} would earn. The best guess is {change}."
    if outcome(lift) == "unclear":
        return f"{name} may earn {change}; the interval includes no change."
    would = "would probably earn" if target.evidence == "directional" else "would earn"
    return f"{name} {would} {change}."


def _cause(reading: Reading, target: Target) -> str:
    """Return the first thing that keeps the measurement from being reliable."""
    if target.evidence == "reliable" or reading.failed:
        return ""
    doubts = causes_first(target.reasons)
    return sentence(doubts[0].text) if doubts else ""


def _advice(reading: Reading, target: Target) -> tuple[str, ...]:
    """Return what would change the label; nothing where the log has to be mended first."""
    if reading.failed or no_difference(target.lift):
        return ()
    found = list(what_would_help(target.reasons))
    if target.doubtful:
        found.append("an A/B test would settle it without weights")
    return tuple(map(sentence, found[:MOST_REMEDIES]))


def no_difference(lift: Number) -> bool:
    """Return whether a lift is zero with an interval of zero width, up to rounding."""
    return all(abs(one) < 1e-12 for one in (lift.value, lift.low, lift.high))


def logged(reading: Reading) -> str:
    """Return what the log is and what the logging policy earned."""
    log = reading.log
    most = "up to " if log.shorter else ""
    size = f"{counted(log.n, reading.ranking)} of {most}{counted(log.K, 'position')}"
    if not known(log.value):
        return f"From {size}."
    return f"From {size}; {reading.logger} earned {plain(log.value, log.stderr)} {reading.unit}."


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


def metrics(reading: Reading) -> list[Block]:
    """Return a row for each metric with a column for each policy, and the guardrails."""
    return section("Metrics", "metrics", _scorecard(reading), _guardrails(reading))


def _named(reading: Reading) -> list[tuple[str, str, MetricResult]]:
    """Return every metric with its name and unit in words, the primary first."""
    reward, ranking = reading.reward, reading.ranking
    return [
        (
            reward if one.primary else one.name,
            f"per {ranking}" if one.unit == "per ranking" else one.unit,
            one,
        )
        for one in sorted(reading.result.metrics, key=lambda one: not one.primary)
    ]


def _scorecard(reading: Reading) -> Table:
    named, result = _named(reading), reading.result
    names = [target.name for target in reading.candidates]
    lifts = [one.estimate(name).lift for _, _, one in named for name in names]
    ends = [v for one in lifts for v in (one.relative_low, one.relative_high) if known(v)]
    # An interval of several hundred per cent would leave the others without length.
    scale = around([min(max(v, -1.0), 1.0) * 100 for v in ends], also=[0.0])
    rows = []
    for name, unit, one in named:
        told = f"{name} (primary)" if one.primary and len(named) > 1 else name
        base = one.value if reading.over_logger else one.estimate(result.baseline).value
        cells = (_cell(one, target, scale) for target in reading.candidates)
        rows.append((told, f"{plain(base, one.stderr)} {unit}", *cells))
    signs = ", ".join(f"{SIGNS[found]} {words}" for found, words in RESULTS.items())
    # One metric over the logger is what the table of estimates says already.
    several = len(named) > 1 or result.guardrails or not reading.over_logger
    return Table(
        f"Lift over {reading.baseline}: {signs}", ("metric", reading.baseline, *names),
        rows, detail=BRIEF if several else VERBOSE,
    )  # fmt: skip


def _cell(metric: MetricResult, target: Target, scale: AxisScale) -> Meter | str:
    one = metric.estimate(target.name)
    lift, none = one.lift, bool(one.not_estimable)
    grade = "insufficient" if none else metric.verdict.of(target.name)
    if none or not known(lift.value):
        return f"not estimable, {grade}"
    relative = known(lift.relative_low)
    row = interval_row(target.name, lift, target.mark, relative=relative)
    sign = SIGNS[outcome(lift, lower_is_better=metric.lower_is_better)]
    found = Meter(replace(row, shown=f"{sign} {row.shown}", note=f"{row.reach}, {grade}"), scale)
    return found if relative else str(found)


def _guardrails(reading: Reading) -> Table:
    """Return a row for each guardrail and policy; groups of one guardrail share a row."""
    rows = []
    every = reading.result.guardrails
    for (target, _), members in groupby(every, key=lambda one: (one.target, one.expression)):
        rails = list(members)
        worst = min(rails, key=lambda one: ("broken", "open", "safe").index(one.status))
        where = f" in {worst.group}" if worst.column else ""
        name = (
            f"{worst.metric} by {column_name(worst.column)}: {_groups(rails)}"
            if worst.column
            else worst.metric
        )
        reach = _reach(worst) + where
        rows.append(
            (target, name, limit_of(worst), reach, Chip(worst.status, worst.status), worst.evidence)
        )
    head = ("policy", "metric", "limit", "interval", "status", "measurement")
    return Table(
        "Guardrails (intervals hold for all guardrails of a policy together)",
        head,
        rows,
        texts=2,
        minor=(5,),
        detail=BRIEF,
    )


def _reach(rail: GuardrailResult) -> str:
    if not known(rail.low):
        return NONE
    if rail.relative:
        return percents(rail.low, rail.high)
    return span(rail.low, rail.high, (rail.high - rail.low) / 4, sign=True)


def _groups(rails: Sequence[GuardrailResult]) -> str:
    """Return how many groups are safe, and the names of those that are not."""
    others = [rail for rail in rails if rail.status != "safe"]
    total = counted(len(rails), column_name(rails[0].column))
    told = f"{len(rails) - len(others)} of {total} safe"
    return (
        told
        + "".join(f"; {rail.group} {rail.status}" for rail in others[:4])
        + ("; …" if others[4:] else "")
    )


def lifts(reading: Reading) -> Figure:
    """Return the lift of every policy in every metric, in per cent where that means something.

    With several metrics, thin bars are intervals that hold for all of them together.
    """
    named, rows = _named(reading), list[Row]()
    several, practical = len(named) > 1, reading.result.provenance.options.get("practical")
    shares = several or all(known(one.lift.relative_low) for one in reading.candidates)
    for target in reading.candidates:
        rows += [Row(label=target.name, heading=True)] if several else []
        for name, unit, one in named:
            lift, grade = one.estimate(target.name).lift, one.verdict.of(target.name)
            wide = (lift.adjusted_relative_low, lift.adjusted_relative_high)
            low, high = (100 * end if known(end) else math.nan for end in wide)
            rows.append(
                interval_row(
                    name if several else target.name, lift, target.mark, relative=shares, more=[grade],
                    note="primary" if several and one.primary else unit, outer=(low, high),
                    faded=grade == "insufficient",
                )
            )  # fmt: skip
    aid, lines = f"Bars are {reading.level_words} intervals.", list(NO_CHANGE)
    if several:
        aid += " Thin ones hold for all metrics together. Dashed: insufficient evidence."
    if shares and known(practical):
        aid += (
            f" Between the dashed lines lifts are below {percent(practical)}, too small to matter."
        )
        lines += [(100 * practical, ""), (-100 * practical, "")]
    return Figure(
        "lifts", rows, "lift in %" if shares else f"lift in {reading.unit}", "Lifts of all policies", lines,
        f"Lift over {reading.baseline}", aid,
    )  # fmt: skip


def reading_of(reading: Reading, metric: MetricResult) -> Reading:
    """Return the evaluation as if a metric were its only one."""
    result = reading.result
    log = replace(result.log, value=metric.value, stderr=metric.stderr,
                  words={**result.log.words, "reward": metric.name})  # fmt: skip
    return Reading(
        replace(
            result, log=log, estimates=metric.estimates, recommended=metric.recommended,
            segments=metric.segments, comparisons=metric.comparisons, verdict=metric.verdict,
            sensitivity={}, planning={},
        )
    )  # fmt: skip
