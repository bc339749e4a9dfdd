"""Plain sentences: what was found, how sure it is, what would settle it.

And the cards at the top of the page, where outcome and evidence stand side by side and are never
mixed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from counterrank.evaluation import what_would_help
from counterrank.report.numbers import count, known, percent, plain, roughly, short, span
from counterrank.report.parts import key, style_of
from counterrank.report.reading import Interval, Reading, ends
from counterrank.texts import sentence

if TYPE_CHECKING:
    from counterrank.estimators import Lift
    from counterrank.evaluation import Comparison, OrderPoint, SamplePlan

EVIDENCE = {
    "reliable": ("Reliable", "Intervals and checks can be taken at face value."),
    "directional": (
        "Directional",
        "Trust the direction more than the size; some checks raised doubts.",
    ),
    "insufficient": (
        "Insufficient",
        "This log cannot answer the question; treat the numbers as a guess.",
    ),
}

#: Never colour alone: each level has its own sign.
SIGNS = {"reliable": "●", "directional": "◐", "insufficient": "○"}

NO_INTERVAL = "these rows give no interval"


def outcome(lift: Interval) -> str:
    """Return "better", "worse" or "unclear": where the whole interval of the lift lies."""
    return "better" if lift.low > 0 else "worse" if lift.high < 0 else "unclear"


def answer(reading: Reading, target: str, *, absolute: bool = False) -> str:
    """Return the answer for one target in one sentence; `absolute` where the share stands beside it already."""
    lift = reading.lift(target)
    best = reading.best(target)
    reward, ranking = reading.words()
    if reason := reading.not_estimable(target):
        return f"What {target} would earn is not estimable from this log: {reason}."
    if not known(lift.value):
        value = plain(best.value, best.stderr)
        return f"Under {target}, a {ranking} would earn {value} {reward} ({interval_of(reading, best)})."
    # Without a share the lift itself stands beside the sentence, with its interval.
    beside = absolute and not known(lift.relative)
    ends = interval_of(reading, lift, sign=True) if absolute else _relative(reading, lift)
    bracket = "" if beside else f" ({ends})"
    if no_difference(lift):
        return (
            f"This log shows no difference at all between {target} and {reading.baseline_words}: "
            "all weights are one, or all rewards are the same."
        )
    if reading.evidence(target) == "insufficient":
        return (
            f"This log cannot tell what {target} would earn. The best guess is "
            f"{_change(reading, lift)} per {ranking}{bracket}."
        )
    found, than = outcome(lift), than_words(reading)
    if found == "unclear":
        return (
            f"Under {target}, a {ranking} might earn {_change(reading, lift)} than {than}, but no "
            f"change at all is just as plausible{bracket}."
        )
    would = "would probably earn" if reading.evidence(target) == "directional" else "would earn"
    return f"Under {target}, a {ranking} {would} {_change(reading, lift)} than {than}{bracket}."


def than_words(reading: Reading) -> str:
    """Return what a target is better or worse than."""
    return "today" if reading.over_logger else f"under {reading.result.baseline}"


def margin(reading: Reading, target: str) -> str:
    """Return how wrong the logged propensities may be before the sign of the lift flips; nothing where unknown."""
    found = reading.result.sensitivity.get(target)
    unclear = outcome(reading.lift(target)) == "unclear"
    if found is None or unclear or reading.evidence(target) == "insufficient":
        return ""
    turn = found.sign_changes_at
    if turn is None or turn <= 1:
        return ""
    return f"The sign holds until propensities are wrong by a factor of {short(turn)}."


def no_difference(lift: Interval) -> bool:
    """Return whether a lift is zero with an interval of zero width, up to rounding."""
    return all(abs(one) < 1e-12 for one in (lift.value, lift.low, lift.high))


def _change(reading: Reading, lift: Interval) -> str:
    word = "more" if lift.value >= 0 else "less" if reading.words()[0] == "reward" else "fewer"
    return f"{plain(abs(lift.value), lift.stderr)} {reading.words()[0]} {word}"


def _relative(reading: Reading, lift: "Lift") -> str:
    if not known(lift.relative):
        return interval_of(reading, lift, sign=True)
    ends = relative_ends(lift)
    return f"{percent(lift.relative, sign=True)}{',' if ends else ';'} {interval(reading, ends)}"


def relative_ends(lift: "Lift") -> str:
    """Return both ends of a lift's interval in per cent; nothing when there is none or it has no width."""
    low, high = ends(lift.relative_low, lift.relative_high) or (0.0, 0.0)
    return "" if low == high else f"{percent(low, sign=True)} to {percent(high, sign=True)}"


def interval_of(reading: Reading, row: Interval, *, sign: bool = False) -> str:
    """Return the interval of a value or a lift, with its level."""
    return interval(reading, span(row.low, row.high, row.stderr, sign=sign))


def interval(reading: Reading, ends: str) -> str:
    """Return an interval with its level, or that there is none."""
    return f"{level(reading)} interval {ends}" if ends else NO_INTERVAL


def level(reading: Reading) -> str:
    """Return the confidence level as text."""
    return percent(reading.level, digits=0 if round(reading.level * 100, 6) % 1 == 0 else 1)


def logged(reading: Reading) -> str:
    """Return what the log is and what the logging policy earned."""
    reward, ranking = reading.words()
    log = reading.log
    size = f"{_counted(log.n, ranking)} of {_counted(log.K, 'position')}"
    if not known(log.value):
        return f"From {size}."
    today = plain(log.value, log.stderr)
    return f"From {size}; {reading.logger_words} earned {today} {reward} per {ranking}."


def _counted(number: int, word: str) -> str:
    return f"{count(number)} {word}" if number == 1 else f"{count(number)} {word}s"


def evidence(level_name: str) -> str:
    """Return the meaning of an evidence level.

    >>> evidence("reliable")
    'Intervals and checks can be taken at face value.'
    """
    return EVIDENCE[level_name][1] if level_name in EVIDENCE else "No verdict was made."


def settle(reading: Reading, target: str) -> list[str]:
    """Return what would settle the question: advice of the verdict, then rows and an A/B test."""
    if no_difference(reading.lift(target)):
        return []
    found = [sentence(one) for one in what_would_help(reading.reasons(target))]
    plan = reading.result.planning.get(target)
    level_name = reading.evidence(target)
    if level_name == "insufficient":
        # Plans rest on the estimate's own error, which is what cannot be trusted here.
        return list(dict.fromkeys([*found, "An A/B test would settle it without weights."]))
    if plan and (outcome(reading.lift(target)) == "unclear" or level_name != "reliable"):
        found += _more_data(reading, plan)
    return list(dict.fromkeys(found))


def _more_data(reading: Reading, plan: "SamplePlan") -> list[str]:
    reward, ranking = reading.words()
    found = []
    if known(plan.detectable_relative):
        smallest = percent(plan.detectable_relative)
        found.append(f"This log can detect a lift of about {smallest} or more.")
    elif known(plan.detectable_lift):
        smallest = f"{short(plan.detectable_lift)} {reward}"
        found.append(f"This log can detect a lift of about {smallest} or more.")
    wanted = [row for row in plan.rows_for if row.rows is not None]
    if wanted:
        # Nearest to 2 %: a lift that teams ask about, whichever were planned for.
        row = min(wanted, key=lambda item: abs(item.relative - 0.02))
        needed = f"about {roughly(row.rows)} logged {ranking}s are needed"
        found.append(f"To detect {percent(row.relative, digits=0)}, {needed}.")
    unseen = [row for row in plan.rows_for if row.rows is None]
    bias = plan.allowance_relative
    if unseen and known(bias) and bias > 0:
        found.append(
            f"However many {ranking}s are logged, lifts below about {percent(bias)} stay within the "
            "allowance for bias; more exploration or an A/B test can show them."
        )
    elif unseen:
        largest = max(row.relative for row in unseen)
        found.append(
            f"Lifts of {percent(largest, digits=1)} or less would take over a thousand times as many "
            f"{ranking}s; more exploration or an A/B test can show them."
        )
    if plan.ab_rows is not None:
        found.append(
            f"An A/B test with {roughly(plan.ab_rows)} {ranking}s in total would be as precise "
            "as this log."
        )
    return found


def comparison(reading: Reading, row: "Comparison") -> str:
    """Return which of two targets is better, by how much, and whether that is settled."""
    reward, ranking = reading.words()
    value, error = row.value, row.stderr
    if not known(value):
        return ""
    first, second = row.better, row.than
    if no_difference(row):
        return f"{first} and {second} do not differ at all on this log."
    low, high = row.low, row.high
    # The one that earns more is named first, and the ends of the interval change places.
    if value < 0:
        first, second, value = second, first, -value
        low, high = -high, -low
    verb = "earns" if low > 0 else "may earn"
    interval = (
        f"adjusted {level(reading)} interval {plain(low, error, sign=True)} to "
        f"{plain(high, error, sign=True)}"
    )
    return (
        f"{first} {verb} {plain(value, error)} {reward} per {ranking} more than {second} "
        f"({interval})."
    )


def path(points: "Sequence[OrderPoint]") -> str:
    """Return what an order path says: flat, drifting, or out of data."""
    values = [p for p in points if known(p.low) and known(p.high)]
    if len(values) < 2:
        return ""
    first = values[0]
    apart = [p for p in values[1:] if not p.low <= first.value <= p.high]
    # Four times as wide is a sixteenth of the rows: there the data ends.
    wide = values[-1].high - values[-1].low > 4 * (first.high - first.low)
    if apart:
        text = (
            "Looking at each item alone gives a different answer: how items act on each other "
            "matters here."
        )
    elif wide:
        return (
            "Within the noise, but the intervals open up towards the right: the data ends "
            "before this can be told."
        )
    else:
        text = "No drift beyond the noise: this log shows no sign that items act on each other."
    return text + (" The intervals open up towards the right: there the data ends." if wide else "")


#: By outcome: the sentence about the first to be named, and about those after it.
_PHRASES = {
    "better": ("{names} {beat} {base}", "{names} {are} better"),
    "better?": ("{names} probably {beat} {base}", "{names} {are} probably better"),
    "unclear": (
        "{names} cannot be told apart from {base}",
        "{names} cannot be told apart from it",
    ),
    "worse?": ("{names} probably {do} worse than {base}", "{names} probably {do} worse"),
    "worse": ("{names} {do} worse than {base}", "{names} {do} worse"),
    "unknown": ("this log cannot judge {names}",) * 2,
}
_VERBS = ({"beat": "beats", "are": "is", "do": "does"}, {"beat": "beat", "are": "are", "do": "do"})


def headline(reading: Reading) -> str:
    """Return the title of the page: every target in a few words."""
    groups: dict[str, list[str]] = {}
    for target in reading.candidates:
        groups.setdefault(_kind(reading, target), []).append(target)
    kinds = [kind for kind in _PHRASES if kind in groups]
    found = [
        _PHRASES[kind][min(index, 1)].format(
            names=_listed(groups[kind]),
            base=reading.baseline_words,
            **_VERBS[len(groups[kind]) > 1],
        )
        for index, kind in enumerate(kinds)
    ]
    text = "; ".join(found) or "Evaluation"
    # A policy's name stays as it is; only our own words start with a capital.
    return text[0].upper() + text[1:] if kinds and kinds[0] == "unknown" else text


def _kind(reading: Reading, target: str) -> str:
    level_name = reading.evidence(target)
    if level_name == "insufficient":
        return "unknown"
    found = outcome(reading.lift(target))
    return f"{found}?" if level_name == "directional" and found != "unclear" else found


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


_OUTCOMES = {
    "better": "▲ {hedge}better than {base}",
    "worse": "▼ {hedge}worse than {base}",
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
    """Return a card for each target that is no baseline."""
    return [_card(reading, target) for target in reading.candidates]


def _card(reading: Reading, target: str) -> Card:
    lift = reading.lift(target)
    found, grade = outcome(lift), reading.evidence(target)
    number, ends = _numbers(reading, target)
    return Card(
        target=target, look=style_of(reading, target).look, key=key(reading, target),
        sentence=answer(reading, target, absolute=True), number=number, interval=ends, outcome=found,
        outcome_words=_words(reading, found, grade), level=grade or "unknown",
        level_name=EVIDENCE[grade][0] if grade else "No verdict",
        level_sign=SIGNS.get(grade, "?"), level_meaning=evidence(grade),
        reasons=_reasons(reading, target), settle=tuple(settle(reading, target)),
        margin=margin(reading, target),
    )  # fmt: skip


def _words(reading: Reading, found: str, grade: str) -> str:
    if grade == "insufficient":
        return "? not known from this log"
    base = "today" if reading.over_logger else reading.result.baseline
    hedge = "probably " if grade == "directional" else ""
    return _OUTCOMES[found].format(base=base, hedge=hedge)


def _numbers(reading: Reading, target: str) -> tuple[str, str]:
    lift, best = reading.lift(target), reading.best(target)
    if reading.not_estimable(target):
        return "not estimable", ""
    if known(lift.relative):
        return percent(lift.relative, sign=True), interval(reading, relative_ends(lift))
    signed = known(lift.value)
    row: Interval = lift if signed else best
    return plain(row.value, row.stderr, sign=signed), interval_of(reading, row, sign=signed)


def _reasons(reading: Reading, target: str) -> tuple[tuple[str, str, str], ...]:
    signs = {"pass": "✓", "warn": "!", "fail": "✗"}
    found = [(one.word, signs[one.word], one.text) for one in reading.reasons(target)]
    order = ("fail", "warn", "pass")
    return tuple(sorted(dict.fromkeys(found), key=lambda item: order.index(item[0])))
