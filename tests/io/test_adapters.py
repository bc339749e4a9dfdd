"""Logs of other libraries and public data sets, in their own formats."""

import json
from pathlib import Path

import numpy as np
import pytest

from counterrank.data.log import RankingLog
from counterrank.errors import ConfigError, CounterrankError, LogError, PropensityError
from counterrank.io import adapters as registry
from counterrank.io import from_obp, read_log, read_vw_ccb, read_vw_slates
from counterrank.messages import has
from counterrank.research.datasets import (
    read_kuairand,
    read_open_bandit,
)

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


# --- obp ---


def obp_feedback(n=40, length=3, actions=4, *, factored=True, seed=0):
    """Feedback as obp's slate data sets return it: flat arrays, cumulative cascade scores,
    positions from 0.
    """
    rng = np.random.default_rng(seed)
    tables = {name: rng.dirichlet(np.ones(actions), (n, length)) for name in ("logging", "new")}
    action = rng.integers(0, actions, (n, length))
    shown = {
        name: np.take_along_axis(t, action[:, :, None], 2)[:, :, 0] for name, t in tables.items()
    }

    def pscores(p):
        joint = p.prod(axis=1) if factored else p.prod(axis=1) * 0.9
        return {
            "pscore": np.repeat(joint, length),
            "pscore_cascade": p.cumprod(axis=1).ravel(),
            "pscore_item_position": p.ravel(),
        }

    feedback = {
        "n_rounds": n,
        "slate_id": np.repeat(np.arange(n), length),
        "position": np.tile(np.arange(length), n),
        "context": rng.normal(size=(n, 2)),
        "action": action.ravel(),
        "reward": rng.random(n * length),
        **pscores(shown["logging"]),
    }
    return feedback, pscores(shown["new"]), shown, action


def test_obp_factored():
    feedback, new, shown, action = obp_feedback()
    log = from_obp(feedback, {"new": new})
    assert log.propensity.kind == "factored"
    np.testing.assert_array_equal(log.action, action)
    np.testing.assert_array_equal(log.propensity.values, shown["logging"])
    np.testing.assert_array_equal(log.targets["new"].values, shown["new"])
    np.testing.assert_array_equal(log.context, feedback["context"])


def test_obp_prefix_scores_are_cumulative():
    feedback, new, shown, _ = obp_feedback(factored=False)
    log = from_obp(feedback, {"new": new})
    assert log.propensity.kind == "prefix"
    np.testing.assert_allclose(log.propensity.values, shown["logging"], rtol=1e-12)
    np.testing.assert_allclose(
        log.targets["new"].values.prod(axis=1), shown["new"].prod(axis=1), rtol=1e-12
    )


@pytest.mark.parametrize(
    ("kind", "key"), [("joint", "pscore"), ("position", "pscore_item_position")]
)
def test_obp_with_one_kind_of_score(kind, key):
    feedback, new, shown, _ = obp_feedback()
    slim = {
        name: value
        for name, value in feedback.items()
        if not name.startswith("pscore") or name == key
    }
    log = from_obp(slim, {"new": {f"evaluation_policy_{key}": new[key]}})
    assert log.propensity.kind == kind
    expected = shown["logging"].prod(axis=1) if kind == "joint" else shown["logging"]
    np.testing.assert_allclose(log.propensity.values, expected, rtol=1e-12)


def test_obp_in_any_order_and_ragged():
    feedback, new, shown, action = obp_feedback(n=6)
    keep = np.array([i for i in range(18) if i not in (5, 8)])
    order = np.random.default_rng(0).permutation(keep)
    flat = {k: v[order] if k not in ("n_rounds", "context") else v for k, v in feedback.items()}
    log = from_obp(flat, kind="prefix")
    assert log.lengths.tolist() == [3, 2, 2, 3, 3, 3]
    np.testing.assert_array_equal(log.action[0], action[0])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"slate_id": None}, "no 'slate_id'"),
        ({"reward": np.ones(5)}, "'reward' has shape"),
        ({"position": np.zeros(120, int)}, "position 0 3 times"),
        ({"position": np.tile([0, 1, 3], 40)}, "no position 2"),
        ({"pscore": None, "pscore_cascade": None, "pscore_item_position": None}, "has none of"),
        (
            {"pscore": np.zeros(120), "pscore_cascade": None, "pscore_item_position": None},
            "is 0 at row 0",
        ),
        ({"context": np.ones((3, 2))}, "'context' has 3 rows"),
        ({"action": np.array(["a"] * 120)}, "'action' holds"),
    ],
)
def test_obp_gone_wrong(change, words):
    feedback, *_ = obp_feedback()
    with pytest.raises(CounterrankError, match=words):
        from_obp({**feedback, **change})


def test_obp_policies_without_a_common_score():
    feedback, new, *_ = obp_feedback(factored=False)
    del feedback["pscore_cascade"], feedback["pscore"]
    with pytest.raises(PropensityError, match="no pscore in common"):
        from_obp(feedback, {"new": {"pscore": new["pscore"]}})
    with pytest.raises(PropensityError, match="needs 'pscore_cascade'"):
        from_obp(feedback, kind="prefix")


# --- Vowpal Wabbit ---

ACTIONS = [{"TAction": {"topic": topic}} for topic in ("sports", "news", "food", "cars")]


def ccb_event(chosen=((2, 0.5, -1.0), (0, 0.25, 0.0)), **more):
    outcomes, left = [], [0, 1, 2, 3]
    for action, probability, cost in chosen:
        others = [a for a in left if a != action]
        rest = (1 - probability) / len(others)
        outcomes.append(
            {
                "_id": f"slot{action}",
                "_label_cost": cost,
                "_a": [action, *others],
                "_p": [probability, *[rest] * len(others)],
            }
        )
        left = others
    shared = {
        "GUser": {"age": 30, "device": "tv", "_hidden": 1},
        "_multi": ACTIONS,
        "_slots": [{}, {}],
    }
    return {
        "Timestamp": "2021-07-29T10:00:00.999Z",
        "Version": "1",
        "EventId": "e",
        "c": shared,
        "_outcomes": outcomes,
        **more,
    }


def write_events(path, *events):
    path.write_text("\n".join(json.dumps(event) for event in events) + "\n")
    return path


def test_vw_ccb(tmp_path):
    path = write_events(
        tmp_path / "log.dsjson", ccb_event(), ccb_event(((1, 0.1, 0.0), (3, 0.9, -2.0)))
    )
    log = read_vw_ccb(path, targets="uniform")
    assert log.action.tolist() == [[2, 0], [1, 3]] and log.reward.tolist() == [[1, 0], [0, 2]]
    assert log.propensity.kind == "prefix" and log.propensity.values.tolist() == [
        [0.5, 0.25],
        [0.1, 0.9],
    ]
    np.testing.assert_allclose(log.targets["uniform"].values, [[1 / 4, 1 / 3]] * 2)
    assert log.context_names == ("GUser.age", "GUser.device") and log.context.tolist() == [
        [30, 0],
        [30, 0],
    ]
    assert has(log.notes, "actions-by-index") and log.columns["event_id"].tolist() == ["e", "e"]


def test_vw_ccb_ragged_tagged_and_with_targets(tmp_path):
    tagged = [{**action, "_tag": f"t{i}"} for i, action in enumerate(ACTIONS)]
    one, two = ccb_event(new=[0.4, 0.3]), ccb_event(((3, 0.5, 0.0),))
    for event in (one, two):
        event["c"]["_multi"] = tagged
    two["_outcomes"][0]["new"] = 0.7
    log = read_vw_ccb(write_events(tmp_path / "log.json", one, two), targets="new")
    assert log.action_names == ("t0", "t2", "t3") and log.action.tolist() == [[1, 0], [2, -1]]
    assert log.targets["new"].values.tolist() == [[0.4, 0.3], [0.7, 1.0]]
    assert not has(log.notes, "actions-by-index")


def test_vw_plain_json_has_labels_in_the_slots(tmp_path):
    event = ccb_event()
    plain = {**event["c"], "_slots": event["_outcomes"]}
    assert read_vw_ccb(write_events(tmp_path / "log.json", plain)).reward.tolist() == [[1, 0]]


def test_vw_events_that_were_not_learned_from_are_left_out(tmp_path):
    path = write_events(tmp_path / "log.json", ccb_event(), ccb_event(_skipLearn=True))
    assert read_vw_ccb(path).n == 1


def test_vw_slates(tmp_path):
    event = {
        "_label_cost": -0.5,
        "c": {
            "shared": {"sf": 1},
            "_multi": [{"_slot_id": 0}, {"_slot_id": 0}, {"_slot_id": 1}],
            "_slots": [{}, {}],
        },
        "_outcomes": [
            {"_id": "a", "_a": [1, 0], "_p": [0.75, 0.25]},
            {"_id": "b", "_a": [0], "_p": [1.0]},
        ],
    }
    log = read_log(
        write_events(tmp_path / "log.json", event), format="vw-slates", targets="uniform"
    )
    assert log.propensity.kind == "factored" and log.propensity.values.tolist() == [[0.75, 1.0]]
    assert log.reward.tolist() == [[0, 0.5]] and has(log.notes, "reward-per-ranking")
    assert log.targets["uniform"].values.tolist() == [[0.5, 1.0]]
    assert read_vw_slates(tmp_path / "log.json").n == 1


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ("{", "line 2 is not JSON"),
        ("[1]", "line 2 is not a JSON object"),
        (json.dumps({"c": {}}), "line 2.*no '_outcomes'"),
        (json.dumps({"c": {}, "_outcomes": [{"_a": [1]}]}), "line 2, slot 1.*'_p'"),
        (
            json.dumps({"c": {}, "_outcomes": [{"_a": [1, 2], "_p": [1.0]}]}),
            "'_a' has 2 entries, '_p' has 1",
        ),
        (
            json.dumps({"c": {}, "_outcomes": [{"_a": [1], "_p": ["x"], "_label_cost": 0}]}),
            "'_p' must be a number",
        ),
        (
            json.dumps({"c": {}, "_outcomes": [{"_a": [1], "_p": [1.0]}]}),
            "'_label_cost' must be a number",
        ),
        (json.dumps(ccb_event(pdrop=0.5)), "dropped at random"),
        (json.dumps(ccb_event(((1, 0.0, 0.0),))), "is 0 at row 1"),
    ],
)
def test_vw_gone_wrong(tmp_path, event, words):
    path = tmp_path / "log.json"
    path.write_text(json.dumps(ccb_event()) + "\n" + event + "\n")
    with pytest.raises(CounterrankError, match=words):
        read_vw_ccb(path)


def test_vw_unknown_target(tmp_path):
    with pytest.raises(LogError, match="no target policy 'new'"):
        read_vw_ccb(write_events(tmp_path / "log.json", ccb_event()), targets="new")


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


# --- Music Off-Policy Evaluation Benchmark ---

#: The two rows of its documentation: [B, A, C] was shown; the matrix has a row a shown action, in
#: the order they were ranked, and a column a position.
MATRIX = [[0.5, 0.4, 0.1], [0.3, 0.3, 0.4], [0.2, 0.3, 0.5]]


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


# --- Seznam ---


# --- registry ---


def test_registry():
    for name in registry.adapter_names():
        assert callable(registry.adapter_of(name))
    assert registry.adapter_of("parquet") is None and "open-bandit" in registry.adapter_names()
    with pytest.raises(ConfigError, match="did you mean 'vw-ccb'"):
        registry.adapter_of("vw-cbb")


@pytest.mark.parametrize("name", registry.adapter_names())
def test_adapters_refuse_noise(tmp_path, name):
    rng = np.random.default_rng(len(name))
    for i in range(30):
        path = tmp_path / f"{i}.csv"
        path.write_bytes(rng.bytes(int(rng.integers(1, 300))) + b"\n" + rng.bytes(50))
        with pytest.raises(CounterrankError):
            read_log(path, format=name)


def test_what_comes_out_is_a_log(tmp_path):
    assert isinstance(read_vw_ccb(write_events(tmp_path / "log.json", ccb_event())), RankingLog)
