"""A target that was trained on the rows that judge it is never called reliable unless the user says
otherwise; later rows alone can be made to count.
"""

import datetime
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.evaluation.logs import gentle_log

import counterrank as cr
from counterrank.data.source import FilteredSource, MemorySource
from counterrank.evaluation.freshness import Later, later_rows
from counterrank.io import scan_log

DAYS = np.array([f"2026-10-{1 + day:02d}" for day in range(10)])


def noise_log(seed, n=4000, A=40, K=5):
    """A uniform logger, clicks at random; the target's scores are the items' click rates in these
    very rows.
    """
    rng = np.random.default_rng(seed)
    logger = cr.PlackettLuce(np.zeros((n, A)))
    action = logger.sample(K, rng)[:, 0]
    reward = (rng.random((n, K)) < 0.1).astype(float)
    shown, clicked = (np.bincount(action.ravel(), values, A) for values in (None, reward.ravel()))
    rate = np.log(clicked + 1) - np.log(shown + 10)
    return cr.RankingLog(
        action=action, reward=reward, propensity=logger,
        targets={"new": cr.PlackettLuce(np.tile(rate, (n, 1)))},
        columns={"day": DAYS[np.arange(n) * 10 // n]},
    )  # fmt: skip


def levels(log, estimator="iips", **options):
    result = cr.evaluate(log, estimators=[estimator], audit=False, independent_rows=True, **options)
    row = next(row for row in result.verdict["reasons"] if row["check"] == "fresh-target")
    return result, row


@pytest.mark.parametrize("seed", range(4))
def test_click_rates_of_noise_look_better_and_are_not_called_reliable(seed):
    """The truth is 0; on the same rows the interval is above it."""
    result, row = levels(noise_log(seed))
    assert result.estimate().lift.low > 0
    assert result.verdict["level"] == "directional" and row["status"] == "warn"
    assert "--target-is-fresh" in row["help"] and "--target-trained-until" in row["help"]


def test_a_declared_target_is_as_reliable_as_before(gentle):
    said, row = levels(gentle, "auto", target_is_fresh=True)
    unsaid, _ = levels(gentle, "auto")
    assert (said.verdict["level"], row["status"]) == ("reliable", "pass")
    assert unsaid.verdict["level"] == "directional"
    assert [r["check"] for r in unsaid.verdict["reasons"] if r["status"] != "pass"] == [
        "fresh-target"
    ]
    assert said.provenance["options"]["target_is_fresh"] is True


@pytest.mark.parametrize("until", ["2026-10-04", datetime.date(2026, 10, 4), "2026-10-04T23:59:59"])
def test_only_later_rows_count(until):
    log = noise_log(1)
    result, row = levels(log, target_trained_until=until, time="day")
    later = log.where(log.columns["day"] > "2026-10-04")
    alone = cr.evaluate(later, estimators=["iips"], audit=False)
    assert result.log["n"] == later.n == 2400
    assert result.estimate().value == alone.estimate().value
    assert row["status"] == "pass" and "2026-10-04" in row["reason"]


@pytest.mark.parametrize(
    "values, until, kept",
    [
        (np.arange(10), 4, 5),
        (np.arange(10), "4", 5),
        (1_790_000_000 + 86_400 * np.arange(10), "2026-09-23", 7),
        (1_790_000_000_000 + 86_400_000 * np.arange(10.0), "2026-09-23", 7),
        (np.arange("2026-10-01", "2026-10-11", dtype="datetime64[D]"), "2026-10-09", 1),
        (
            np.array([f"2026-10-{d:02d}T10:00:00+02:00" for d in range(1, 11)]),
            "2026-10-05T08:00Z",
            5,
        ),
        (np.array(["", *DAYS[1:]]), "2026-09-01", 9),
    ],
)
def test_times_are_read_as_people_write_them(values, until, kept):
    log = cr.RankingLog(
        action=[[0]] * 10, reward=[[1.0]] * 10, propensity=[[0.5]] * 10, columns={"t": values}
    )
    assert Later.parse(until, "t")(log).sum() == kept


@pytest.mark.parametrize(
    "options, message",
    [
        ({"target_trained_until": "2026-10-04"}, "--time"),
        ({"target_trained_until": "soon", "time": "day"}, "'soon' is no date"),
        ({"target_trained_until": "2026-10-10", "time": "day"}, "no row is later than 2026-10-10"),
        ({"target_trained_until": 3, "time": "day"}, "holds dates"),
        ({"target_trained_until": "2026-10-10", "time": "dya"}, "there is no column 'dya'"),
    ],
)
def test_what_cannot_be_compared_is_one_message(options, message):
    with pytest.raises(cr.CounterrankError, match=message):
        cr.evaluate(noise_log(0, n=200), **options)


def test_a_time_that_is_no_date_names_its_row():
    log = cr.RankingLog(
        action=[[0]] * 2,
        reward=[[1.0]] * 2,
        propensity=[[0.5]] * 2,
        columns={"t": ["2026-10-01", "x"]},
    )
    with pytest.raises(cr.CounterrankError, match=r"holds 'x' \(row 1\)"):
        Later.parse("2026-09-01", "t")(log)


TIMES = np.datetime64("2026-02-27T10:00:05") + np.arange(200) * np.timedelta64(3600, "s")
SECONDS = TIMES.astype("datetime64[s]").astype(np.int64)


@pytest.mark.parametrize(
    ("times", "period"),
    [
        (TIMES, ("2026-02-27T10:00:05", "2026-03-07T17:00:05")),
        (SECONDS * 1000, ("2026-02-27T10:00:05", "2026-03-07T17:00:05")),
        (SECONDS + 0.25, ("2026-02-27T10:00:05", "2026-03-07T17:00:05")),
        (TIMES.astype(str), ("2026-02-27T10:00:05", "2026-03-07T17:00:05")),
        (np.r_[TIMES[:-1], [np.datetime64("NaT")]], ("2026-02-27T10:00:05", "2026-03-07T16:00:05")),
        (TIMES.astype("datetime64[D]"), ("2026-02-27T00:00:00", "2026-03-07T00:00:00")),
        (np.arange(200), ()),
        (np.where(np.arange(200), "2026-99-99", "2026-02-27"), ()),
    ],
)
def test_the_log_has_the_first_and_the_last_time_of_its_rows(times, period):
    shuffled = np.random.default_rng(0).permutation(200)
    log = noise_log(0, n=200)
    log = replace(log, columns={"day": times[shuffled]})
    result = cr.evaluate(log, estimators=["iips"], time="day")
    assert result.log.period == period
    again = cr.Evaluation.from_dict(json.loads(result.to_json()))
    assert again.log.period == period
    # Nothing is written where nothing is known, and files of older versions have nothing.
    assert ("period" in result.to_dict()["log"]) == bool(period)


def test_the_period_is_that_of_the_rows_that_are_evaluated(on_file):
    found = cr.evaluate(
        on_file, ["new"], estimators=["iips"], time="day", target_trained_until="2026-10-07"
    )
    assert found.log.period == ("2026-10-08T00:00:00", "2026-10-10T00:00:00")


@pytest.fixture(scope="module")
def on_file(tmp_path_factory):
    log = gentle_log(9000)
    table = {
        "action": log.action.tolist(), "reward": log.reward.tolist(),
        "propensity": log.propensity.values.tolist(), "new": log.targets["new"].values.tolist(),
        "day": DAYS[np.arange(9000) * 10 // 9000].tolist(),
    }  # fmt: skip
    path = tmp_path_factory.mktemp("later") / "log.parquet"
    pq.write_table(pa.table(table), path, row_group_size=1000)
    return path


def test_a_stream_counts_the_rows_that_memory_counts(on_file):
    streamed = scan_log(on_file, targets=("new",), segments=("day",))
    later = Later.parse("2026-10-07", "day")
    assert isinstance(later_rows(streamed, later), FilteredSource)
    options = {"estimators": ["iips", "ips"], "target_trained_until": "2026-10-07", "time": "day"}
    here, there = (cr.evaluate(log, ["new"], **options) for log in (on_file, streamed))
    assert here.log["n"] == there.log["n"] == 2700
    assert here.log["fingerprint"] == there.log["fingerprint"]
    for name in options["estimators"]:
        ours, theirs = (one.estimate("new", name) for one in (here, there))
        assert ours.value == pytest.approx(theirs.value, rel=1e-12)
    with pytest.raises(cr.CounterrankError, match="no row is later"):
        cr.evaluate(streamed, ["new"], **{**options, "target_trained_until": "2026-11-01"})


def test_samples_of_a_stream_hold_later_rows_only(on_file):
    later = Later.parse("2026-10-09", "day")
    source = later_rows(scan_log(on_file, targets=("new",), segments=("day",)), later)
    for part in (source.first, source.sample(500, np.random.default_rng(0))):
        assert 0 < part.n <= 900 and set(part.columns["day"]) == {"2026-10-10"}


def test_a_policy_learned_from_these_rows_is_known_by_its_fingerprint(gentle):
    class Rule:
        learned_from = ""

        def bind(self, log):
            raise AssertionError("not asked for")

    policy = cr.Uniform(4)
    policy.rule = Rule()
    log = gentle.with_targets({"mine": policy})
    options = {"estimators": ["iips"], "audit": False, "target_is_fresh": True}
    first = cr.evaluate(log, ["mine"], **options)
    policy.rule.learned_from = first.log["rows_fingerprint"]
    again = cr.evaluate(log, ["mine"], **options)
    rows = [
        next(row for row in result.verdict["reasons"] if row["check"] == "fresh-target")
        for result in (first, again)
    ]
    assert [row["status"] for row in rows] == ["pass", "warn"]
    assert "learned from this log" in rows[1]["reason"]
    other = cr.evaluate(log.where(np.arange(log.n) < 3000), ["mine"], **options)
    assert {row["check"]: row["status"] for row in other.verdict["reasons"]}[
        "fresh-target"
    ] == "pass"
    # Without a declaration it is said what the file says, and no more.
    later = cr.evaluate(
        log.where(np.arange(log.n) < 3000), ["mine"], **{**options, "target_is_fresh": False}
    )
    (told,) = (row for row in later.verdict.reasons if row.code == "fresh-target")
    assert told.status == "warned" and "was learned from other rows than these" in told.text


def test_memory_keeps_its_threads(gentle):
    log = gentle_log(100, columns={"t": np.arange(100)})
    found = later_rows(MemorySource(log, threads=1), Later.parse(49, "t"))
    assert isinstance(found, MemorySource) and (found.n, found.threads) == (50, 1)


def test_jobs_declare_it_with_a_date_of_toml(on_file, tmp_path):
    from click.testing import CliRunner

    from counterrank.cli.main import main

    job = tmp_path / "job.toml"
    out = tmp_path / "result.json"
    job.write_text(
        f'log = "{on_file}"\ntarget = "new"\nestimators = "iips"\ntime = "day"\n'
        f'target-trained-until = 2026-10-07\njson = "{out}"\n'
    )
    done = CliRunner().invoke(main, ["run", str(job)])
    assert done.exit_code == 0, done.output
    result = json.loads(out.read_text())
    assert result["log"]["n"] == 2700
    assert result["provenance"]["options"]["target_trained_until"] == "2026-10-07"
