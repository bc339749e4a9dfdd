"""`counterrank check` on files: readable or not, it says all it can."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from counterrank.audit.files import audit_file, audit_log, look_at
from counterrank.data.log import RankingLog

N, K, A = 600, 3, 4


@pytest.fixture(scope="module")
def columns():
    rng = np.random.default_rng(0)
    p0, p1 = np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.25, 0.25, 0.25, 0.25])
    action = rng.choice(A, size=(N, K), p=p0)
    return {
        "action": action,
        "reward": (rng.random((N, K)) < 0.4).astype(float),
        "propensity": p0[action],
        "new": p1[action],
    }


def written(tmp_path, columns, **changes):
    path = tmp_path / "log.parquet"
    pq.write_table(
        pa.table({name: pa.array(list(v)) for name, v in {**columns, **changes}.items()}), path
    )
    return path


def of(rows, status):
    return [row for row in rows if row["status"] == status]


def test_a_clean_file(tmp_path, columns):
    rows = audit_file(written(tmp_path, columns), ["new"])
    assert not of(rows, "failed") and not of(rows, "warned")
    assert rows[0]["check"] == "readable" and "mean-weight" in {row["check"] for row in rows}
    assert "mean-weight" in {
        row["check"] for row in audit_file(written(tmp_path, columns))
    }  # 'new' is found by itself


def test_log_probabilities_are_recognised_and_the_rest_goes_on(tmp_path, columns):
    rows = audit_file(written(tmp_path, columns, propensity=np.log(columns["propensity"])), ["new"])
    named = [row for row in of(rows, "failed") if row["cause"] == "log-probabilities were logged"]
    assert len(named) == 1 and "exp" in named[0]["remedy"]
    assert next(row for row in rows if row["check"] == "mean-weight")["status"] == "passed"


def test_rows_without_a_logarithm_are_left_out_and_the_others_mended(tmp_path, columns):
    logs = np.log(columns["propensity"])
    logs[3, 0], logs[8, 1] = np.nan, -np.inf
    rows = audit_file(written(tmp_path, columns, propensity=logs), ["new"])
    assert "looks at 598 of 600 rankings" in rows.to_json()
    assert next(row for row in rows if row["check"] == "mean-weight")["status"] == "passed"


def test_single_bad_numbers_are_counted_and_the_other_rows_audited(tmp_path, columns):
    values = columns["propensity"].copy()
    values[3, 0], values[8, 1], values[9, 2], values[10, 0] = 0.0, 1.7, np.nan, -0.2
    rows = audit_file(written(tmp_path, columns, propensity=values), ["new"])
    text = rows.to_json()
    for part in (
        "is 0, yet the item was shown",
        "above 1",
        "missing",
        "below 0",
        "596 of 600 rankings",
    ):
        assert part in text, part
    places = {
        row["examples"][0]["row"] for row in of(rows, "failed") if row["check"] == "probabilities"
    }
    assert places == {3, 8, 9, 10}
    assert next(row for row in rows if row["check"] == "mean-weight")["status"] == "passed"


def test_percentages_are_suspected(tmp_path, columns):
    rows = audit_file(written(tmp_path, columns, propensity=100 * columns["propensity"]), ["new"])
    assert any("percentages" in row["cause"] for row in of(rows, "failed"))


def test_missing_rewards(tmp_path, columns):
    reward = columns["reward"].copy()
    reward[4, 1] = np.nan
    rows = audit_file(written(tmp_path, columns, reward=reward), ["new"])
    found = next(row for row in of(rows, "failed") if row["check"] == "rewards")
    assert found["examples"][0]["row"] == 4 and "missing-reward" in found["remedy"]


def test_a_distribution_that_does_not_sum_to_one(tmp_path, columns):
    dist = np.tile([0.4, 0.3, 0.2, 0.2], (N, 1))
    rows = audit_file(written(tmp_path, columns, propensity_dist=dist), ["new"])
    assert "sums to 1.1" in of(rows, "failed")[0]["found"]


@pytest.mark.parametrize("content", [b"", b"not a log\n1,2\n", b"PAR1\x00\x00garbage"])
def test_what_is_no_log_at_all(tmp_path, content):
    path = tmp_path / "log.csv"
    path.write_bytes(content)
    rows = audit_file(path, ["new"])
    assert rows[0]["check"] == "readable" and rows[0]["status"] == "failed" and rows[0]["found"]


def test_a_missing_file(tmp_path):
    rows = audit_file(tmp_path / "nothing.parquet")
    assert len(rows) == 1 and rows[0]["status"] == "failed"


def test_a_log_without_propensities_is_told_what_can_be_done(tmp_path, columns):
    bare = {name: columns[name] for name in ("action", "reward")}
    path = written(tmp_path, {**bare, "query": np.arange(N) % 3})
    rows = audit_file(path)
    distinct = len(np.unique(columns["action"], axis=0))
    found = next(row for row in rows if row["check"] == "logged-propensities")
    assert found["status"] == "failed" and "by-list" in found["remedy"]
    assert f"{distinct} different lists" in found["found"]
    assert not {"exploration", "repeated-items"} & {row["check"] for row in rows}


def test_logs_in_memory(columns):
    log = RankingLog(
        action=columns["action"], reward=columns["reward"], propensity=columns["propensity"]
    )
    assert {row["status"] for row in audit_log(log)} <= {"passed", "skipped"}


def test_numbers_above_one_by_rounding_are_fine():
    values = np.array([[1.0 + 1e-12], [1.0 + 1e-6], [0.5]])
    found, fine = look_at("new", "new", values, np.ones((3, 1), dtype=bool))
    assert [one.found for one in found] == ["'new' is above 1 1 time, in 1 rankings"]
    assert fine.tolist() == [True, False, True]
