"""How a table of events joins to a log that was looked at, and which rewards it holds."""

from __future__ import annotations

import re

from counterrank.io import sql
from counterrank.io.guess import MOST_LEVELS, JobGuess, Keys, LogLook
from counterrank.io.joined_tables import written_keys
from counterrank.io.profile import Column, Profile
from counterrank.io.roles import AMOUNTS, SHOWN, named, words

#: Kinds of events that become rewards, and sums of amounts.
_KINDS, _SUMS = 5, 3
#: Share of the events of one kind that have an amount, and of others that have none.
_HAVE, _LACK = 0.9, 0.1
#: Share of shown items with an event of a kind, from which on it says that they were shown; a view is also
#: what follows a click.
_ALL_SHOWN, _VIEWED = 0.9, 0.5


def guess_events(look: LogLook, events: Profile) -> None:
    """Write what a table of events is into a guess."""
    guess, used = look.guess, set[str]()
    keys = look.keys_of(events)
    if keys is None:
        used |= _by_person(look, events)
    else:
        guess.events["join"] = keys.join
        used |= {keys.page[1], *([keys.item[1]] if keys.item else [])}
        guess.notes.append(f"events join by: {', '.join(keys.join)}")
        if keys.item is None:
            guess.notes.append(
                "no column of the events names an item: rewards are those of whole pages"
            )
    time = _time(look, events, used)
    kind = _kind(look, events, used)
    used |= {time, kind}
    if unique := _unique(events, used):
        guess.events["unique"] = unique
        guess.notes.append(f"events sent twice have the same {', '.join(unique)} and count once")
    if kind:
        _count_kinds(look, events, keys, kind)
    else:
        guess.event_rewards["events"] = "count(*)"
    _sum_amounts(look, events, kind, used)
    guess.notes.append(f"rewards from events: {', '.join(guess.event_rewards)}")


def _by_person(look: LogLook, events: Profile) -> set[str]:
    """Join by the person and the item where events know no page, which only a window of time makes right."""
    guess, log = look.guess, look.log

    def column_like(mine: str) -> str:
        shares = {name: log.overlap(mine, events, name) for name in events.columns} if mine else {}
        best = max(shares, key=lambda name: shares[name], default="")
        return best if shares.get(best, 0.0) >= 0.5 else ""

    person = column_like(guess.unit if guess.unit in log.columns else "")
    item = column_like(look.item)
    names = ", ".join(events.columns)
    if not (person and item and person != item):
        guess.notes.append("events join by: nothing found")
        guess.ask(
            "events", 'join = ["..."]', f"which of {names} name the page and the item of the log?"
        )
        return set()
    shown = look.lists.columns["action"] if look.lists else look.item
    guess.events["join"] = written_keys([(guess.unit, person), (shown, item)])
    guess.ask(
        "events",
        'within = "30 minutes"',
        "events know the person and no page: how long after a page do they belong to it?",
    )
    guess.notes.append(
        f"events join by: {', '.join(guess.events['join'])}, because none of {names} is the id of a page"
    )
    return {person, item}


def _time(look: LogLook, events: Profile, used: set[str]) -> str:
    """Return the time of an event, and note it where the log has one to compare with."""
    stamps = events.times(name for name in events.columns if name not in used)
    if not stamps:
        return ""
    time = [*named(stamps, "time"), *stamps][0]
    look.guess.notes.append(f"time of events: {time}")
    if look.guess.time:
        look.guess.events["time"] = time
    return time


def _kind(look: LogLook, events: Profile, used: set[str]) -> str:
    """Return the column with the kind of event: few words that the log does not have too."""
    guess = look.guess
    texts = [
        c
        for c in events.columns.values()
        if c.name not in used
        and c.form == "text"
        and 1 <= c.levels <= MOST_LEVELS
        and c.name not in look.log.columns
    ]
    texts = [c for c in texts if c.levels > 1] or texts
    names = [column.name for column in texts]
    if not names:
        return ""
    hinted = named(names, "event")
    if hinted or len(names) == 1:
        chosen = hinted[0] if hinted else names[0]
        guess.notes.append(f"kind of event: {chosen}")
        return chosen
    example = f"count(*) filter (where {quoted(names[0])} = '...')"
    guess.ask(
        "events.rewards",
        f'NAME = "{example}"'.replace('"' + names[0] + '"', names[0]),
        f"which column says what happened: {', '.join(names)}? Until then every event counts",
    )
    return ""


def _unique(events: Profile, used: set[str]) -> list[str]:
    """Return the id of an event, where rows that repeat it repeat all but the time."""
    unused = [c for c in events.columns.values() if c.form != "time" and c.name not in used]
    if not events.rows:
        return []
    chosen = ", ".join(
        sql.name(c.name)
        for c in events.columns.values()
        if c.form != "time" and not events.is_epoch(c)
    )
    for column in unused:
        # An amount is no id, even where no two events have the same.
        may_be_id = column.form == "text" or (column.form == "whole" and "id" in words(column.name))
        if (
            not may_be_id
            or not 0.5 * events.rows <= column.levels < events.rows
            or column.filled < events.rows
        ):
            continue
        (rows,) = events.first(
            f"SELECT count(*) FROM (SELECT DISTINCT {chosen} FROM {events.table})"
        )
        if rows == column.levels:
            return [column.name]
    return []


def _count_kinds(look: LogLook, events: Profile, keys: Keys | None, kind: str) -> None:
    """Make a reward of each kind of event, clicks first; what only says that items were shown is none."""
    guess, value = look.guess, sql.name(kind)
    counts = events.opened.execute(
        f"SELECT {value}, count(*) FROM {events.table} WHERE {value} IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1"
    ).fetchall()
    (shown,) = look.log.first(f"SELECT count(*) FROM log WHERE {look.was_shown}")
    of_items = keys is not None and keys.item is not None and look.lists is None
    told = [
        name
        for name, count in counts
        if {*SHOWN} & {*words(name)}
        or (
            of_items
            and len(counts) > 1
            and count >= (_VIEWED if "view" in name.lower() else _ALL_SHOWN) * shown
        )
    ]
    counts = [row for row in counts if row[0] not in told] or counts
    if told:
        guess.notes.append(f"no reward: {', '.join(told)}, which says that an item was shown")
    counts.sort(key=lambda row: "click" not in row[0].lower())
    for name, _ in counts[:_KINDS]:
        reward = _name(guess, "_".join(words(name)) or "events")
        reward = f"{reward}s" if reward == "click" else reward
        guess.event_rewards[reward] = (
            f"count(*) filter (where {quoted(kind)} = {sql.literal(name)})"
        )


def _sum_amounts(look: LogLook, events: Profile, kind: str, used: set[str]) -> None:
    """Make a reward of each amount: numbers that some kinds of events have and others lack, or that are called so."""
    guess = look.guess
    for column in events.columns.values():
        if len([text for text in guess.event_rewards.values() if "sum(" in text]) >= _SUMS:
            return
        if column.name in used or column.form not in ("number", "whole") or events.is_epoch(column):
            continue
        hinted = {*words(column.name)} & {*AMOUNTS} or named([column.name], "reward")
        if not hinted and (column.name in look.log.columns or not _goes_with(events, column, kind)):
            continue
        reward = _name(guess, "_".join(words(column.name)) or column.name)
        guess.event_rewards[reward] = f"coalesce(sum({quoted(column.name)}), 0)"


def _goes_with(events: Profile, column: Column, kind: str) -> bool:
    """Whether events of some kinds have a number that others lack; of events without kinds, whether it is no count."""
    if not kind or events.columns[kind].levels < 2:
        return column.form == "number"
    value = sql.name(column.name)
    shares = [
        float(row[0] or 0)
        for row in events.opened.execute(
            f"SELECT avg(CAST(coalesce({value}, 0) <> 0 AS INT)) FROM {events.table} GROUP BY {sql.name(kind)}"
        ).fetchall()
    ]
    return max(shares) >= _HAVE and min(shares) <= _LACK


def _name(guess: JobGuess, name: str) -> str:
    """Return a name that no reward has yet."""
    while name in guess.event_rewards:
        name += "_"
    return name


def quoted(name: str) -> str:
    """Return a column as SQL has it, without quotes where it needs none."""
    return name if re.fullmatch(r"[a-z_][a-z0-9_]*", name) else sql.name(name)
