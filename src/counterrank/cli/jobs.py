"""Job files: which command a file stands for, and its keys and values as the table of options has them."""

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

from counterrank.common.errors import ConfigError, CounterrankError
from counterrank.common.options import COMMANDS, NESTED, OPTIONS, READING, Kind, Option
from counterrank.common.stores import is_url
from counterrank.common.texts import suggestion

#: Values of options by name.
Values = dict[str, Any]
#: Commands that a table of their name stands for.
TABLES = sorted(COMMANDS.keys() - {"evaluate"})

_DAY = re.compile(r"\{(date|today|yesterday)(?:([+-])(\d{1,6}))?\}")
#: What stands in braces and is no day.
_BRACES = re.compile(r"\{[^{}]*\}?|\}")


def with_days(text: str) -> str:
    """Return a text with {today}, {yesterday} and {today-7} as days like 2026-01-31 (UTC).

    >>> len(with_days("day >= '{today-7}'"))
    19
    """

    def day(match: re.Match[str]) -> str:
        word, sign, days = match.groups()
        shift = int(f"{sign or ''}{days or 0}") - (word == "yesterday")
        try:
            return (datetime.now(UTC).date() + timedelta(days=shift)).isoformat()
        except OverflowError:
            raise ConfigError(f"there is no day {match[0]}") from None

    return _DAY.sub(day, text)


@dataclass(frozen=True, slots=True)
class Job:
    """The content of a job file, or of a KEY=VALUE on the command line."""

    #: How messages name it.
    name: str
    content: Mapping[str, Any]
    #: What paths are relative to; none on the command line.
    folder: str = ""

    @classmethod
    def read(cls, path: str) -> "Job":
        """Return a job file."""
        from counterrank.io import load_toml

        if "\0" in path:
            raise ConfigError(f"cannot read {path!r}: no path has a NUL character")
        remote = is_url(path)
        folder = path.rpartition("/")[0] if remote else os.path.dirname(os.path.abspath(path))
        return cls(path, load_toml(path), folder)

    @classmethod
    def parse(cls, text: str) -> "Job":
        """Return what --config was given: a file, or a key with its value.

        >>> Job.parse("decimal=,").content, Job.parse("columns.reward='clicks'").content
        ({'decimal': ','}, {'columns': {'reward': 'clicks'}})
        """
        key, sign, value = text.partition("=")
        if not sign or text.endswith(".toml") or os.path.exists(text):
            return cls.read(text)
        try:
            content = tomllib.loads(text)
        except (ValueError, RecursionError):
            # A shell has taken the quotes of a text, or the user left them out.
            content = {key.strip(): value}
        return cls("--config", content)

    @property
    def command(self) -> str:
        """The command that the file stands for: that of its table, or `evaluate`."""
        named = [name for name in TABLES if name in self.content]
        if len(named) > 1:
            raise ConfigError(
                f"{self.name}: a file is one job, but it has [{named[0]}] and [{named[1]}]"
            )
        return named[0] if named else "evaluate"

    @property
    def log(self) -> str | None:
        """The log that the file names, if it does."""
        path = self.content.get("log")
        if path is None or isinstance(path, Mapping):
            return None
        if not isinstance(path, str):
            raise ConfigError(
                f"{self.name}: 'log' must name the log, like log = \"log.parquet\"; got {path!r}"
            )
        return self.path(self.text(path))

    def values(self, command: str, *, alone: bool = False) -> Values:
        """Return the values of the options of a command.

        A file may serve several commands: keys of other commands are left aside, unless it is run
        `alone`. Files to write are those of the command that the file stands for.
        """
        # The time of the impressions is of use to every command that joins events.
        by_key, table = _by_key([*COMMANDS[command].options, "time"]), self.table_of(command)
        outside = dict(self.outside())
        if twice := sorted(table.keys() & outside.keys()):
            raise ConfigError(
                f"{self.name}: '{twice[0]}' stands both inside and outside of [{command}]"
            )
        elsewhere = {} if alone else _by_key(OPTIONS)
        mine = not self.folder or self.command == command
        values: Values = {}
        for key, value in {**outside, **table}.items():
            option = by_key.get(key)
            if option is None and key not in elsewhere:
                raise self.unknown(key, value, command, ["log", *by_key, *elsewhere])
            if option is None or (option.kind is Kind.OUTPUT and not mine and key not in table):
                continue
            if option.name in values:
                raise ConfigError(f"{self.name}: '{option.name}' is given twice, as '{key}' too")
            value = self.value(option, key, value)
            if value is not None:
                values[option.name] = value
        return values

    def table_of(self, command: str) -> Values:
        """Return the keys in the table of a command."""
        if command not in TABLES:
            return {}
        table = self.content.get(command, {})
        if not isinstance(table, Mapping):
            raise ConfigError(
                f"{self.name}: '{command}' is a table, [{command}], with the options of {command}"
            )
        return dict(_flat(table))

    def outside(self) -> Iterable[tuple[str, Any]]:
        """Yield the keys that stand in no command's table; those of a table [log] are among them."""
        for key, value in _flat(self.content):
            if key in TABLES:
                self.table_of(key)
            elif key == "log":
                yield from _flat(value) if isinstance(value, Mapping) else ()
            elif key in NESTED and isinstance(value, Mapping):
                yield from self.nested(key, value)
            else:
                yield key, value

    def nested(self, table: str, content: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
        """Yield the options that the keys of a table stand for."""
        for key, value in _flat(content):
            if key not in NESTED[table]:
                raise self.unknown(key, value, f"[{table}]", list(NESTED[table]))
            yield NESTED[table][key], value

    def unknown(self, key: str, value: Any, command: str, keys: list[str]) -> ConfigError:
        """Return the error of a key that is no option."""
        near = suggestion(key, keys)
        rare = (
            {*READING} - {"columns", "logger", "events", "where"} if command in COMMANDS else set()
        )
        hint = near or f"; known: {', '.join(sorted({*keys} - rare))}"
        # A value that names another command shows what was meant.
        if isinstance(value, str) and value in TABLES:
            hint = f"; the options of {value} are keys of a table, [{value}]"
        return ConfigError(f"{self.name}: '{key}' is no option of {command}{hint}")

    def value(self, option: Option, key: str, raw: Any) -> Any:
        """Return a value as its option has it; None where it says that the option is not wanted."""
        if option.bare is not None and isinstance(raw, bool):
            return option.bare if raw else None
        try:
            value = READERS[option.kind](self, option, raw)
        except (TypeError, ValueError) as problem:
            # Errors of our own say more than the kind does.
            if isinstance(problem, CounterrankError):
                raise ConfigError(f"{self.name}: '{key}': {problem}") from None
            raise ConfigError(
                f"{self.name}: '{key}' must be {option.kind.value}, got {raw!r:.100}"
            ) from None
        if option.words and option.kind is Kind.TEXT and value not in option.words:
            raise ConfigError(
                f"{self.name}: '{key}' must be one of {', '.join(option.words)}; got {raw!r}"
            )
        return value

    def text(self, value: Any) -> str:
        """Return a text; TOML has numbers and dates of its own."""
        if isinstance(value, date):
            return value.isoformat()
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise TypeError
        if "\0" in str(value):
            raise ConfigError(f"{value!r} has a NUL character, which no name has")
        return str(value)

    def path(self, text: str) -> str:
        """Return a path; in a file it is relative to it, and may name days."""
        text = with_days(text)
        return text if is_url(text) else os.path.join(self.folder, text)


def _by_key(names: Iterable[str]) -> dict[str, Option]:
    return {key: OPTIONS[name] for name in names for key in OPTIONS[name].keys}


def _flat(table: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    return ((key.replace("-", "_"), value) for key, value in table.items())


_TYPES: dict[Kind, Any] = {Kind.SWITCH: bool, Kind.NUMBER: (int, float), Kind.WHOLE: int}


def _plain(job: Job, option: Option, value: Any) -> Any:
    """Return true or false, or a number; TOML tells them apart."""
    switch = option.kind is Kind.SWITCH
    if isinstance(value, bool) is not switch or not isinstance(value, _TYPES[option.kind]):
        raise TypeError
    if option.kind is Kind.WHOLE and value < option.least:
        raise ConfigError(f"it is {option.least} or more, got {value}")
    return value


def _text(job: Job, option: Option, value: Any) -> str:
    text = job.text(value)
    kind, _, place = text.partition(":")
    if option.name == "connection" and kind in ("duckdb", "sqlite") and place:
        return f"{kind}:{job.path(place)}"
    return text


def _list(job: Job, option: Option, value: Any) -> str | tuple[Any, ...]:
    if not isinstance(value, list):
        return job.text(value)
    return tuple(entry if isinstance(entry, (int, float)) else job.text(entry) for entry in value)


def _many(job: Job, option: Option, value: Any) -> tuple[str, ...]:
    if isinstance(value, Mapping) and option.name == "target_lists":
        return tuple(f"{name}={job.path(job.text(path))}" for name, path in value.items())
    return tuple(job.text(entry) for entry in (value if isinstance(value, list) else [value]))


def _answers(job: Job, option: Option, value: Any) -> tuple[Any, ...]:
    """Return answers: texts, or tables of texts."""
    return tuple(
        {name: job.text(text) for name, text in answer.items()}
        if isinstance(answer, Mapping)
        else job.text(answer)
        for answer in (value if isinstance(value, list) else [value])
    )


def _file(job: Job, option: Option, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    path = value if value in ("-", *option.words) else job.path(job.text(value))
    # Taken literally, a job would write over the result of the night before.
    if option.kind is Kind.OUTPUT and (unread := _BRACES.search(path)):
        raise ConfigError(
            f"'{unread[0]}' in {value!r} is no day; write {{date}}, {{today}}, {{yesterday}} or "
            "{today-7}, and no other braces in the name of a result"
        )
    return path


def _tables(job: Job, option: Option, value: Any) -> tuple[dict[str, Any], ...]:
    """Return tables of scores as their keys: path, join and columns."""
    several = value if isinstance(value, (list, tuple)) else [value]
    tables = []
    for entry in several:
        table = dict(entry) if isinstance(entry, Mapping) else {"path": entry}
        if "path" not in table or not isinstance(table["path"], str):
            raise ConfigError('it needs path = "FILE"')
        if unknown := sorted(table.keys() - {"path", "join", "columns"}):
            near = suggestion(unknown[0], ["path", "join", "columns"])
            raise ConfigError(f"'{unknown[0]}' is no key of it{near}; known: columns, join, path")
        columns = table.get("columns")
        if columns is not None and not isinstance(columns, Mapping):
            raise ConfigError('columns is a table, {b = "score_b"}')
        tables.append({**table, "path": job.path(job.text(table["path"]))})
    return tuple(tables)


def _pairs(job: Job, option: Option, value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        return named(option, _many(job, option, value))
    return {name: _metric(job, name, metric) for name, metric in value.items()}


def _metric(job: Job, name: str, metric: Any) -> str:
    """Return how a metric is written: a text, or a table with `column` or `metric`."""
    if isinstance(metric, Mapping):
        if len(metric) != 1 or not metric.keys() <= {"column", "metric"}:
            raise ConfigError(
                f'[rewards.{name}] has one key, column = "..." or metric = "..."; got '
                f"{', '.join(map(str, metric)) or 'none'}"
            )
        metric = next(iter(metric.values()))
    if not isinstance(metric, str):
        raise ConfigError(f"the reward '{name}' is a column or a metric, got {metric!r}")
    return job.text(metric)


def _policy(job: Job, option: Option, value: Any) -> Any:
    from counterrank.policies import parse_policy, policy_from_table

    if isinstance(value, Mapping):
        spec = policy_from_table(value, f"[{option.name}]")
    else:
        spec = parse_policy(job.text(value))
    return spec if spec.path is None else replace(spec, path=job.path(spec.path))


def _policies(job: Job, option: Option, value: Any) -> dict[str, Any]:
    pairs = value if isinstance(value, Mapping) else named(option, _many(job, option, value))
    return {name: _policy(job, option, policy) for name, policy in pairs.items()}


def _table(job: Job, option: Option, value: Any) -> Any:
    """Return columns or a condition, as a table or a text; days may stand in a condition."""
    days = with_days if option.kind is Kind.CONDITION else str
    if not isinstance(value, Mapping):
        if not isinstance(value, str):
            raise TypeError
        return days(job.text(value))
    return {name: days(entry) if isinstance(entry, str) else entry for name, entry in value.items()}


def named(option: Option, texts: Iterable[str]) -> dict[str, str]:
    """Return texts NAME=TEXT by name; a column may stand alone.

    >>> named(OPTIONS["rewards"], ["clicks=click", "any=any(click)", "revenue"])
    {'clicks': 'click', 'any': 'any(click)', 'revenue': 'revenue'}
    """
    by_name: dict[str, str] = {}
    for text in texts:
        name, sign, value = (word.strip() for word in text.partition("="))
        value = value if sign or option.kind is not Kind.METRICS else name
        if not name or not value:
            raise ConfigError(f"{option.spelled} is '{text}'; write {option.metavar}")
        if name in by_name:
            raise ConfigError(f"{option.spelled} gives '{name}' twice")
        by_name[name] = value
    return by_name


#: How the values of each kind are read.
READERS: dict[Kind, Callable[[Job, Option, Any], Any]] = {
    Kind.TEXT: _text,
    **dict.fromkeys(_TYPES, _plain),
    Kind.LIST: _list,
    Kind.MANY: _many,
    Kind.ANSWERS: _answers,
    Kind.FILE: _file,
    Kind.OUTPUT: _file,
    Kind.TABLES: _tables,
    Kind.COLUMNS: _table,
    Kind.CONDITION: _table,
    Kind.PAIRS: _pairs,
    Kind.METRICS: _pairs,
    Kind.POLICY: _policy,
    Kind.POLICIES: _policies,
}
