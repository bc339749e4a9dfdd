"""`counterrank init`: look at a team's tables and write a job that runs."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

from counterrank.cli.calls import Call
from counterrank.common import atomic
from counterrank.common.errors import CounterrankError
from counterrank.io import JobGuess, guess_job

#: Rankings to which the temperature is fitted.
_FITTED = 100_000


@click.command()
@click.argument("log", type=click.Path())
@click.option("--events", type=click.Path(), help="The table of clicks, orders and the like.")
@click.option(
    "--scores",
    type=click.Path(),
    multiple=True,
    help="A table of rankers' scores; repeat it for more.",
)
@click.option(
    "--out", type=click.Path(), default="job.toml", show_default=True, help="The job to write."
)
@click.option("--columns", default="", help="Roles that you know: ROLE=COLUMN,...")
def init(log: str, events: str | None, scores: tuple[str, ...], out: str, columns: str) -> None:
    """Look at LOG and write a job file for `counterrank run`.

    The roles of the columns are guessed from what they hold, and from names where several fit; every guess
    is printed. What stays open is a commented line of the job.

    Exit codes: 0 nothing is open; 1 a commented line waits for an answer; 2 there is nothing to read.
    """
    stated = dict(pair.split("=", 1) for pair in columns.split(",") if "=" in pair)
    guess = guess_job(log, events, scores, stated)
    if not (guess.rewards or guess.event_rewards or "reward" in guess.columns):
        guess.ask(
            "columns",
            'reward = "..."',
            "what items earned; or give a table of events with --events FILE",
        )
    files = [log, *([events] if events else []), *scores]
    folder = Path(out).parent
    _write(out, job_lines(log, guess, events, folder))
    tried = _tried(out, guess)
    _write(out, job_lines(log, guess, events, folder, tried))
    for note in guess.notes:
        click.echo(note)
    click.echo(f"wrote {out}, from {', '.join(files)}")
    for question in guess.questions:
        click.echo(f"open: {f'# {question.line}    ' * bool(question.line)}({question.text})")
    if guess.questions:
        click.echo(
            f"answer the open lines in {out}, or say --columns ROLE=NAME; then: counterrank run {out}"
        )
        raise click.exceptions.Exit(1)
    click.echo(f"next: counterrank run {out}")


def _write(out: str, lines: Iterable[str]) -> None:
    atomic.write_text(out, "\n".join(lines) + "\n")


def _tried(out: str, guess: JobGuess) -> str:
    """Read the log as the job says; return the interval of the temperature, and ask where it cannot be read."""
    from counterrank.checks import fitted_temperature
    from counterrank.common.options import READING
    from counterrank.io import opened

    if guess.questions:
        return ""
    try:
        call = Call.of_job(out)
        reading = {name: value for name, value in call.settings.items() if name in READING}
        targets = call.settings.get("targets", ())
        with opened(call.log, targets, needs_targets=False, **reading) as (source, _):
            # What the audit finds in all rows, a fit to some of them would fail.
            rows = source.sample(_FITTED, np.random.default_rng(0)) if guess.temperature else None
            fit = fitted_temperature(rows) if rows is not None else None
            joined = source.first.events
    except CounterrankError as problem:
        guess.ask("", "", f"the log cannot be read so: {problem}")
        return ""
    if joined is not None and joined.unique:
        guess.events["unique"] = list(joined.unique)
        told = next(
            f.text for f in joined.findings if f.code == "rewards-events-doubled" and f.blamed
        )
        guess.notes.append(f"{told}. Events with the same {', '.join(joined.unique)} count once")
    if fit is None:
        return ""
    guess.temperature, low, high = fit
    interval = f"fitted; 95 % interval {low:.3g} to {high:.3g}"
    guess.notes.append(f"temperature: {guess.temperature:.3g} ({interval})")
    return interval


def job_lines(
    log: str, guess: JobGuess, events: str | None, folder: Path, fitted: str = ""
) -> Iterator[str]:
    """Yield the lines of a commented job file in TOML; `fitted` says what is known of the temperature."""
    yield "# Written by `counterrank init`; every line is a guess to be checked."
    top_keys = {
        "log": _path(log, folder),
        "target": guess.targets,
        "context": guess.context,
        "segment": guess.segments,
        "time": guess.time,
        "renumber": guess.renumber,
        "decimal": guess.decimal if guess.decimal != "." else "",
        "json": "result.json",
        "html": "report.html",
    }
    if guess.logger == "top":
        top_keys["estimators"] = ["pbm", "click-model"]
    top_keys = {
        key: value
        for key, value in top_keys.items()
        if value or (key == "target" and not guess.asks("target"))
    }
    if guess.logger and guess.temperature is None:
        top_keys["logger"] = guess.logger
    yield from _pairs(top_keys)
    yield from _questions(guess, "")
    yield ""
    yield "# Declare what the log cannot show, if it is true:"
    yield "# target-is-fresh = true     # no target was trained on these rows"
    if not guess.unit:
        yield "# independent-rows = true    # no two rankings belong to one person"
    if guess.arm:
        yield f"# Several policies served the log; counterrank abtest LOG --arm {guess.arm} compares them, or"
        yield from ("# [abtest]", f"# {next(_pairs({'arm': guess.arm}))}")
    yield from _table(guess, "columns", guess.columns)
    yield from _policies(guess, fitted)
    for table in guess.scores:
        name = "[scores]" if len(guess.scores) == 1 else "[[scores]]"
        yield from ("", name, *_pairs({**table, "path": _path(table["path"], folder)}))
        yield from _questions(guess, "scores")
    if events is not None:
        table = {"path": _path(events, folder), **guess.events}
        yield from _table(guess, "events", table)
        if "time" in guess.events and not guess.asks("within"):
            yield '# within = "30 minutes"    # events later than this do not count'
        yield from _table(guess, "events.rewards", guess.event_rewards)
    elif len(guess.rewards) > 1:
        yield from _table(guess, "rewards", guess.rewards)


def _policies(guess: JobGuess, fitted: str) -> Iterator[str]:
    """Yield how the logger and the targets rank by their scores."""
    if guess.logger and guess.temperature is not None:
        kind, temperature = f'kind = "{guess.logger}"', f"temperature = {guess.temperature:.4g}"
        yield from (
            "",
            "[logger]",
            kind,
            f"{temperature}    # {fitted or 'fitted to the shown items'}",
        )
        for target in guess.targets:
            yield from (
                "",
                f"[policies.{_key(target)}]",
                kind,
                f"{temperature}    # that of today's policy; write the one it will have",
            )
        return
    policies = {target: guess.policies.get(target, guess.logger) for target in guess.targets}
    yield from _table(guess, "policies", policies if guess.logger else {})


def _table(guess: JobGuess, name: str, rows: Mapping[str, Any]) -> Iterator[str]:
    lines = [*_pairs(rows), *_questions(guess, name)]
    if lines:
        yield from ("", f"[{name}]", *lines)


def _questions(guess: JobGuess, table: str) -> Iterator[str]:
    """Yield the lines of a table that wait for an answer."""
    for question in guess.questions:
        if question.table == table:
            yield f"# {question.line}    # ? {question.text}"


def _pairs(rows: Mapping[str, Any]) -> Iterator[str]:
    """Yield keys with values as TOML writes them."""
    for key, value in rows.items():
        yield f"{_key(key)} = {_value(value)}"


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{{', '.join(_pairs(value))}}}"
    return json.dumps(value, ensure_ascii=False)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def _path(path: str, folder: Path) -> str:
    """Return a path as the job, in its own folder, finds it."""
    return path if "://" in path else Path(os.path.relpath(path, folder)).as_posix()
