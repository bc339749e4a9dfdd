"""What the columns of an unknown table probably are, from their names, types and values.

`guess_log` looks at a sample of an impressions table, `guess_events` at a sample of an events table
beside it. Nothing is decided in silence: every guess has a line that says what was taken for what.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from counterrank.io import sql, tables, values
from counterrank.io.files import expand
from counterrank.io.values import is_list, is_text

#: Names of columns by role, the most telling first. A name matches as a whole or by its words.
NAMES: Mapping[str, tuple[str, ...]] = {
    "ranking": (
        "ranking", "ranking_id", "request_id", "impression_id", "query_id", "search_id", "page_view_id", "list_id",
        "serp_id", "page_id", "slate_id", "request", "qid", "query_uid", "session_id",
    ),
    "position": ("position", "rank", "pos", "slot", "place", "ordinal", "item_position", "display_position"),
    "action": (
        "action", "item_id", "item", "product_id", "doc_id", "document_id", "article_id", "sku", "asin", "listing_id",
        "content_id", "movie_id", "video_id", "object_id", "product", "doc",
    ),
    # The usual primary first.
    "reward": (
        "reward", "click", "clicks", "clicked", "is_click", "conversion", "converted", "purchase", "purchases",
        "purchased", "order", "orders", "add_to_cart", "revenue", "gmv", "amount", "value", "rating", "watch_time",
        "dwell_time",
    ),
    "unit": (
        "unit", "user_id", "user", "visitor_id", "customer_id", "member_id", "account_id", "anonymous_id", "client_id",
        "device_id", "cookie_id", "visitor", "customer",
    ),
    "time": ("timestamp", "ts", "time", "event_time", "datetime", "created_at", "date", "day"),
    "propensity": (
        "propensity", "propensity_score", "pscore", "probability", "prob", "logging_probability", "logging_prob",
        "logging_policy_prob",
    ),
    "event": ("event", "event_name", "event_type", "action_name", "interaction", "type", "name"),
}  # fmt: skip
AMOUNTS = ("revenue", "gmv", "amount", "value", "price", "total")
OLD = (
    "old",
    "prod",
    "production",
    "current",
    "logging",
    "logger",
    "control",
    "baseline",
    "live",
    "propensity",
)
SCORE = ("score", "scores", "logit", "relevance")
#: More distinct values than these are no segment.
MOST_LEVELS = 20
#: Rows that are looked at.
SAMPLE_ROWS = 20_000


@dataclass(frozen=True)
class TableGuess:
    """The roles of the columns of an impressions table; or how an events table joins, and its rewards."""

    #: Role to column, as the table `[columns]` of a job has it.
    columns: dict[str, str] = field(default_factory=dict)
    targets: tuple[str, ...] = ()
    #: How scores become policies; empty where the log has probabilities.
    logger: str = ""
    policies: dict[str, str] = field(default_factory=dict)
    context: tuple[str, ...] = ()
    segments: tuple[str, ...] = ()
    time: str = ""
    unit: str = ""
    rewards: dict[str, str] = field(default_factory=dict)
    #: By which columns events find what was shown.
    join: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def sample_of(path: str) -> pa.Table:
    """Return the first rows of a table, or of the first file of a folder."""
    return tables.sample(expand(path)[0], SAMPLE_ROWS)


def words(name: str) -> tuple[str, ...]:
    """Return the words of a name.

    >>> words("scoreNew_v2")
    ('score', 'new', 'v2')
    """
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return tuple(word for word in re.split(r"[^a-z0-9]+", apart.lower()) if word)


def named(columns: Iterable[str], role: str) -> list[str]:
    """Return the columns that a role's names fit, the most telling name first.

    >>> named(["price", "itemId", "request_id"], "action")
    ['itemId']
    """
    spelled = {column: "_".join(words(column)) for column in columns}
    return [
        column for wanted in NAMES[role] for column, written in spelled.items() if written == wanted
    ]


def is_number(kind: pa.DataType) -> bool:
    """Return whether a column holds numbers or truth values, in lists or not."""
    kind = kind.value_type if is_list(kind) else kind
    return values.is_number(kind) or bool(pa.types.is_boolean(kind))


class Sample:
    """Rows of a table, and what can be asked about its columns."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self.names: list[str] = table.column_names
        self.taken: set[str] = set()
        #: What was taken for what, and what could not be found.
        self.notes: list[str] = []
        self.missing: list[str] = []

    def kind(self, name: str) -> pa.DataType:
        """Return the type of a column."""
        return self.table.schema.field(name).type

    def levels(self, name: str) -> int:
        """Return how many different values per column has."""
        return int(pc.count_distinct(self.table[name]).as_py())

    def most_within(self, name: str, group: str, *, nulls: bool) -> int:
        """Return the most different values that a column has in a group; a null is one, or is ignored."""
        mode = pc.CountOptions(mode="all" if nulls else "only_valid")
        found = self.table.group_by(group).aggregate([(name, "count_distinct", mode)])
        return int(pc.max(found[f"{name}_count_distinct"]).as_py() or 0)

    def take(self, role: str, fits: Iterable[str] | None = None, of: str = "") -> str:
        """Return the column of a role, or nothing; it is not offered to another role."""
        fitting = set(self.names if fits is None else fits) - self.taken
        found = [one for one in named(self.names, role) if one in fitting]
        if role == "time":
            # Whatever its name is, the type says it.
            times = [one for one in self.names if pa.types.is_temporal(self.kind(one))]
            found += [one for one in times if one in fitting and one not in found]
        if not found:
            return ""
        self.taken.add(found[0])
        also = f" (also possible: {', '.join(found[1:])})" if len(found) > 1 else ""
        self.notes.append(f"{role}{of}: {found[0]}{also}")
        return found[0]

    def scalars(self) -> list[str]:
        """Return the columns with one value per row."""
        return [name for name in self.names if not pa.types.is_nested(self.kind(name))]


def guess_log(table: pa.Table, given: Mapping[str, str] | None = None) -> TableGuess:
    """Return what the columns of an impressions table probably are.

    `given` are roles that a person has named: role to column.
    """
    sample, columns = Sample(table), dict(given or {})
    sample.taken.update(columns.values())
    notes = sample.notes
    long = any(not is_list(sample.kind(one)) for one in named(sample.names, "position"))
    notes.append(f"layout: one row per {'shown item or candidate' if long else 'ranking'}")
    placed = ("position", "ranking") if long else ()
    for role in (*placed, "action", "unit", "propensity"):
        fits = sample.scalars() if role in placed else None
        if role not in columns and (found := sample.take(role, fits)):
            columns[role] = found
    numbered = any(re.fullmatch(r"action_\d+", name) for name in sample.names)
    needed = {**{role: role for role in placed}, **({} if numbered else {"action": "shown items"})}
    sample.missing += [
        f"no column looks like the {name} (say --columns {role}=NAME)"
        for role, name in needed.items()
        if role not in columns
    ]
    time = sample.take("time")
    rewards = _rewards(sample)
    targets, kind = _policies(sample, columns)
    # What `simulate` or `plan` wrote into the file: the logger and the policies.
    written = {
        key.decode().removeprefix("counterrank."): value.decode()
        for key, value in (table.schema.metadata or {}).items()
        if key.startswith((b"counterrank.logger", b"counterrank.policy."))
    }
    logger = written.get("logger", kind)
    policies = {one: written.get(f"policy.{one}", kind) for one in targets if kind}
    if "unit" not in columns:
        notes.append("unit: none found; without it, rows must be declared independent")
    group = columns.get("ranking", "")
    context, features = _context(sample, group if long else None)
    segments = tuple(
        one
        for one in context
        if is_text(sample.kind(one)) and 1 < sample.levels(one) <= MOST_LEVELS
    )
    columns |= {f"z_{one.removeprefix('z_')}": one for one in features}
    for label, listed in (("context", context), ("segments", segments), ("features", features)):
        if listed:
            notes.append(f"{label}: {', '.join(listed)}")
    if len(rewards) == 1 and next(iter(rewards.values())) != "reward":
        columns["reward"] = next(iter(rewards.values()))
    return TableGuess(
        columns={role: name for role, name in columns.items() if role != name},
        targets=targets,
        logger=logger,
        policies=policies,
        context=context,
        segments=segments,
        time=time,
        unit=columns.get("unit", ""),
        rewards=rewards,
        notes=tuple(notes),
        missing=tuple(sample.missing),
    )


def _rewards(sample: Sample) -> dict[str, str]:
    """Return the rewards by name, the usual primary first."""
    found = {}
    for column in named(sample.names, "reward"):
        if column not in sample.taken and is_number(sample.kind(column)):
            found["_".join(words(column))] = column
            sample.taken.add(column)
    if found:
        sample.notes.append(f"rewards: {', '.join(found.values())}")
    return found


def _is_float(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind.value_type if is_list(kind) else kind))


def policy_name(column: str) -> str:
    """Return what a column of scores calls its policy.

    >>> policy_name("score_new"), policy_name("rankerV2Score"), policy_name("score")
    ('new', 'ranker_v2', 'score')
    """
    left = [word for word in words(column) if word not in SCORE]
    return "_".join(left) or column


def _policies(sample: Sample, columns: dict[str, str]) -> tuple[tuple[str, ...], str]:
    """Return the targets and how the logger's scores become rankings; scores join the columns."""
    # Floating point numbers whose name says that they are scores.
    scores = [
        name
        for name in sample.names
        if name not in sample.taken and _is_float(sample.kind(name)) and {*words(name)} & {*SCORE}
    ]
    sample.taken.update(scores)
    notes, missing = sample.notes, sample.missing
    if "propensity" in columns:
        skip = {*sample.taken, *columns.values()}
        like = [
            one
            for one in sample.names
            if one not in skip
            and not one.endswith("_dist")
            and _probabilities(sample, one, columns)
        ]
        sample.taken.update(like)
        notes.append(f"targets: {', '.join(like) or 'none found'}")
        if not like:
            missing.append("no column looks like the probabilities of a new policy")
        return tuple(like), ""
    given = columns.get("propensity_scores")
    old = [given] if given else [one for one in scores if set(words(one)) & set(OLD)]
    if not old:
        known = f"; scores: {', '.join(scores)}" if scores else ""
        missing.append(
            "neither propensities nor the scores of today's policy were found"
            f"{known} (say --columns propensity_scores=NAME)"
        )
        return (), ""
    columns["propensity_scores"] = old[0]
    new = {policy_name(one): one for one in scores if one != old[0]}
    columns |= {f"{name}_scores": one for name, one in new.items()}
    notes.append(f"scores of today's policy: {old[0]}")
    notes.append(f"targets: {', '.join(new.values()) or 'none found'}")
    if not new:
        missing.append("no column looks like the scores of a new policy")
    kind = "top" if _deterministic(sample, columns) else "plackett-luce"
    notes.append(f"today's policy: {kind}" + (
        ", because rankings follow its scores" if kind == "top" else ", because rankings vary around its scores"
    ))  # fmt: skip
    return tuple(new), kind


def _probabilities(sample: Sample, name: str, columns: Mapping[str, str]) -> bool:
    """Return whether a column has the shape of the propensities and lies between 0 and 1."""
    kind = sample.kind(name)
    if is_list(kind) != is_list(sample.kind(columns["propensity"])) or not _is_float(kind):
        return False
    numbers = pc.list_flatten(sample.table[name]) if is_list(kind) else sample.table[name]
    ends = pc.min_max(numbers).as_py()
    return ends["min"] is not None and 0 <= ends["min"] and ends["max"] <= 1


def _deterministic(sample: Sample, columns: Mapping[str, str]) -> bool:
    """Return whether shown items stand in the order of the scores in nearly all rankings."""
    group, position, score = (
        columns.get(role) for role in ("ranking", "position", "propensity_scores")
    )
    if not (group and position and score):
        return False
    rows = sample.table.select([group, position, score]).drop_null()
    rows = rows.sort_by([(group, "ascending"), (position, "ascending")])
    same = pc.equal(rows[group][1:], rows[group][:-1])
    falls = pc.less_equal(rows[score][1:], rows[score][:-1])
    pairs = pc.sum(same).as_py() or 0
    return pairs > 0 and (pc.sum(pc.and_(same, falls)).as_py() or 0) >= 0.99 * pairs


def _context(sample: Sample, group: str | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return columns that describe the request, and columns that describe each item.

    `group` is the column of the ranking's id in a long table, None in a wide one. Identifiers, with
    nearly as many values as rows, describe nothing.
    """
    context, features = [], []
    for name in sample.scalars():
        kind = sample.kind(name)
        if name in sample.taken or pa.types.is_temporal(kind):
            continue
        text = is_text(kind)
        if not (text or is_number(kind)) or words(name)[-1:] == ("id",):
            continue
        if text and sample.levels(name) > MOST_LEVELS:
            continue
        if group is None or (group and sample.most_within(name, group, nulls=True) <= 1):
            context.append(name)
        elif group and sample.most_within(name, group, nulls=False) > 1:
            features.append(name)
        elif group:
            sample.notes.append(
                f"left out: {name}, which some rows of a ranking lack and others have (fill it to use it as context)"
            )
    return tuple(context), tuple(features)


def guess_events(events: pa.Table, columns: Mapping[str, str]) -> TableGuess:
    """Return how an events table joins to the impressions, and which rewards it holds.

    `columns` are the roles that `guess_log` found.
    """
    sample = Sample(events)
    notes, missing = sample.notes, sample.missing
    join: list[str] = []
    for role in ("ranking", "action"):
        mine = columns.get(role, role)
        theirs = mine if mine in sample.names else next(iter(named(sample.names, role)), "")
        if not theirs:
            if role == "ranking":
                missing.append("no column of the events looks like the ranking's id (say --join)")
            continue
        sample.taken.add(theirs)
        join.append(mine if mine == theirs else f"{mine}={theirs}")
    notes.append(f"events join by: {', '.join(join) or 'nothing found'}")
    time, said = sample.take("time", of=" of events"), tuple(notes)
    kind = sample.take("event", sample.scalars())
    rewards: dict[str, str] = {}
    if kind and is_text(sample.kind(kind)):
        found = [one for one in pc.unique(events[kind]).to_pylist() if one]
        shown = [one for one in found if not {"impression", "view", "shown"} & set(words(one))]
        order = sorted(shown, key=lambda one: ("click" not in one.lower(), one))
        for one in order[:5]:
            name = "_".join(words(one)) or "events"
            rewards[f"{name}s" if name == "click" else name] = (
                f"count(*) filter (where {_quoted(kind)} = {sql.literal(one)})"
            )
    else:
        rewards["events"] = "count(*)"
    for name in sample.scalars():
        if set(words(name)) & set(AMOUNTS) and is_number(sample.kind(name)):
            rewards["_".join(words(name))] = f"coalesce(sum({_quoted(name)}), 0)"
            break
    said = (*said, f"rewards from events: {', '.join(rewards)}")
    return TableGuess(
        join=tuple(join), rewards=rewards, time=time, notes=said, missing=tuple(missing)
    )


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[a-z_][a-z0-9_]*", name) else sql.name(name)
