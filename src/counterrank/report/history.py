"""All runs of a folder as static pages: a list, runs over time beside outcomes, and a report for each run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from counterrank.atomic import write_text
from counterrank.errors import ConfigError, CounterrankError
from counterrank.estimators import Estimate, Lift
from counterrank.evaluation import Evaluation
from counterrank.report.answer import relative_ends
from counterrank.report.charts import AxisScale, Plot, PlotFrame, Point, Series, around
from counterrank.report.document import (
    Block,
    Cell,
    Chip,
    Document,
    Figure,
    Link,
    Paragraph,
    Table,
    section,
)
from counterrank.report.html import page
from counterrank.report.loading import KINDS
from counterrank.report.metrics import reading_of
from counterrank.report.numbers import count, known, percent, plain, span
from counterrank.report.outcomes import SUFFIX, MeasuredOutcome, read_json, read_outcomes
from counterrank.report.reading import Interval, Reading, ends

#: Results are far smaller; anything larger is something else.
MOST_BYTES = 64 * 2**20
#: Runs at most on a chart; older ones stand in the table.
MOST = 60
#: Runs whose outcomes are counted in the sentence at the top.
RECENT = 12


@dataclass(frozen=True, slots=True)
class Run:
    """A result in the folder: its name there, when it belongs in time, what it says, and its page."""

    path: Path
    name: str
    night: datetime
    kind: str
    result: Any
    document: Document | None


def write_history(folder: str | Path, out: str | Path) -> list[Path]:
    """Write a page of all runs in a folder, and one for each run beside it; return the files."""
    root, index = Path(folder), Path(out)
    if not root.is_dir():
        raise ConfigError(
            f"there is no folder {root}; `counterrank evaluate --json FILE` writes results into one"
        )
    found = sorted(runs(root.resolve()), key=lambda run: (run.night, run.name))
    beside = index.with_name(f"{index.stem}-reports")
    links = {
        run.path: f"{number:04d}-{_slug(run.name)}.html"
        for number, run in enumerate(found)
        if run.document
    }
    if links:
        beside.mkdir(parents=True, exist_ok=True)
    for run in found:
        if run.document is not None:
            write_text(
                beside / links[run.path], page(run.document, back=f"../{_quoted(index.name)}")
            )
    hrefs = {path: f"{_quoted(beside.name)}/{name}" for path, name in links.items()}
    write_text(index, page(document(found, root.name, hrefs)))
    return [index, *(beside / name for name in links.values())]


def _quoted(name: str) -> str:
    from urllib.parse import quote

    return quote(name, errors="surrogateescape")


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", name.removesuffix(".json")).strip("-")[:60] or "run"


def runs(folder: Path) -> Iterator[Run]:
    """Yield the results in a folder; what is no result of ours is passed over, a damaged one is listed as such."""
    for path in folder.rglob("*.json"):
        try:
            # A link may point anywhere; only what lies inside the folder is shown.
            inside = path.is_file() and path.resolve().is_relative_to(folder)
            status = path.stat() if inside else None
        except OSError:
            continue
        if status is None or status.st_size > MOST_BYTES or path.name.endswith(SUFFIX):
            continue
        found = read_json(path)
        kind = KINDS.get(str(found.get("schema")))
        if kind is None:
            continue
        word, result, shown = kind.NAME, None, None
        try:
            result = kind.from_dict(found)
            shown = result.document()
            page(shown)
        except Exception as problem:  # one damaged file must not take the others down
            word = (
                "damaged file"
                if isinstance(problem, CounterrankError)
                else "file that cannot be shown"
            )
            result = shown = None
        name = path.relative_to(folder).as_posix()
        yield Run(path, name, _night(name, status.st_mtime), word, result, shown)


def _night(name: str, modified: float) -> datetime:
    """Return the day in a run's name (2026-01-31) if there is one, else when it was written.

    A folder that was copied has new times but its old names.
    """
    found = re.search(r"\d{4}-\d{2}-\d{2}", name)
    try:
        return datetime.fromisoformat(found[0]) if found else datetime.fromtimestamp(modified)
    except ValueError:
        return datetime.fromtimestamp(modified)


def document(found: Sequence[Run], folder: str, links: dict[Path, str]) -> Document:
    """Return the list of results, the newest first, and a section for each policy over time."""
    blocks: list[Block] = [_listing(found, links)] if found else [Paragraph("No results here yet.")]
    told = (
        "Once a policy has been shown, `counterrank outcome RUN.json --lift 0.012 --stderr 0.004` puts what an A/B "
        "test measured beside what was predicted."
    )
    blocks.append(Paragraph(told, "aid"))
    nights: dict[tuple[str, str], list[Night]] = {}
    for run in found:
        if isinstance(run.result, Evaluation):
            for night in _nights(run):
                nights.setdefault((night.target, night.metric), []).append(night)
    # A target's name is enough where there is one metric of it.
    several = Counter(target for target, _ in nights)
    for number, ((target, metric), members) in enumerate(nights.items()):
        title = target if several[target] == 1 else f"{target} · {metric}"
        blocks += section(title, f"target-{number}", *_over_time(title, members, links))
    return Document(f"Results in {folder}", blocks)


def _listing(found: Sequence[Run], links: dict[Path, str]) -> Table:
    rows = []
    for run in reversed(found):
        name: Cell = Link(run.name, links[run.path]) if run.path in links else run.name
        level = run.result.verdict.level if isinstance(run.result, Evaluation) else ""
        says = run.document.title if run.document else "It cannot be read; write it anew."
        rows.append((f"{run.night:%Y-%m-%d}", name, run.kind, says, Chip(level, level)))
    head = ("date", "result", "kind", "what it says", "measurement")
    return Table("All results, the newest first", head, rows, texts=5)


@dataclass(frozen=True, slots=True)
class Night:
    """One run as seen by one target and metric."""

    run: Run
    reading: Reading
    target: str
    outcome: MeasuredOutcome | None
    metric: str
    unit: str

    @property
    def best(self) -> Estimate:
        """The recommended estimate."""
        return self.reading.best(self.target)

    @property
    def lift(self) -> Lift:
        """Its lift over the baseline."""
        return self.reading.lift(self.target)


def _nights(run: Run) -> Iterator[Night]:
    """Yield a run as each of its targets and metrics sees it; an outcome is that of the primary."""
    whole, outcomes = Reading(run.result), read_outcomes(run.path)
    for target in whole.candidates:
        outcome = outcomes.get(target)
        if len(whole.result.metrics) < 2:
            yield Night(run, whole, target, outcome, whole.words()[0], f"per {whole.words()[1]}")
            continue
        for metric in whole.result.metrics:
            own = whole if metric.primary else reading_of(whole, metric)
            yield Night(
                run, own, target, outcome if metric.primary else None, metric.name, metric.unit
            )


def _over_time(title: str, nights: Sequence[Night], links: dict[Path, str]) -> list[Block]:
    told = contained_in_words(nights)
    head = (
        "date",
        "run",
        "what changed",
        "lift",
        "interval",
        "decision",
        "measurement",
        "measured in a test",
    )
    before: list[Night | None] = [None, *nights[:-1]]
    rows = [_line(night, last, links) for night, last in zip(nights, before, strict=True)]
    return [
        *([Paragraph(told, "strong")] if told else []),
        _lifts(title, nights[-MOST:]),
        *_outcomes(title, [night for night in nights if night.outcome is not None][-MOST:]),
        Table(f"Runs of {title}, the newest first", head, rows[::-1], texts=3),
    ]


def contained_in_words(nights: Sequence[Night]) -> str:
    """Return how many of the last intervals contained a known outcome; nothing where none is known."""
    judged = [night.outcome.contained(night.best) for night in nights if night.outcome is not None]
    # The last ones: a method that was mended is judged by what it does now.
    recent = [one for one in judged if one is not None][-RECENT:]
    if not recent:
        return ""
    if len(recent) == 1:
        return f"The one interval with a known outcome {'contained' if recent[0] else 'did not contain'} it."
    return f"{sum(recent)} of the last {len(recent)} intervals with a known outcome contained it."


def _line(night: Night, last: Night | None, links: dict[Path, str]) -> tuple[Cell, ...]:
    lift, outcome, measured = night.lift, night.outcome, ""
    # Lift and interval in one unit: shares where there are some.
    change, reach = percent(lift.relative, sign=True), relative_ends(lift)
    if not reach:
        change = plain(lift.value, lift.stderr, sign=True)
        reach = span(lift.low, lift.high, lift.stderr, sign=True)
    if outcome is not None:
        verdict = {True: ", contained", False: ", not contained", None: ""}[
            outcome.contained(night.best)
        ]
        value = plain(outcome.value, outcome.stderr or night.best.stderr, sign=outcome.is_lift)
        measured = f"{'lift' if outcome.is_lift else 'value'} {value}{verdict}"
    level = night.reading.evidence(night.target)
    name: Cell = (
        Link(night.run.name, links[night.run.path]) if night.run.path in links else night.run.name
    )
    told = "; ".join(changes(last, night)) if last is not None else ""
    return (f"{night.run.night:%Y-%m-%d}", name, told, change, reach, night.reading.action(night.target),
            Chip(level or "none", level), measured)  # fmt: skip


def changes(last: Night, night: Night) -> list[str]:
    """Return what is different from the run before, in words: what a person would ask first."""
    found = _differences("evidence", last, night, lambda one: one.reading.evidence(one.target))
    found += _differences("decision", last, night, lambda one: one.reading.action(one.target))
    if last.reading.log.rows_fingerprint == night.reading.log.rows_fingerprint:
        found.append("the same rows as before")
    before, now = (one.reading.log.n for one in (last, night))
    # A quarter more or less is an ordinary night.
    if before and not 0.8 <= now / before <= 1.25:
        found.append(f"{count(before)} → {count(now)} rankings")
    found += _differences("estimator", last, night, lambda one: one.best.estimator)
    found += _differences(
        "counterrank", last, night, lambda one: one.reading.result.provenance.counterrank
    )
    if night.lift.value < last.lift.low or night.lift.value > last.lift.high:
        found.append("the lift left the interval of the run before")
    return found


def _differences(what: str, last: Night, night: Night, of: Callable[[Night], Any]) -> list[str]:
    before, now = (str(of(one) or "none") for one in (last, night))
    return [] if before == now else [f"{what} {before} → {now}"]


def _lifts(title: str, nights: Sequence[Night]) -> Figure:
    points, doubtful = [], []
    mark = nights[-1].reading.mark(nights[-1].target)
    for place, night in enumerate(nights):
        lift, evidence = night.lift, night.reading.evidence(night.target)
        if known(lift.value):
            words = (
                f"{night.run.name}\nlift {plain(lift.value, lift.stderr, sign=True)}\n{evidence}"
            )
            points.append(Point(float(place), lift.value, *_whisker(lift), words))
            doubtful += points[-1:] if evidence != "reliable" else []
    frame = _frame(nights, points, f"lift in {nights[-1].metric} {nights[-1].unit}")
    series = [
        Series(points=points, look=mark.look, shape=mark.shape, whiskers=True),
        Series(points=doubtful, look=f"{mark.look} hollow", shape=mark.shape, joined=False),
    ]
    aid = "Each mark is a run, each bar its interval; hollow where the measurement is not reliable."
    return Figure(
        "lifts",
        "lift, run by run",
        aid,
        Plot(series, frame, f"Lift of {title} over time"),
        mark=mark,
    )


def _outcomes(title: str, nights: Sequence[Night]) -> list[Figure]:
    """Return predicted lifts beside those that tests measured; measured values stand in the table."""
    predicted, measured = [], []
    for place, night in enumerate(nights):
        outcome, lift = night.outcome, night.lift
        if outcome is not None and outcome.is_lift and known(lift.value):
            both = (plain(one, lift.stderr, sign=True) for one in (lift.value, outcome.value))
            words = "\n".join(
                [night.run.name, *map("{} {}".format, ("predicted", "measured"), both)]
            )
            reach = night.reading.reach(outcome.stderr)
            # Side by side: whiskers at one place would hide each other.
            predicted.append(Point(place - 0.08, lift.value, *_whisker(lift), words))
            ends_ = (outcome.value - reach, outcome.value + reach)
            measured.append(Point(place + 0.08, outcome.value, *ends_, words))
    if not predicted:
        return []
    mark = nights[-1].reading.mark(nights[-1].target)
    frame = _frame(
        nights, [*predicted, *measured], f"lift in {nights[-1].metric} {nights[-1].unit}"
    )
    series = [
        Series(points=predicted, look=mark.look, shape=mark.shape, joined=False, whiskers=True),
        Series(points=measured, look="today", shape=2, joined=False, whiskers=True),
    ]
    names = ["predicted", "measured in the A/B test"]
    aid = "An interval contains an outcome that lies within it, both errors considered."
    chart = Plot(series, frame, f"Predicted and measured lift, {title}", names)
    return [Figure("outcomes", "predicted and measured lift", aid, chart, mark=mark)]


def _frame(nights: Sequence[Night], points: Sequence[Point], title: str) -> PlotFrame:
    stride = max(1, (len(nights) + 5) // 6)
    days = [(float(i), f"{night.run.night:%b %d}") for i, night in enumerate(nights)]
    return PlotFrame(
        x=AxisScale(-0.5, max(len(nights) - 0.5, 0.5)),
        y=around([v for p in points for v in (p.y, p.low, p.high)], also=[0.0]),
        x_title="run", y_title=title, lines=[(0.0, "no change")], signed=True, x_ticks=days[::stride],
    )  # fmt: skip


def _whisker(row: Interval) -> tuple[float | None, float | None]:
    return ends(row.low, row.high) or (None, None)
