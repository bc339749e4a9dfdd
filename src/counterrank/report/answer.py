"""The answer: a headline by action, and a card for each policy, in which result and measurement never mix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from counterrank.evaluation import causes_first, what_would_help
from counterrank.report.document import BRIEF, Block, Card, Chip, Paragraph, Scorecard
from counterrank.report.numbers import count, known, percent, plain, span
from counterrank.report.reading import Interval, Reading, column_name, ends
from counterrank.texts import sentence, without_options

if TYPE_CHECKING:
    from counterrank.estimators import Lift
    from counterrank.evaluation import Comparison, GuardrailResult
    from counterrank.findings import Finding

NO_INTERVAL = "these rows give no interval"
#: Remedies on a card at most.
MOST_REMEDIES = 2


def answer(reading: Reading) -> list[Block]:
    """Return what was logged, which guardrails stop a policy, and a card for each policy."""
    blocks: list[Block] = []
    if failed := reading.result.audit.failed:
        blocks += [Paragraph(line, "strong", detail=BRIEF) for line in _fix(failed)]
    blocks += [Paragraph(line, detail=BRIEF) for line in _guardrail_reasons(reading)]
    blocks.append(Paragraph(logged(reading), "lead", detail=BRIEF))
    blocks.append(
        Scorecard([_card(reading, target) for target in reading.candidates], detail=BRIEF)
    )
    return blocks


#: What is wrong with a log, by words in the codes of its checks; the last is for all others.
_WRONG = (
    (("propens", "weight", "probab", "score", "candidate", "calibr", "explor", "rounding", "consist"),
     "The propensities look wrong"),
    (("reward", "click", "event", "unit", "drift"), "The rewards look wrong"),
    (("",), "The log looks wrong"),
)  # fmt: skip


def headline(reading: Reading) -> str:
    """Return what to do about every policy, grouped by action; a log that failed its audit comes first."""
    if failed := reading.result.audit.failed:
        code = failed[0].code
        wrong = next(words for parts, words in _WRONG if any(part in code for part in parts))
        return f"{wrong}: fix this first"
    groups: dict[str, list[str]] = {}
    for target in reading.candidates:
        groups.setdefault(reading.action(target), []).append(target)
    best = reading.result.decision.target
    ship = sorted(groups.get("ship", ()), key=lambda name: name != best)
    told = [f"Ship {ship[0]}."] if ship else []
    told += [f"{listed(ship[1:], 'and')} could be shipped too."] if ship[1:] else []
    told += [f"Test {listed(groups['test'], 'and')}."] if groups.get("test") else []
    told += [f"Do not ship {listed(groups['hold'], 'or')}."] if groups.get("hold") else []
    return " ".join(told) or "Evaluation"


def listed(names: Sequence[str], word: str) -> str:
    """Return names as people list them.

    >>> listed(["a", "b", "c"], "or")
    'a, b or c'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {word} {names[-1]}"


def _fix(failed: Sequence[Finding]) -> list[str]:
    """Return the first cause with its remedy; nothing else helps before that is mended."""
    # The one that names its rows says best where to look.
    one = min(failed, key=lambda finding: not finding.where)
    rest = len(failed) - 1
    more = f" {rest} more check{'s' * (rest > 1)} failed, see below." if rest else ""
    return [
        " ".join(
            [
                sentence(one.text),
                *(sentence(text) for text in (one.cause, without_options(one.help)) if text),
            ]
        )
        + more
    ]


def _guardrail_reasons(reading: Reading) -> list[str]:
    """Return which guardrails stop a policy; the primary's reasons stand on its card."""
    lines = []
    for target in reading.candidates:
        for status, words in (("broken", "breaks"), ("open", "may break")):
            rows = (
                one
                for one in reading.result.guardrails
                if (one.target, one.status) == (target, status)
            )
            names = list(dict.fromkeys(_limit_words(one) for one in rows))
            if names and (status == "broken" or reading.action(target) == "test"):
                lines.append(f"{target} {words} the limit of {listed(names, 'and')}.")
    return lines


def _limit_words(rail: GuardrailResult) -> str:
    by = f" by {column_name(rail.column)}" if rail.column else ""
    return f"{rail.metric}{by} ({limit_of(rail)})"


def limit_of(rail: GuardrailResult) -> str:
    """Return the limit of a guardrail as people write it."""
    sign = "≤" if "<=" in rail.expression or "≤" in rail.expression else "≥"
    shown = percent(rail.limit, sign=True) if rail.relative else f"{plain(rail.limit)} {rail.unit}"
    return f"{sign} {shown}"


def outcome(lift: Interval, *, lower_is_better: bool = False) -> str:
    """Return "better", "worse" or "unclear": where the whole interval of the lift lies."""
    low, high = (-lift.high, -lift.low) if lower_is_better else (lift.low, lift.high)
    return "better" if low > 0 else "worse" if high < 0 else "unclear"


RESULTS = {"better": "better", "worse": "worse", "unclear": "no clear difference"}


def labels(found: str, grade: str) -> tuple[Chip, Chip]:
    """Return the two labels of a lift: what came out, and how well it was measured."""
    return (
        Chip(RESULTS[found], found, "Result"),
        Chip(grade or "not judged", grade, "Measurement"),
    )


def _card(reading: Reading, target: str) -> Card:
    lift, grade = reading.lift(target), reading.evidence(target)
    found = outcome(lift, lower_is_better=reading.lower_is_better)
    number, interval_text = _numbers(reading, target)
    guess = grade == "insufficient" and not reading.not_estimable(target)
    return Card(
        mark=reading.mark(target),
        number=number,
        interval=interval_text,
        labels=labels(found, grade),
        sentence=sentence_of(reading, target),
        cause=_cause(reading, target),
        advice=_advice(reading, target),
        above="best guess" if guess else "",
        level=grade or "unknown",
    )


def _numbers(reading: Reading, target: str) -> tuple[str, str]:
    lift, best = reading.lift(target), reading.best(target)
    if reading.not_estimable(target):
        return "not estimable", ""
    if known(lift.relative):
        return percent(lift.relative, sign=True), interval(reading, relative_ends(lift))
    signed = known(lift.value)
    row: Interval = lift if signed else best
    return plain(row.value, row.stderr, sign=signed), interval_of(reading, row, sign=signed)


def sentence_of(reading: Reading, target: str) -> str:
    """Return the answer for one target in one sentence, in units of the reward."""
    lift, best = reading.lift(target), reading.best(target)
    reward, ranking = reading.words()
    if reason := reading.not_estimable(target):
        return f"What {target} would earn is not estimable from this log: {reason}."
    if not known(lift.value):
        return f"{target} would earn {plain(best.value, best.stderr)} {reward} per {ranking}."
    if no_difference(lift):
        return (
            f"This log shows no difference at all between {target} and {reading.baseline_words}: "
            "all weights are one, or all rewards are the same."
        )
    change = f"{plain(abs(lift.value), width(lift))} {reward}"
    less = "less" if reward == "reward" else "fewer"
    change = f"{change} per {ranking} {'more' if lift.value >= 0 else less}"
    if reading.evidence(target) == "insufficient":
        return f"This log cannot tell what {target} would earn. The best guess is {change}."
    than = "today" if reading.over_logger else reading.result.baseline
    if outcome(lift) == "unclear":
        return f"{target} may earn {change} than {than}; the interval includes no change."
    would = "would probably earn" if reading.evidence(target) == "directional" else "would earn"
    return f"{target} {would} {change} than {than}."


def _cause(reading: Reading, target: str) -> str:
    """Return the first thing that keeps the measurement from being reliable."""
    if reading.evidence(target) == "reliable" or reading.result.audit.failed:
        return ""
    doubts = causes_first(reading.reasons(target))
    return sentence(doubts[0].text) if doubts else ""


def _advice(reading: Reading, target: str) -> tuple[str, ...]:
    """Return what would change the label; nothing where the log has to be mended first."""
    if reading.result.audit.failed or no_difference(reading.lift(target)):
        return ()
    found = list(what_would_help(reading.reasons(target)))
    if reading.evidence(target) == "insufficient":
        found.append("an A/B test would settle it without weights")
    return tuple(map(sentence, found[:MOST_REMEDIES]))


def no_difference(lift: Interval) -> bool:
    """Return whether a lift is zero with an interval of zero width, up to rounding."""
    return all(abs(one) < 1e-12 for one in (lift.value, lift.low, lift.high))


def width(row: Interval) -> float:
    """Return a quarter of an interval's length, the error whose digits its numbers have.

    That is the standard error where the interval is that of a standard error, and more where it
    allows for bias.
    """
    both = ends(row.low, row.high)
    return max((both[1] - both[0]) / 4, row.stderr) if both and known(row.stderr) else row.stderr


def relative_ends(lift: Lift) -> str:
    """Return both ends of a lift's interval in per cent; nothing when there is none or it has no width."""
    low, high = ends(lift.relative_low, lift.relative_high) or (0.0, 0.0)
    return "" if low == high else f"{percent(low, sign=True)} to {percent(high, sign=True)}"


def interval_of(reading: Reading, row: Interval, *, sign: bool = False) -> str:
    """Return the interval of a value or a lift, with its level."""
    return interval(reading, span(row.low, row.high, width(row), sign=sign))


def interval(reading: Reading, text: str) -> str:
    """Return an interval with its level, or that there is none."""
    return f"{level(reading)} interval {text}" if text else NO_INTERVAL


def level(reading: Reading) -> str:
    """Return the confidence level as text."""
    return percent(reading.level, digits=0 if round(reading.level * 100, 6) % 1 == 0 else 1)


def logged(reading: Reading) -> str:
    """Return what the log is and what the logging policy earned."""
    reward, ranking = reading.words()
    log = reading.log
    size = f"{counted(log.n, ranking)} of {counted(log.K, 'position')}"
    if not known(log.value):
        return f"From {size}."
    today = plain(log.value, log.stderr)
    return f"From {size}; {reading.logger_words} earned {today} {reward} per {ranking}."


def counted(number: int, word: str) -> str:
    """Return a number of things.

    >>> counted(1, "country"), counted(4, "country"), counted(2, "page")
    ('1 country', '4 countries', '2 pages')
    """
    many = f"{word[:-1]}ies" if word.endswith("y") and word[-2:-1] not in "aeiou" else f"{word}s"
    return f"{count(number)} {word if number == 1 else many}"


def comparison(reading: Reading, row: Comparison) -> str:
    """Return which of two targets is better, by how much, and whether that is settled."""
    reward, ranking = reading.words()
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
        f"{first} {'earns' if low > 0 else 'may earn'} {plain(value, error)} {reward} per {ranking} more than "
        f"{second} (adjusted {level(reading)} interval {span(low, high, error, sign=True)})."
    )
