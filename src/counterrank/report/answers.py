"""The top of the page: one card a target, the outcome and the evidence side by side and never
mixed.
"""

from dataclasses import dataclass

from markupsafe import Markup

from counterrank.report import sentences
from counterrank.report.numbers import known, percent, plain, span
from counterrank.report.reading import Reading
from counterrank.report.sections.parts import key, style_of

WORDS = {
    "better": "▲ better than today",
    "worse": "▼ worse than today",
    "unclear": "◆ no clear difference",
}


@dataclass(frozen=True, slots=True)
class Card:
    """What is said about one target."""

    target: str
    look: str
    key: Markup
    sentence: str
    number: str
    interval: str
    outcome: str
    outcome_words: str
    level: str
    level_name: str
    level_sign: str
    level_meaning: str
    reasons: tuple[tuple[str, str, str], ...]
    settle: tuple[str, ...]
    #: How wrong propensities may be before the sign flips.
    margin: str


def cards(reading: Reading) -> list[Card]:
    """Return a card for each target."""
    return [_card(reading, target) for target in reading.targets]


def _card(reading: Reading, target: str) -> Card:
    lift = reading.lift(target)
    outcome = sentences.outcome(lift)
    level = reading.evidence(target)
    number, interval = _numbers(reading, target)
    words = _words(outcome, level)
    return Card(
        target=target, look=style_of(reading, target).look, key=key(reading, target),
        sentence=sentences.answer(reading, target, absolute=True), number=number, interval=interval, outcome=outcome,
        outcome_words=words if lift else "", level=level or "unknown",
        level_name=sentences.EVIDENCE[level][0] if level else "No verdict",
        level_sign=sentences.SIGNS.get(level, "?"), level_meaning=sentences.evidence(level),
        reasons=_reasons(reading, target), settle=tuple(sentences.settle(reading, target)),
        margin=sentences.margin(reading, target),
    )  # fmt: skip


def _words(outcome: str, level: str) -> str:
    if level == "insufficient":
        return "? not known from this log"
    hedge = level == "directional" and outcome != "unclear"
    return WORDS[outcome].replace(" ", " probably ", 1) if hedge else WORDS[outcome]


def _numbers(reading: Reading, target: str) -> tuple[str, str]:
    lift, best = reading.lift(target), reading.best(target)
    if reading.not_estimable(target):
        return "not estimable", ""
    if known(lift.get("relative")):
        return percent(lift["relative"], sign=True), sentences.interval(
            reading, sentences.relative_ends(lift)
        )
    if known(lift.get("value")):
        ends = span(lift.get("low"), lift.get("high"), lift.get("stderr"), sign=True)
        return plain(lift["value"], lift.get("stderr"), sign=True), sentences.interval(
            reading, ends
        )
    ends = span(best.get("low"), best.get("high"), best.get("stderr"))
    return plain(best.get("value"), best.get("stderr")), sentences.interval(reading, ends)


def _reasons(reading: Reading, target: str) -> tuple[tuple[str, str, str], ...]:
    signs = {"pass": "✓", "warn": "!", "fail": "✗"}
    found = []
    for reason in reading.reasons(target):
        status = str(reason.get("status") or "warn")
        text = str(reason.get("reason") or reason.get("check") or "")
        found.append((status if status in signs else "warn", signs.get(status, "!"), text))
    order = ("fail", "warn", "pass")
    return tuple(sorted(dict.fromkeys(found), key=lambda item: order.index(item[0])))
