"""What a reader finds out by itself: rows that are positions, usual names, kinds told by the file;
reading options.
"""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from counterrank.cli.jobs import Job
from counterrank.common.errors import ConfigError, LogError
from counterrank.io import ReadOptions, from_frame, read_log, scan_log

HEAD = "session_id,position,item_id,clicked,propensity,new_policy_prob\n"


@pytest.fixture
def exported(tmp_path):
    """A long export as databases write it: 50 sessions of 4 positions."""
    rng = np.random.default_rng(3)
    rows = [f"s{i},{k + 1},{rng.integers(9)},{rng.integers(2)},0.25,{rng.random():.3f}" for i in range(50)
            for k in range(4)]  # fmt: skip
    path = tmp_path / "export.csv"
    path.write_text(HEAD + "\n".join(rows) + "\n")
    return path


def command_of(problem):
    return str(problem.value).partition("--columns ")[2].partition(" ")[0]


@pytest.mark.parametrize("read", [read_log, scan_log])
@pytest.mark.parametrize("columns", ["", "action=item_id,reward=clicked"])
def test_a_long_export_is_refused_with_the_command_that_reads_it(exported, read, columns):
    with pytest.raises(LogError) as problem:
        read(exported, columns=columns)
    whole = command_of(problem)
    assert {"ranking=session_id", "action=item_id", "reward=clicked"} <= set(whole.split(","))
    log = read_log(exported, columns=whole + ",new=new_policy_prob")
    assert (log.n, log.K) == (50, 4) and "new" in log.targets


def test_an_id_that_repeats_is_enough(exported):
    table = {
        "request_id": [1, 1, 2, 2],
        "item": [4, 5, 4, 5],
        "click": [0, 1, 0, 0],
        "propensity": [0.5] * 4,
    }
    with pytest.raises(
        LogError, match="'request_id' repeats from row to row.*ranking=request_id,position=NAME"
    ):
        from_frame(table, columns="action=item,reward=click")
    assert from_frame(table, columns="action=item,reward=click", unit="request_id").K == 1


def test_positions_are_known_by_what_they_count_whatever_they_are_called(exported):
    """uid and k: read as rankings of one item they gave an answer, and a wrong one."""
    text = exported.read_text().replace("session_id,position", "uid,k")
    exported.write_text(text)
    for read in (read_log, scan_log):
        with pytest.raises(LogError, match="'k' counts them within each 'uid'") as problem:
            read(exported, columns="action=item_id,reward=clicked")
        assert "ranking=uid,position=k" in command_of(problem)
    assert read_log(exported, columns=command_of(problem)).K == 4
    # Said to be a user's visits, they are.
    own = read_log(exported, columns="action=item_id,reward=clicked", unit="uid")
    assert (own.n, own.K) == (200, 1)


def test_numbers_that_turn_in_circles_are_no_positions():
    """A fold of each row, an hour, a number that repeats: nothing that numbers the rows of a group."""
    rng = np.random.default_rng(0)
    n = 200
    table = {
        "action": rng.integers(0, 3, n),
        "reward": rng.integers(0, 2, n),
        "propensity": np.full(n, 1 / 3),
        "fold": np.arange(n) % 5,
        "hour": np.arange(n) // 20,
        "device": rng.integers(0, 2, n),
        "user": rng.integers(0, 60, n),
    }
    assert from_frame(table).K == 1


def test_rankings_of_one_item_can_be_meant(exported):
    log = read_log(
        exported, columns="action=item_id,reward=clicked", context="position", unit="session_id"
    )
    assert (log.n, log.K) == (200, 1)
    plain = {
        "action": [0, 1, 2],
        "reward": [0, 1, 0],
        "propensity": [0.5] * 3,
        "user_id": [1, 1, 1],
    }
    assert from_frame(plain).K == 1


@pytest.mark.parametrize("read", [read_log, lambda path: scan_log(path).first])
def test_the_file_says_what_its_propensities_are(tmp_path, read):
    table = pa.table({"action": [[0, 1]], "reward": [[1.0, 0.0]], "propensity": [[0.5, 0.5]]})
    path = tmp_path / "log.parquet"
    pq.write_table(table.replace_schema_metadata({"counterrank.propensity_kind": "prefix"}), path)
    assert read(path).propensity.kind == "prefix"
    assert read_log(path, propensity_kind="factored").propensity.kind == "factored"
    pq.write_table(table.replace_schema_metadata({"counterrank.propensity_kind": "nonsense"}), path)
    assert read(path).propensity.kind == "factored"


# --- decimal ---

NUMBERS = [[0.5, 0.25], [0.125, 0.5]]


@pytest.mark.parametrize("text", [
    "action_1;action_2;reward_1;reward_2;propensity_1;propensity_2\n0;1;1,5;0;0,5;0,25\n1;0;0;-2,5;0,125;0,5\n",
    "action\treward\tpropensity\n0 1\t1,5 0\t0,5 0,25\n1 0\t0 -2,5\t0,125 0,5\n",
    "action\treward\tpropensity\n[0; 1]\t[1,5; 0]\t[0,5; 0,25]\n[1; 0]\t[0; -2,5]\t[0,125; 0,5]\n",
])  # fmt: skip
def test_decimal_commas(tmp_path, text):
    path = tmp_path / "log.csv"
    path.write_text(text)
    for log in (read_log(path, decimal=","), *scan_log(path, decimal=",").batches()):
        assert log.propensity.values.tolist() == NUMBERS and log.reward.tolist() == [
            [1.5, 0.0],
            [0.0, -2.5],
        ]
    with pytest.raises(LogError):
        read_log(path)


def test_decimal_commas_in_a_table_and_in_toml(tmp_path):
    table = {
        "action": ["0 1", "1 0"],
        "reward": ["1,5 0", "0 -2,5"],
        "propensity": ["0,5 0,25", "0,125 0,5"],
    }
    assert from_frame(table, decimal=",").propensity.values.tolist() == NUMBERS
    (tmp_path / "log.toml").write_text(
        '[log]\ndecimal = ","\nrenumber = true\nmissing-reward = "zero"\n'
    )
    options = ReadOptions.from_keywords(**Job.read(str(tmp_path / "log.toml")).values("evaluate"))
    assert (options.decimal, options.renumber, options.missing_reward) == (",", True, "zero")
    with pytest.raises(ConfigError, match="decimal is"):
        ReadOptions.from_keywords(decimal=";")


# --- renumber ---


def long_rows(positions):
    rows = {name: [] for name in ("ranking", "position", "action", "reward", "propensity", "new")}
    for i, places in enumerate(positions):
        for j, place in enumerate(places):
            for name, value in zip(rows, (i, place, j, float(place), 0.5, place / 10), strict=True):
                rows[name].append(value)
    return rows


def test_gaps_of_ad_slots_are_closed_in_long_rows(tmp_path):
    rows = long_rows([(1, 3, 4), (2, 5), (1, 2, 3, 4)] * 20)
    with pytest.raises(LogError, match="but not 2.*renumber=True in Python"):
        from_frame(rows)
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table(rows), path)
    streamed = next(iter(scan_log(path, renumber=True, targets="new").batches()))
    for log in (from_frame(rows, renumber=True), streamed):
        assert log.K == 4 and log.reward[:3].tolist() == [[1, 3, 4, 0], [2, 5, 0, 0], [1, 2, 3, 4]]
        assert log.targets["new"].values[0].tolist() == [0.1, 0.3, 0.4, 1.0]
    twice = long_rows([(1, 3, 3)])
    with pytest.raises(LogError, match="position 3 twice"):
        from_frame(twice, renumber=True)


def test_gaps_are_closed_in_lists(tmp_path):
    lists = {
        "action": [[0, None, 2], [None, 1, None], [0, 1, 2]],
        "reward": [[1.0, None, 3.0], [None, 2.0, None], [1.0, 2.0, 3.0]],
        "propensity": [[0.5, None, 0.25], [None, 0.125, None], [0.5, 0.5, 0.5]],
        "propensity_dist": [[[1, 0, 0], [0, 1, 0], [0, 0, 1]]] * 3,
    }
    with pytest.raises(LogError, match="after an empty position"):
        from_frame(lists)
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(json.dumps({n: v[i] for n, v in lists.items()}) for i in range(3)))
    for log in (from_frame(lists, renumber=True), read_log(path, renumber=True)):
        assert log.action.tolist() == [[0, 2, -1], [1, -1, -1], [0, 1, 2]]
        assert log.reward.tolist() == [[1, 3, 0], [2, 0, 0], [1, 2, 3]]
        assert log.propensity.values.tolist() == [[0.5, 0.25, 1], [0.125, 1, 1], [0.5] * 3]
        assert log.dists["propensity"][0, :2].tolist() == [[1, 0, 0], [0, 0, 1]]


@pytest.mark.parametrize(("ids", "refused"), [((1, 1, 2, 3, 4), True), ((1, 1, 2, 3, 4, 5), False)])
def test_an_id_repeats_from_a_fifth_of_the_rows_on(ids, refused):
    n = len(ids)
    table = {"request_id": list(ids), "action": [0] * n, "reward": [1] * n, "propensity": [0.5] * n}
    if refused:
        with pytest.raises(LogError, match="'request_id' repeats from row to row"):
            from_frame(table)
    else:
        assert from_frame(table).n == n


def test_a_number_with_gaps_is_no_position():
    table = {
        "visit": [1, 2, 1, 2, 3, 3],
        "spot": pa.array([1, 1, 2, None, 1, 2]),
        "action": [0, 1, 0, 1, 0, 1],
        "reward": [1] * 6,
        "propensity": [0.5] * 6,
    }
    assert (from_frame(table).n, from_frame(table).K) == (6, 1)
