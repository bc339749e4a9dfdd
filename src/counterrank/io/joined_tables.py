"""Tables joined to a log as a user describes them: what users did, and what rankers scored."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from counterrank.common.errors import ConfigError
from counterrank.io import sql

#: A duration, and the seconds of its unit by the first letter.
_DURATION = re.compile(
    r"\s*(\d+(?:\.\d+)?)\s*(s(?:ec(?:ond)?)?|m(?:in(?:ute)?)?|h(?:our)?|d(?:ay)?|w(?:eek)?)s?\s*"
)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def unusable_keys(keys_given: Any, table: str, option: str) -> ConfigError:
    """Return the error about keys that cannot be understood."""
    return ConfigError(
        f"{table} are joined by columns, like request_id,item_id or log_name={table}_name where names "
        f"differ; got {keys_given!r} ({option})"
    )


def join_keys(
    keys_given: str | Iterable[str] | None, table: str, option: str
) -> tuple[tuple[str, str], ...]:
    """Return the columns by which two tables are joined: of the log, and of the other table.

    >>> join_keys("request=request_id, item", "events", "--join")
    (('request', 'request_id'), ('item', 'item'))
    """
    texts = keys_given.split(",") if isinstance(keys_given, str) else list(keys_given or ())
    pairs = [tuple(key.strip() for key in str(text).split("=")) for text in texts]
    if any(len(pair) > 2 or not all(pair) for pair in pairs):
        raise unusable_keys(keys_given, table, option)
    return tuple((pair[0], pair[-1]) for pair in pairs)


def written_keys(keys: Iterable[tuple[str, str]]) -> list[str]:
    """Return keys as a job writes them.

    >>> written_keys([("request", "request_id"), ("item", "item")])
    ['request=request_id', 'item']
    """
    return [mine if mine == theirs else f"{mine}={theirs}" for mine, theirs in keys]


class JoinedTable:
    """A table joined to a log: what events and scores have in common."""

    __slots__ = ()

    path: Any
    keys: tuple[tuple[str, str], ...]
    #: What messages call a table that has no path.
    named: ClassVar[str]

    def __fspath__(self) -> str:
        return self.path if isinstance(self.path, str) else ""

    @property
    def title(self) -> str:
        """What messages call the table."""
        return self.__fspath__() or self.named

    @property
    def record(self) -> dict[str, str]:
        """How it was written, for the record of a result."""
        joined = ", ".join(written_keys(self.keys))
        return {"path": self.title} | ({"join": joined} if joined else {}) | self.settings

    @property
    def settings(self) -> dict[str, str]:
        """What is said of the table but its path and keys, as text."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Events(JoinedTable):
    """A table of events and how its rows become rewards.

    Parameters
    ----------
    path
        A file, folder or pattern, as for a log, or a table.
    on
        The columns by which an event finds what was shown: ["request_id", "item_id"], or
        "shown=event" where the names differ. Without the item, rewards are of the whole page.
    rewards
        Names and SQL aggregates over the events of one shown item:
        {"clicks": "count(*) filter (where event = 'click')", "revenue": "sum(revenue)"}.
    within
        Only events up to so long after the impression count: "30 minutes".
    time
        The column with the time of an event.
    shown
        The column with the time of the impression, where it is called otherwise than `time`.
    unique
        The columns that are the key of one event, ["event_id"]: of several rows with one key only the
        first counts. Empty: every row counts.

    Examples
    --------
    >>> Events("events.parquet", on="request=request_id, item", rewards={"clicks": "count(*)"}).keys
    (('request', 'request_id'), ('item', 'item'))
    """

    named: ClassVar[str] = "the events"
    path: Any
    on: str | Iterable[str]
    rewards: Mapping[str, str]
    within: str | None = None
    time: str | None = None
    shown: str | None = None
    unique: str | Iterable[str] = ()
    keys: tuple[tuple[str, str], ...] = field(init=False)

    def __post_init__(self) -> None:
        put = object.__setattr__
        if isinstance(self.path, (str, os.PathLike)):
            put(self, "path", os.fspath(self.path))
        put(self, "keys", join_keys(self.on, "events", "--join"))
        if not self.keys:
            raise unusable_keys(self.on, "events", "--join")
        names = self.unique.split(",") if isinstance(self.unique, str) else [*self.unique]
        put(self, "unique", tuple(filter(None, (str(name).strip() for name in names))))
        if not self.rewards or not isinstance(self.rewards, Mapping):
            raise ConfigError(
                "say what events are worth, like clicks=count(*) or revenue=sum(revenue) (--event)"
            )
        for name, text in self.rewards.items():
            if not str(text).strip() or not isinstance(text, str):
                raise ConfigError(f"the event '{name}' needs an aggregate, like count(*)")
            sql.parsed(text, f"the aggregate of '{name}'")
        if self.microseconds is not None and self.time is None:
            raise ConfigError("a window needs the time of events: name its column (--event-time)")

    @property
    def names(self) -> tuple[str, ...]:
        """The rewards, in their order."""
        return tuple(self.rewards)

    @property
    def microseconds(self) -> int | None:
        """The window."""
        if self.within is None:
            return None
        duration = _DURATION.fullmatch(str(self.within).lower())
        if duration is None or not float(duration[1]):
            raise ConfigError(
                f"'{self.within}' is no duration; write '30 minutes', '2 hours' or '1 day' (--within)"
            )
        return int(float(duration[1]) * _SECONDS[duration[2][0]] * 1e6)

    @property
    def used(self) -> set[str]:
        """The columns of events that are looked at."""
        names = {theirs for _, theirs in self.keys} | ({self.time} if self.time else set())
        texts = self.rewards.values()
        return names.union(*(sql.parsed(text, "the aggregate")[1] for text in texts))

    @property
    def settings(self) -> dict[str, str]:
        """The window, the time, the key of an event and the rewards."""
        pairs = (("within", self.within), ("time", self.time), ("unique", ", ".join(self.unique)))
        record = {name: text for name, text in pairs if text}
        return record | {f"reward {name}": text for name, text in self.rewards.items()}

    def seen_at(self, column: str | None) -> Events:
        """Return the same with the column of the impression's time, unless it has one."""
        shown_time = self.shown or column or (self.time if self.within is not None else None)
        if shown_time == self.shown:
            return self
        return replace(self, shown=shown_time)

    def with_names(self, rewards: Any) -> dict[str, Any]:
        """Return every event as a metric, and those that the user names beside them."""
        metrics = (
            rewards if isinstance(rewards, Mapping) else {name: name for name in rewards or ()}
        )
        return {**{name: name for name in self.names}, **metrics}

    def of_page(self, items: Iterable[str]) -> bool:
        """Whether the join does not look at the item: one reward per ranking."""
        return not {shown for shown, _ in self.keys} & set(items)


@dataclass(frozen=True, slots=True)
class Scores(JoinedTable):
    """A table of scores, and how its rows belong to the candidates of a log.

    Parameters
    ----------
    path
        A file, folder or pattern, as for a log, or a table.
    on
        The columns by which a row finds its candidate: ["request_id", "item_id"], or
        "log_name=scores_name" where the names differ. None: the request and the item, by the names that
        both tables have.
    columns
        The columns of scores by the name of their target, {"b": "score_b"}. None: every numeric column
        that is no key and no column of the log; `score_b`, `b_score`, `scores_b` and `b_scores` belong
        to `b`, and a column `score` that is the only one to the target with the name of the file.

    Examples
    --------
    >>> Scores("scores.parquet", on="query=request_id, item", columns={"b": "score_b"}).keys
    (('query', 'request_id'), ('item', 'item'))
    """

    named: ClassVar[str] = "the table of scores"
    path: Any
    on: str | Iterable[str] | None = None
    columns: Mapping[str, str] | None = None
    keys: tuple[tuple[str, str], ...] = field(init=False)

    def __post_init__(self) -> None:
        put = object.__setattr__
        if isinstance(self.path, (str, os.PathLike)):
            put(self, "path", os.fspath(self.path))
        put(self, "keys", join_keys(self.on, "scores", "--scores-join"))
        columns: Any = self.columns
        if columns is None:
            return
        texts = [*columns.items()] if isinstance(columns, Mapping) else []
        if not texts or not all(isinstance(text, str) and text for pair in texts for text in pair):
            raise ConfigError(
                f"the columns of scores are given by target, {{'b': 'score_b'}}; got {columns!r}"
            )

    @property
    def settings(self) -> dict[str, str]:
        """The columns of the targets."""
        return {f"scores of {name}": column for name, column in (self.columns or {}).items()}


def scores_of(tables: Any) -> tuple[Scores, ...]:
    """Return tables of scores, given as one, several, or their paths."""
    several = tables if isinstance(tables, (list, tuple)) else [tables]
    if not all(isinstance(table, (Scores, str, os.PathLike)) for table in several):
        raise ConfigError(
            f"scores is counterrank.Scores(path, on=[...]), or several of them; got {tables!r:.200}"
        )
    return tuple(table if isinstance(table, Scores) else Scores(table) for table in several)
