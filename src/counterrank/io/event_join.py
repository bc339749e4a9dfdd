"""Events joined to what was shown: rewards, copies that were left out, and what the audit says of the join."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterrank.common.errors import ConfigError, LogError
from counterrank.common.findings import FAILED, PASSED, WARNED, Finding, Findings, Outcome
from counterrank.common.texts import in_percent
from counterrank.data.events import JoinedEvents
from counterrank.io import prepare, sql, values
from counterrank.io.files import DataFile
from counterrank.io.join import (
    NOTED,
    KeyColumns,
    Pieces,
    TableJoin,
    counted,
    key_column,
    key_files,
    refuse_uneven,
    table_files,
    with_columns,
)
from counterrank.io.joined_tables import Events
from counterrank.io.roles import words
from counterrank.io.schema import TIME, LogSpec

#: Share of events that find what was shown, below which a join is none.
_NONE = 0.02
#: Microseconds within which an equal event is the same one sent again; standard errors by which there are
#: more of them than in as many microseconds after; the share of copies from which on all was loaded twice.
_AGAIN, _SPREAD, _LOADED_TWICE = 10_000_000, 5.0, 0.25
#: Rows that a key leaves out per retry, up to which it is a key of one event.
_RETRIES = 1.1
#: What is counted of events by code: what they do, the cause, and the remedy.
_FINDINGS = {
    "orphans": (
        "events: find no ranking",
        "events of pages that are not in the log, or rankings that were lost",
        "log every page, or leave these events out",
    ),
    "unshown": (
        "events: name an item that its ranking did not show",
        "another key than the item's, or lists that were cut",
        "log what was really shown",
    ),
    "early": (
        "events: come before what they would be a reaction to",
        "clocks that differ, or another ranking's key",
        "compare the clocks and time zones",
    ),
    "several": (
        "events: count for more than one shown item",
        "keys that do not name one ranking",
        "join by the ranking's own id",
    ),
}


def with_events(
    read: Callable[[], Pieces],
    spec: LogSpec,
    events: Events,
    report: Callable[[JoinedEvents], None],
    position: str | None = None,
    decimal: str = ".",
) -> Pieces:
    """Yield pieces of one row per ranking with the rewards that events give them.

    `read` reads all pieces from the first on; `position` is the column of positions, where rows were those;
    `report` takes what became of the events, once all is joined.
    """
    item = {*spec.fields["action"].columns, spec.fields["action"].name, "action", position}
    pages = [i for i, (shown, _) in enumerate(events.keys) if shown not in item]
    of_page = len(pages) == len(events.keys)

    def lists(piece: pa.Table) -> pa.Array | None:
        return None if of_page else _item_lists(piece, spec)

    def keys(piece: pa.Table, items: pa.Array | None) -> KeyColumns:
        for key, name in spec.joined_by(events).items():
            if key in piece.column_names:  # Rows were positions.
                entries = values.one_chunk(piece[key])
                yield key, pc.list_element(entries, 0) if of_page else entries.flatten(), True
            elif name in item and items is not None:
                yield key, items.flatten(), True
            else:
                yield key, key_column(piece, name), False

    files = table_files(events.path, decimal)
    refuse_uneven(files, events.used)
    log_files = key_files(read(), lists, keys)
    with prepare.connected([*files, *log_files]) as opened:
        join = EventJoin(opened, events, files, log_files)
        joined = join.run(pages)
        names = ", ".join(
            f"coalesce(r.{name}, 0) AS {name}" for name in map(sql.name, events.names)
        )
        reader = sql.batches(
            opened,
            f'SELECT {names} FROM log l LEFT JOIN rewards r ON l." id" = r." id" ORDER BY l." id"',
        )
        yield from with_columns(read(), reader, events.names, lists)
        report(joined)


def _item_lists(piece: pa.Table, spec: LogSpec) -> pa.Array:
    """Return the items of rankings as lists, however they are written."""
    action = spec.fields["action"]
    if action.has_lists:
        return values.as_lists(piece[action.name], action.name)
    n, width = piece.num_rows, len(action.columns)
    entries = [values.plain(values.one_chunk(piece[name])) for name in action.columns]
    order = np.arange(n * width).reshape(width, n).T.ravel()
    return prepare.as_listed(pa.chunked_array(entries), order, np.full(n, width))


class EventJoin(TableJoin):
    """The events in a connection with the keys of what was shown: a table `events`, numbered and without copies.

    Rows that repeat an event are left out: those of one key, or else exact copies where events have times.
    Without a time two clicks of one person look like one, so that nothing is left out.
    """

    def __init__(
        self, opened: Any, events: Events, files: Sequence[DataFile], log_files: Sequence[DataFile]
    ) -> None:
        super().__init__(opened, events, events.keys, files, log_files)
        self.events = events
        for column in events.unique:
            self.refuse_absent(column, "for the key of an event")
        if events.time is not None:
            self.refuse_absent(events.time, "with the time of an event")
        self.chosen = ", ".join(f"e.{sql.name(column)}" for column in self.columns)
        number = f'(CAST(e."{prepare.FILE}" AS BIGINT) << 40) + e."{prepare.ROW}"'
        opened.execute(
            f'CREATE TEMP TABLE events AS SELECT {self.chosen}, {self.by("e.")}, {number} AS " number" '
            "FROM beside e"
        )
        self.times = self._times()
        self.removed, unique = 0, list(events.unique)
        if unique or self.times:
            by = ", ".join(map(sql.name, unique or self.columns))
            (self.removed,) = opened.execute(
                'DELETE FROM events WHERE " number" IN (SELECT " number" FROM events '
                f'QUALIFY row_number() OVER (PARTITION BY {by} ORDER BY " number") > 1)'
            ).fetchall()[0]
        (self.rows,) = self.row("SELECT count(*) FROM events")

    def _times(self) -> list[str]:
        """Return the columns that tell two events of one kind apart: times, to the second or so."""
        time = self.events.time
        stamps = [name for name, kind in self.columns.items() if pa.types.is_timestamp(kind)]
        days = (
            f"SELECT bool_and(CAST(CAST(t AS TIMESTAMP) AS TIME) = TIME '00:00:00') FROM (SELECT {sql.name(name)} AS t "
            "FROM events LIMIT 10000)"
            for name in stamps
        )
        fine = [name for name, query in zip(stamps, days, strict=True) if not self.row(query)[0]]
        written = time is not None and not pa.types.is_temporal(self.columns[time])
        if time is not None and (time in fine or written):
            fine.insert(0, time)
        return list(dict.fromkeys(fine))

    def run(self, pages: Sequence[int]) -> JoinedEvents:
        """Make a table `rewards` of id and rewards, and audit the join; `pages` are the keys of the ranking."""
        events, later = self.events, "NULL"
        if events.shown is not None and events.time is not None:
            later = (
                f"({self.moment('events', events.time, 'e')}) - ({self.moment('log', TIME, 's')})"
            )
        self.opened.execute(
            f'CREATE TEMP TABLE pairs AS SELECT s." id" AS id, e." number" AS event, {later} AS later '
            f"FROM log s JOIN events e ON {self.same('e', 's')}"
        )
        window = events.microseconds
        self.inside = "true" if window is None else f"later BETWEEN 0 AND {window}"
        self._refuse_aggregates()
        rewards = ", ".join(
            f"{_aggregate(text)} AS {sql.name(name)}" for name, text in events.rewards.items()
        )
        self.opened.execute(
            f'CREATE TEMP TABLE rewards AS SELECT " id", {rewards} FROM ({self._counted}) GROUP BY " id"'
        )
        return self._audited(pages)

    @property
    def _counted(self) -> str:
        """The events that count for what was shown."""
        return (
            f'SELECT p.id AS " id", {self.chosen} FROM pairs p JOIN events e ON p.event = e." number" '
            f"WHERE {self.inside}"
        )

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
                f"'{column}' is {bad[0][0]!r} in {self.title if table == 'events' else 'the log'}, "
                "which is no time",
                remedy="write times like 2026-10-01 12:00:00, or seconds since 1970",
            )
        return _moment(f"{alias}.{name}" if alias else name, kind)

    def _refuse_aggregates(self) -> None:
        for name, text in self.events.rewards.items():
            subject = f"the aggregate of '{name}', {text[:200]!r},"
            with sql.plainly(
                f"{subject} cannot be used", remedy="write one like count(*) or sum(revenue)"
            ):
                answer = sql.table(
                    self.opened,
                    f"SELECT ({text}\n) AS found FROM events GROUP BY {sql.name(' number')} LIMIT 0",
                )
            kind = answer.schema.types[0]
            if not (values.is_number(kind) or pa.types.is_boolean(kind)):
                raise ConfigError(f"{subject} gives {kind}; a reward is a number")

    def _audited(self, pages: Sequence[int]) -> JoinedEvents:
        rows, inside = self.rows, self.inside
        joined, several, early, late = self.row(
            f"SELECT count(DISTINCT event) FILTER ({inside}), count(*) FILTER ({inside}) - "
            f"count(DISTINCT event) FILTER ({inside}), count(DISTINCT event) FILTER (later < 0), "
            f"count(DISTINCT event) FILTER (later >= 0 AND NOT ({inside})) FROM pairs"
        )
        unmatched = 'SELECT e.* FROM events e WHERE e." number" NOT IN (SELECT event FROM pairs)'
        (lost,) = self.row(f"SELECT count(*) FROM ({unmatched})")
        elsewhere = 0
        if lost and 0 < len(pages) < len(self.keys):
            (elsewhere,) = self.row(
                f'SELECT count(DISTINCT u." number") FROM ({unmatched}) u JOIN log s ON '
                f"{self.same('u', 's', pages)}"
            )
        counts = {
            "orphans": lost - elsewhere,
            "unshown": elsewhere,
            "early": early,
            "several": several,
        }
        copies = [*self._copies()]
        findings = [
            *self._matched(joined, lost),
            *copies,
            *(
                finding
                for code, texts in _FINDINGS.items()
                for finding in counted(f"rewards-events-{code}", counts[code], rows, *texts)
            ),
        ]
        if late:
            text = f"{late:,} events come after the window of {self.events.within}"
            findings.append(Finding("rewards-events-late", PASSED, text))
        (repeats,) = self.row("SELECT count(*) FROM repeats")
        sums = (rows + self.removed, joined, lost - elsewhere, repeats + self.removed)
        retried = any(finding.status is WARNED for finding in copies)
        return JoinedEvents(*sums, tuple(findings), self._retry_key(repeats) if retried else ())

    def _retry_key(self, repeats: int) -> tuple[str, ...]:
        """Return the key of one event, where hardly anything repeats it but retries."""
        key = self._key()
        (left,) = self.row(
            f"SELECT count(*) FROM (SELECT DISTINCT {', '.join(map(sql.name, key))} FROM events)"
        )
        return tuple(key) if self.rows - left <= _RETRIES * repeats else ()

    def _matched(self, joined: int, lost: int) -> Findings:
        if not joined:
            raise self.none_joined(self.rows, "events finds a ranking")
        text = f"{in_percent(joined / self.rows)} of the {self.rows:,} events find what was shown"
        if joined >= _NONE * self.rows or not lost:
            yield Finding("rewards-events-join", PASSED, text)
            return
        yield Finding(
            "rewards-events-join",
            FAILED,
            text + self.difference(),
            ("join by the keys that mean the same",),
            cause="a key of another form",
            fatal=True,
        )

    def _repeats(self) -> int:
        """Make a table `repeats` of events that seem to be others sent again, and return how many there are.

        Without times these are exact copies, with times equal events within seconds: as many more as
        the next seconds hold, which are as long.
        """
        rows, times = self.rows, self.times
        names = [name for name in self.columns if name not in times]
        if times:
            # An id of a row's own tells nothing: a copy that is sent again gets another.
            levels, used = self._levels(names), {theirs for _, theirs in self.keys}
            names = [n for n in names if levels[n] < rows or n in used]
        by = ", ".join(map(sql.name, names))
        when = self.moment("events", times[0]) if times else "0"
        chosen = "false" if self.events.unique else f"gap <= {2 * _AGAIN}"
        self.opened.execute(
            f'CREATE TEMP TABLE repeats AS SELECT * FROM (SELECT " number" AS number, {when} - lag({when}) OVER '
            f'(PARTITION BY {by} ORDER BY {when}, " number") AS gap FROM events) WHERE {chosen}'
        )
        soon, later = self.row(
            f"SELECT count(*) FILTER (gap <= {_AGAIN}), count(*) FILTER (gap > {_AGAIN}) FROM repeats"
        )
        self.opened.execute(f"DELETE FROM repeats WHERE gap > {_AGAIN}")
        # People repeat themselves too, about as often in the next seconds.
        if times and soon - later < max(_SPREAD * (soon + later) ** 0.5, NOTED * rows / 2):
            return 0
        return int(soon)

    def _effects(self) -> Iterator[str]:
        """Yield by how much events that seem to be others sent again raise each reward."""
        for name, text in self.events.rewards.items():
            value = sql.name(name)
            (total,) = self.row(f"SELECT sum({value}) FROM rewards")
            (once,) = self.row(
                f"SELECT sum({value}) FROM (SELECT {_aggregate(text)} AS {value} FROM ({self._counted} AND "
                'p.event NOT IN (SELECT number FROM repeats)) GROUP BY " id")'
            )
            if total is not None and once and abs(total - once) > 1e-9 * abs(once):
                yield f"{name} by {in_percent(total / once - 1)}"

    def _copies(self) -> Findings:
        """Yield what is to be said of events that were sent twice."""
        rows, unique = self.rows + self.removed, self.events.unique
        repeats = self._repeats()
        if self.removed:
            twice = self.removed >= _LOADED_TWICE * rows and not unique
            how = "repeat another by their key" if unique else "are exact copies of another event"
            yield self._doubled(
                self.removed, f"{how} and were left out", FAILED if twice else PASSED, twice=twice
            )
        if not repeats:
            return
        raised = ", ".join(self._effects())
        how = f"repeat another within {_AGAIN // 1_000_000} seconds"
        how = how if self.times else "are exact copies of another event"
        effect = f": they raise {raised}" if raised else ", which changes no reward"
        twice = repeats >= _LOADED_TWICE * self.rows
        status = FAILED if twice else WARNED
        harmless = not raised or repeats < NOTED * self.rows
        yield self._doubled(repeats, how + effect, PASSED if harmless else status, twice=twice)

    def _doubled(self, count: int, what: str, status: Outcome, *, twice: bool) -> Finding:
        rows = self.rows + self.removed
        remedies: tuple[str, ...] = ()
        if status is not PASSED:
            line = f"unique = [{', '.join(map(json.dumps, self._key()))}]"
            remedies = (f"count each once, with {line} in [events] (of cr.Events in Python)",)
        causes = (
            "a pipeline that sends again, or a join that multiplies rows",
            "events that were loaded twice",
        )
        return Finding(
            "rewards-events-doubled",
            status,
            f"{count:,} of {rows:,} events ({in_percent(count / rows)}) {what}",
            remedies,
            cause=causes[twice],
        )

    def _key(self) -> list[str]:
        """Return the key of one event: an id that copies share, or else all that an event says but times.

        A number that is not called an id may be an amount, which two events may have in common.
        """
        names = [name for name in self.columns if name not in self.times]
        levels = self._levels(names)
        left = self.rows - self.row("SELECT count(*) FROM repeats")[0]
        joined_by = {theirs for _, theirs in self.keys}
        for name in names:
            amount = values.is_number(self.columns[name]) and "id" not in words(name)
            if (
                name not in joined_by
                and not amount
                and abs(levels[name] - left) <= NOTED * self.rows
            ):
                return [name]
        return [name for name in names if levels[name] < self.rows]

    def _levels(self, names: Sequence[str]) -> dict[str, int]:
        """Return how many values columns have."""
        counts = ", ".join(f"count(DISTINCT {sql.name(name)})" for name in names)
        return dict(zip(names, self.row(f"SELECT {counts or '0'} FROM events"), strict=False))


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


def _aggregate(text: str) -> str:
    return f"CAST(({text}\n) AS DOUBLE)"


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
