"""What columns probably are: names that people give to roles, and rows that are positions though nobody said so."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from counterrank.common.errors import LogError
from counterrank.common.messages import say
from counterrank.common.texts import comma_separated, suggestion
from counterrank.io import values

#: Names of columns by role, the most telling first. A name matches as a whole or by its words.
NAMES: Mapping[str, str] = {
    "ranking": (
        "ranking ranking_id request_id impression_id query_id search_id page_view_id list_id "
        "serp_id page_id slate_id request qid query_uid session_id"
    ),
    "position": "position rank pos slot place ordinal item_position display_position",
    "action": (
        "action item_id item product_id doc_id document_id article_id sku asin listing_id "
        "content_id movie_id video_id object_id product doc"
    ),
    # The usual primary first.
    "reward": (
        "reward click clicks clicked is_click conversion converted purchase purchases purchased "
        "order orders add_to_cart revenue gmv amount value rating watch_time dwell_time"
    ),
    "unit": (
        "unit user_id user visitor_id customer_id member_id account_id anonymous_id client_id "
        "device_id cookie_id visitor customer"
    ),
    "time": "timestamp ts time event_time datetime created_at date day",
    "propensity": (
        "propensity propensity_score pscore probability prob logging_probability logging_prob "
        "logging_policy_prob"
    ),
    "event": "event event_name event_type action_name interaction type name",
    "arm": "arm variant experiment_arm ab_arm ab_group ab_variant treatment bucket experiment_group",
}
AMOUNTS = tuple("revenue gmv amount value price total paid seconds minutes dwell duration".split())
#: Kinds of events that say what was shown, not what users did.
SHOWN = ("impression", "impressions", "shown", "displayed", "served")
OLD = tuple("old prod production current logging logger control baseline live propensity".split())
SCORE = ("score", "scores", "logit", "relevance")
#: Words of a column that say no more than that it holds scores.
_GENERIC = {*SCORE, "prediction", "predictions", "pred", "value", "rating"}


#: What pandas calls an index that it writes as a column.
PANDAS_INDEX = ("", "Unnamed: 0", "__index_level_0__")


def no_column(table: str, column: str, use: str, columns: Iterable[str]) -> LogError:
    """Return the error of a column that a table lacks."""
    return LogError(
        f"{table} has no column '{column}'{use and f' {use}'}{suggestion(column, columns)}",
        remedy=f"columns are {comma_separated(columns)}",
    )


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
        column
        for usual in NAMES[role].split()
        for column, written in spelled.items()
        if written == usual
    ]


def policy_name(column: str) -> str:
    """Return what a column of scores calls its policy.

    >>> policy_name("score_new"), policy_name("rankerV2Score"), policy_name("score")
    ('new', 'ranker_v2', 'score')
    """
    return "_".join(word for word in words(column) if word not in SCORE) or column


def target_of(column: str, path: str = "", *, of_file: bool = False) -> str:
    """Return the target that a column of scores belongs to; `path` is the file's, where it is the only one.

    With `of_file` it is always named after the file: a table for each ranker, with one name for its scores.

    >>> target_of("score_b"), target_of("score", "tables/new_ranker.csv"), target_of("b", "scores.csv")
    ('b', 'new_ranker', 'b')
    """
    stem = re.split(r"[/\\]", path.rstrip("/"))[-1].partition(".")[0].replace("*", "")
    return policy_name(stem if stem and (of_file or {*words(column)} <= _GENERIC) else column)


#: Rows in which positions are looked for by content; rankings stand together, or the log is small.
_SEEN = 1000


def unmarked_positions(
    table: pa.Table, ranking: str | None, position: str | None, free: Iterable[str]
) -> tuple[str, str, dict[str, str]] | None:
    """Return what tells that rows are positions though nobody said so: read as rankings, they would mislead.

    The evidence, what to say if it is none, and the columns of ranking and position where contents show
    them. `ranking` and `position` are columns whose names are usual, `free` those without a role.
    """
    if position is not None and _counts_up(table[position]):
        return f"'{position}' counts them", say("--context", position), {}
    if ranking is not None and _repeats(table[ranking]):
        return f"'{ranking}' repeats from row to row", say("--unit", ranking), {}
    start = table.slice(0, _SEEN)
    plain = [name for name in free if not pa.types.is_nested(start[name].type)]
    # A column whose every value has rows numbered from 0 or 1 on, whatever the two are called.
    for number in plain:
        if _counts_up(start[number]) and not start[number].null_count:
            for group in plain:
                if group != number and _numbers_within(start[group], start[number]):
                    evidence = f"'{number}' counts them within each '{group}'"
                    return evidence, say("--unit", group), {"ranking": group, "position": number}
    return None


def _counts_up(column: pa.ChunkedArray) -> bool:
    """Whether a column holds small whole numbers from 0 or 1 upwards, more than one of them."""
    if not pa.types.is_integer(column.type):
        return False
    numbers = pc.unique(column).drop_null().to_pylist()
    return 1 < len(numbers) <= 1000 and min(numbers) in (0, 1) and max(numbers) <= 1000


def _numbers_within(groups: pa.ChunkedArray, numbers: pa.ChunkedArray) -> bool:
    """Whether the rows of each group are numbered without a gap, all from 0 or all from 1.

    Groups have at least two rows on average; the last one may be cut.
    """
    rows = pa.table({"group": values.plain(values.one_chunk(groups)), "number": numbers})
    kinds = ("min", "max", "count", "count_distinct")
    summary = rows.group_by("group").aggregate([("number", kind) for kind in kinds])
    low, high, count, distinct = (summary[f"number_{kind}"].to_numpy() for kind in kinds)
    gapless = (low == low.min()) & (high - low + 1 == count) & (distinct == count)
    return bool(gapless.all()) and 2 <= len(low) <= rows.num_rows / 2


def _repeats(column: pa.ChunkedArray) -> bool:
    """Whether at least a fifth of the rows have the value of the row above."""
    array = values.plain(values.one_chunk(column))
    if len(array) < 2 or pa.types.is_nested(array.type):
        return False
    repeated = pc.sum(pc.equal(array.slice(1), array.slice(0, len(array) - 1))).as_py() or 0
    return bool(repeated * 5 >= len(array))
