"""One reward per ranking: how a log says so, and who may use it."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import counterrank as cr
from counterrank.common.errors import CounterrankError, LogError, PropensityError
from counterrank.data.log import concat
from counterrank.estimators import get_estimator

ITEMS, K = 6, 3


def _log(n, seed=0, ragged=False):
    """Plackett-Luce pages whose success follows from all of their items; the target's true value."""
    rng = np.random.default_rng(seed)
    level = np.linspace(-1, 1, ITEMS)
    logger = cr.PlackettLuce(np.tile(0.3 * level, (n, 1)))
    target = cr.PlackettLuce(np.tile(1.3 * level, (n, 1)))
    length = rng.integers(2, K + 1, n) if ragged else np.full(n, K)

    def chance(item):
        used = np.arange(K) < length[:, None]
        return 1 / (1 + np.exp(1.0 - np.where(used, level[item], 0.0).sum(axis=1)))

    item = logger.sample(K, rng).reshape(n, K)
    better = np.mean([chance(target.sample(K, rng).reshape(n, K)).mean() for _ in range(20)])
    reward = (rng.random(n) < chance(item)) * 1.0
    action = np.where(np.arange(K) < length[:, None], item, -1)
    log = cr.RankingLog(action=action, reward=reward, propensity=logger, targets={"new": target})
    return log, reward, better


def test_rewards_of_rankings_stand_at_their_last_item_and_are_remembered():
    log, reward, _ = _log(50, ragged=True)
    assert log.page_reward and [note.code for note in log.notes] == ["reward-per-ranking"]
    np.testing.assert_array_equal(log.reward[np.arange(50), log.lengths - 1], reward)
    np.testing.assert_array_equal(log.reward.sum(axis=1), reward)
    assert log.take(np.arange(10, 30)).page_reward
    plain = cr.RankingLog(action=[[1, 2]], reward=[[0, 1]], propensity=[[0.5, 0.5]])
    assert not plain.page_reward
    # One position: its reward is the page's.
    single = cr.RankingLog(action=[[1], [2]], reward=[1, 0], propensity=[[0.5], [0.5]])
    assert not single.page_reward and single.reward.tolist() == [[1], [0]]


def test_a_reward_before_the_last_item_contradicts():
    with pytest.raises(LogError, match="row 1 has a reward at position 1"):
        cr.RankingLog(
            action=[[1, 2], [2, 1]], reward=[[0, 1], [1, 0]], propensity=np.full((2, 2), 0.5),
            page_reward=True,
        )  # fmt: skip
    with pytest.raises(LogError, match="reward has shape"):
        cr.RankingLog(action=[[1, 2], [2, 1]], reward=[1, 0, 1], propensity=np.full((2, 2), 0.5))


def test_weights_of_positions_have_no_meaning_there():
    log, *_ = _log(20)
    with pytest.raises(LogError, match="one reward per ranking"):
        log.with_position_weights("dcg")
    assert log.with_position_weights("uniform").page_reward
    by_position = log.with_reward(np.ones((20, K)), alpha=np.array([1.0, 0.5, 0.25]))
    assert by_position.position_weights.tolist() == [1.0, 0.5, 0.25] and not by_position.page_reward
    page = by_position.with_reward(np.ones(20), alpha=np.array([1.0, 0.5, 0.25]))
    assert page.position_weights.tolist() == [1.0, 1.0, 1.0] and page.page_reward


def test_a_column_with_one_number_a_row_is_one(tmp_path):
    log, reward, _ = _log(40)
    p = np.exp(log.propensity.prefix_log_prob(log.action))
    prefix = p / np.concatenate([np.ones((40, 1)), p[:, :-1]], axis=1)
    table = pa.table(
        {"action": log.action.tolist(), "reward": reward, "propensity": prefix.tolist()}
    )
    pq.write_table(table, tmp_path / "log.parquet")
    found = cr.read_log(tmp_path / "log.parquet", propensity_kind="prefix")
    assert found.page_reward
    assert concat([found.take(slice(0, 20)), found.take(slice(20, 40))]).page_reward
    np.testing.assert_array_equal(found.reward, log.reward)
    missing = table.set_column(1, "reward", pa.array([None, *reward[1:]]))
    zero = cr.RankingLog.from_frame(missing, propensity_kind="prefix", missing_reward="zero")
    assert zero.page_reward and zero.reward[0].tolist() == [0, 0, 0]
    with pytest.raises(LogError, match="missing"):
        cr.RankingLog.from_frame(missing, propensity_kind="prefix")


@pytest.mark.parametrize("name", ["iips", "sniips", "clip-iips", "dr-iips", "pbm", "click-model"])
def test_own_positions_are_refused(name):
    log, *_ = _log(200)
    with pytest.raises(CounterrankError, match="one reward per ranking"):
        cr.evaluate(log, ["new"], estimators=[name])


def test_factored_orders_are_refused_too():
    half = np.full((30, 2), 0.5)
    log = cr.RankingLog(
        action=np.zeros((30, 2), dtype=int), reward=np.ones(30), propensity=half,
        targets={"new": half},
    )  # fmt: skip
    with pytest.raises(PropensityError, match="one reward per ranking"):
        get_estimator("order-2").estimate(log, "new")
    assert get_estimator("auto").estimate(log, "new").value == pytest.approx(1.0)


@pytest.mark.parametrize("ragged", [False, True])
def test_auto_models_the_page_and_weighs_it_whole(ragged):
    """The start within 1.5 standard errors of an A/B test of this size, where the lift is beyond six
    and models of the last item saw little of it.
    """
    log, reward, truth = _log(4_000, seed=1, ragged=ragged)
    found = get_estimator("auto").estimate(log, "new")
    members = {one["member"]: one["value"] for one in found.details["members"]}
    assert not {"iips", "order-2"} & members.keys()
    error = np.sqrt(2 * reward.var() / 4_000)
    assert abs(members["models"] - truth) < 1.5 * error
    assert truth - reward.mean() > 6 * error
    assert "page" in {one.get("model") for one in found.details["regression"]["models"]}


def test_learning_needs_rewards_by_position():
    with pytest.raises(LogError, match="learning needs rewards by position"):
        cr.learn(_log(200)[0])
