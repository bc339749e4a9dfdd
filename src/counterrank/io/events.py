"""Rewards from a table of events: what users did, joined to what they were shown."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from counterrank.common.errors import ConfigError, LogError
from counterrank.common.findings import FAILED, PASSED, WARNED, Finding
from counterrank.common.texts import in_percent, listed, suggestion
from counterrank.data.events import JoinedEvents
from counterrank.io import sql, values

_UNITS = {
    "s": 1,
    "sec": 1,
    "second": 1,
    "m": 60,
    "min": 60,
    "minute": 60,
    "h": 3600,
    "hour": 3600,
    "d": 86400,
    "day": 86400,
    "w": 604800,
    "week": 604800,
}
#: Shares of the events from which on a finding warns, and below which a join is none.
_WARNED, _NONE = 0.01, 0.02
#: Microseconds within which an equal event is the same one sent again; standard errors by which there are
#: more of them than in as many microseconds after; the share of copies from which on all was loaded twice.
_AGAIN, _SPREAD, _LOADED_TWICE = 10_000_000, 5.0, 0.25


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


@dataclass(frozen=True, slots=True)
class Events:
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

    def __fspath__(self) -> str:
        return self.path if isinstance(self.path, str) else ""

    @property
    def names(self) -> tuple[str, ...]:
        """The rewards, in their order."""
        return tuple(self.rewards)

    @property
    def microseconds(self) -> int | None:
        """The window."""
        if self.within is None:
            return None
        duration = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+?)s?\s*", str(self.within).lower())
        if duration is None or duration[2] not in _UNITS or not float(duration[1]):
            raise ConfigError(
                f"'{self.within}' is no duration; write '30 minutes', '2 hours' or '1 day' (--within)"
            )
        return int(float(duration[1]) * _UNITS[duration[2]] * 1e6)

    @property
    def used(self) -> set[str]:
        """The columns of events that are looked at."""
        names = {theirs for _, theirs in self.keys} | ({self.time} if self.time else set())
        texts = self.rewards.values()
        return names.union(*(sql.parsed(text, "the aggregate")[1] for text in texts))

    @property
    def said(self) -> dict[str, str]:
        """How it was written, for the record of a result."""
        joined = ", ".join(a if a == b else f"{a}={b}" for a, b in self.keys)
        record = {"path": self.path if isinstance(self.path, str) else "a table", "join": joined}
        record |= {"within": self.within} if self.within else {}
        return record | {f"reward {name}": text for name, text in self.rewards.items()}

    def seen_at(self, column: str | None) -> Events:
        """Return the same with the column of the impression's time, unless it has one."""
        shown_time = self.shown or column or (self.time if self.within is not None else None)
        if shown_time == self.shown:
            return self
        return replace(self, shown=shown_time)

    def with_names(self, rewards: Any) -> dict[str, Any]:
        """Return every event as a metric, and those that the user names beside them."""
        further = (
            rewards if isinstance(rewards, Mapping) else {name: name for name in rewards or ()}
        )
        return {**{name: name for name in self.names}, **further}

    def of_page(self, items: Iterable[str]) -> bool:
        """Whether the join does not look at the item: one reward per ranking."""
        return not {shown for shown, _ in self.keys} & set(items)


class Join:
    """The join of events to what was shown, in a connection where both are views."""

    def __init__(self, opened: Any, events: Events, columns: Mapping[str, pa.DataType]) -> None:
        self.opened, self.events, self.columns = opened, events, columns
        self.name = events.path if isinstance(events.path, str) else "the events"
        #: Rows that repeated an event and were left out.
        self.removed = 0
        #: The condition on pairs that events count.
        self.inside = "true"

    def remove_copies(self) -> None:
        """Leave out rows that repeat an event: those of one key, or else exact copies where events have times.

        Without a time two clicks of one person look like one, so that nothing is left out.
        """
        keys = list(self.events.unique)
        for name in keys:
            if name not in self.columns:
                raise LogError(
                    f"{self.name} has no column '{name}' for the key of an event"
                    f"{suggestion(name, self.columns)}; columns are {listed(self.columns)}"
                )
        if not keys and not self.times:
            return
        by = ", ".join(map(sql.name, keys or self.columns))
        (self.removed,) = self.opened.execute(
            'DELETE FROM events WHERE " number" IN (SELECT " number" FROM events '
            f'QUALIFY row_number() OVER (PARTITION BY {by} ORDER BY " number") > 1)'
        ).fetchall()[0]

    @property
    def times(self) -> list[str]:
        """The columns that tell two events of one kind apart: times, to the second or so."""
        time = self.events.time
        named = [time] if time is not None and time in self.columns else []
        stamps = [name for name, kind in self.columns.items() if pa.types.is_timestamp(kind)]
        fine_times = []
        for name in dict.fromkeys([*named, *stamps]):
            if pa.types.is_date(self.columns[name]):
                continue
            value = sql.name(name)
            days = (
                self._row(
                    f"SELECT count(*) FILTER (CAST(t AS TIME) <> TIME '00:00:00') FROM (SELECT {value} AS t "
                    f"FROM events LIMIT 10000)"
                )[0]
                if pa.types.is_timestamp(self.columns[name])
                else 1
            )
            fine_times += [name] * bool(days)
        return fine_times

    def run(self, shown: str, *, timed: bool, pages: Sequence[int]) -> JoinedEvents:
        """Make a table `rewards` of id and rewards, and audit the join.

        `shown` is a query of " id", the keys k0, k1, ... and, where `timed`, the moment " t" of what was
        shown; the keys numbered by `pages` are those of the ranking.
        """
        keys = [f"e.{sql.name(theirs)} = s.k{i}" for i, (_, theirs) in enumerate(self.events.keys)]
        when = self.moment("events", self.events.time or "", "e") if timed else "NULL"
        self.opened.execute(
            f'CREATE TEMP TABLE pairs AS SELECT s." id" AS id, e." number" AS event, '
            f"({when}) - {'s.' + sql.name(' t') if timed else 'NULL'} AS later "
            f"FROM ({shown}) s JOIN events e ON {' AND '.join(keys)}"
        )
        window = self.events.microseconds
        inside = self.inside = "true" if window is None else f"later BETWEEN 0 AND {window}"
        aggregates = ", ".join(
            f"CAST(({text}\n) AS DOUBLE) AS {sql.name(name)}"
            for name, text in self.events.rewards.items()
        )
        self._refuse_aggregates()
        chosen = ", ".join(f"e.{sql.name(name)}" for name in self.columns)
        self.opened.execute(
            f'CREATE TEMP TABLE rewards AS SELECT " id", {aggregates} FROM '
            f'(SELECT p.id AS " id", {chosen} FROM pairs p JOIN events e ON p.event = e." number" '
            f'WHERE {inside}) GROUP BY " id"'
        )
        return self._audited(shown, inside, pages)

    def moment(self, table: str, column: str, alias: str = "") -> str:
        """Return SQL for a point in time in microseconds; text and numbers are understood too."""
        name = sql.name(column)
        types = self.opened.execute(f"SELECT typeof({name}) FROM {table} LIMIT 1").fetchall()
        # A column that is empty in every row has no type.
        kind = types[0][0] if types and "NULL" not in types[0][0] else "TIMESTAMP"
        if kind != "VARCHAR" and not kind.startswith(("TIMESTAMP", "DATE", *_NUMBERS)):
            raise LogError(f"'{column}' holds {kind}, which is no time", remedy="write a timestamp")
        bad = self.opened.execute(
            f"SELECT {name} FROM {table} WHERE {name} IS NOT NULL AND {_moment(name, kind)} IS NULL "
            "LIMIT 1"
        ).fetchall()
        if bad:
            raise LogError(
                f"'{column}' is {bad[0][0]!r} in {self.name if table == 'events' else 'the log'}, "
                "which is no time",
                remedy="write times like 2026-10-01 12:00:00, or seconds since 1970",
            )
        return _moment(f"{alias}.{name}" if alias else name, kind)

    def refuse_types(self, types: Mapping[str, pa.DataType]) -> None:
        """Raise where there is no event, or where a key or a time is missing or of another type."""
        # A file without rows has no types: their message would mislead.
        if not self._row("SELECT count(*) FROM (SELECT 1 FROM events LIMIT 1)")[0]:
            raise LogError(f"{self.name} is empty: there are no events to join")
        used = {theirs: "to join by" for _, theirs in self.events.keys}
        if self.events.time is not None:
            used.setdefault(self.events.time, "with the time of an event")
        for name, use in used.items():
            if name not in self.columns:
                raise LogError(
                    f"{self.name} has no column '{name}' {use}{suggestion(name, self.columns)}; "
                    f"columns are {listed(self.columns)}"
                )
        for shown, theirs in self.events.keys:
            log_is_text, event_is_text = (
                values.is_text(types[shown]),
                values.is_text(self.columns[theirs]),
            )
            if log_is_text != event_is_text or values.is_list(self.columns[theirs]):
                raise LogError(
                    f"the key '{shown}' holds {types[shown]} in the log, but '{theirs}' holds "
                    f"{self.columns[theirs]} in {self.name}",
                    remedy="write both with one type, as text or as whole numbers",
                )

    def _refuse_aggregates(self) -> None:
        for name, text in self.events.rewards.items():
            subject = f"the aggregate of '{name}', {text[:200]!r},"
            with sql.plainly(
                f"{subject} cannot be used", remedy="write one like count(*) or sum(revenue)"
            ):
                answer = sql.table(
                    self.opened,
                    f"SELECT ({text}\n) AS found FROM events GROUP BY {sql.name(' number')}"
                    " LIMIT 0",
                )
            kind = answer.schema.types[0]
            if not (values.is_number(kind) or pa.types.is_boolean(kind)):
                raise ConfigError(f"{subject} gives {kind}; a reward is a number")

    def _row(self, query: str) -> tuple[Any, ...]:
        row: tuple[Any, ...] = self.opened.execute(query).fetchall()[0]
        return row

    def _audited(self, shown: str, inside: str, pages: Sequence[int]) -> JoinedEvents:
        keys = self.events.keys
        (rows,) = self._row("SELECT count(*) FROM events")
        joined, several, early, late = self._row(
            f"SELECT count(DISTINCT event) FILTER ({inside}), count(*) FILTER ({inside}) - "
            f"count(DISTINCT event) FILTER ({inside}), count(DISTINCT event) FILTER (later < 0), "
            f"count(DISTINCT event) FILTER (later >= 0 AND NOT ({inside})) FROM pairs"
        )
        unmatched = 'SELECT e.* FROM events e WHERE e." number" NOT IN (SELECT event FROM pairs)'
        (lost,) = self._row(f"SELECT count(*) FROM ({unmatched})")
        elsewhere = 0
        if lost and 0 < len(pages) < len(keys):
            by = " AND ".join(f"u.{sql.name(keys[i][1])} = s.k{i}" for i in pages)
            (elsewhere,) = self._row(
                f'SELECT count(DISTINCT u." number") FROM ({unmatched}) u JOIN ({shown}) s ON {by}'
            )
        orphans = lost - elsewhere
        copies = [*filter(None, self._copies(rows + self.removed))]
        repeats = self._row("SELECT count(*) FROM repeats")[0]
        findings = [
            *self._matched(rows, joined, lost, shown),
            _finding(
                "orphans",
                orphans,
                rows,
                "find no ranking",
                "events of pages that are not in the log, or rankings that were lost",
                "log every page, or leave these events out",
            ),
            _finding(
                "unshown",
                elsewhere,
                rows,
                "name an item that its ranking did not show",
                "another key than the item's, or lists that were cut",
                "log what was really shown",
            ),
            *copies,
            _finding(
                "early",
                early,
                rows,
                "come before what they would be a reaction to",
                "clocks that differ, or another ranking's key",
                "compare the clocks and time zones",
            ),
            _finding(
                "several",
                several,
                rows,
                "count for more than one shown item",
                "keys that do not name one ranking",
                "join by the ranking's own id",
            ),
        ]
        if late:
            text = f"{late:,} events come after the window of {self.events.within}"
            findings.append(Finding("rewards-events-late", PASSED, text))
        return JoinedEvents(
            rows + self.removed,
            joined,
            orphans,
            repeats + self.removed,
            tuple(f for f in findings if f),
        )

    def _repeats(self, rows: int) -> int:
        """Make a table `repeats` of events that seem to be others sent again, and return how many there are.

        Without times these are exact copies, with times equal events within seconds: as many more as
        the next seconds hold, which are as long.
        """
        times = self.times
        if self.events.unique or not rows:
            self.opened.execute(
                'CREATE TEMP TABLE repeats AS SELECT " number" AS number FROM events LIMIT 0'
            )
            return 0
        names = [name for name in self.columns if name not in times]
        if times:
            # An id of a row's own tells nothing: a copy that is sent again gets another.
            counts = ", ".join(f"count(DISTINCT {sql.name(n)})" for n in names)
            distinct = dict(zip(names, self._row(f"SELECT {counts} FROM events"), strict=True))
            used = {theirs for _, theirs in self.events.keys}
            names = [n for n in names if distinct[n] < rows or n in used]
        by = ", ".join(map(sql.name, names))
        when = self.moment("events", times[0]) if times else "0"
        self.opened.execute(
            f'CREATE TEMP TABLE repeats AS SELECT * FROM (SELECT " number" AS number, {when} - lag({when}) OVER '
            f'(PARTITION BY {by} ORDER BY {when}, " number") AS gap FROM events) WHERE gap <= {2 * _AGAIN}'
        )
        soon, later = self._row(
            f"SELECT count(*) FILTER (gap <= {_AGAIN}), count(*) FILTER (gap > {_AGAIN}) FROM repeats"
        )
        self.opened.execute(f"DELETE FROM repeats WHERE gap > {_AGAIN}")
        # People repeat themselves too, about as often in the next seconds.
        if times and soon - later < max(_SPREAD * (soon + later) ** 0.5, _WARNED * rows / 2):
            return 0
        return int(soon)

    def _effects(self, repeats: int) -> list[str]:
        """Return by how much events that seem to be others sent again raise each reward."""
        if not repeats:
            return []
        chosen = ", ".join(f"e.{sql.name(name)}" for name in self.columns)
        parts = []
        for name, text in self.events.rewards.items():
            value = sql.name(name)
            once = (
                f'SELECT sum({value}) FROM (SELECT CAST(({text}\n) AS DOUBLE) AS {value} FROM (SELECT p.id AS " id", '
                f'{chosen} FROM pairs p JOIN events e ON p.event = e." number" WHERE {self.inside} AND p.event NOT IN '
                '(SELECT number FROM repeats)) GROUP BY " id")'
            )
            (total,) = self._row(f"SELECT sum({value}) FROM rewards")
            (unique,) = self._row(once)
            if total is not None and unique and abs(total - unique) > 1e-9 * abs(unique):
                parts.append(f"{name} by {in_percent(total / unique - 1)}")
        return parts

    def _copies(self, rows: int) -> Iterable[Finding | None]:
        """Yield what is to be said of events that were sent twice; `rows` were there before any was left out."""
        left = rows - self.removed
        if self.removed:
            twice = self.removed >= _LOADED_TWICE * rows and not self.events.unique
            how = (
                "repeat another by their key"
                if self.events.unique
                else "are exact copies of another event"
            )
            text = f"{self.removed:,} of {rows:,} events ({in_percent(self.removed / rows)}) {how} and were left out"
            yield Finding(
                "rewards-events-doubled",
                FAILED if twice else PASSED,
                text,
                (self._line,) if twice else (),
                cause="events that were loaded twice" if twice else "a pipeline that sends again",
            )
        repeats = self._repeats(left)
        if not repeats:
            return
        raised = self._effects(repeats)
        how = (
            f"repeat another within {_AGAIN // 1_000_000} seconds"
            if self.times
            else "are exact copies of another event"
        )
        effect = f": they raise {', '.join(raised)}" if raised else ", which changes no reward"
        text = f"{repeats:,} of {rows:,} events ({in_percent(repeats / rows)}) {how}{effect}"
        twice = repeats >= _LOADED_TWICE * left
        status = PASSED if not raised else FAILED if twice else WARNED
        status = PASSED if repeats < _WARNED * left else status
        cause = (
            "events that were loaded twice"
            if twice
            else "a pipeline that sends again, or a join that multiplies rows"
        )
        yield Finding(
            "rewards-events-doubled",
            status,
            text,
            (self._line,) if status is not PASSED else (),
            cause=cause,
        )

    @property
    def _line(self) -> str:
        """The line of a job that leaves out copies."""
        rows = self._row("SELECT count(*) FROM events")[0]
        (repeats,) = (
            self._row("SELECT count(*) FROM repeats") if self._has_table("repeats") else (0,)
        )
        names = [name for name in self.columns if name not in self.times]
        # An id that copies share is the key; else all that an event says but its time.
        for name in names:
            (distinct,) = self._row(f"SELECT count(DISTINCT {sql.name(name)}) FROM events")
            if abs(distinct - (rows - repeats)) <= _WARNED * rows and name not in {
                theirs for _, theirs in self.events.keys
            }:
                names = [name]
                break
        else:
            names = [
                n
                for n in names
                if self._row(f"SELECT count(DISTINCT {sql.name(n)}) FROM events")[0] < rows
            ]
        line = f"unique = [{', '.join(json.dumps(name) for name in names)}]"
        return f"count each once, with {line} in [events] (of cr.Events in Python)"

    def _has_table(self, table: str) -> bool:
        return bool(
            self._row(
                f"SELECT count(*) FROM duckdb_tables() WHERE table_name = {sql.literal(table)}"
            )[0]
        )

    def _matched(self, rows: int, joined: int, lost: int, shown: str) -> Iterable[Finding]:
        share = joined / rows
        text = f"{in_percent(share)} of the {rows:,} events find what was shown"
        if joined and (share >= _NONE or not lost):
            return [Finding("rewards-events-join", PASSED, text)]
        why = self._difference(shown)
        if not joined:
            raise LogError(
                f"{self.name}: none of the {rows:,} events finds a ranking{why}",
                remedy=f"join by columns that mean the same in both ({listed([k for k, _ in self.events.keys])})",
            )
        return [
            Finding(
                "rewards-events-join",
                FAILED,
                text + why,
                ("join by the keys that mean the same",),
                cause="a key of another form",
                fatal=True,
            )
        ]

    def _difference(self, shown: str) -> str:
        """Show keys of both tables where they have none in common."""
        for i, (name, theirs) in enumerate(self.events.keys):
            logged = self._some(f"SELECT DISTINCT CAST(k{i} AS VARCHAR) FROM ({shown})")
            named = self._some(f"SELECT DISTINCT CAST({sql.name(theirs)} AS VARCHAR) FROM events")
            if logged and named and not logged & named:
                return (
                    f"; '{name}' in the log is like '{min(logged)[:30]}', '{theirs}' in the events like "
                    f"'{min(named)[:30]}'"
                )
        return ""

    def _some(self, query: str) -> set[str]:
        rows = self.opened.execute(f"SELECT * FROM ({query}) ORDER BY 1 LIMIT 20000").fetchall()
        return {row[0] for row in rows if row[0] is not None}


#: How DuckDB calls numbers.
_NUMBERS = (
    "BIGINT",
    "INTEGER",
    "SMALLINT",
    "UBIGINT",
    "UINTEGER",
    "HUGEINT",
    "DOUBLE",
    "FLOAT",
    "DECIMAL",
)


def _moment(name: str, kind: str) -> str:
    """Return SQL for microseconds since 1970; what is large enough counts milliseconds or less."""
    if kind.startswith(("TIMESTAMP", "DATE")):
        return f"epoch_us(CAST({name} AS TIMESTAMPTZ))"
    number = f"TRY_CAST({name} AS DOUBLE)"
    scaled = (
        f"CAST(CASE WHEN abs({number}) > 1e17 THEN {number} / 1e3 WHEN abs({number}) > 1e14 THEN "
        f"{number} WHEN abs({number}) > 1e11 THEN {number} * 1e3 ELSE {number} * 1e6 END AS BIGINT)"
    )
    return (
        f"coalesce(epoch_us(TRY_CAST({name} AS TIMESTAMPTZ)), {scaled})"
        if kind == "VARCHAR"
        else scaled
    )


def _finding(
    code: str, count: int, rows: int, what: str, cause: str, remedy: str
) -> Finding | None:
    if not count:
        return None
    status = WARNED if count >= _WARNED * rows else PASSED
    text = f"{count:,} of {rows:,} events ({in_percent(count / rows)}) {what}"
    remedies = (remedy,) if status is WARNED else ()
    return Finding(f"rewards-events-{code}", status, text, remedies, cause=cause)
