"""Exports of a search engine, and the lists of a second ranker as a target."""

import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import counterrank as cr
from counterrank.common.errors import ConfigError, LogError
from counterrank.io.target_lists import TargetLists

PAGES = [
    {"query_id": "q1", "user_query": "tea", "client_id": "c1", "timestamp": "2026-10-01T10:00:00Z",
     "application": "shop", "query_response_hit_ids": ["d1", "d2", "d3"], "query": "{}",
     "query_attributes": {"page": "1"}},
    {"query_id": "q2", "user_query": "pot", "client_id": "c2", "timestamp": "2026-10-01T11:00:00Z",
     "application": "shop", "query_response_hit_ids": ["d4", "d1"], "query": "{}",
     "query_attributes": {"page": "1"}},
    {"query_id": "q3", "user_query": "tea", "client_id": "c1", "timestamp": "2026-10-02T10:00:00Z",
     "application": "shop", "query_response_hit_ids": [], "query": "{}",
     "query_attributes": {"page": "1"}},
]  # fmt: skip


def event(query, action, document=None, ordinal=None):
    attributes = {}
    if document is not None:
        attributes["object"] = {"object_id": document, "object_id_field": "sku"}
    if ordinal is not None:
        attributes["position"] = {"ordinal": ordinal}
    return {
        "application": "shop", "action_name": action, "query_id": query, "client_id": "c",
        "timestamp": "2026-10-01T10:01:00Z", "message_type": "INFO", "message": "",
        "event_attributes": attributes,
    }  # fmt: skip


EVENTS = [
    event("q1", "click", "d2", 2),
    event("q1", "click", "d2", 2),
    event("q1", "add_to_cart", "d3", 3),
    event("q2", "click", None, 1),
    event("q9", "click", "d1", 1),
]


def write(folder, pages=PAGES, events=EVENTS, *, wrapped=False, packed=False):
    folder.mkdir(exist_ok=True)
    for name, rows in (("ubi_queries", pages), ("ubi_events", events)):
        rows = (
            [{"_index": name, "_id": str(i), "_source": row} for i, row in enumerate(rows)]
            if wrapped
            else rows
        )
        text = "".join(json.dumps(row) + "\n" for row in rows).encode()
        path = folder / f"{name}.jsonl{'.gz' if packed else ''}"
        path.write_bytes(gzip.compress(text) if packed else text)
    return folder


@pytest.mark.parametrize("options", [{}, {"wrapped": True}, {"packed": True}])
def test_pages_and_what_was_clicked(tmp_path, options):
    log = cr.read_log(write(tmp_path / "ubi", **options), format="ubi")
    names = np.array([*log.action_names, None])
    assert names[log.action].tolist() == [["d1", "d2", "d3"], ["d4", "d1", None]]
    # Twice clicked is clicked; an event with a position alone is about what stood there.
    assert log.reward.tolist() == [[0, 1, 0], [1, 0, 0]]
    assert log.columns["query"].tolist() == ["tea", "pot"] and log.unit.tolist() == ["c1", "c2"]
    assert log.propensity.deterministic
    assert [note.code for note in log.notes] == ["queries-without-hits"]
    cart = cr.read_log(tmp_path / "ubi", format="ubi", columns={"reward": "add_to_cart"})
    assert cart.reward.tolist() == [[0, 0, 1], [0, 0, 0]]


def test_parquet_exports_are_read_too(tmp_path):
    pq.write_table(pa.Table.from_pylist(PAGES), tmp_path / "queries.parquet")
    pq.write_table(pa.Table.from_pylist(EVENTS), tmp_path / "events.parquet")
    assert cr.read_log(tmp_path, format="ubi").reward.tolist() == [[0, 1, 0], [1, 0, 0]]


@pytest.mark.parametrize(
    ("pages", "events", "message"),
    [
        (PAGES, [event("q1", "hover", "d1")], "no event is called 'click'; .* there are hover"),
        ([PAGES[2]], EVENTS, "no query has hits or impressions"),
        ([{**PAGES[0], "query_response_hit_ids": "d1,d2"}], EVENTS, "not lists of ids"),
        (PAGES, [{"color": "red"}], "holds neither queries .* nor events"),
        (PAGES, PAGES, "there are no events"),
        ([{"query_response_hit_ids": ["d1"]}], EVENTS, "has no column 'query_id'"),
    ],
)
def test_exports_that_are_none(tmp_path, pages, events, message):
    with pytest.raises(LogError, match=message):
        cr.read_log(write(tmp_path / "ubi", pages, events), format="ubi")


def test_events_on_strangers_are_said(tmp_path):
    strange = [*EVENTS, event("q1", "click", "d77")]
    log = cr.read_log(write(tmp_path / "ubi", events=strange), format="ubi")
    # The exact copy of a click is left out: two find what was shown, one names an item that was not.
    assert log.events.to_dict() == {"rows": 5, "joined": 2, "orphans": 1, "duplicates": 1}
    told = {one.code: one.text for one in log.events.findings}
    assert told["rewards-events-unshown"].startswith("1 of 4 events")


def bulk(path, rows):
    """The bulk form: a line that names the index before each document, of both indices in one file."""
    lines = []
    for name, row in rows:
        lines += [{"index": {"_index": name, "_id": str(len(lines))}}, row]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize("base", [0, 1])
def test_impressions_say_what_was_seen(tmp_path, base):
    """Queries without hits, ordinals from 0 or 1, times as text and numbers, a query asked twice."""
    queries = [{**PAGES[2]}, {**PAGES[1]}, {**PAGES[1], "query_response_hit_ids": ["d9"]}]
    events = [event("q3", "impression", name, base + k) for k, name in enumerate(("a", "b", "c"))]
    events += [
        event("q3", "click", "b", base + 1),
        event("q3", "click", "c"),
        event("q2", "click", "d9"),
    ]
    events += [event("q4", "impression", "z", base), event("q4", "click", None, base)]
    events += [event("q3", "click", "unseen"), event("q7", "click", "lost")]
    for k, one in enumerate(events):
        one["timestamp"] = 1790000000000 + k if k % 2 else "2026-10-02T10:00:00.5Z"
    rows = [("ubi_events", one) for one in reversed(events)] + [
        ("ubi_queries", one) for one in queries
    ]
    path = bulk(tmp_path / "ubi.ndjson", rows)
    log = cr.read_log(path, format="ubi")
    names = np.array([*log.action_names, None])
    assert names[log.action].tolist() == [["a", "b", "c"], ["d4", "d1", "d9"], ["z", None, None]]
    assert log.reward.tolist() == [[0, 1, 1], [0, 0, 1], [1, 0, 0]]
    assert log.events.to_dict() == {"rows": 6, "joined": 4, "orphans": 1, "duplicates": 0}
    audit = cr.audit_file(path, format="ubi")
    assert {"rewards-events-orphans", "rewards-events-unshown"} <= {one.code for one in audit}


def ga4(name, user, time, items, **more):
    params = [{"key": "ga_session_id", "value": {"int_value": 5, "string_value": None}}]
    return {"event_name": name, "user_pseudo_id": user, "event_timestamp": 1790000000000000 + time,
            "event_params": params, "items": items, **more}  # fmt: skip


def item(name, place=None, **more):
    return {"item_id": name, "item_list_id": "home", "item_list_index": place, **more}


def test_google_analytics(tmp_path):
    """By hand: a click belongs to the last list before it that shows the item."""
    rows = [
        ga4("view_item_list", "u1", 0, [item("b", 2), item("a", 1)], device={"category": "mobile"}),
        ga4("select_item", "u1", 5, [item("b")]),
        ga4("view_item_list", "u1", 10, [item("a", 1), item("b", 2), item("c", 3)]),
        ga4("select_item", "u1", 20, [item("a")]),
        ga4("purchase", "u1", 30, [{"item_id": "c", "price": 2.5, "quantity": 2}, {"item_id": "b", "price": 1}]),
        ga4("view_item_list", "u2", 12, [item("a", 1)]),
        ga4("select_item", "u3", 13, [item("a")]),
        ga4("page_view", "u2", 14, []),
    ]  # fmt: skip
    path = tmp_path / "export.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in reversed(rows)))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "export.parquet")
    for source in (path, tmp_path / "export.parquet"):
        log = cr.read_log(source, format="ga4")
        names = np.array([*log.action_names, None])
        assert names[log.action].tolist() == [["a", "b", None], ["a", "b", "c"], ["a", None, None]]
        assert log.rewards["clicks"].tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
        assert log.rewards["purchases"].tolist() == [[0, 0, 0], [0, 1, 1], [0, 0, 0]]
        assert log.rewards["revenue"].tolist() == [[0, 0, 0], [0, 1, 5], [0, 0, 0]]
        assert log.unit.tolist() == ["u1", "u1", "u2"]
        assert log.events.to_dict() == {"rows": 5, "joined": 4, "orphans": 1, "duplicates": 0}


def test_metarank(tmp_path):
    rows = [
        {"event": "ranking", "id": "r1", "timestamp": "1790000000000", "user": "u1", "session": "s",
         "fields": [{"name": "query", "value": "tea"}],
         "items": [{"id": "i3", "fields": [{"name": "relevancy", "value": 2.0}]},
                   {"id": "i1", "fields": [{"name": "relevancy", "value": 1.0}]}]},
        {"event": "ranking", "id": "r2", "timestamp": "1790000001000", "user": "u2", "session": "s",
         "fields": [{"name": "query", "value": "pot"}],
         "items": [{"id": "i1", "fields": [{"name": "relevancy", "value": 0.5}]}]},
        {"event": "interaction", "id": "e1", "ranking": "r1", "timestamp": "1790000002000",
         "user": "u1", "type": "purchase", "item": "i3"},
        {"event": "interaction", "id": "e2", "ranking": "r1", "timestamp": "1790000002000",
         "user": "u1", "type": "click", "item": "i1"},
        {"event": "interaction", "id": "e3", "ranking": "r9", "timestamp": "1790000002000",
         "user": "u1", "type": "click", "item": "i1"},
        {"event": "item", "id": "x", "item": "i1", "timestamp": "1790000002000", "fields": []},
    ]  # fmt: skip
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    log = cr.read_log(path, format="metarank")
    names = np.array([*log.action_names, None])
    assert names[log.action].tolist() == [["i3", "i1"], ["i1", None]]
    assert log.reward.tolist() == log.rewards["click"].tolist() == [[0, 1], [0, 0]]
    assert log.rewards["purchase"].tolist() == [[1, 0], [0, 0]]
    assert log.categories["x_query"] == ("pot", "tea") and log.unit.tolist() == ["u1", "u2"]
    assert log.candidates.features["z_relevancy"].tolist() == [2.0, 1.0, 0.5]
    assert log.events.to_dict() == {"rows": 3, "joined": 2, "orphans": 1, "duplicates": 0}
    path.write_text('{"event": "click"}\n')
    with pytest.raises(LogError, match="a ranking or an interaction, got 'click'"):
        cr.read_log(path, format="metarank")


def lists(path, rows):
    pq.write_table(
        pa.table(dict(zip(("query", "rank", "document"), zip(*rows, strict=True), strict=True))),
        path,
    )
    return path


def test_lists_are_a_target_that_always_shows_them(tmp_path):
    """By hand: weights are 1/p where the list shows what was shown, else 0."""
    log = {
        "action": [["a", "b"], ["b", "a"], ["c", "a"]],
        "reward": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
        "propensity": [[0.5, 0.25], [0.5, 0.5], [0.2, 0.5]],
        "query": ["x", "x", "y"],
    }
    rows = [("x", 1, "a"), ("x", 2, "b"), ("x", 3, "z"), ("y", 2, "a"), ("y", 1, "new")]
    path = lists(tmp_path / "lists.parquet", rows)
    result = cr.evaluate(
        pa.table(log),
        target_lists={"next": path},
        estimators=["iips", "ips"],
        independent_rows=True,
    )
    iips = (1.0 / 0.5 + 2.0 / 0.25 + 0 + 0 + 0 + 6.0 / 0.5) / 3
    assert result.estimate("next", "iips").value == pytest.approx(iips, rel=1e-12)
    assert result.estimate("next", "ips").value == pytest.approx((1 + 2) / (0.5 * 0.25) / 3)
    read = cr.RankingLog.from_frame(
        pa.table(log), target_lists={"next": path}, propensity_kind="prefix"
    )
    assert read.action_names == ("a", "b", "c", "new", "z")
    drawn = read.target("next").sample(2, np.random.default_rng(0))[:, 0]
    assert np.array(read.action_names)[drawn].tolist() == [["a", "b"], ["a", "b"], ["new", "a"]]


def test_documents_that_no_candidate_list_has_become_items(tmp_path):
    log = {
        "action": [["a", "b"], ["b", "c"]],
        "reward": [[1.0, 0.0], [0.0, 1.0]],
        "candidates": [["a", "b", "c"]] * 2,
        "propensity_scores": [[3.0, 2.0, 1.0]] * 2,
        "query": ["x", "x"],
    }
    path = lists(tmp_path / "lists.parquet", [("x", 1, "a"), ("x", 2, "z")])
    read = cr.RankingLog.from_frame(
        pa.table(log), target_lists={"next": path}, logger="plackett-luce"
    )
    assert read.action_names == ("a", "b", "c", "z")
    assert read.candidates.n_items == read.propensity.n_actions == 4
    assert read.target("next").n_actions == 4


def test_lists_beside_ids_and_streams(tmp_path):
    rng = np.random.default_rng(0)
    n = 600
    table = pa.table(
        {
            "action": [rng.permutation(4)[:3].tolist() for _ in range(n)],
            "reward": rng.random((n, 3)).tolist(),
            "propensity": [[0.25, 1 / 3, 0.5]] * n,
            "q": rng.integers(0, 5, n),
        }
    )
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=100)
    (tmp_path / "folder").mkdir()
    for k in range(3):
        pq.write_table(table.slice(200 * k, 200), tmp_path / f"folder/{k}.parquet")
    rows = [(q, r, (q + r) % 5) for q in range(5) for r in range(3)]
    path = lists(tmp_path / "lists.parquet", rows)
    options = {
        "target_lists": {"new": path}, "columns": {"query": "q"}, "propensity_kind": "prefix",
        "estimators": ["ips", "rips"], "independent_rows": True,
    }  # fmt: skip
    whole, stream = (
        cr.evaluate(place, **options) for place in (tmp_path / "log.parquet", tmp_path / "folder")
    )
    action, q = np.array(table["action"].to_pylist()), table["q"].to_numpy()
    wanted = (q[:, None] + np.arange(3)) % 5
    weight = np.where((action == wanted).all(axis=1), 24.0, 0.0)
    value = (weight * np.array(table["reward"].to_pylist()).sum(axis=1)).mean()
    for result in (whole, stream):
        assert result.estimate("new", "ips").value == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("x", 1, "a"), ("x", 3, "b")], "ranking 'x' has position 3 but not 2 .row 1"),
        ([("x", 1, "a"), ("x", 1, "b")], "ranking 'x' has position 1 twice .rows 0 and 1"),
        ([("x", 2, "a"), ("x", 3, "b")], "ranking 'x' has position 2 but not 1 .row 0"),
        ([("x", 1, "a"), ("x", 2, "a")], "the document a stands twice in the list of the query 'x'"),
        ([("x", 1, "a"), ("x", 2, None)], "row 1: the document is missing"),
    ],
)  # fmt: skip
def test_lists_that_are_none(tmp_path, rows, message):
    with pytest.raises(LogError, match=message):
        TargetLists(str(lists(tmp_path / "lists.parquet", rows)), "query").read(())


def test_queries_without_a_list(tmp_path):
    path = lists(tmp_path / "lists.parquet", [("x", 1, "a")])
    log = {"action": [["a"]], "reward": [[1.0]], "propensity": [[1.0]], "query": ["y"]}
    with pytest.raises(LogError, match="row 0 has the query 'y', of which .* has no list"):
        cr.RankingLog.from_frame(log, target_lists={"new": path})
    del log["query"]
    with pytest.raises(LogError, match="no column 'query'"):
        cr.RankingLog.from_frame(log, target_lists={"new": path})
    log["query"] = ["x"]
    pq.write_table(pa.table({"q": [1]}), tmp_path / "other.parquet")
    with pytest.raises(LogError, match="has no column 'query'; lists of a ranker have"):
        cr.RankingLog.from_frame(log, target_lists={"new": tmp_path / "other.parquet"})
    with pytest.raises(ConfigError, match="target_lists maps names"):
        cr.RankingLog.from_frame(log, target_lists="lists.csv")


def test_a_search_engine_from_the_command_line(tmp_path):
    """Known users: examination 1, .5, .25 by position, relevance by document; the new lists turn
    the old ones around. The value of the new lists is known, and pbm finds it.
    """
    rng = np.random.default_rng(3)
    documents = [f"d{i}" for i in range(6)]
    relevance = dict(zip(documents, (0.8, 0.1, 0.5, 0.3, 0.6, 0.2), strict=True))
    look = (1.0, 0.5, 0.25)
    pages, events = [], []
    for i in range(4000):
        # Versions of the engine: the same query saw several lists, so documents moved.
        query = f"query {i % 4}"
        hits = [documents[(i % 4 + k * (1 + (i // 4) % 3)) % 6] for k in range(3)]
        if len(set(hits)) < 3:
            hits = [documents[(i % 4 + k) % 6] for k in range(3)]
        pages.append(
            {
                "query_id": f"p{i}",
                "user_query": query,
                "client_id": f"c{i}",
                "query_response_hit_ids": hits,
            }
        )
        for k, document in enumerate(hits):
            if rng.random() < look[k] * relevance[document]:
                events.append(event(f"p{i}", "click", document, k + 1))
    write(tmp_path / "ubi", pages, events)
    new = {f"query {q}": [documents[(q + 2 - k) % 6] for k in range(3)] for q in range(4)}
    with open(tmp_path / "lists.csv", "w") as out:
        out.write("query,rank,document\n")
        for query, shown in new.items():
            out.writelines(f"{query},{k + 1},{d}\n" for k, d in enumerate(shown))
    (tmp_path / "curve.json").write_text("[1, 0.5, 0.25]")
    truth = np.mean(
        [sum(look[k] * relevance[d] for k, d in enumerate(shown)) for shown in new.values()]
    )
    from counterrank.cli.main import main

    arguments = [
        "evaluate", str(tmp_path / "ubi"), "--format", "ubi", "--target-lists",
        f"new={tmp_path / 'lists.csv'}", "--estimators", "pbm", "--position-curve",
        str(tmp_path / "curve.json"), "--json", "-",
    ]  # fmt: skip
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["estimates"][0]
    # Four standard errors of the mean of 4,000 pages: a false alarm in 16,000 seeds.
    assert abs(found["value"] - truth) < 4 * found["stderr"] + 1e-9
    assert found["low"] < truth < found["high"]
    assert json.loads(result.stdout)["verdict"]["level"] in ("directional", "insufficient")
