"""Names that people give to columns: hints where what the columns hold fits several roles."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

#: Names of columns by role, the most telling first. A name matches as a whole or by its words.
NAMES: Mapping[str, tuple[str, ...]] = {
    role: tuple(names.split())
    for role, names in {
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
    }.items()
}
AMOUNTS = tuple("revenue gmv amount value price total paid seconds minutes dwell duration".split())
#: Kinds of events that say what was shown, not what users did.
SHOWN = ("impression", "impressions", "shown", "displayed", "served")
OLD = tuple("old prod production current logging logger control baseline live propensity".split())
SCORE = ("score", "scores", "logit", "relevance")
#: Words of a column that say no more than that it holds scores.
_GENERIC = {*SCORE, "prediction", "predictions", "pred", "value", "rating"}


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
        column for usual in NAMES[role] for column, written in spelled.items() if written == usual
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
