"""Rewards from a table of events: equal to the log joined by hand, and what is wrong with the join is said."""

import datetime
import json
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import counterrank as cr
from counterrank.checks.auditor import audit
from counterrank.common.errors import ConfigError, LogError
from counterrank.data.source import MemorySource
from counterrank.io import concat, scan_log

N, K, ITEMS = 300, 4, 9
CLICKS = "count(*) filter (where event = 'click')"
REVENUE = "sum(revenue)"
COLUMNS = {"ranking": "request", "position": "rank", "action": "item", "propensity": "p"}


class Shop:
    """Impressions, events, and the rewards that a plain loop over both gives."""

    def __init__(self) -> None:
        rng = np.random.default_rng(11)
        self.items = np.array([rng.permutation(ITEMS)[:K] for _ in range(N)])
        self.p, self.new = rng.uniform(0.1, 1, (2, N, K))
        self.day = [datetime.datetime(2026, 11, 1 + i // 60, 12, i % 60) for i in range(N)]
        self.device = np.where(np.arange(N) % 3 == 0, "mobile", "desktop")
        self.events: list[tuple] = []
        for i in range(N):
            for k in range(K):
                for _ in range(int(rng.binomial(2, 0.15))):
                    kind = "click" if rng.random() < 0.7 else "order"
                    amount = round(float(rng.gamma(2, 10)), 2) if kind == "order" else None
                    after = int(rng.integers(1, 7200))
                    self.events.append((f"r{i:03}", f"i{self.items[i, k]}", kind, amount, after, i))

    def impressions(self) -> pa.Table:
        i, k = np.repeat(np.arange(N), K), np.tile(np.arange(K), N)
        return pa.table(
            {
                "request": [f"r{j:03}" for j in i],
                "rank": k + 1,
                "item": [f"i{j}" for j in self.items.ravel()],
                "p": self.p.ravel(),
                "new": self.new.ravel(),
                "x_device": [str(self.device[j]) for j in i],
                "shown_at": pa.array([self.day[j] for j in i], pa.timestamp("us")),
                "unit": [f"u{j // 2}" for j in i],
            }
        )

    def wide(self) -> pa.Table:
        return pa.table(
            {
                "request": [f"r{j:03}" for j in range(N)],
                "item": [[f"i{one}" for one in row] for row in self.items],
                "p": self.p.tolist(),
                "new": self.new.tolist(),
                "x_device": [str(one) for one in self.device],
                "shown_at": pa.array(self.day, pa.timestamp("us")),
                "unit": [f"u{j // 2}" for j in range(N)],
            }
        )

    def table(self, **more) -> pa.Table:
        at = [self.day[i] + datetime.timedelta(seconds=after) for *_, after, i in self.events]
        names = ("request_id", "item", "event", "revenue")
        columns = {name: [one[j] for one in self.events] for j, name in enumerate(names)}
        return pa.table({**columns, "ts": pa.array(at, pa.timestamp("us")), **more})

    def by_hand(self, kind: str, window: float = np.inf) -> np.ndarray:
        found = np.zeros((N, K))
        for _, item, event, amount, after, i in self.events:
            if event == kind and after <= window:
                k = list(self.items[i]).index(int(item[1:]))
                found[i, k] += 1 if kind == "click" else amount
        return found


@pytest.fixture(scope="module")
def shop():
    return Shop()


def events(path, **more):
    given = {"on": "request=request_id,item", "rewards": {"clicks": CLICKS, "revenue": REVENUE}}
    return cr.Events(path, **{**given, **more})


READING = {"columns": COLUMNS, "targets": "new"}


def write(table, path):
    path.parent.mkdir(exist_ok=True)
    if path.suffix == ".csv":
        pacsv.write_csv(table, path)
    elif path.suffix == ".jsonl":
        lines = [json.dumps(row, default=str) for row in table.to_pylist()]
        path.write_text("\n".join(lines) + "\n")
    else:
        pq.write_table(table, path)
    return path


def days(table, folder, extension, rng):
    """A folder of three files in any order."""
    rows = rng.permutation(table.num_rows)
    for day, part in enumerate(np.array_split(rows, 3)):
        write(table.take(pa.array(part)), folder / f"day{day}.{extension}")
    return folder


@pytest.mark.parametrize("form", ["long", "shuffled", "wide"])
@pytest.mark.parametrize("extension", ["parquet", "csv", "jsonl"])
def test_rewards_are_those_of_the_join_by_hand(shop, tmp_path, form, extension):
    rng = np.random.default_rng(2)
    if form == "wide" and extension == "csv":
        pytest.skip("CSV has no lists; numbered columns have a test of their own")
    log = tmp_path / f"log.{extension}"
    if form == "shuffled":
        log = days(shop.impressions(), tmp_path / "log", extension, rng)
        table = days(shop.table(), tmp_path / "events", extension, rng)
    else:
        write(shop.wide() if form == "wide" else shop.impressions(), log)
        table = write(shop.table(), tmp_path / f"events.{extension}")
    source = scan_log(log, events=events(table), **READING)
    for found in (
        cr.read_log(log, events=events(table), **READING),
        concat(list(source.batches())),
    ):
        np.testing.assert_array_equal(found.rewards["clicks"], shop.by_hand("click"))
        np.testing.assert_allclose(found.rewards["revenue"], shop.by_hand("order"), rtol=1e-12)
        np.testing.assert_array_equal(found.reward, found.rewards["clicks"])
        assert found.events.to_dict() == {
            "rows": len(shop.events), "joined": len(shop.events), "orphans": 0, "duplicates": 0
        }  # fmt: skip
        np.testing.assert_allclose(found.propensity.values, shop.p)
    source.close()


def test_tables_in_memory_and_numbered_columns(shop, tmp_path):
    numbered = shop.wide().drop_columns(["item", "p", "new"]).to_pydict()
    for k in range(K):
        numbered[f"item_{k + 1}"] = [f"i{row[k]}" for row in shop.items]
        numbered[f"p_{k + 1}"], numbered[f"new_{k + 1}"] = shop.p[:, k], shop.new[:, k]
    joined = events(shop.table(), on="request=request_id, action=item")
    for table in (shop.impressions().to_pandas(), shop.wide(), pa.table(numbered)):
        log = cr.RankingLog.from_frame(table, events=joined, **READING)
        np.testing.assert_array_equal(log.reward, shop.by_hand("click"))
    path = write(pa.table(numbered), tmp_path / "log.csv")
    streamed = next(cr.scan_log(path, events=joined, **READING).batches())
    for log in (cr.read_log(path, events=joined, **READING), streamed):
        np.testing.assert_array_equal(log.reward, shop.by_hand("click"))


def test_one_row_a_candidate(shop, tmp_path):
    """Candidates that were not shown have no position; a click on one of them is about nothing shown."""
    rng = np.random.default_rng(8)
    rows = []
    for i in range(N):
        places = {int(item): k + 1 for k, item in enumerate(shop.items[i])}
        for item in range(ITEMS):
            rows.append(
                {"request": f"r{i:03}", "rank": places.get(item), "item": f"i{item}",
                 "propensity_scores": float(rng.normal()), "new_scores": float(rng.normal())}
            )  # fmt: skip
    table = pa.Table.from_pylist(rows).take(pa.array(rng.permutation(len(rows))))
    log = write(table, tmp_path / "log.parquet")
    missing = [f"i{next(x for x in range(ITEMS) if x not in shop.items[i])}" for i in range(20)]
    strange = shop.table().slice(0, 20).set_column(1, "item", pa.array(missing))
    strange = strange.set_column(0, "request_id", pa.array([f"r{i:03}" for i in range(20)]))
    given = events(pa.concat_tables([shop.table(), strange]))
    roles = {name: column for name, column in COLUMNS.items() if name != "propensity"}
    more = {
        "columns": roles,
        "logger": "plackett-luce",
        "policies": {"new": "top"},
        "events": given,
    }
    for found in (cr.read_log(log, **more), concat(list(scan_log(log, **more).batches()))):
        np.testing.assert_array_equal(found.reward, shop.by_hand("click"))
        assert found.candidates.counts.tolist() == [ITEMS] * N
        told = {one.code: one.text for one in found.events.findings}
        assert told["rewards-events-unshown"].startswith("20 of")


def test_a_window(shop, tmp_path):
    log = write(shop.impressions(), tmp_path / "log.parquet")
    wide = write(shop.wide(), tmp_path / "wide.parquet")
    stamps = shop.table()["ts"]
    seconds = pa.array(
        [int(one.timestamp()) for one in stamps.cast(pa.timestamp("us", "UTC")).to_pylist()]
    )
    text = stamps.cast(pa.string())
    for column in (stamps, text, seconds, pa.compute.multiply(seconds, 1000)):
        table = write(shop.table().set_column(4, "ts", column), tmp_path / "events.parquet")
        given = events(table, within="30 minutes", time="ts", shown="shown_at")
        for path in (log, wide):
            found = cr.read_log(path, events=given, **READING)
            np.testing.assert_array_equal(found.reward, shop.by_hand("click", 1800))
            late = [one.text for one in found.events.findings if one.code.endswith("late")]
            assert late and "after the window of 30 minutes" in late[0]


def test_rewards_of_the_page(shop, tmp_path):
    table = write(shop.table(), tmp_path / "events.parquet")
    given = events(
        table, on="request=request_id", rewards={"orders": "count(*) filter (event = 'order')"}
    )
    hand = np.bincount([one[-1] for one in shop.events if one[2] == "order"], minlength=N)
    for name, source in (("log", shop.impressions()), ("wide", shop.wide())):
        path = write(source, tmp_path / f"{name}.parquet")
        found = cr.read_log(path, events=given, **READING)
        assert found.page_reward
        np.testing.assert_array_equal(found.reward.sum(axis=1), hand)
        windowed = events(
            table,
            on="request=request_id",
            rewards=given.rewards,
            within="2h",
            time="ts",
            shown="shown_at",
        )
        np.testing.assert_array_equal(
            cr.read_log(path, events=windowed, **READING).reward.sum(axis=1), hand
        )


def test_evaluations_equal_those_of_the_log_joined_by_hand(shop, tmp_path, monkeypatch):
    own = tmp_path / "temporary"
    own.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(own))
    rng = np.random.default_rng(3)
    hand = shop.impressions().append_column("clicks", pa.array(shop.by_hand("click").ravel()))
    hand = hand.append_column("revenue", pa.array(shop.by_hand("order").ravel()))
    more = {"estimators": "ips,rips,auto", "columns": COLUMNS}
    rewards = {
        "clicks": "clicks",
        "revenue": "revenue",
        "any": "any(clicks)",
        "each": "revenue / clicks",
    }
    expected = cr.evaluate(write(hand, tmp_path / "hand.parquet"), "new", rewards=rewards, **more)
    log = days(shop.impressions(), tmp_path / "log", "csv", rng)
    table = days(shop.table(), tmp_path / "events", "jsonl", rng)
    page = {"any": "any(clicks)", "each": "revenue / clicks"}
    found = cr.evaluate(log, "new", events=events(table), rewards=page, **more)
    assert (
        found.log.events["joined"]
        == len(shop.events)
        == json.loads(found.to_json())["log"]["events"]["rows"]
    )
    assert [one.name for one in found.metrics] == ["clicks", "revenue", "any", "each"]
    for one, other in zip(expected.metrics, found.metrics, strict=True):
        for a, b in zip(one.estimates, other.estimates, strict=True):
            np.testing.assert_allclose([a.value, a.stderr], [b.value, b.stderr], rtol=1e-12)
    assert not list(own.iterdir())


def broken(shop, what):
    table = shop.table()
    if what == "doubled":
        return pa.concat_tables([table, table.slice(0, 20)])
    if what == "orphans":
        return pa.concat_tables(
            [
                table,
                table.slice(0, 20).set_column(
                    0, "request_id", pa.array([f"z{i}" for i in range(20)])
                ),
            ]
        )
    if what == "unshown":
        return pa.concat_tables(
            [table, table.slice(0, 20).set_column(1, "item", pa.array(["i99"] * 20))]
        )
    early = pa.compute.subtract(table["ts"], pa.scalar(datetime.timedelta(hours=5)))
    return table.set_column(4, "ts", early)


@pytest.mark.parametrize("form", ["long", "wide"])
@pytest.mark.parametrize("what", ["orphans", "unshown", "early"])
def test_the_audit_of_the_join(shop, tmp_path, form, what):
    log = shop.wide() if form == "wide" else shop.impressions()
    table = broken(shop, what)
    given = events(table, time="ts", shown="shown_at")
    found = cr.RankingLog.from_frame(log, events=given, **READING)
    codes = {one.code: one for one in found.events.findings if one.status == "warned"}
    assert set(codes) == {f"rewards-events-{what}"}
    finding = codes[f"rewards-events-{what}"]
    assert finding.remedies and finding.cause
    count = {"early": len(shop.events)}.get(what, 20)
    assert finding.text.startswith(f"{count:,} of {table.num_rows:,} events")
    counts = found.events.to_dict()
    assert counts["orphans"] == 20 * (what == "orphans")
    assert counts["duplicates"] == 0
    assert counts["joined"] == table.num_rows - 20 * (what in ("orphans", "unshown"))


def doubled_finding(log):
    return next((one for one in log.events.findings if one.code == "rewards-events-doubled"), None)


def read_events(shop, table, rewards=None, **more):
    given = cr.Events(table, "request=request_id,item", rewards or {"clicks": CLICKS}, **more)
    return cr.RankingLog.from_frame(shop.impressions(), events=given, **READING)


@pytest.mark.parametrize("form", ["long", "wide"])
def test_exact_copies_of_events_with_times_are_left_out(shop, form):
    log, table = shop.wide() if form == "wide" else shop.impressions(), broken(shop, "doubled")
    found = cr.RankingLog.from_frame(
        log, events=events(table, time="ts", shown="shown_at"), **READING
    )
    clean = cr.RankingLog.from_frame(log, events=events(shop.table()), **READING)
    np.testing.assert_array_equal(found.reward, clean.reward)
    assert found.events.duplicates == 20 and found.events.rows == table.num_rows
    assert "20 of" in doubled_finding(found).text and not doubled_finding(found).blamed


def test_copies_without_times_are_counted_and_blamed(shop):
    """Two clicks of one person look the same there."""
    table = broken(shop, "doubled").drop_columns(["ts"])
    found = read_events(shop, table)
    assert found.events.duplicates >= 20 and doubled_finding(found).status == "warned"
    assert "they raise clicks by" in doubled_finding(found).text


def resent(shop, share, seconds=3):
    """Some events sent again some seconds later, with an id of their own."""
    table = shop.table()
    some = table.slice(0, int(share * table.num_rows))
    later = pa.compute.add(some["ts"], pa.scalar(datetime.timedelta(seconds=seconds)))
    table = pa.concat_tables([table, some.set_column(4, "ts", later)])
    ids = np.arange(shop.table().num_rows)
    event = np.concatenate([ids, ids[: some.num_rows]])
    return table.append_column("row_id", pa.array(np.arange(table.num_rows))), event


def test_events_sent_again_within_seconds_are_found_with_what_they_change(shop):
    table, _ = resent(shop, 0.2)
    found = doubled_finding(read_events(shop, table))
    assert found.status == "warned" and "within 10 seconds: they raise clicks by" in found.text
    assert 'unique = ["request_id", "item", "event", "revenue"] in [events]' in found.remedies[0]
    # An hour later a person may well do the same.
    assert doubled_finding(read_events(shop, resent(shop, 0.2, 3600)[0])) is None
    # What copies cannot change is not in doubt.
    same = {"any": f"CASE WHEN {CLICKS} > 0 THEN 1 ELSE 0 END", "most": "max(revenue)"}
    assert not doubled_finding(read_events(shop, table, same)).blamed


def test_the_key_of_an_event_leaves_out_what_was_sent_again(shop):
    table, event = resent(shop, 1.0)
    table = table.append_column("event_id", pa.array(event))
    found = read_events(shop, table)
    said = doubled_finding(found)
    assert said.status == "failed" and said.cause == "events that were loaded twice"
    assert 'unique = ["event_id"]' in said.remedies[0]
    once = read_events(shop, table, unique=["event_id"])
    np.testing.assert_array_equal(once.reward, read_events(shop, shop.table()).reward)
    assert not doubled_finding(once).blamed and once.events.duplicates == len(shop.events)
    with pytest.raises(LogError, match="no column 'id' for the key"):
        read_events(shop, table, unique="id")


def test_all_events_loaded_twice_is_a_failure_with_the_line_that_mends_it(shop):
    table = pa.concat_tables([shop.table()] * 2)
    said = doubled_finding(read_events(shop, table))
    assert said.status == "failed" and "unique = [" in said.remedies[0]


def test_copies_with_ids_of_their_own_are_noticed(shop):
    table = broken(shop, "doubled")
    table = table.append_column("event_id", pa.array([f"e{i}" for i in range(table.num_rows)]))
    found = cr.RankingLog.from_frame(shop.impressions(), events=events(table), **READING)
    assert found.events.duplicates == 20


def test_the_verdict_follows_the_join(shop, tmp_path):
    log = write(shop.impressions(), tmp_path / "log.parquet")
    result = cr.evaluate(
        log, "new", estimators="ips", events=events(broken(shop, "orphans")), columns=COLUMNS
    )
    reasons = [one for one in result.verdict.reasons if one.code == "rewards-events-orphans"]
    assert reasons and reasons[0].status == "warned"
    assert result.verdict.level != "reliable"
    audit = cr.audit_file(log, ["new"], events=events(broken(shop, "orphans")), columns=COLUMNS)
    assert any(one.code == "rewards-events-orphans" for one in audit)


def test_validation_takes_each_event_as_a_metric(shop):
    log = shop.wide().append_column("arm", pa.array(np.where(np.arange(N) % 2, "old", "new")))
    log = log.append_column("old", log["p"])
    columns = {"action": "item", "propensity": "p"}
    given = {"estimators": "ips", "columns": columns, "events": events(shop.table())}
    found = cr.validate(log, "arm", **given)
    assert [one.name for one in found.metrics] == ["clicks", "revenue"]
    assert cr.validate(log, "arm", primary="revenue", **given).name == "revenue"


def test_a_group_without_events_is_named(shop):
    mobile = {f"r{i:03}" for i in range(N) if shop.device[i] == "mobile"}
    table = shop.table()
    kept = [one not in mobile for one in table["request_id"].to_pylist()]
    found = cr.RankingLog.from_frame(
        shop.impressions(), events=events(table.filter(pa.array(kept))), **READING
    )
    (level,) = (one for one in audit(MemorySource(found), ()) if one.code == "rewards-by-level")
    assert (level.status, level.kind) == ("warned", "question") and "mobile" in level.text
    healthy = cr.RankingLog.from_frame(shop.impressions(), events=events(table), **READING)
    assert all(one.status == "passed" for one in healthy.events.findings)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda one: f"sku-{one}",
            "'item' in the log is like 'i0', 'item' in the events like 'sku-i0'",
        ),
        (
            lambda one: f"{one}@de",
            "'item' in the log is like 'i0', 'item' in the events like 'i0@de'",
        ),
        (str.upper, "'item' in the log is like 'i0', 'item' in the events like 'I0'"),
        (
            lambda one: f"q{hash(one)}",
            "'item' in the log is like 'i0', 'item' in the events like 'q",
        ),
    ],
)
def test_a_wrong_key_is_named(shop, change, message):
    table = shop.table()
    wrong = table.set_column(
        1, "item", pa.array([change(one) for one in table["item"].to_pylist()])
    )
    with pytest.raises(LogError, match=f"none of the .* events finds a ranking; {message}"):
        cr.RankingLog.from_frame(shop.impressions(), events=events(wrong), **READING)
    some = pa.concat_tables([wrong, table.slice(0, 1)])
    found = cr.RankingLog.from_frame(shop.impressions(), events=events(some), **READING)
    failed = next(one for one in found.events.findings if one.status == "failed")
    assert failed.fatal and failed.text.startswith("0.")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"on": "request=request_id,sku"}, "no column 'sku' for the join with events"),
        ({"on": "request=request,item"}, "has no column 'request' to join by .did you mean 'request_id'"),
        ({"on": "rank=item"}, "finds a ranking; 'rank' in the log is like '1', 'item' in the events like 'i0'"),
        ({"on": ""}, "events are joined by columns"),
        ({"rewards": {}}, "say what events are worth"),
        ({"rewards": {"clicks": "count(*"}}, "the aggregate of 'clicks' 'count.*' is no SQL"),
        ({"rewards": {"clicks": "revenue"}}, "'clicks', 'revenue', cannot be used: .*GROUP BY"),
        ({"rewards": {"clicks": "sum(price)"}}, "'clicks', .*cannot be used: .*price"),
        ({"rewards": {"clicks": "max(event)"}}, "gives string; a reward is a number"),
        ({"rewards": {"clicks": "(select 1)"}}, "looks at rows of its own"),
        ({"rewards": {"p": "count(*)"}}, "the log has a column 'p' already"),
        ({"within": "30 apples", "time": "ts"}, "'30 apples' is no duration; write '30 minutes'"),
        ({"within": "30 minutes"}, "a window needs the time of events"),
        ({"within": "1h", "time": "when", "shown": "shown_at"}, "no column 'when' with the time"),
        ({"within": "1h", "time": "ts"}, "no column 'ts' for the time of the impression"),
        ({"within": "1h", "time": "event", "shown": "shown_at"}, "'event' is 'click' in .*, which is no time"),
    ],
)  # fmt: skip
def test_bad_input_is_one_message(shop, tmp_path, more, message):
    log = write(shop.impressions(), tmp_path / "log.parquet")
    table = write(shop.table(), tmp_path / "events.parquet")
    for read in (cr.read_log, scan_log):
        with pytest.raises((ConfigError, LogError), match=message) as problem:
            read(log, events=events(table, **more), **READING)
        assert "\n" not in str(problem.value)


def test_streams_and_large_answers(shop, tmp_path, monkeypatch):
    """A query as the log: in memory, and kept on disk."""
    import duckdb

    from counterrank.io import file_source

    with duckdb.connect(str(tmp_path / "shop.db")) as made:
        made.register("given", shop.impressions())
        made.execute("CREATE TABLE log AS SELECT * FROM given")
    query = cr.Query("SELECT * FROM log", f"duckdb:{tmp_path}/shop.db")
    given = events(write(shop.table(), tmp_path / "events.parquet"))
    more = {"events": given, "columns": COLUMNS, "estimators": "ips"}
    whole = cr.evaluate(query, "new", **more)
    monkeypatch.setattr(file_source, "IN_MEMORY_BYTES", 1000)
    found = cr.evaluate(query, "new", **more)
    assert found.estimate("new", "ips").value == pytest.approx(whole.estimate("new", "ips").value)
    assert found.log.events == whole.log.events == given_counts(shop)
    said = found.provenance["options"]["events"]
    assert said["join"] == "request=request_id, item" and said["reward revenue"] == REVENUE


def given_counts(shop):
    return {"rows": len(shop.events), "joined": len(shop.events), "orphans": 0, "duplicates": 0}


def test_files_on_dask_and_frames_of_it(shop, tmp_path):
    dask = pytest.importorskip("dask.dataframe")
    pytest.importorskip("distributed")
    from distributed import Client, LocalCluster

    log = days(shop.impressions(), tmp_path / "log", "parquet", np.random.default_rng(1))
    more = {"columns": COLUMNS, "estimators": "ips", "events": events(shop.table()), "audit": False}
    here = cr.evaluate(log, "new", **more).estimate("new", "ips").value
    with LocalCluster(1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster:
        with Client(cluster) as client:
            found = cr.evaluate(log, "new", engine=client, **more).estimate("new", "ips").value
    assert found == pytest.approx(here, rel=1e-12)
    frame = dask.from_pandas(shop.impressions().to_pandas(), npartitions=2)
    with pytest.raises(ConfigError, match="events are joined to logs in files or in memory"):
        cr.evaluate(frame, "new", **more)


def test_a_file_without_a_column_that_others_have(shop, tmp_path):
    """JSON Lines leave keys out; a file without any amount is another matter."""
    log = write(shop.impressions(), tmp_path / "log.parquet")
    folder = days(shop.table(), tmp_path / "events", "csv", np.random.default_rng(1))
    write(shop.table().slice(0, 5).drop_columns(["revenue"]), folder / "day9.csv")
    with pytest.raises(LogError, match="day9.csv has no column 'revenue', which other files"):
        scan_log(log, events=events(folder), **READING)


def test_types_are_those_of_the_whole_file(shop, tmp_path):
    """Whole amounts first, fractions later; ids that look like numbers first."""
    table = shop.table()
    amounts = [None if one is None else float(round(one)) for one in table["revenue"].to_pylist()]
    amounts[-1] = 0.125
    table = table.set_column(3, "revenue", pa.array(amounts))
    hand = np.zeros((N, K))
    for (_, item, *_, i), amount in zip(shop.events, amounts, strict=True):
        hand[i, list(shop.items[i]).index(int(item[1:]))] += amount or 0
    for extension in ("csv", "jsonl"):
        path = write(table, tmp_path / f"events.{extension}")
        path.write_text(path.read_text().replace(".0,", ",").replace(".0}", "}"))
        found = cr.RankingLog.from_frame(shop.impressions(), events=events(path), **READING)
        np.testing.assert_allclose(found.rewards["revenue"], hand, rtol=1e-12)


def test_an_empty_file_of_events(shop, tmp_path):
    log = write(shop.impressions(), tmp_path / "log.parquet")
    empty = write(shop.table().slice(0, 0), tmp_path / "events.parquet")
    for read in (cr.read_log, scan_log):
        with pytest.raises(LogError, match="events.parquet is empty"):
            read(log, events=events(empty), **READING)
    header = tmp_path / "events.csv"
    header.write_text(",".join(shop.table().column_names) + "\n")
    with pytest.raises(LogError, match="events.csv is empty"):
        cr.read_log(log, events=events(header), **READING)


def test_a_join_of_all_events_is_told_in_percent(shop, tmp_path):
    log = cr.RankingLog.from_frame(
        shop.impressions(),
        events=events(write(shop.table(), tmp_path / "events.parquet")),
        **READING,
    )
    texts = [finding.text for finding in log.events.findings]
    assert any(text.startswith("100.0\u202f% of the ") for text in texts), texts


def test_the_command_and_the_job(shop, tmp_path, monkeypatch):
    from counterrank.cli.main import main

    monkeypatch.chdir(tmp_path)
    write(shop.impressions(), tmp_path / "log.parquet")
    write(broken(shop, "orphans"), tmp_path / "events.parquet")
    columns = "ranking=request,position=rank,action=item,propensity=p"
    line = [
        "evaluate",
        "log.parquet",
        "--target",
        "new",
        "--estimators",
        "ips",
        "--columns",
        columns,
    ]
    line += [
        "--events",
        "events.parquet",
        "--join",
        "request=request_id,item",
        "--time",
        "shown_at",
    ]
    line += ["--event", f"clicks={CLICKS}", "--event", f"revenue={REVENUE}", "--event-time", "ts"]
    line += ["--within", "30 minutes", "--reward", "any=any(clicks)", "--json", "line.json"]
    result = CliRunner().invoke(main, line)
    assert result.exit_code == 0, result.output
    (tmp_path / "job.toml").write_text(
        'log = "log.parquet"\ntarget = ["new"]\nestimators = "ips"\njson = "job.json"\n'
        'time = "shown_at"\n'
        '[columns]\nranking = "request"\nposition = "rank"\naction = "item"\npropensity = "p"\n'
        '[rewards]\nany = "any(clicks)"\n'
        '[events]\npath = "events.parquet"\njoin = ["request=request_id", "item"]\n'
        'within = "30 minutes"\ntime = "ts"\n'
        f'[events.rewards]\nclicks = "{CLICKS}"\nrevenue = "{REVENUE}"\n'
    )  # fmt: skip
    result = CliRunner().invoke(main, ["run", "job.toml"])
    assert result.exit_code == 0, result.output
    one, other = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("line", "job"))
    assert one["estimates"] == other["estimates"] and one["log"]["events"] == other["log"]["events"]
    assert one["log"]["events"]["orphans"] == 20
    ips = (shop.new / shop.p).prod(axis=1)
    expected = (ips * shop.by_hand("click", 1800).sum(axis=1)).mean()
    assert one["estimates"][0]["value"] == pytest.approx(expected, rel=1e-12)
    check = ["check", *line[1:4], *line[6:-4]]
    result = CliRunner().invoke(main, check)
    assert "find no ranking" in " ".join(result.output.split()), result.output
    for wrong in (["--event", "clicks=count("], ["--within", "soon"], ["--join", "nothing"]):
        result = CliRunner().invoke(main, [*line[:-1], "bad.json", *wrong])
        assert result.exit_code != 0 and not (tmp_path / "bad.json").exists()
    result = CliRunner().invoke(main, [*line[:8], "--join", "a"])
    assert result.exit_code == 2 and "goes with --events" in result.output


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_ids_with_zeros_before_them_join_whatever_type_a_format_gives_them(shop, tmp_path, ending):
    """`007` is text in one file, 7 a number in another, and CSV has no types."""

    def padded(table, width):
        items = [int(item[1:]) for item in table["item"].to_pylist()]
        column = pa.array(items) if width is None else pa.array([f"{i:0{width}}" for i in items])
        return table.set_column(table.column_names.index("item"), "item", column)

    expected = cr.RankingLog.from_frame(shop.impressions(), events=events(shop.table()), **READING)
    for log_width, event_width in ((5, 5), (5, None), (None, 5)):
        log = write(padded(shop.impressions(), log_width), tmp_path / f"log{log_width}.csv")
        table = padded(shop.table(), event_width).drop_columns(["ts"])
        path = write(table, tmp_path / f"events{event_width}.{ending}")
        read = cr.read_log(log, events=events(path), **READING)
        assert np.array_equal(read.reward, expected.reward)
    assert (
        cr.read_log(tmp_path / "log5.csv", events=events(path), **READING).action_names[1]
        == "00001"
    )
