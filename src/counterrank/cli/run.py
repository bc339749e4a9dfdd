"""counterrank run: an evaluation, a test, learning or a plan in one file, for a nightly job."""

import difflib
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

import click

from counterrank import stores
from counterrank.cli.abtest import abtest
from counterrank.cli.evaluate import evaluate
from counterrank.cli.learn import learn
from counterrank.cli.plan import plan
from counterrank.errors import ConfigError

_EPILOG = """A job file:

\b
  log = "logs/*.parquet"
  target = ["new"]
  segment = ["device"]
  json = "runs/{date}.json"
  html = "runs/{date}.html"
  require = "directional"
  primary = "clicks"
  guardrails = ["revenue >= -0.01"]
\b
  [rewards]
  clicks = "clicked"
  revenue = "revenue"
\b
  [columns]
  action = "items"

Every option of `counterrank evaluate` is a key of the same name. A file with a table [learn], [abtest] or [plan] stands
for that command: its options are keys of that table, how to read the log is said outside. Paths are relative to the
file; in them {date} and {yesterday} are days like 2026-01-31 (UTC). Exit codes are those of the command.
"""

#: A list reads better under the plural; both are understood.
_PLURALS = {
    "targets": "target", "segments": "segment", "policies": "policy", "rewards": "reward",
    "guardrails": "guardrail",
}  # fmt: skip
#: Commands that a table of their name stands for.
_TABLES: dict[str, click.Command] = {"learn": learn, "abtest": abtest, "plan": plan}
_WRITTEN = ("json", "html", "out", "weights-out")


@click.command("run", epilog=_EPILOG)
@click.argument("job", type=click.Path(dir_okay=False))
@click.option(
    "--dry-run", is_flag=True, help="Print the command that the file stands for, and do nothing."
)
def run(job: str, dry_run: bool) -> None:
    """Run what JOB describes, a TOML file with every option of `evaluate`, or of another command."""
    import shlex

    from counterrank.io import check_outputs, load_toml

    command, content = _asked(load_toml(job), job)
    arguments = list(_arguments(command, content, job))
    if dry_run:
        click.echo(shlex.join(["counterrank", str(command.name), *arguments]))
        return
    folder = _folder(job)
    written = {f"--{name}": content[name] for name in _WRITTEN if content.get(name, "-") != "-"}
    # The command checks its own inputs, but does not know of the job's file.
    check_outputs([job], {option: _path(folder, str(path)) for option, path in written.items()})
    code = command.main(arguments, prog_name="counterrank run", standalone_mode=False)
    if isinstance(code, int):
        raise click.exceptions.Exit(code)


def _asked(content: Mapping[str, Any], job: str) -> tuple[click.Command, Mapping[str, Any]]:
    """Return the command that a file stands for, and its keys: those of its table join the others."""
    named = [name for name in _TABLES if name in content]
    if not named:
        return evaluate, content
    if len(named) > 1:
        raise ConfigError(f"{job}: a file is one job, but it has [{named[0]}] and [{named[1]}]")
    name, own = named[0], content[named[0]]
    if not isinstance(own, Mapping):
        raise ConfigError(f"{job}: '{name}' is a table, [{name}], with the options of {name}")
    outside = {key: value for key, value in content.items() if key != name}
    # Which of the two was meant is not for us to guess.
    if twice := sorted(own.keys() & outside.keys()):
        raise ConfigError(f"{job}: '{twice[0]}' stands both inside and outside of [{name}]")
    return _TABLES[name], {**outside, **own}


def _arguments(command: click.Command, content: Mapping[str, Any], job: str) -> Iterator[str]:
    """Yield the arguments of the command.

    A key that is no option, or a value that an option cannot have, is named with its file.
    """
    folder = _folder(job)
    log = content.get("log")
    if not isinstance(log, str) and not ("query" in content and log is None):
        raise ConfigError(
            f"{job}: 'log' must name the log, like log = \"log.parquet\"; got {log!r}"
        )
    options = {
        _key(option): option for option in command.params if isinstance(option, click.Option)
    }
    for name, value in content.items():
        if name == "log":
            continue
        key = name.replace("_", "-")
        key = _PLURALS.get(key, key)
        if key not in options:
            near = difflib.get_close_matches(key, options, n=1)
            hint = (
                f"; did you mean '{near[0]}'?"
                if near
                else f"; known: log, {', '.join(sorted(options))}"
            )
            # A value that names another command shows what was meant.
            if isinstance(value, str) and value in _TABLES:
                hint = f"; the options of {value} are keys of a table, [{value}]"
            raise ConfigError(f"{job}: '{name}' is no option of {command.name}{hint}")
        yield from _option(options[key], name, value, folder, job)
    if log is not None:
        # A log whose name starts with a dash is no option.
        yield "--"
        yield _path(folder, log)


def _path(folder: str, text: str) -> str:
    today = datetime.now(UTC).date()
    for name, day in (("{date}", today), ("{yesterday}", today - timedelta(days=1))):
        text = text.replace(name, day.isoformat())
    return text if stores.is_url(text) else os.path.join(folder, text)


def _folder(job: str) -> str:
    """Return the folder of a job's file, or what it is called in a store."""
    return job.rpartition("/")[0] if stores.is_url(job) else os.path.dirname(os.path.abspath(job))


def _key(option: click.Option) -> str:
    """Return an option's name in a file: its long name without the dashes."""
    return max(option.opts, key=len).lstrip("-")


def _option(option: click.Option, name: str, value: Any, folder: str, job: str) -> Iterator[str]:
    flag = f"--{_key(option)}"
    if option.is_flag:
        if not isinstance(value, bool):
            raise ConfigError(f"{job}: '{name}' is true or false, got {value!r}")
        # False is written only where there is a --no-... that may turn a default off.
        yield from (flag,) if value else option.secondary_opts[:1]
    elif value is True and isinstance(option.flag_value, (str, int)):  # its value may be left out
        yield flag
    elif option.multiple:
        for text in _many(name, value, job):
            yield from (flag, text)
    else:
        text = _one(name, value, job)
        metavar, *words = (option.metavar or "").split("|")
        a_file = isinstance(option.type, click.Path) or metavar.startswith("FILE")
        kind, _, place = text.partition(":")
        if name == "connection" and kind in ("duckdb", "sqlite") and place:
            text = f"{kind}:{_path(folder, place)}"
        # The words that stand for no file.
        if a_file and text not in ("-", *words):
            text = _path(folder, text)
        # One argument, so that an option whose value may be left out takes it.
        yield f"{flag}={text}"


def _many(name: str, value: Any, job: str) -> list[str]:
    """Return the values of a repeatable option; a table gives NAME=VALUE for each key."""
    if isinstance(value, Mapping) and name in ("reward", "rewards"):
        return [f"{key}={_metric(key, part, job)}" for key, part in value.items()]
    if isinstance(value, Mapping):
        return [f"{key}={_in_folder(_spec(name, part, job), job)}" for key, part in value.items()]
    return [_one(name, part, job) for part in (value if isinstance(value, list) else [value])]


def _metric(name: str, value: Any, job: str) -> str:
    """Return how a metric is written: a text, or a table [rewards.NAME] with `column` or `metric`."""
    if isinstance(value, Mapping):
        if len(value) != 1 or not value.keys() <= {"column", "metric"}:
            raise ConfigError(
                f'{job}: [rewards.{name}] has one key, column = "..." or metric = "..."; got '
                f"{', '.join(map(str, value)) or 'none'}"
            )
        value = next(iter(value.values()))
    if not isinstance(value, str):
        raise ConfigError(f"{job}: the reward '{name}' is a column or a metric, got {value!r}")
    return value


def _in_folder(spec: str, job: str) -> str:
    """Return the spec of a policy; paths of saved policies are relative to the job's file."""
    from counterrank.policies import parse_policy

    saved = parse_policy(spec).kind == "file"
    return _path(_folder(job), spec) if saved else spec


def _one(name: str, value: Any, job: str) -> str:
    """Return one value as the command line writes it.

    Lists are joined by commas; tables become `kind:option=value,...` or pairs.
    """
    if isinstance(value, Mapping):
        return _spec(name, value, job)
    if isinstance(value, list):
        return ",".join(_one(name, part, job) for part in value)
    if isinstance(value, date):  # TOML has dates of its own
        return value.isoformat()
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ConfigError(
            f"{job}: '{name}' must be a text, a number or a list of them, got {value!r}"
        )
    return str(value)


def _spec(name: str, value: Any, job: str) -> str:
    if not isinstance(value, Mapping):
        return _one(name, value, job)
    rest = ",".join(
        f"{key}={_one(name, part, job)}" for key, part in value.items() if key != "kind"
    )
    kind = value.get("kind")
    return rest if kind is None else f"{_one(name, kind, job)}:{rest}".rstrip(":")
