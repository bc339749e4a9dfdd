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

    def day(found: re.Match[str]) -> str:
        word, sign, days = found.groups()
        shift = int(f"{sign or ''}{days or 0}") - (word == "yesterday")
        try:
            return (datetime.now(UTC).date() + timedelta(days=shift)).isoformat()
        except OverflowError:
            raise ConfigError(f"there is no day {found[0]}") from None

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
        away = is_url(path)
        folder = path.rpartition("/")[0] if away else os.path.dirname(os.path.abspath(path))
        return cls(path, load_toml(path), folder)

    @classmethod
    def of(cls, text: str) -> "Job":
        """Return what --config was given: a file, or a key with its value.

        >>> Job.of("decimal=,").content, Job.of("columns.reward='clicks'").content
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
        found = self.content.get("log")
        if found is None or isinstance(found, Mapping):
            return None
        if not isinstance(found, str):
            raise ConfigError(
                f"{self.name}: 'log' must name the log, like log = \"log.parquet\"; got {found!r}"
            )
        return self.path(self.text(found))

    def values(self, command: str, *, alone: bool = False) -> Values:
        """Return the values of the options of a command.

        A file may serve several commands: keys of other commands are left aside, unless it is run
        `alone`. Files to write are those of the command that the file stands for.
        """
        # The time of the impressions is of use to every command that joins events.
        known, own = _by_key([*COMMANDS[command].options, "time"]), self.own(command)
        outside = dict(self.outside())
        if twice := sorted(own.keys() & outside.keys()):
            raise ConfigError(
                f"{self.name}: '{twice[0]}' stands both inside and outside of [{command}]"
            )
        others = {} if alone else _by_key(OPTIONS)
        mine = not self.folder or self.command == command
        found: Values = {}
        for key, value in {**outside, **own}.items():
            option = known.get(key)
            if option is None and key not in others:
                raise self.unknown(key, value, command, ["log", *known, *others])
            if option is None or (option.kind is Kind.OUTPUT and not mine and key not in own):
                continue
            if option.name in found:
                raise ConfigError(f"{self.name}: '{option.name}' is given twice, as '{key}' too")
            value = self.value(option, key, value)
            if value is not None:
                found[option.name] = value
        return found

    def own(self, command: str) -> Values:
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
                self.own(key)
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

    def unknown(self, key: str, value: Any, command: str, known: list[str]) -> ConfigError:
        """Return the error of a key that is no option."""
        near = suggestion(key, known)
        rare = (
            {*READING} - {"columns", "logger", "events", "where"} if command in COMMANDS else set()
        )
        hint = near or f"; known: {', '.join(sorted({*known} - rare))}"
        # A value that names another command shows what was meant.
        if isinstance(value, str) and value in TABLES:
            hint = f"; the options of {value} are keys of a table, [{value}]"
        return ConfigError(f"{self.name}: '{key}' is no option of {command}{hint}")

    def value(self, option: Option, key: str, given: Any) -> Any:
        """Return a value as its option has it; None where it says that the option is not wanted."""
        if option.bare is not None and isinstance(given, bool):
            return option.bare if given else None
        try:
            found = READERS[option.kind](self, option, given)
        except (TypeError, ValueError) as problem:
            # Errors of our own say more than the kind does.
            if isinstance(problem, CounterrankError):
                raise ConfigError(f"{self.name}: '{key}': {problem}") from None
            raise ConfigError(
                f"{self.name}: '{key}' must be {option.kind.value}, got {given!r:.100}"
            ) from None
        if option.words and option.kind is Kind.TEXT and found not in option.words:
            raise ConfigError(
                f"{self.name}: '{key}' must be one of {', '.join(option.words)}; got {given!r}"
            )
        return found

    def text(self, given: Any) -> str:
        """Return a text; TOML has numbers and dates of its own."""
        if isinstance(given, date):
            return given.isoformat()
        if isinstance(given, bool) or not isinstance(given, (str, int, float)):
            raise TypeError
        if "\0" in str(given):
            raise ConfigError(f"{given!r} has a NUL character, which no name has")
        return str(given)

    def path(self, text: str) -> str:
        """Return a path; in a file it is relative to it, and may name days."""
        text = with_days(text)
        return text if is_url(text) else os.path.join(self.folder, text)


def _by_key(names: Iterable[str]) -> dict[str, Option]:
    return {key: OPTIONS[name] for name in names for key in OPTIONS[name].keys}


def _flat(table: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    return ((key.replace("-", "_"), value) for key, value in table.items())


_TYPES: dict[Kind, Any] = {Kind.SWITCH: bool, Kind.NUMBER: (int, float), Kind.WHOLE: int}


def _plain(job: Job, option: Option, given: Any) -> Any:
    """Return true or false, or a number; TOML tells them apart."""
    switch = option.kind is Kind.SWITCH
    if isinstance(given, bool) is not switch or not isinstance(given, _TYPES[option.kind]):
        raise TypeError
    if option.kind is Kind.WHOLE and given < option.least:
        raise ConfigError(f"it is {option.least} or more, got {given}")
    return given


def _text(job: Job, option: Option, given: Any) -> str:
    text = job.text(given)
    kind, _, place = text.partition(":")
    if option.name == "connection" and kind in ("duckdb", "sqlite") and place:
        return f"{kind}:{job.path(place)}"
    return text


def _list(job: Job, option: Option, given: Any) -> str | tuple[Any, ...]:
    if not isinstance(given, list):
        return job.text(given)
    return tuple(one if isinstance(one, (int, float)) else job.text(one) for one in given)


def _many(job: Job, option: Option, given: Any) -> tuple[str, ...]:
    if isinstance(given, Mapping) and option.name == "target_lists":
        return tuple(f"{name}={job.path(job.text(path))}" for name, path in given.items())
    return tuple(job.text(one) for one in (given if isinstance(given, list) else [given]))


def _answers(job: Job, option: Option, given: Any) -> tuple[Any, ...]:
    """Return answers: texts, or tables of texts."""
    return tuple(
        {name: job.text(value) for name, value in one.items()}
        if isinstance(one, Mapping)
        else job.text(one)
        for one in (given if isinstance(given, list) else [given])
    )


def _file(job: Job, option: Option, given: Any) -> str:
    if not isinstance(given, str):
        raise TypeError
    path = given if given in ("-", *option.words) else job.path(job.text(given))
    # Taken literally, a job would write over the result of the night before.
    if option.kind is Kind.OUTPUT and (unread := _BRACES.search(path)):
        raise ConfigError(
            f"'{unread[0]}' in {given!r} is no day; write {{date}}, {{today}}, {{yesterday}} or "
            "{today-7}, and no other braces in the name of a result"
        )
    return path


def _tables(job: Job, option: Option, given: Any) -> tuple[dict[str, Any], ...]:
    """Return tables of scores as their keys: path, join and columns."""
    several = given if isinstance(given, (list, tuple)) else [given]
    found = []
    for one in several:
        table = dict(one) if isinstance(one, Mapping) else {"path": one}
        if "path" not in table or not isinstance(table["path"], str):
            raise ConfigError('it needs path = "FILE"')
        if unknown := sorted(table.keys() - {"path", "join", "columns"}):
            near = suggestion(unknown[0], ["path", "join", "columns"])
            raise ConfigError(f"'{unknown[0]}' is no key of it{near}; known: columns, join, path")
        columns = table.get("columns")
        if columns is not None and not isinstance(columns, Mapping):
            raise ConfigError('columns is a table, {b = "score_b"}')
        found.append({**table, "path": job.path(job.text(table["path"]))})
    return tuple(found)


def _pairs(job: Job, option: Option, given: Any) -> dict[str, str]:
    if not isinstance(given, Mapping):
        return named(option, _many(job, option, given))
    return {name: _metric(job, name, value) for name, value in given.items()}


def _metric(job: Job, name: str, given: Any) -> str:
    """Return how a metric is written: a text, or a table with `column` or `metric`."""
    if isinstance(given, Mapping):
        if len(given) != 1 or not given.keys() <= {"column", "metric"}:
            raise ConfigError(
                f'[rewards.{name}] has one key, column = "..." or metric = "..."; got '
                f"{', '.join(map(str, given)) or 'none'}"
            )
        given = next(iter(given.values()))
    if not isinstance(given, str):
        raise ConfigError(f"the reward '{name}' is a column or a metric, got {given!r}")
    return job.text(given)


def _policy(job: Job, option: Option, given: Any) -> Any:
    from counterrank.policies import parse_policy, policy_from_table

    if isinstance(given, Mapping):
        spec = policy_from_table(given, f"[{option.name}]")
    else:
        spec = parse_policy(job.text(given))
    return spec if spec.path is None else replace(spec, path=job.path(spec.path))


def _policies(job: Job, option: Option, given: Any) -> dict[str, Any]:
    pairs = given if isinstance(given, Mapping) else named(option, _many(job, option, given))
    return {name: _policy(job, option, one) for name, one in pairs.items()}


def _table(job: Job, option: Option, given: Any) -> Any:
    """Return columns or a condition, as a table or a text; days may stand in a condition."""
    days = with_days if option.kind is Kind.CONDITION else str
    if not isinstance(given, Mapping):
        if not isinstance(given, str):
            raise TypeError
        return days(job.text(given))
    return {name: days(one) if isinstance(one, str) else one for name, one in given.items()}


def named(option: Option, given: Iterable[str]) -> dict[str, str]:
    """Return texts NAME=TEXT by name; a column may stand alone.

    >>> named(OPTIONS["rewards"], ["clicks=click", "any=any(click)", "revenue"])
    {'clicks': 'click', 'any': 'any(click)', 'revenue': 'revenue'}
    """
    found: dict[str, str] = {}
    for text in given:
        name, sign, value = (part.strip() for part in text.partition("="))
        value = value if sign or option.kind is not Kind.METRICS else name
        if not name or not value:
            raise ConfigError(f"{option.spelled} is '{text}'; write {option.metavar}")
        if name in found:
            raise ConfigError(f"{option.spelled} gives '{name}' twice")
        found[name] = value
    return found


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
