"""Runs over time: lift and verdict night by night, what changed, and predictions beside what was
earned.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from counterrank.report import (
    EVIDENCE,
    SIGNS,
    Frame,
    Plot,
    Point,
    Reading,
    Scale,
    Series,
    around,
    count,
    figure,
    known,
    page,
    percent,
    plain,
    span,
)
from counterrank.serve.outcomes import Outcome
from counterrank.serve.store import Entry

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
    outcome: Outcome | None

    @property
    def best(self) -> Mapping[str, Any]:
        """The recommended estimate."""
        return self.reading.best(self.target)

    @property
    def lift(self) -> Mapping[str, Any]:
        """Its lift over what was logged."""
        return self.reading.lift(self.target)


def shown(entries: Sequence[Entry], outcomes: Mapping[tuple[str, str], Outcome]) -> str:
    """Return the page: a section for each target, its runs from the oldest to the newest."""
    ordered = sorted(entries, key=lambda entry: (entry.night, entry.modified))
    readings = [(entry, Reading(entry.model)) for entry in ordered]
    targets = dict.fromkeys(target for _, reading in readings for target in reading.targets)
    nights = {
        target: [
            Night(entry, reading, target, outcomes.get((entry.name, target)))
            for entry, reading in readings
            if target in reading.targets
        ]
        for target in targets
    }
    return page(
        "history.html.j2", sections=[_section(target, runs) for target, runs in nights.items()]
    )


def _section(target: str, runs: Sequence[Night]) -> dict[str, Any]:
    before: list[Night | None] = [None, *runs[:-1]]
    lines = [_line(night, last) for night, last in zip(runs, before, strict=True)]
    return {
        "target": target,
        "held": held(runs),
        "chart": _lifts(target, runs[-MOST:])
        + _outcomes(target, [r for r in runs if r.outcome is not None][-MOST:]),
        "lines": lines[::-1],
    }


def held(runs: Sequence[Night]) -> str:
    """Return how many of the last intervals held where an outcome is known; nothing where none is."""
    judged = [
        found
        for night in runs
        if night.outcome and (found := night.outcome.held(night.best)) is not None
    ]
    recent = judged[-RECENT:]
    if not recent:
        return ""
    good = sum(recent)
    if len(recent) == 1:
        return f"The one interval whose outcome is known {'held' if good else 'did not hold'}."
    return f"{good} of the last {len(recent)} intervals whose outcome is known held."


def _line(night: Night, last: Night | None) -> dict[str, Any]:
    level = night.reading.evidence(night.target)
    lift, outcome = night.lift, night.outcome
    verdict = None if outcome is None else outcome.held(night.best)
    return {
        "name": night.entry.name,
        "link": f"/report?name={quote(night.entry.name, safe='')}",
        "night": night.entry.night.strftime("%Y-%m-%d"),
        "lift": percent(lift.get("relative"), sign=True),
        "interval": span(lift.get("low"), lift.get("high"), lift.get("stderr"), sign=True),
        "level": level or "unknown",
        "level_name": f"{SIGNS.get(level, '?')} {EVIDENCE[level][0] if level else 'No verdict'}",
        "earned": ""
        if outcome is None
        else plain(outcome.earned, outcome.stderr or night.best.get("stderr")),
        "held": "" if verdict is None else "held" if verdict else "did not hold",
        "changes": [] if last is None else changes(last, night),
    }


def changes(last: Night, night: Night) -> list[str]:
    """Return what is different from the run before, in words: what a person would ask first."""
    found = _differences("evidence", last, night, lambda one: one.reading.evidence(one.target))
    prints = [one.reading.log.get("fingerprint") for one in (last, night)]
    if prints[0] is not None and prints[0] == prints[1]:
        found.append("the same rows as before")
    sizes = [one.reading.log.get("n") for one in (last, night)]
    if all(map(known, sizes)) and sizes[0] and not 0.8 <= sizes[1] / sizes[0] <= 1.25:
        found.append(f"{count(sizes[0])} → {count(sizes[1])} rankings")
    found += _differences("estimator", last, night, lambda one: one.best.get("estimator"))
    found += _differences("counterrank", last, night, _version)
    if _apart(last.lift, night.lift):
        found.append("the lift left the interval of the run before")
    return found


def _differences(what: str, last: Night, night: Night, of: Callable[[Night], Any]) -> list[str]:
    before, now = (str(of(one) or "none") for one in (last, night))
    return [] if before == now else [f"{what} {before} → {now}"]


def _version(night: Night) -> str:
    provenance = night.reading.model.get("provenance")
    return (
        str(provenance.get("version", "unknown")) if isinstance(provenance, Mapping) else "unknown"
    )


def _apart(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    low, high, value = before.get("low"), before.get("high"), now.get("value")
    return known(low) and known(high) and known(value) and not low <= value <= high


def _lifts(target: str, runs: Sequence[Night]) -> Markup:
    points = []
    for place, night in enumerate(runs):
        lift = night.lift
        if known(lift.get("value")):
            low, high = (
                float(v) if known(v) else None for v in (lift.get("low"), lift.get("high"))
            )
            error = lift.get("stderr")
            words = f"{night.entry.name}\nlift {plain(lift['value'], error, sign=True)}"
            words += f"\n{span(low, high, error, sign=True)}" if low is not None else ""
            points.append(Point(float(place), float(lift["value"]), low, high, words))
    values = [value for p in points for value in (p.y, p.low, p.high)]
    frame = Frame(
        x=Scale(-0.5, max(len(runs) - 0.5, 0.5)),
        y=around(values, also=[0.0]),
        x_title="run",
        y_title="lift",
        lines=[(0.0, "no change")],
        signed=True,
        x_ticks=_days(runs),
    )
    drawn = Plot([Series(points=points, whiskers=True)], frame, f"Lift of {target} over time").svg()
    return figure(
        f"Lift of {target}, run by run", "Each mark is a run, each bar its interval.", drawn
    )


def _outcomes(target: str, runs: Sequence[Night]) -> Markup:
    predicted, earned = [], []
    for place, night in enumerate(runs):
        best, outcome = night.best, night.outcome
        if outcome is None or not known(best.get("value")):
            continue
        low, high = (float(v) if known(v) else None for v in (best.get("low"), best.get("high")))
        error = best.get("stderr")
        words = (
            f"{night.entry.name}\npredicted {plain(best['value'], error)}\nearned "
            f"{plain(outcome.earned, error)}"
        )
        predicted.append(Point(place - 0.08, float(best["value"]), low, high, words))
        reach = 1.96 * outcome.stderr
        earned.append(
            Point(
                place + 0.08, outcome.earned, outcome.earned - reach, outcome.earned + reach, words
            )
        )
    values = [value for p in (*predicted, *earned) for value in (p.y, p.low, p.high)]
    frame = Frame(
        x=Scale(-0.5, max(len(runs) - 0.5, 0.5)),
        y=around(values),
        x_title="run",
        y_title="value per ranking",
        x_ticks=_days(runs),
    )
    series = [
        Series(points=predicted, joined=False, whiskers=True),
        Series(points=earned, look="t1", shape=1, joined=False, whiskers=True),
    ]
    drawn = Plot(series, frame, f"Predicted and earned, {target}", ["predicted", "earned"]).svg()
    return figure(
        f"{target}: predicted and earned",
        "Circles: predicted. Diamonds: earned in the A/B test.",
        drawn,
    )


def _days(runs: Sequence[Night]) -> list[tuple[float, str]]:
    stride = max(1, (len(runs) + 5) // 6)
    return [(float(i), night.entry.night.strftime("%b %d")) for i, night in enumerate(runs)][
        ::stride
    ]
