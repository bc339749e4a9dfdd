"""`counterrank init`: look at a team's tables and write a job that runs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from counterrank.common import atomic
from counterrank.common.errors import ConfigError
from counterrank.io import TableGuess, guess_events, guess_log, sample_of

#: What a terminal may be asked, in this order; elsewhere nothing is.
QUESTIONS = {
    "propensity_scores": "Which column has the scores of today's policy?",
    "action": "Which column has the shown items?",
    "ranking": "Which column identifies a ranking?",
}


@click.command()
@click.argument("log", type=click.Path())
@click.option("--events", type=click.Path(), help="The table of clicks, orders and the like.")
@click.option(
    "--out", type=click.Path(), default="job.toml", show_default=True, help="The job to write."
)
@click.option("--columns", default="", help="Roles that you know: ROLE=COLUMN,...")
def init(log: str, events: str | None, out: str, columns: str) -> None:
    """Look at LOG and write a job file for `counterrank run`.

    The roles of the columns are guessed from names, types and values; every guess is printed.
    """
    given = dict(pair.split("=", 1) for pair in columns.split(",") if "=" in pair)
    table = sample_of(log)
    guess = guess_log(table, given)
    for role, question in QUESTIONS.items():
        if sys.stdin.isatty() and any(f"{role}=NAME" in one for one in guess.missing):
            given[role] = click.prompt(question, type=click.Choice(table.column_names))
            guess = guess_log(table, given)
    joined = None
    if events is not None:
        joined = guess_events(sample_of(events), guess.columns)
    for note in (*guess.notes, *(joined.notes if joined else ())):
        click.echo(note)
    missing = [*guess.missing, *(joined.missing if joined else ())]
    if not guess.rewards and joined is None:
        missing.append(
            "no column looks like a reward, and no events were given (say --events FILE)"
        )
    if missing:
        raise ConfigError("this job cannot be written yet: " + "; ".join(missing))
    lines = job_lines(log, guess, events, joined, Path(out).parent)
    atomic.write_text(out, "\n".join(lines) + "\n")
    click.echo(f"wrote {out}; run it with: counterrank run {out}")


def job_lines(
    log: str, guess: TableGuess, events: str | None, joined: TableGuess | None, folder: Path
) -> Iterator[str]:
    """Yield the lines of a commented job file in TOML."""
    yield "# Written by `counterrank init`; every line is a guess to be checked."
    whole = {
        "log": _path(log, folder), "target": guess.targets, "context": guess.context, "segment": guess.segments,
        "time": guess.time, "logger": guess.logger, "json": "result.json", "html": "report.html",
    }  # fmt: skip
    yield from _pairs(whole)
    yield ""
    yield "# Declare what the log cannot show, if it is true:"
    yield "# target-is-fresh = true     # no target was trained on these rows"
    if not guess.unit:
        yield "# independent-rows = true    # no two rankings belong to one person"
    yield from _table("columns", guess.columns)
    yield from _table("policies", guess.policies)
    if joined is not None and events is not None:
        time = joined.time if guess.time else ""
        table = {"path": _path(events, folder), "join": joined.join, "time": time}
        yield from _table("events", table)
        if time:
            yield '# within = "30 minutes"    # events later than this do not count'
        yield from _table("events.rewards", joined.rewards)
    elif len(guess.rewards) > 1:
        yield from _table("rewards", guess.rewards)


def _table(name: str, rows: Mapping[str, Any]) -> Iterator[str]:
    if rows:
        yield ""
        yield f"[{name}]"
        yield from _pairs(rows)


def _pairs(rows: Mapping[str, Any]) -> Iterator[str]:
    """Yield keys with texts or lists of texts as TOML writes them; the empty ones are left out, but for the target."""
    for key, value in rows.items():
        if value or key == "target":
            name = key if key.isidentifier() else json.dumps(key)
            yield f"{name} = {json.dumps(value, ensure_ascii=False)}"


def _path(path: str, folder: Path) -> str:
    """Return a path as the job, in its own folder, finds it."""
    return path if "://" in path else Path(os.path.relpath(path, folder)).as_posix()
