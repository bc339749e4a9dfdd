"""The pages of `serve`: the list of results, two side by side, and runs over time beside outcomes."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from counterrank.estimators import Estimate, Lift
from counterrank.evaluation import ABTest, Evaluation, ValidationReport
from counterrank.exploration import ExplorationPlan
from counterrank.learning import LearningReport
from counterrank.report import (
    EVIDENCE,
    SIGNS,
    Axis,
    AxisScale,
    Plot,
    PlotFrame,
    Point,
    Reading,
    Row,
    RowChart,
    Series,
    abtesting,
    around,
    count,
    evaluation,
    figure,
    filled,
    known,
    learning,
    made_with,
    metric_reading,
    percent,
    plain,
    plan,
    relative_ends,
    span,
    style_of,
    table,
    validating,
)
from counterrank.report.reading import Interval
from counterrank.report.serve.store import Entry, MeasuredOutcome

#: Results that are no evaluations: what the list calls each, and the module that shows it.
_OTHERS: dict[type, tuple[str, Any]] = {
    LearningReport: ("learned policy", learning),
    ValidationReport: ("validation", validating),
    ABTest: ("A/B test", abtesting),
    ExplorationPlan: ("plan", plan),
}
#: A line of a template.
Line = dict[str, object]


def listing(
    entries: Sequence[Entry], folder: str, others: Sequence[Entry] = (), older: int = 0
) -> str:
    """Return the page that lists all results, the newest first.

    Evaluations come first, then what was learned, validated, tested and planned.
    """
    evaluations, rest = (sorted(found, key=_age, reverse=True) for found in (entries, others))
    return filled(
        "list.html.j2",
        folder=folder,
        entries=[_entry_line(entry) for entry in evaluations],
        others=[_other_line(entry) for entry in rest],
        older=count(older) if older else "",
    )


def report(entry: Entry) -> str:
    """Return the page of one result, with a way back to the list."""
    if (shown := _OTHERS.get(type(entry.result))) is None:
        return evaluation.page(reading_of(entry).result, back="/")
    page: str = shown[1].page(entry.result, back="/")
    return page


def reading_of(entry: Entry) -> Reading:
    """Return an evaluation to read."""
    assert isinstance(entry.result, Evaluation)
    return Reading(entry.result)


def _age(entry: Entry) -> tuple[datetime, float]:
    return entry.night, entry.modified


def problem(title: str, text: str) -> str:
    """Return a page that says what went wrong."""
    return filled("problem.html.j2", title=title, text=text)


def _entry_line(entry: Entry) -> Line:
    reading = reading_of(entry)
    level = reading.evidence()
    return {
        **_named(entry, level),
        "headline": evaluation.title(reading),
        "size": count(reading.log.n),
        "written": _written(entry),
    }


def _other_line(entry: Entry) -> Line:
    kind, headline = "damaged file", "It cannot be read; write it anew."
    if (shown := _OTHERS.get(type(entry.result))) is not None:
        kind, headline = shown[0], next(iter(shown[1].sentences(entry.result)), "")
    return {
        "name": entry.name,
        "link": _link(entry),
        "kind": kind,
        "headline": headline,
        "written": _written(entry),
    }


def _written(entry: Entry) -> str:
    return entry.written.strftime("%Y-%m-%d %H:%M")


def _named(entry: Entry, level: str) -> dict[str, str]:
    """What every line says: which run, where its report is, how good the evidence."""
    name = EVIDENCE[level][0] if level else "No verdict"
    return {
        "name": entry.name,
        "link": _link(entry),
        "level": level or "unknown",
        "level_name": f"{SIGNS.get(level, '?')} {name}",
    }


def _link(entry: Entry) -> str:
    return f"/report?name={quote(entry.name, safe='')}"


def compare(first: Entry, second: Entry) -> str:
    """Return two evaluations side by side: what changed in each estimate."""
    readings = (reading_of(first), reading_of(second))
    same = same_data(*readings)
    pairs = _pairs(*readings)
    note = (
        "Both used the same data: a difference comes from the method or the options, not from "
        "chance in the log."
        if same
        else "They used different data: errors of both add up in each difference."
    )
    return filled(
        "compare.html.j2",
        title=f"{first.name} and {second.name}",
        names=(first.name, second.name),
        links=[_link(entry) for entry in (first, second)],
        note=note,
        facts=table(("", "A", "B"), _facts(*readings), texts=3),
        differences=table(
            ("target", "estimator", "A", "B", "B − A", "± se", "lift A", "lift B"),
            [_difference(a, b, same=same) for a, b in pairs],
            texts=2,
        ),
        chart=_chart(readings),
        only=_only(*readings),
    )


def same_data(a: Reading, b: Reading) -> bool:
    """Return whether two evaluations saw the same rows."""
    # Rows are the same data whatever targets are evaluated on them.
    return a.log.rows_fingerprint == b.log.rows_fingerprint


def _key(e: Estimate) -> tuple[str, str]:
    return e.target, e.estimator


def _pairs(a: Reading, b: Reading) -> list[tuple[Estimate, Estimate]]:
    others = {_key(e): e for e in b.estimates}
    return [(e, others[_key(e)]) for e in a.estimates if _key(e) in others]


def _only(a: Reading, b: Reading) -> list[str]:
    first, second = {_key(e) for e in a.estimates}, {_key(e) for e in b.estimates}
    return [
        f"Only in {name}: {', '.join('/'.join(key) for key in sorted(extra))}"
        for name, extra in (("A", first - second), ("B", second - first))
        if extra
    ]


def _difference(a: Estimate, b: Estimate, *, same: bool) -> tuple[str, ...]:
    # On the same rows errors are shared, and how far is not in the files: none is claimed.
    both = None if same else math.hypot(a.stderr, b.stderr)
    return (
        *_key(a), plain(a.value, a.stderr), plain(b.value, b.stderr),
        plain(b.value - a.value, a.stderr, sign=True), plain(both, a.stderr),
        *(percent(one.lift.relative, sign=True) for one in (a, b)),
    )  # fmt: skip


def _facts(a: Reading, b: Reading) -> list[tuple[Any, ...]]:
    told: dict[str, Callable[[Reading], Any]] = {
        "rankings": lambda r: count(r.log.n),
        "positions": lambda r: r.log.K,
        "today's policy": lambda r: plain(r.log.value, r.log.stderr),
        "evidence": lambda r: r.evidence() or "–",
        "data": lambda r: r.log.fingerprint,
    }
    return [(name, of(a), of(b)) for name, of in told.items()] + _options(a, b)


def _options(a: Reading, b: Reading) -> list[tuple[str, str, str]]:
    """Return the options and versions that differ."""
    first, second = made_with(a), made_with(b)
    pairs = [(name, first.get(name, "–"), second.get(name, "–")) for name in first | second]
    return [(name, one, other) for name, one, other in pairs if one != other]


def _chart(readings: tuple[Reading, Reading]) -> Markup:
    shown = []
    targets = list(dict.fromkeys(t for r in readings for t in r.targets))
    for target in targets:
        shown.append(Row(label=target, value=None, heading=True))
        for index, (name, reading) in enumerate(zip("AB", readings, strict=True)):
            if target in reading.targets and not reading.not_estimable(target):
                shown.append(_row(name, index, reading.best(target)))
    drawn = RowChart(shown, Axis("value"), "Recommended estimates of both evaluations").svg()
    return figure("Recommended estimates", "Circles: A. Diamonds: B. Bars are intervals.", drawn)


def _row(name: str, index: int, best: Estimate) -> Row:
    low, high = best.interval()
    text = plain(best.value, best.stderr)
    interval = f"{plain(low, best.stderr)} to {plain(high, best.stderr)}"
    return Row(
        label=name, note=f"by {best.estimator}", value=best.value, low=low, high=high, shown=text,
        look=f"t{index}", shape=index, tip=f"{name}, {best.estimator}: {text}\n{interval}",
    )  # fmt: skip


#: Runs at most on a chart; older ones stand in the table.
MOST = 60
#: Runs whose outcomes are counted in the sentence at the top.
RECENT = 12


@dataclass(frozen=True, slots=True)
class Night:
    """One run as seen by one target."""

    entry: Entry
    reading: Reading
    target: str
    outcome: MeasuredOutcome | None
    #: What is counted, and how: "clicks", "per ranking".
    metric: str = ""
    unit: str = ""

    @property
    def best(self) -> Estimate:
        """The recommended estimate."""
        return self.reading.best(self.target)

    @property
    def lift(self) -> Lift:
        """Its lift over what was logged."""
        return self.reading.lift(self.target)


def history(entries: Sequence[Entry], outcomes: Mapping[tuple[str, str], MeasuredOutcome]) -> str:
    """Return the page: a section for each target, its runs from the oldest to the newest."""
    nights: dict[tuple[str, str], list[Night]] = {}
    for entry in sorted(entries, key=_age):
        for night in _by_metric(entry, outcomes):
            nights.setdefault((night.target, night.metric), []).append(night)
    # A target's name is enough where there is one metric of it.
    metrics = Counter(target for target, _ in nights)
    return filled(
        "history.html.j2",
        sections=[
            _section(target if metrics[target] == 1 else f"{target} · {metric}", runs)
            for (target, metric), runs in nights.items()
        ],
    )


def _by_metric(
    entry: Entry, outcomes: Mapping[tuple[str, str], MeasuredOutcome]
) -> Iterator[Night]:
    """Yield a run as each of its targets and metrics sees it; an outcome is that of the primary."""
    whole = reading_of(entry)
    found = whole.result.metrics if len(whole.result.metrics) > 1 else ()
    for target in whole.candidates:
        outcome = outcomes.get((entry.name, target))
        if not found:
            yield Night(entry, whole, target, outcome, whole.words()[0], f"per {whole.words()[1]}")
        for metric in found:
            own = whole if metric.primary else metric_reading(whole, metric)
            yield Night(
                entry, own, target, outcome if metric.primary else None, metric.name, metric.unit
            )


def _section(title: str, runs: Sequence[Night]) -> Line:
    before: list[Night | None] = [None, *runs[:-1]]
    lines = [_night_line(night, last) for night, last in zip(runs, before, strict=True)]
    return {
        "target": title,
        "held": held(runs),
        "chart": _lifts(title, runs[-MOST:])
        + _outcomes(title, [r for r in runs if r.outcome is not None][-MOST:]),
        "lines": lines[::-1],
    }


def held(runs: Sequence[Night]) -> str:
    """Return how many of the last intervals held where an outcome is known; nothing where none is."""
    judged = [
        found
        for night in runs
        if night.outcome and (found := night.outcome.held(night.best)) is not None
    ]
    # The last ones: a method that was mended is judged by what it does now.
    recent = judged[-RECENT:]
    if not recent:
        return ""
    good = sum(recent)
    if len(recent) == 1:
        return f"The one interval whose outcome is known {'held' if good else 'did not hold'}."
    return f"{good} of the last {len(recent)} intervals held, of those with a known outcome."


def _night_line(night: Night, last: Night | None) -> Line:
    level = night.reading.evidence(night.target)
    lift, outcome, earned, verdict = night.lift, night.outcome, "", None
    # Lift and interval in one unit: shares where there are some.
    change, ends = percent(lift.relative, sign=True), relative_ends(lift)
    if not ends:
        change = plain(lift.value, lift.stderr, sign=True)
        ends = span(lift.low, lift.high, lift.stderr, sign=True)
    if outcome is not None:
        earned = plain(outcome.earned, outcome.stderr or night.best.stderr)
        verdict = outcome.held(night.best)
    return {
        **_named(night.entry, level),
        "night": night.entry.night.strftime("%Y-%m-%d"),
        "lift": change,
        "interval": ends,
        "earned": earned,
        "held": "" if verdict is None else "held" if verdict else "did not hold",
        "changes": [] if last is None else changes(last, night),
    }


def changes(last: Night, night: Night) -> list[str]:
    """Return what is different from the run before, in words: what a person would ask first."""
    found = _differences("evidence", last, night, lambda one: one.reading.evidence(one.target))
    if same_data(last.reading, night.reading):
        found.append("the same rows as before")
    before, now = (one.reading.log.n for one in (last, night))
    # A quarter more or less is an ordinary night.
    if before and not 0.8 <= now / before <= 1.25:
        found.append(f"{count(before)} → {count(now)} rankings")
    found += _differences("estimator", last, night, lambda one: one.best.estimator)
    found += _differences(
        "counterrank", last, night, lambda one: one.reading.result.provenance.counterrank
    )
    if _apart(last.lift, night.lift):
        found.append("the lift left the interval of the run before")
    return found


def _differences(what: str, last: Night, night: Night, of: Callable[[Night], Any]) -> list[str]:
    before, now = (str(of(one) or "none") for one in (last, night))
    return [] if before == now else [f"{what} {before} → {now}"]


def _apart(before: Interval, now: Interval) -> bool:
    return now.value < before.low or now.value > before.high


def _lifts(title: str, runs: Sequence[Night]) -> Markup:
    points, doubtful = [], []
    target = runs[-1].target
    style = style_of(runs[-1].reading, target)
    for place, night in enumerate(runs):
        lift = night.lift
        if known(lift.value):
            low, high = _ends(lift)
            error = lift.stderr
            words = f"{night.entry.name}\nlift {plain(lift.value, error, sign=True)}"
            words += f"\n{span(low, high, error, sign=True)}" if low is not None else ""
            evidence = night.reading.evidence(target)
            words += f"\n{evidence}" if evidence else ""
            points.append(Point(float(place), lift.value, low, high, words))
            doubtful += points[-1:] if evidence != "reliable" else []
    values = [value for p in points for value in (p.y, p.low, p.high)]
    frame = PlotFrame(
        x=AxisScale(-0.5, max(len(runs) - 0.5, 0.5)),
        y=around(values, also=[0.0]),
        x_title="run",
        y_title=f"lift in {runs[-1].metric} {runs[-1].unit}",
        lines=[(0.0, "no change")],
        signed=True,
        x_ticks=_days(runs),
    )
    series = [
        Series(points=points, look=style.look, shape=style.shape, whiskers=True),
        Series(points=doubtful, look=f"{style.look} hollow", shape=style.shape, joined=False),
    ]
    drawn = Plot(series, frame, f"Lift of {title} over time").svg()
    aid = "Each mark is a run, each bar its interval; hollow where the evidence is not reliable."
    return figure(f"Lift of {title}, run by run", aid, drawn)


def _outcomes(title: str, runs: Sequence[Night]) -> Markup:
    predicted, earned = [], []
    for place, night in enumerate(runs):
        best, outcome = night.best, night.outcome
        if outcome is None or not known(best.value):
            continue
        low, high = _ends(best)
        error = best.stderr
        words = (
            f"{night.entry.name}\npredicted {plain(best.value, error)}\nearned "
            f"{plain(outcome.earned, error)}"
        )
        # Side by side: whiskers at one place would hide each other.
        predicted.append(Point(place - 0.08, best.value, low, high, words))
        reach = night.reading.reach(outcome.stderr)
        ends = (outcome.earned - reach, outcome.earned + reach)
        earned.append(Point(place + 0.08, outcome.earned, *ends, words))
    values = [value for p in (*predicted, *earned) for value in (p.y, p.low, p.high)]
    frame = PlotFrame(
        x=AxisScale(-0.5, max(len(runs) - 0.5, 0.5)),
        y=around(values),
        x_title="run",
        y_title=f"{runs[-1].metric} {runs[-1].unit}" if runs else "",
        x_ticks=_days(runs),
    )
    if not predicted:
        return Markup("")
    # As in the report: a policy in its own colour, what was measured in grey squares.
    style = style_of(runs[-1].reading, runs[-1].target)
    series = [
        Series(points=predicted, look=style.look, shape=style.shape, joined=False, whiskers=True),
        Series(points=earned, look="today", shape=2, joined=False, whiskers=True),
    ]
    names = ["predicted", "earned in the A/B test"]
    drawn = Plot(series, frame, f"Predicted and earned, {title}", names)
    aid = "An interval holds if the outcome lies within it, both errors considered."
    return figure(f"{title}: predicted and earned", aid, drawn.legend() + drawn.svg())


def _ends(row: Interval) -> tuple[float | None, float | None]:
    low, high = (end if known(end) else None for end in (row.low, row.high))
    return low, high


def _days(runs: Sequence[Night]) -> list[tuple[float, str]]:
    stride = max(1, (len(runs) + 5) // 6)
    days = [(float(i), night.entry.night.strftime("%b %d")) for i, night in enumerate(runs)]
    return days[::stride]
