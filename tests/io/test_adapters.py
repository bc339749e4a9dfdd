"""Logs of other libraries and public data sets, in their own formats."""

import json
from pathlib import Path

import numpy as np
import pytest

from counterrank.common.errors import ConfigError, CounterrankError, LogError, PropensityError
from counterrank.common.messages import has
from counterrank.data.log import RankingLog
from counterrank.io import Query, read_log
from counterrank.io import readers as registry
from counterrank.research.datasets import (
    read_kuairand,
    read_open_bandit,
)

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


# --- recipes of docs/howto/get-data-in.md ---


def test_slates_of_open_bandit_pipeline_are_a_long_table():
    rng, n, length = np.random.default_rng(0), 40, 3
    shown = rng.uniform(0.1, 1, (2, n, length))
    action = rng.integers(0, 4, (n, length))
    feedback = {
        "slate_id": np.repeat(np.arange(n), length),
        "position": np.tile(np.arange(length), n),
        "action": action.ravel(),
        "reward": rng.random(n * length),
        "pscore_item_position": shown[0].ravel(),
    }
    columns = {"ranking": "slate_id", "propensity": "pscore_item_position"}
    log = RankingLog.from_frame(
        {**feedback, "new": shown[1].ravel()}, columns=columns, targets="new"
    )
    np.testing.assert_array_equal(log.action, action)
    np.testing.assert_array_equal(log.propensity.values, shown[0])
    np.testing.assert_array_equal(log.targets["new"].values, shown[1])


def test_slots_of_vowpal_wabbit_by_a_query(tmp_path):
    path = tmp_path / "log.dsjson"
    first = {"_label_cost": -1.0, "_a": [2, 0, 1], "_p": [0.5, 0.25, 0.25]}
    second = {"_label_cost": 0.0, "_a": [0, 1], "_p": [0.75, 0.25]}
    events = [
        {"c": {"user": {"age": 30}}, "_outcomes": [first, second], "_skipLearn": skipped}
        for skipped in (False, True)
    ]
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    query = f"""
        SELECT [o._a[1] FOR o IN _outcomes] AS action, [-o._label_cost FOR o IN _outcomes] AS reward,
               [o._p[1] FOR o IN _outcomes] AS propensity, c.user.age AS x_age
        FROM read_json('{path}') WHERE NOT coalesce(_skipLearn, false)"""
    log = RankingLog.from_frame(Query(query, "duckdb:"), propensity_kind="prefix")
    assert log.action.tolist() == [[2, 0]] and log.reward.tolist() == [[1, 0]]
    assert log.propensity.values.tolist() == [[0.5, 0.75]] and log.context.tolist() == [[30]]


# --- Open Bandit ---

OPEN_BANDIT = """,timestamp,item_id,position,click,propensity_score,user_feature_0,user-item_affinity_0
0,2019-11-24 00:00:10.000000+00:00,2,2,0,0.25,aa,0.0
1,2019-11-24 00:00:20.000000+00:00,3,3,1,0.5,bb,1.0
"""


def test_open_bandit(tmp_path):
    path = tmp_path / "men.csv"
    path.write_text(OPEN_BANDIT)
    log = read_open_bandit(path, targets="uniform")
    assert log.K == 1 and log.action.tolist() == [[2], [3]] and log.reward.tolist() == [[0], [1]]
    assert log.context_names == ("position", "user_feature_0") and log.context.tolist() == [
        [2, 0],
        [3, 1],
    ]
    assert log.columns["position"].tolist() == [2, 3] and log.targets[
        "uniform"
    ].values.tolist() == [[0.25], [0.25]]
    assert [note.code for note in log.notes] == ["single-position-rows"]
    with pytest.raises(LogError, match="--format open-bandit"):
        read_log(path)


def test_open_bandit_with_a_target_column_and_other_context(tmp_path):
    path = tmp_path / "men.csv"
    lines = OPEN_BANDIT.splitlines()
    path.write_text("\n".join([lines[0] + ",new", lines[1] + ",0.5", lines[2] + ",0.125"]) + "\n")
    log = read_log(path, format="open-bandit", targets="new", context="user-item_affinity_0")
    assert log.targets["new"].values.tolist() == [[0.5], [0.125]] and log.context.tolist() == [
        [0],
        [1],
    ]


def test_not_open_bandit(tmp_path):
    path = tmp_path / "men.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(LogError, match="not an Open Bandit log: there is no column 'item_id'"):
        read_open_bandit(path)


def test_open_bandit_with_item_features(tmp_path):
    """item_context.csv as its documentation describes it: an index, item_id, one number, hashes."""
    log_file, items = tmp_path / "men.csv", tmp_path / "item_context.csv"
    log_file.write_text(OPEN_BANDIT)
    items.write_text(
        ",item_id,item_feature_0,item_feature_1\n"
        "0,0,-0.5,c82d\n1,1,-0.7,7749\n2,2,0.7,7749\n3,3,1.6,c82d\n"
    )
    log = read_log(log_file, format="open-bandit", targets="uniform", items=items)
    assert log.item_features.names == ("item_feature_0", "item_feature_1")
    assert log.item_features.categories == {"item_feature_1": ("7749", "c82d")}
    assert log.features_of(log.action).tolist() == [[[0.7, 0.0]], [[1.6, 1.0]]]


def test_open_bandit_like_logs_have_any_number_of_features(tmp_path):
    """The description of the fields calls the propensity action_prob."""
    path = tmp_path / "own.csv"
    path.write_text(
        "timestamp,item_id,position,click,action_prob,user_feature_0,user_feature_5\n"
        "2019-11-24,2,2,0,0.25,a,1\n2019-11-24,3,3,1,0.5,b,2\n"
    )
    log = read_open_bandit(path, targets="uniform")
    assert log.propensity.values.tolist() == [[0.25], [0.5]]
    assert log.context_names == ("position", "user_feature_0", "user_feature_5")
    path.write_text("item_id,position,click\n2,2,0\n3,3,1\n")
    assert read_open_bandit(path, require_propensity=False).notes[0].code == "propensity-missing"
    with pytest.raises(LogError, match="no column 'propensity_score'"):
        read_open_bandit(path)


@pytest.mark.skipif(not SHARED.is_dir(), reason="real files are not part of the project")
def test_real_open_bandit_files():
    log = read_open_bandit(SHARED / "random_men.csv.gz", targets="uniform")
    assert (log.n, log.K, log.n_actions) == (10_000, 1, 34)
    np.testing.assert_allclose(log.targets["uniform"].values, log.propensity.values)


@pytest.mark.skipif(not SHARED.is_dir(), reason="real files are not part of the project")
def test_real_search_log():
    path = SHARED / "search_log_a.csv.gz"
    columns = "action=doc,reward=click"
    with pytest.raises(PropensityError, match="--estimate-propensity"):
        read_log(path, columns=columns)
    log = read_log(
        path, columns=columns, context="query,region", require_propensity=False, encode_actions=True
    )
    assert (log.n, log.K) == (35_064, 10) and [note.code for note in log.notes] == [
        "propensity-missing"
    ]
    np.testing.assert_allclose(log.reward.mean(axis=0)[:3], [0.257, 0.249, 0.170], atol=1e-3)


# --- KuaiRand ---

KUAIRAND_COLUMNS = (
    "user_id,video_id,date,hourmin,time_ms,is_click,is_like,is_follow,is_comment,is_forward,is_hate,long_view,"
    "play_time_ms,duration_ms,profile_stay_time,comment_stay_time,is_profile_enter,is_rand,tab"
)


def kuairand(path, *rand):
    rows = [
        f"{7 + i},{900 - i},20220422,400,1650485801301,{i % 2},0,0,0,0,0,1,9,9,0,0,0,{r},1"
        for i, r in enumerate(rand)
    ]
    path.write_text("\n".join([KUAIRAND_COLUMNS, *rows]) + "\n")
    return path


def test_kuairand_random_log(tmp_path):
    log = read_kuairand(kuairand(tmp_path / "log_random.csv", 1, 1))
    assert log.K == 1 and log.action_names == ("899", "900") and log.action.tolist() == [[1], [0]]
    np.testing.assert_allclose(log.propensity.values, 1 / 7583)
    assert log.unit.tolist() == [7, 8] and log.reward.tolist() == [[0], [1]] and log.notes == ()


def test_kuairand_other_reward_and_mixed_rows(tmp_path):
    log = read_kuairand(kuairand(tmp_path / "log.csv", 1, 0, 1), columns="reward=long_view")
    assert (
        log.n == 2
        and log.reward.tolist() == [[1], [1]]
        and [note.code for note in log.notes] == ["standard-rows-dropped"]
    )


def test_kuairand_standard_log_has_no_propensities(tmp_path):
    path = kuairand(tmp_path / "log_standard.csv", 0, 0)
    with pytest.raises(PropensityError, match="standard policy"):
        read_log(path, format="kuairand")
    assert has(
        read_log(path, format="kuairand", require_propensity=False).notes, "propensity-missing"
    )


# --- registry ---

#: Ours, and those that come as plug-ins with the package.
ADAPTERS = (*registry.TRACKING, "open-bandit", "kuairand")


def test_registry():
    for name in ADAPTERS:
        assert callable(registry.adapter_of(name))
    assert registry.adapter_of("parquet") is None
    with pytest.raises(ConfigError, match="did you mean 'metarank'"):
        registry.adapter_of("metarnk")


@pytest.mark.parametrize("name", ADAPTERS)
def test_adapters_refuse_noise(tmp_path, name):
    rng = np.random.default_rng(len(name))
    for i in range(30):
        path = tmp_path / f"{i}.csv"
        path.write_bytes(rng.bytes(int(rng.integers(1, 300))) + b"\n" + rng.bytes(50))
        with pytest.raises(CounterrankError):
            read_log(path, format=name)
