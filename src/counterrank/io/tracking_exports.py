"""Exports of tracking: User Behavior Insights, Google Analytics 4 and Metarank, as presets of one join.

Each becomes rows of what was shown and a table of events, joined by the ranking and the item. What was
shown stands in the order of its places; a search engine shows the best by its scores, so the order
stands for them, and the logger is deterministic unless the user says otherwise.
"""

import io
import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from counterrank.common.errors import LogError
from counterrank.common.messages import UNANSWERED, say
from counterrank.common.records import Json
from counterrank.common.texts import comma_separated
from counterrank.io import sql, tables
from counterrank.io.files import DataFile, Unpacked, expand
from counterrank.io.joined_tables import Events
from counterrank.io.options import ReadOptions
from counterrank.io.readers import Converted, Path, adapter
from counterrank.policies import PolicySpec

#: What is a sum over events of another kind.
_PAID = {"revenue": "purchase"}
_HITS = ("query_response_hit_ids", "query_response_object_ids")


@dataclass(slots=True)
class _Tracked:
    """Rows of what was shown, one per item, and events, each with the ranking and item it is about."""

    shown: list[Json] = field(default_factory=list)
    events: list[Json] = field(default_factory=list)

    def ranking(self, name: str, items: Sequence[Any], **columns: Any) -> None:
        """Add a ranking; an item that stands there twice counts where it stood first."""
        for place, item in enumerate(dict.fromkeys(map(str, items)), 1):
            self.shown.append(
                {
                    "ranking": name,
                    "position": place,
                    "action": item,
                    "propensity_scores": -place,
                    **columns,
                }
            )

    def event(
        self, kind: str, ranking: str | None, item: Any, time: int | None, **columns: Any
    ) -> None:
        """Add an event; one without a ranking is counted as such."""
        item_id = None if item is None else str(item)
        self.events.append(
            {"kind": kind, "ranking": ranking, "item": item_id, "time": time, **columns}
        )

    @property
    def kinds(self) -> list[str]:
        """The kinds of events, the first seen first."""
        return list(dict.fromkeys(row["kind"] for row in self.events))

    def converted(
        self, options: ReadOptions, rewards: dict[str, str], notes: tuple[str, ...] = ()
    ) -> Converted:
        """Return what was shown with the rewards that events give."""
        used = {kind: _PAID.get(kind, kind) for kind in rewards.values()}
        for kind, counted in used.items():
            if counted not in self.kinds:
                raise LogError(
                    f"no event is called '{kind}'; take another with "
                    f"{say('--columns', 'reward=NAME')}, there are {comma_separated(self.kinds)}"
                )
        columns = list(dict.fromkeys(key for row in self.shown for key in row))
        table = pa.table({name: [row.get(name) for row in self.shown] for name in columns})
        if "unit" in columns and table["unit"].null_count:
            table = table.drop_columns(["unit"])
        aggregates = {name: _aggregate(kind) for name, kind in rewards.items()}
        rows = pa.Table.from_pylist([row for row in self.events if row["kind"] in used.values()])
        events = Events(
            rows,
            on="ranking,action=item",
            rewards=aggregates,
            time="time",
            shown="timestamp" if "timestamp" in columns else None,
        )
        roles = {name: column for name, column in options.columns.items() if name != "reward"}
        logger = options.logger
        if logger is None and options.require_propensity and "propensity" not in roles:
            logger = PolicySpec("top")
        joined_options = replace(
            options,
            columns=roles,
            logger=logger,
            events=events,
            rewards={name: name for name in aggregates},
        )
        return table, joined_options, notes


def _aggregate(kind: str) -> str:
    if kind == "revenue":
        return "coalesce(sum(revenue), 0)"
    return f"cast(count(*) filter (where kind = {sql.literal(kind)}) > 0 as integer)"


def _wanted(options: ReadOptions, default: dict[str, str]) -> dict[str, str]:
    """Return the kinds of events that are rewards, by name: as the user says, or as the format has them."""
    named = options.columns.get("reward")
    return dict(options.rewards) or ({str(named): str(named)} if named else default)


def _documents(path: Path) -> Iterator[tuple[Json, str]]:
    """Yield the rows of files as objects, and the file of each; wrapped as search hits or not."""
    for file in expand(path):
        for row in _lines(file) if file.format == "jsonl" else tables.read_table(file).to_pylist():
            content = row.get("_source", row)
            # The bulk form has a line that names an index before each document.
            action = len(row) == 1 and isinstance(row.get("index", row.get("create")), dict)
            if isinstance(content, dict) and not action:
                yield content, file.path


def _lines(file: DataFile) -> Iterator[Json]:
    with io.BufferedReader(Unpacked(file), 1 << 20) as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            try:
                content = json.loads(line)
            except (ValueError, RecursionError) as problem:
                raise LogError(f"{file.path}, line {number} is not JSON: {problem}") from None
            if not isinstance(content, dict):
                raise LogError(f"{file.path}, line {number} is no object")
            yield content


def _moment(moment: Any) -> int | None:
    """Return a time in microseconds: of text, or of a number of seconds, milliseconds or less.

    >>> _moment("1970-01-01T00:00:01Z"), _moment(1717527762129), _moment("")
    (1000000, 1717527762129000, None)
    """
    if moment in (None, ""):
        return None
    try:
        number = float(moment)
    except (TypeError, ValueError):
        try:
            parsed = datetime.fromisoformat(str(moment))
        except ValueError:
            raise LogError(f"the timestamp {str(moment)[:60]!r} is no time") from None
        zoned = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
        return int(zoned.timestamp() * 1e6)
    for limit, scale in ((1e17, 1e-3), (1e14, 1.0), (1e11, 1e3)):
        if abs(number) > limit:
            return int(number * scale)
    return int(number * 1e6)


def _inside(row: Json, *path: str) -> Any:
    value: Any = row
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


@adapter
def read_ubi(path: Path, options: ReadOptions) -> Converted:
    """Return result pages with what was clicked, from the exports of both indices in one file or several.

    What was seen are the impressions of a query, and its hits where there are none. The reward of an
    item is 1 where an event called "click" names it; columns={"reward": "add_to_cart"} takes another
    action. The unit is the client, and `query` the text that was searched for.
    """
    queries: dict[str, Json] = {}
    events: list[Json] = []
    for row, file in _documents(path):
        if "action_name" in row:
            events.append(row)
        elif any(name in row for name in (*_HITS, "user_query")):
            _add_query(queries, row, file)
        else:
            raise LogError(
                f"{file} holds neither queries ('{_HITS[0]}') nor events ('action_name') of User "
                f"Behavior Insights; columns are {comma_separated(row)}"
            )
    if not queries or not events:
        raise LogError(
            f"there are no {'events' if queries else 'queries'} of User Behavior Insights among the "
            "files; export both ubi_queries and ubi_events"
        )
    tracked, unanswered = _ubi(queries, events)
    if not tracked.shown:
        raise LogError(f"no query has hits or impressions: '{_HITS[0]}' is empty in every row")
    notes = (UNANSWERED,) * unanswered
    return tracked.converted(options, _wanted(options, {"click": "click"}), notes)


def _add_query(queries: dict[str, Json], row: Json, file: str) -> None:
    """Add a query; one that was asked for further pages has the hits of all."""
    if row.get("query_id") is None:
        raise LogError(
            f"{file} has no column 'query_id', which User Behavior Insights has; columns are {comma_separated(row)}"
        )
    hits: Any = next((row[name] for name in _HITS if row.get(name) is not None), [])
    if not isinstance(hits, (list, tuple)):
        raise LogError(f"{file}: '{_HITS[0]}' holds {str(hits)[:40]!r}, not lists of ids")
    query = queries.setdefault(str(row["query_id"]), {**row, "hits": []})
    query["hits"] += hits


def _ubi(queries: dict[str, Json], events: list[Json]) -> tuple[_Tracked, bool]:
    tracked = _Tracked()
    impressions: dict[str, list[tuple[float, int, str]]] = {}
    objects = [
        (
            str(event.get("query_id")),
            _inside(event, "event_attributes", "object", "object_id"),
            _inside(event, "event_attributes", "position", "ordinal"),
        )
        for event in events
    ]
    for number, (name, item, ordinal) in enumerate(objects):
        if events[number]["action_name"] == "impression" and item is not None:
            place = number if ordinal is None else float(ordinal)
            impressions.setdefault(name, []).append((place, number, str(item)))
    unanswered = False
    places: dict[str, dict[float, str]] = {}
    by_event = {str(event.get("query_id")): event for event in reversed(events)}
    for name in dict.fromkeys([*queries, *impressions]):
        row = queries.get(name) or by_event[name]
        if name in impressions:
            ordered = sorted(impressions[name])
            items = [item for _, _, item in ordered]
            places[name] = {place: item for place, _, item in ordered}
        else:
            items = list(map(str, row["hits"]))
            places[name] = dict(enumerate(items, 1))
        unanswered |= not items
        tracked.ranking(
            name,
            items,
            unit=row.get("client_id"),
            query=row.get("user_query"),
            query_id=name,
            application=row.get("application"),
            timestamp=_moment(row.get("timestamp")),
        )
    for event, (name, item, ordinal) in zip(events, objects, strict=True):
        if event["action_name"] != "impression":
            if item is None and ordinal is not None:
                item = places.get(name, {}).get(float(ordinal))
            time = _moment(event.get("timestamp"))
            tracked.event(str(event["action_name"]), name, item, time)
    return tracked, unanswered


#: The lists that a visitor saw, by time: when, which ranking, with which items.
_Views = dict[tuple[Any, ...], list[tuple[int, str, set[str]]]]


def _seen_before(views: _Views, key: tuple[Any, ...], time: int, item: str) -> str | None:
    """Return the last list before a moment that showed an item, or else the last one."""
    lists = views.get(key, [])
    past = lists[: bisect_right(lists, time, key=lambda view: view[0])]
    showing = [ranking for _, ranking, items in past if item in items]
    return showing[-1] if showing else past[-1][1] if past else None


@adapter
def read_ga4(path: Path, options: ReadOptions) -> Converted:
    """Return lists of items and what became of them, from rows of Google Analytics 4's BigQuery export.

    A `view_item_list` is a ranking; `select_item` (a click) and `purchase` (with its revenue) belong to
    the visitor's last list before them, in the same session, that shows the item.
    """
    rows = [row for row, _ in _documents(path) if row.get("event_name")]
    tracked, views = _Tracked(), _Views()
    rows.sort(key=lambda row: _moment(row.get("event_timestamp")) or 0)
    for number, row in enumerate(rows):
        if row["event_name"] != "view_item_list":
            continue
        time, items = _moment(row.get("event_timestamp")) or 0, _items(row)
        user, session = row.get("user_pseudo_id"), _parameter(row, "ga_session_id")
        name = f"{user}.{session}.{time}.{number}"
        ids = [str(item["item_id"]) for item in items]
        for key in ((user, session), (user, session, _list_of(row, items))):
            views.setdefault(key, []).append((time, name, set(ids)))
        tracked.ranking(
            name,
            ids,
            unit=user,
            list=_list_of(row, items),
            timestamp=time,
            x_device=_inside(row, "device", "category"),
        )
    kinds = {"select_item": "click", "purchase": "purchase"}
    for row in rows:
        for item in _items(row) if row["event_name"] in kinds else ():
            _ga4_event(tracked, views, row, item, kinds[row["event_name"]])
    if not tracked.shown:
        raise LogError("no row is a 'view_item_list' of Google Analytics 4 with items")
    rewards = {"clicks": "click", "purchases": "purchase", "revenue": "revenue"}
    available = [*tracked.kinds, *(kind for kind, paid in _PAID.items() if paid in tracked.kinds)]
    present = {name: kind for name, kind in rewards.items() if kind in available}
    return tracked.converted(options, _wanted(options, present or rewards))


def _ga4_event(tracked: _Tracked, views: _Views, row: Json, item: Json, kind: str) -> None:
    user, session = row.get("user_pseudo_id"), _parameter(row, "ga_session_id")
    time, name = _moment(row.get("event_timestamp")) or 0, str(item["item_id"])
    list_name = _list_of(row, [item])
    key = (user, session) if kind == "purchase" or list_name is None else (user, session, list_name)
    price = item.get("item_revenue") or (item.get("price") or 0) * (item.get("quantity") or 1)
    amount = float(price) if kind == "purchase" else None
    tracked.event(kind, _seen_before(views, key, time, name), name, time, revenue=amount)


def _items(row: Json) -> list[Json]:
    """Return the items of a row in the order of their places."""
    items = [item for item in row.get("items") or () if _inside(item, "item_id") is not None]
    return sorted(items, key=lambda item: float(item.get("item_list_index") or 0))


def _parameter(row: Json, name: str) -> Any:
    """Return a parameter of an event, whichever type it has."""
    for parameter in row.get("event_params") or ():
        if parameter.get("key") == name:
            return next((v for v in (parameter.get("value") or {}).values() if v is not None), None)
    return None


def _list_of(row: Json, items: Sequence[Json]) -> Any:
    inside = [item.get(name) for item in items for name in ("item_list_id", "item_list_name")]
    ids = [_parameter(row, "item_list_id"), _parameter(row, "item_list_name"), *inside]
    return next((list_id for list_id in ids if list_id not in (None, "", "(not set)")), None)


@adapter
def read_metarank(path: Path, options: ReadOptions) -> Converted:
    """Return rankings and interactions of Metarank's event format; every type of interaction is a reward.

    Fields of a ranking are context, fields of its items features of candidates.
    """
    tracked = _Tracked()
    for row, file in _documents(path):
        kind = row.get("event")
        time, user = _moment(row.get("timestamp")), row.get("user") or row.get("session")
        if kind == "ranking":
            items = row.get("items") or ()
            context = {f"x_{name}": value for name, value in _fields(row)}
            before = len(tracked.shown)
            ids = [item.get("id") for item in items]
            tracked.ranking(str(row.get("id")), ids, unit=user, timestamp=time, **context)
            features = {str(item.get("id")): dict(_fields(item)) for item in items}
            for shown in tracked.shown[before:]:
                shown |= {f"z_{name}": value for name, value in features[shown["action"]].items()}
        elif kind == "interaction":
            tracked.event(str(row.get("type")), str(row.get("ranking")), row.get("item"), time)
        elif kind not in ("item", "user"):
            raise LogError(
                f"{file}: an event of Metarank is a ranking or an interaction, got {kind!r}"
            )
    if not tracked.shown:
        raise LogError("no event is a 'ranking' of Metarank with items")
    ordered = sorted(tracked.kinds, key=lambda event_type: event_type != "click")
    return tracked.converted(
        options, _wanted(options, {event_type: event_type for event_type in ordered or ["click"]})
    )


def _fields(row: Json) -> Iterator[tuple[str, Any]]:
    """Yield the fields of an event that hold one value."""
    for entry in row.get("fields") or ():
        if isinstance(entry.get("value"), (str, int, float, bool)):
            yield str(entry.get("name")), entry["value"]
