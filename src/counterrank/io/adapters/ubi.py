"""OpenSearch's User Behavior Insights: the index of queries and the index of events, exported.

Written from the documentation of the UBI schema 1.3 (docs.opensearch.org, "UBI index schemas"), not
from a production export. A row of `ubi_queries` is a result page: `query_id`, `user_query`,
`client_id`, `timestamp` and `query_response_hit_ids`, the documents in the order they were shown. A
row of `ubi_events` is something a user did: `action_name`, `query_id` and, under `event_attributes`,
the `object.object_id` it was done to and `position.ordinal`. Rows may be wrapped as search hits are
(`_source`). Which files hold which is told by their columns.

A search engine shows the best by its scores, which are not exported: the order of the hits stands
for them, and the logger is deterministic unless the user says otherwise.
"""

import os
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from counterrank.errors import LogError
from counterrank.io import tables, values
from counterrank.io.files import expand, guard
from counterrank.io.options import ReadOptions
from counterrank.io.reading import Converted, Path, adapter
from counterrank.messages import UNANSWERED, UNKNOWN_HITS, say
from counterrank.policies import PolicySpec
from counterrank.texts import listed

_HITS = ("query_response_hit_ids", "query_response_object_ids")
#: What a reward is where nobody says otherwise, by the action's name.
_CLICK = "click"
#: What is carried along from the index of queries, under the same name.
_CARRIED = ("application", "timestamp", "query_id")


@adapter
def read_ubi(path: Path, options: ReadOptions) -> Converted:
    """Return result pages with what was clicked, from a folder or pattern of both indices' exports.

    The reward of a hit is 1 where an event called "click" names it; columns={"reward":
    "add_to_cart"} takes another action. The unit is the client, and `query` the text that was
    searched for.
    """
    with guard(os.fspath(path), prefix=True):
        queries, events = _indices(path, options)
        answered = queries.filter(pc.greater(pc.list_value_length(queries["hits"]), 0))
        if not answered.num_rows:
            raise LogError("no query has hits: 'query_response_hit_ids' is empty in every row")
        action = options.columns.get("reward", _CLICK)
        clicked, strangers = _clicked(answered, events, str(action))
        hits = values.one_chunk(answered["hits"])
        table = pa.table(
            {
                "action": hits,
                "reward": pa.ListArray.from_arrays(hits.offsets, pa.array(clicked)),
                "candidates": hits,
                "propensity_scores": pa.ListArray.from_arrays(hits.offsets, _by_rank(hits)),
                "unit": answered["client"],
                "query": answered["query"],
                **{name: answered[name] for name in _CARRIED if name in answered.column_names},
            }
        )
        if answered["client"].null_count:
            table = table.drop_columns(["unit"])
    notes = (UNANSWERED,) * (answered.num_rows < queries.num_rows) + (UNKNOWN_HITS,) * strangers
    return table, _own(options), notes


def _own(options: ReadOptions) -> ReadOptions:
    roles = {name: column for name, column in options.columns.items() if name != "reward"}
    logger = options.logger
    if logger is None and options.require_propensity and "propensity" not in roles:
        logger = PolicySpec("top")
    return replace(options, columns=roles, logger=logger)


def _indices(path: Path, options: ReadOptions) -> tuple[pa.Table, pa.Table]:
    """Return the rows of both indices, each with the columns that are used."""
    queries, events = [], []
    for file in expand(path):
        table = _unwrapped(tables.read_table(file))
        names = table.column_names
        if any(name in names for name in _HITS):
            queries.append(_queries(table, file.path))
        elif "action_name" in names:
            events.append(_events(table, file.path))
        else:
            raise LogError(
                f"{file.path} holds neither queries ('{_HITS[0]}') nor events ('action_name') of "
                f"User Behavior Insights; columns are {listed(names)}"
            )
    for found, what in ((queries, "queries"), (events, "events")):
        if not found:
            raise LogError(
                f"there are no {what} of User Behavior Insights among the files; export both "
                "ubi_queries and ubi_events into one folder"
            )
    return _together(queries), _together(events)


def _together(pieces: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(pieces, promote_options="permissive")


def _unwrapped(table: pa.Table) -> pa.Table:
    """Return the documents of search hits, where rows are wrapped as such."""
    if "_source" not in table.column_names:
        return table
    return pa.Table.from_struct_array(table["_source"])


def _queries(table: pa.Table, path: str) -> pa.Table:
    hits = next(name for name in _HITS if name in table.column_names)
    if not values.is_list(table.schema.field(hits).type):
        raise LogError(f"{path}: '{hits}' holds {table.schema.field(hits).type}, not lists of ids")
    found = {
        "query_id": _texts(_required(table, "query_id", path)),
        "hits": pa.chunked_array([_lists(values.one_chunk(table[hits]))]),
        "query": _texts(_optional(table, "user_query")),
        "client": _texts(_optional(table, "client_id")),
    }
    carried = {name: table[name] for name in _CARRIED[:2] if name in table.column_names}
    return pa.table({**found, **carried})


def _events(table: pa.Table, path: str) -> pa.Table:
    attributes = _optional(table, "event_attributes")
    return pa.table(
        {
            "query_id": _texts(_required(table, "query_id", path)),
            "action_name": _texts(_required(table, "action_name", path)),
            "object": _texts(_inside(attributes, "object", "object_id")),
            "ordinal": _inside(attributes, "position", "ordinal").cast(pa.float64()),
        }
    )


def _required(table: pa.Table, name: str, path: str) -> pa.ChunkedArray:
    if name not in table.column_names:
        raise LogError(
            f"{path} has no column '{name}', which User Behavior Insights has; columns are "
            f"{listed(table.column_names)}"
        )
    return table[name]


def _optional(table: pa.Table, name: str) -> pa.ChunkedArray:
    missing = pa.chunked_array([pa.nulls(table.num_rows)])
    return table[name] if name in table.column_names else missing


def _inside(column: pa.ChunkedArray, *path: str) -> pa.Array:
    """Return a field of nested objects, null where any of them is missing."""
    array = values.one_chunk(column)
    for name in path:
        known = pa.types.is_struct(array.type) and array.type.get_field_index(name) >= 0
        array = pc.struct_field(array, name) if known else pa.nulls(len(array))
    return array


def _texts(array: Any) -> pa.Array:
    plain = values.one_chunk(array) if isinstance(array, pa.ChunkedArray) else array
    return (
        plain.cast(pa.string())
        if not pa.types.is_nested(plain.type)
        else pa.nulls(len(plain), pa.string())
    )


def _lists(array: pa.Array) -> pa.Array:
    """Return lists of ids as text, nulls as empty lists, over one stretch of memory."""
    counts = values.entry_counts(array)
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, _texts(array.flatten()))


def _by_rank(hits: pa.ListArray) -> pa.Array:
    return pa.array(-(values.places(np.diff(hits.offsets.to_numpy()))[1] + 1.0))


def _clicked(queries: pa.Table, events: pa.Table, action: str) -> tuple[NDArray[np.float64], bool]:
    """Return 1 for each hit that the action was done to, and whether it was done to others too."""
    chosen = events.filter(pc.equal(events["action_name"], action))
    if not chosen.num_rows:
        counts = pc.value_counts(events["action_name"]).to_pylist()
        seen = [str(one["values"]) for one in sorted(counts, key=lambda one: -one["counts"])]
        raise LogError(
            f"no event is called '{action}'; take another as the reward with "
            f"{say('--columns', 'reward=NAME')}, there are {listed(seen)}"
        )
    hits = values.one_chunk(queries["hits"])
    row, _ = values.places(np.diff(hits.offsets.to_numpy()))
    shown = _joined(queries["query_id"].take(pa.array(row)), hits.values)
    _refuse_repeats(shown)
    object_ = _with_ordinals(chosen, queries, hits)
    place = pc.index_in(_joined(chosen["query_id"], object_), value_set=shown)
    reward = np.zeros(len(shown))
    known = place.drop_null().to_numpy()
    reward[known] = 1.0
    # An event on a page that was not exported says nothing about those that were.
    here = pc.is_in(
        values.one_chunk(chosen["query_id"]), value_set=values.one_chunk(queries["query_id"])
    )
    strangers = pc.any(pc.and_(here, pc.is_null(place))).as_py()
    return reward, bool(strangers)


def _with_ordinals(events: pa.Table, queries: pa.Table, hits: pa.ListArray) -> pa.Array:
    """Return the documents of events; those that name a position alone have the one that stood there."""
    known, ordinal = values.one_chunk(events["object"]), values.one_chunk(events["ordinal"])
    page = pc.index_in(
        values.one_chunk(events["query_id"]), value_set=values.one_chunk(queries["query_id"])
    )
    at = pc.subtract(ordinal, 1.0)
    offsets, sizes = hits.offsets.to_numpy(), np.diff(hits.offsets.to_numpy())
    rows = page.fill_null(0).to_numpy()
    place = at.fill_null(-1.0).to_numpy()
    fits = page.is_valid().to_numpy(zero_copy_only=False) & (place >= 0) & (place < sizes[rows])
    index = np.where(fits, offsets[rows] + np.where(fits, place, 0), 0).astype(np.int64)
    standing = hits.values.take(pa.array(index, mask=~fits))
    return pc.coalesce(known, standing)


def _joined(left: Any, right: Any) -> pa.Array:
    left = values.one_chunk(left) if isinstance(left, pa.ChunkedArray) else left
    return pc.binary_join_element_wise(left, right, "\x1f")


def _refuse_repeats(shown: pa.Array) -> None:
    counts = pc.value_counts(shown)
    most = pc.max(counts.field("counts")).as_py()
    if most > 1:
        at = pc.index(counts.field("counts"), most).as_py()
        query, _, document = counts.field("values")[at].as_py().partition("\x1f")
        raise LogError(
            f"the query_id '{query}' has the document '{document}' {most} times among its hits; a "
            "result page has an id of its own, and shows a document once"
        )
