"""Past results: all runs of a folder as static pages, beside them what was measured once a policy was shown.

What was measured is kept in a file beside the run that predicted it, never inside it.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from counterrank.common.atomic import write_text
from counterrank.common.errors import ConfigError, CounterrankError
from counterrank.common.records import Json
from counterrank.estimators import Estimate, Lift
from counterrank.evaluation import Evaluation
from counterrank.report.answer import names_apart, reading_of
from counterrank.report.document import (
    MEASURED,
    MISSED,
    Block,
    Cell,
    Chip,
    Document,
    Fold,
    Link,
    Mark,
    Note,
    Paragraph,
    Phrase,
    Row,
    Table,
    Timeline,
    interval_row,
    normal,
    section,
)
from counterrank.report.evaluation_view import Reading, Target
from counterrank.report.html import page
from counterrank.report.stored_results import READABLE
from counterrank.report.words import count, known, plain
from counterrank.statistics import Number

OUTCOME = "counterrank/outcome/1"
SUFFIX = ".outcome.json"
#: Results are far smaller; anything larger is something else.
MOST_BYTES = 64 * 2**20
#: Runs at most on a chart; older ones stand in the table.
MOST = 30
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
    #: How tables show it: its name, as a link where it has a page.
    cell: Cell


def write_history(folder: str | Path, out: str | Path) -> tuple[list[Path], list[str]]:
    """Write a page of all runs in a folder, and one for each run beside it.

    Returns the files that were written and the names of those that could not be read.
    """
    root, index = Path(folder), Path(out)
    if not root.is_dir():
        raise ConfigError(
            f"there is no folder {root}; `counterrank evaluate --json FILE` writes results into one"
        )
    history = sorted(runs(root.resolve()), key=lambda run: (run.night, run.name))
    reports, written = index.with_name(f"{index.stem}-reports"), [index]
    index_url, reports_url = (
        quote(name, errors="surrogateescape") for name in (index.name, reports.name)
    )
    for number, run in enumerate(history):
        if run.document is not None:
            slug = re.sub(r"[^A-Za-z0-9]+", "-", run.name.removesuffix(".json")).strip("-")[:60]
            path = reports / f"{number:04d}-{slug or 'run'}.html"
            write_text(path, page(run.document, back=f"../{index_url}"))
            history[number] = replace(run, cell=Link(run.name, f"{reports_url}/{path.name}"))
            written.append(path)
    write_text(index, page(document(history, root.name)))
    return written, [run.name for run in history if run.document is None]


def runs(folder: Path) -> Iterator[Run]:
    """Yield the results in a folder; what is no result of ours is passed over, a damaged file is listed as such."""
    for path in folder.rglob("*.json"):
        try:
            # A link may point anywhere; only what lies inside the folder is shown.
            inside = path.is_file() and path.resolve().is_relative_to(folder)
            status = path.stat() if inside else None
        except OSError:
            continue
        if status is None or status.st_size > MOST_BYTES or path.name.endswith(SUFFIX):
            continue
        name = path.relative_to(folder).as_posix()
        if loaded := _loaded(path):
            yield Run(path, name, _night(name, status.st_mtime), *loaded, name)


def _loaded(path: Path) -> tuple[str, Any, Document | None] | None:
    """Return the kind of a result, the result and its report; None for JSON that is no result."""
    content = read_json(path)
    kind: Any = READABLE.get(str((content or {}).get("schema")))
    if content is not None and kind is None:
        return None
    try:
        result = kind.from_dict(content)
        shown = result.document()
        page(shown)
    except Exception:  # one damaged file must not take the others down
        return "damaged file", None, None
    return kind.NAME, result, shown


def _night(name: str, modified: float) -> datetime:
    """Return the day in a run's name (2026-01-31) if there is one, else when it was written.

    A folder that was copied has new times but its old names.
    """
    date = re.search(r"\d{4}-\d{2}-\d{2}", name)
    with suppress(ValueError):
        if date:
            return datetime.fromisoformat(date[0])
    return datetime.fromtimestamp(modified)


def document(history: Sequence[Run], folder: str) -> Document:
    """Return what tests refuted, each policy over time, and the list of results, the newest first."""
    nights: dict[tuple[str, str], list[Night]] = {}
    for run in history:
        if isinstance(run.result, Evaluation):
            for night in _nights(run):
                nights.setdefault((night.target.name, night.reading.reward), []).append(night)
    refuted = [night for members in nights.values() for night in members if night.refuted]
    told = (
        "Once a policy has been shown, `counterrank outcome RUN.json --lift 0.012 --stderr 0.004` puts what an A/B "
        "test measured beside what was predicted."
    )
    blocks: list[Block] = [Note(_refutation(night), "failed") for night in refuted]
    blocks.append(Paragraph(told, "aid"))
    # A target's name is enough where there is one metric of it.
    several = Counter(target for target, _ in nights)
    for number, ((target, metric), members) in enumerate(nights.items()):
        title = target if several[target] == 1 else f"{target} · {metric}"
        blocks += section(title, f"target-{number}", *_over_time(title, members))
    empty = Paragraph("No results here yet.")
    blocks += section("All results", "all", _listing(history) if history else empty)
    names = [*dict.fromkeys(night.target.name for night in refuted)]
    title = Phrase.of_pieces("A test refuted “ship”: ", *names_apart(names, "and"), ".")
    return Document(title if refuted else f"Results in {folder}", blocks)


def _refutation(night: Night) -> str:
    """Return what was promised of a policy, and what a test measured."""
    point = _point(night, relative=night.shares)
    measured = point.second
    assert measured is not None
    return (
        f"{night.target.name} was to be shipped on {point.label}: {point.shown} ({point.reach}) was predicted, "
        f"{measured.shown} ({measured.reach}) was measured."
    )


def _listing(history: Sequence[Run]) -> Table:
    rows = []
    for run in reversed(history):
        level = run.result.verdict.level if isinstance(run.result, Evaluation) else ""
        says = (
            run.document.answer or run.document.title
            if run.document
            else "It cannot be read; write it anew."
        )
        rows.append((f"{run.night:%Y-%m-%d}", run.cell, run.kind, says, Chip(level, level)))
    head = ("date", "result", "kind", "what it says", "measurement")
    return Table("All results, the newest first", head, rows, texts=5)


@dataclass(frozen=True, slots=True)
class Night:
    """One run as seen by one target and metric."""

    run: Run
    reading: Reading
    target: Target
    outcome: MeasuredOutcome | None
    #: What the metric is counted per.
    unit: str
    #: What may change from run to run, in words.
    facts: dict[str, str]

    @property
    def shares(self) -> bool:
        """Whether the lift means something in per cent of what the baseline earned."""
        return _in_shares(self.target.lift) and self.reading.log.value > 0

    @property
    def contained(self) -> bool | None:
        """Whether the interval contained the outcome; None where either is not known."""
        return None if self.outcome is None else self.outcome.contained(self.target.best)

    @property
    def refuted(self) -> bool:
        """Whether the policy was to be shipped, and a test measured that it earns less than the baseline."""
        outcome = self.outcome
        if outcome is None or not outcome.is_lift or self.facts["decision"] != "ship":
            return False
        lower = self.reading.metric.lower_is_better
        measured = normal(outcome.value, outcome.stderr, self.reading.level)
        return measured.low > 0 if lower else measured.high < 0


def _in_shares(lift: Lift) -> bool:
    return lift.relative_low != lift.relative_high and known(lift.relative_high - lift.relative_low)


def _nights(run: Run) -> Iterator[Night]:
    """Yield a run as each of its targets and metrics sees it; an outcome is that of the primary."""
    primary, outcomes = Reading(run.result), read_outcomes(run.path)
    secondary = [metric for metric in primary.result.metrics if not metric.primary]
    readings = [(primary, f"per {primary.ranking}")]
    readings += [(reading_of(primary, metric), metric.unit) for metric in secondary]
    for place in range(len(primary.candidates)):
        for reading, unit in readings:
            target, decision = reading.candidates[place], reading.result.decision
            facts = {
                "evidence": target.evidence or "none",
                "decision": decision.targets.get(target.name, decision.action),
                "baseline": reading.baseline,
                "estimator": target.best.estimator,
                "counterrank": reading.result.provenance.counterrank,
            }
            outcome = outcomes.get(target.name) if reading is primary else None
            yield Night(run, reading, target, outcome, unit, facts)


def _over_time(title: str, nights: Sequence[Night]) -> list[Block]:
    """Return the lifts over time, beside each what a test measured, and a table of the runs."""
    shown, last = nights[-MOST:], nights[-1]
    relative = all(night.shares for night in shown)
    rows = [_point(night, relative=relative) for night in shown]
    chart = Timeline(
        f"Lift in {last.reading.reward} {last.unit}, {'in per cent' if relative else 'run by run'}",
        rows,
        [night.run.night.toordinal() for night in shown],
        "%" if relative else "",
        "Circles: runs with their intervals, hollow and dashed where the measurement is not reliable. Squares: what a "
        "test measured. Red diamonds: what a test measured and the prediction missed.",
    )
    judged = [night.contained for night in nights if night.contained is not None]
    told = contained_in_words(judged)
    lines = [
        _cells(night, changes(nights[number - 1], night) if number else [])
        for number, night in enumerate(nights)
    ]
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
    table = Table(f"Runs of {title}, the newest first", head, lines[::-1], texts=3)
    heading = [Paragraph(told, "strong")] if told else []
    drawn = [chart] if any(known(row.value) for row in rows) else []
    return [*heading, *drawn, Fold("Every run, and what changed", [table])]


def _point(night: Night, *, relative: bool) -> Row:
    """Return the prediction of a run, and what a test measured as its second reading."""
    lift, evidence = night.target.lift, night.facts["evidence"]
    measured = _measured(night, relative=relative)
    contained = {True: "contained", False: "not contained", None: ""}[night.contained]
    hints = [f"measured {measured.shown} {contained}".rstrip()] if measured else []
    row = interval_row(
        f"{night.run.night:%Y-%m-%d}",
        lift,
        # Colour is left to what a test missed.
        Mark("", "plain"),
        error=None if relative else lift.stderr,
        relative=relative,
        note=evidence,
        faded=evidence != "reliable",
        hints=[night.facts["decision"], *hints],
    )
    return replace(row, second=measured)


def _measured(night: Night, *, relative: bool) -> Row | None:
    """Return a measured lift as a mark: a square, or a red diamond where it was not contained."""
    outcome, today = night.outcome, night.reading.log.value
    if outcome is None:
        return None
    # What it earned, less what today's policy earned in the log.
    value = outcome.value - (0.0 if outcome.is_lift else today)
    number = normal(value, outcome.stderr, night.reading.level)
    mark = MISSED if night.contained is False else MEASURED
    return interval_row("measured", number, mark, share=1 / today if relative else None)


def _cells(night: Night, differences: Sequence[str]) -> tuple[Cell, ...]:
    """Return the row of a run in the table."""
    best, lift, measured = night.target.best, night.target.lift, ""
    if (outcome := night.outcome) is not None:
        words = {True: ", contained", False: ", not contained", None: ""}[night.contained]
        value = plain(outcome.value, outcome.stderr or best.stderr, sign=outcome.is_lift)
        measured = f"{'lift' if outcome.is_lift else 'value'} {value}{words}"
    # Lift and interval in one unit: shares where there are some.
    shown = interval_row("", lift, error=lift.stderr, relative=_in_shares(lift))
    evidence = night.facts["evidence"]
    return (
        f"{night.run.night:%Y-%m-%d}",
        night.run.cell,
        "; ".join(differences),
        shown.shown,
        shown.reach,
        night.facts["decision"],
        Chip(evidence, evidence),
        measured,
    )


def contained_in_words(judged: Sequence[bool]) -> str:
    """Return how many of the last intervals contained a known outcome; nothing where none is known."""
    # The last ones: a method that was mended is judged by what it does now.
    recent = judged[-RECENT:]
    if not recent:
        return ""
    if len(recent) == 1:
        return f"The one interval with a known outcome {'contained' if recent[0] else 'did not contain'} it."
    return f"{sum(recent)} of the last {len(recent)} intervals with a known outcome contained it."


def changes(last: Night, night: Night) -> list[str]:
    """Return what is different from the run before, in words: what a person would ask first."""
    pairs = ((what, last.facts[what], after) for what, after in night.facts.items())
    differences = [f"{what} {before} → {after}" for what, before, after in pairs if before != after]
    if last.reading.log.rows_fingerprint == night.reading.log.rows_fingerprint:
        differences.append("the same rows as before")
    before, after = last.reading.log.n, night.reading.log.n
    # A quarter more or less is an ordinary night.
    if before and not 0.8 <= after / before <= 1.25:
        differences.append(f"{count(before)} → {count(after)} rankings")
    lift, value = last.target.lift, night.target.lift.value
    if value < lift.low or value > lift.high:
        differences.append("the lift left the interval of the run before")
    return differences


@dataclass(frozen=True, slots=True)
class MeasuredOutcome:
    """What an A/B test measured per ranking: the lift of a policy, or what it earned; with a standard error."""

    value: float
    stderr: float = 0.0
    #: A difference to today's policy in the same test, rather than what the policy earned in it.
    is_lift: bool = False

    def contained(self, best: Estimate) -> bool | None:
        """Return whether the interval of a prediction contained the outcome; None where there is none.

        The outcome is uncertain too: both half-widths are added in quadrature, so that an exact test
        of a right prediction is contained as often as the level says.
        """
        predicted: Number | Estimate = best.lift if self.is_lift else best
        if not known(predicted.high - predicted.low):
            return None
        middle, half = (predicted.high + predicted.low) / 2, (predicted.high - predicted.low) / 2
        return abs(self.value - middle) <= math.hypot(
            half, normal(0.0, self.stderr, best.level).high
        )


def record(
    run: str | Path,
    earned: float | None = None,
    stderr: float = 0.0,
    target: str | None = None,
    *,
    lift: float | None = None,
) -> Path:
    """Write down what an A/B test measured of a target of a run, and return the file beside the run's.

    Either `lift`, the difference to today's policy in the test, or what the target `earned` in it.
    """
    path = Path(run)
    if (earned is None) == (lift is None):
        raise ConfigError("give what was measured as --lift or as --earned, and not as both")
    if not path.exists():
        raise ConfigError(f"there is no file {path}; `counterrank evaluate --json` writes one")
    try:
        targets = list(Evaluation.from_dict(read_json(path) or {}).recommended)
    except CounterrankError:
        raise ConfigError(
            f"{path} is no evaluation; give a file written by `counterrank evaluate --json`"
        ) from None
    name = target or (targets[0] if len(targets) == 1 else None)
    if name is None:
        raise ConfigError(
            f"{path} has several targets; say which with --target: {', '.join(targets)}"
        )
    if name not in targets:
        raise ConfigError(f"{path} has no target '{name}'; known: {', '.join(targets)}")
    name_of, measured = ("earned", earned) if lift is None else ("lift", lift)
    if not known(measured) or not (math.isfinite(stderr) and stderr >= 0):
        raise ConfigError(
            f"{name_of} is a number and its stderr a number of 0 or more; got {measured} and {stderr}"
        )
    outcomes_file = _outcomes_file(path)
    with _locked(path):
        rows = [row for row in _outcome_rows(outcomes_file) if row.get("target") != name]
        rows.append({"target": name, name_of: measured, "stderr": stderr})
        text = json.dumps({"schema": OUTCOME, "outcomes": rows}, indent=2, ensure_ascii=False)
        write_text(outcomes_file, text + "\n", follow=False)
    return outcomes_file


def _outcomes_file(run: Path) -> Path:
    return run.with_name(run.name.removesuffix(".json") + SUFFIX)


@contextmanager
def _locked(run: Path) -> Iterator[None]:
    """Hold others off who record an outcome of the same run; its file is locked, and not changed."""
    with open(run, "rb") as file:
        # Where a system or a file system knows no locks, writing whole files has to do.
        with suppress(ImportError, OSError):
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _outcome_rows(path: Path) -> list[Json]:
    """Return the rows of an outcome file; one that cannot be read is an error, so that it is not replaced."""
    if not path.exists() and not path.is_symlink():
        return []
    content = read_json(path) or {}
    rows, schema = content.get("outcomes"), content.get("schema")
    if schema == OUTCOME and isinstance(rows, list) and all(isinstance(row, dict) for row in rows):
        return rows
    what = f"has the schema {schema!r}" if schema else "is damaged or no outcome file"
    raise ConfigError(
        f"{path} {what}, and what it holds would be lost: this version writes {OUTCOME!r}. "
        "Mend it, or move it away"
    )


def read_outcomes(run: Path) -> dict[str, MeasuredOutcome]:
    """Return the outcomes beside a run by target; none where there is no such file, or something else."""
    outcomes: dict[str, MeasuredOutcome] = {}
    with suppress(ConfigError):
        for row in _outcome_rows(_outcomes_file(run)):
            error = row.get("stderr")
            for key in ("lift", "earned"):
                if known(value := row.get(key)):
                    outcome = MeasuredOutcome(value, error if known(error) else 0.0, key == "lift")
                    outcomes.setdefault(str(row.get("target")), outcome)
    return outcomes


def read_json(path: Path) -> Json | None:
    """Return a JSON object, an empty one for other JSON; None where the file is missing or damaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else {}
