"""`counterrank check` on files: readable or not, it says what is wrong."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from counterrank.checks.auditor import audit_file, audit_log
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
    assert "mean-weight" in {row["check"] for row in rows}
    assert "mean-weight" in {
        row["check"] for row in audit_file(written(tmp_path, columns))
    }  # 'new' is found by itself


@pytest.mark.parametrize(
    ("column", "change", "told"),
    [
        ("propensity", np.log, "'propensity' holds log-probabilities"),
        ("propensity", lambda p: 100 * p, "above 1; probabilities are wanted, not weights, odds or percent"),
        ("propensity", lambda p: np.where(np.arange(N)[:, None] == 3, 0.0, p), "is 0 at row 3"),
        ("propensity", lambda p: np.where(np.arange(N)[:, None] == 3, np.nan, p), "at row 3"),
        ("reward", lambda r: np.where(np.arange(N)[:, None] == 4, np.nan, r), "row 4"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_log_is_one_finding_with_the_reader_s_message(
    tmp_path, columns, column, change, told
):
    (row,) = audit_file(written(tmp_path, columns, **{column: change(columns[column])}), ["new"])
    assert row["check"] == "readable" and row["status"] == "failed"
    assert told in row["found"] and row["remedy"]


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
