"""One log, told in different ways, gives one answer.

Equal to rounding where the formula says so; elsewhere within the interval's own half-width times the
share that is written down.
"""

import itertools

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.relations.shop import ESTIMATORS, ITEMS, K, shop

import counterrank as cr

EXACT = 1e-9


def numbers(result, target: str = "new", estimators=ESTIMATORS) -> np.ndarray:
    """Return value, ends, lift and its ends of each estimator (E, 6)."""
    rows = []
    for name in estimators:
        one = result.estimate(target, name)
        rows.append([one.value, one.low, one.high, one.lift.value, one.lift.low, one.lift.high])
    return np.array(rows)


def evaluated(log, targets, **more):
    return cr.evaluate(log, targets, estimators=ESTIMATORS, target_is_fresh=True, **more)


@pytest.fixture(scope="module")
def plain():
    """Return the numbers of the log as it is."""
    data = shop()
    return numbers(evaluated(data.log(), {"new": cr.PlackettLuce(data.new)}))


def own_policy(scores: np.ndarray) -> cr.Autoregressive:
    """Return Plackett-Luce written as a function of the prefix."""

    def step(rows, prefixes):
        weights = np.exp(scores[rows] - scores[rows].max(axis=1, keepdims=True))
        for column in range(prefixes.shape[1]):
            weights[np.arange(len(rows)), prefixes[:, column]] = 0.0
        return weights / weights.sum(axis=1, keepdims=True)

    return cr.Autoregressive(step, len(scores), ITEMS)


def listed(scores: np.ndarray) -> cr.Enumerated:
    """Return Plackett-Luce as all of its rankings with their probabilities."""
    rankings = np.array(list(itertools.permutations(range(ITEMS), K)))
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    left = weights.sum(axis=1, keepdims=True)
    probability = np.ones((len(scores), len(rankings)))
    for k in range(K):
        chosen = weights[:, rankings[:, k]]
        probability *= chosen / left
        left = left - chosen
    return cr.Enumerated(
        np.broadcast_to(rankings, (len(scores), *rankings.shape)), probability, n_actions=ITEMS
    )


@pytest.mark.parametrize("telling", [own_policy, listed])
def test_a_policy_is_the_same_as_scores_own_code_or_lists(plain, telling):
    data = shop()
    told = numbers(evaluated(data.log(), {"new": telling(data.new)}))
    # Weights are exact; the marginals of own code may be drawn, which its flags then say.
    np.testing.assert_allclose(told[[0, 1, 3]], plain[[0, 1, 3]], rtol=1e-6, atol=1e-9)
    half = (plain[-1, 5] - plain[-1, 4]) / 2
    assert abs(told[-1, 3] - plain[-1, 3]) < 0.5 * half
    # What a telling lacks (scores to learn from) may widen the interval, but never shorten it much.
    assert told[-1, 5] - told[-1, 4] > 0.8 * 2 * half


def test_logged_probabilities_of_prefixes_are_the_weights_of_the_policies(plain):
    data = shop()
    both = []
    for scores in (data.old, data.new):
        logs = cr.PlackettLuce(scores).prefix_log_prob(data.action)
        steps = np.exp(np.diff(np.concatenate([np.zeros((len(logs), 1)), logs], axis=1), axis=1))
        both.append(cr.Propensity("prefix", steps))
    log = data.log(propensity=both[0])
    told = numbers(cr.evaluate(log, {"new": both[1]}, estimators=["ips", "rips"]),
                   estimators=["ips", "rips"])  # fmt: skip
    np.testing.assert_allclose(told[:, [0, 3]], plain[[0, 3]][:, [0, 3]], rtol=1e-9)


@pytest.mark.parametrize("seed", [0, 1])
def test_rows_in_another_order(plain, seed):
    data = shop()
    data = data.take(np.random.default_rng(seed).permutation(len(data)))
    told = numbers(evaluated(data.log(), {"new": cr.PlackettLuce(data.new)}))
    np.testing.assert_allclose(told[:-1], plain[:-1], rtol=EXACT)
    half = (plain[-1, 5] - plain[-1, 4]) / 2
    # Folds and draws follow units and what rows hold, not their numbers; the allowance compares some rows.
    assert abs(told[-1, 3] - plain[-1, 3]) < 0.02 * half
    assert np.abs(told[-1, 4:6] - plain[-1, 4:6]).max() < 0.05 * half


def test_items_renumbered(plain):
    data = shop()
    order = np.random.default_rng(1).permutation(ITEMS)
    place = np.argsort(order)
    log = data.log(action=place[data.action], propensity=cr.PlackettLuce(data.old[:, order]))
    told = numbers(evaluated(log, {"new": cr.PlackettLuce(data.new[:, order])}))
    np.testing.assert_allclose(told[:-1], plain[:-1], rtol=EXACT)
    half = (plain[-1, 5] - plain[-1, 4]) / 2
    assert abs(told[-1, 3] - plain[-1, 3]) < 0.25 * half


@pytest.mark.parametrize("factor", [100.0, 0.01])
def test_rewards_in_other_units(plain, factor):
    data = shop()
    log = data.log(reward=factor * data.clicks)
    told = numbers(evaluated(log, {"new": cr.PlackettLuce(data.new)}))
    np.testing.assert_allclose(told[:-1], factor * plain[:-1], rtol=EXACT)
    half = (plain[-1, 5] - plain[-1, 4]) / 2
    # `auto` has click models for 0/1 rewards only, so other amounts may be read by other models.
    assert abs(told[-1, 3] / factor - plain[-1, 3]) < half


def test_rewards_shifted_by_a_constant_move_self_normalised_values_by_it():
    data = shop()
    names = ["snips", "sniips", "snrips"]
    target = {"new": cr.PlackettLuce(data.new)}
    before = numbers(cr.evaluate(data.log(), target, estimators=names), estimators=names)
    moved = data.log(reward=data.clicks + 2.0)
    after = numbers(cr.evaluate(moved, target, estimators=names), estimators=names)
    np.testing.assert_allclose(after[:, 0], before[:, 0] + 2.0 * K, rtol=EXACT)
    np.testing.assert_allclose(after[:, 3], before[:, 3], rtol=1e-7, atol=1e-9)


def test_a_column_of_noise_moves_weights_not_at_all_and_models_little(plain):
    data = shop()
    noise = np.random.default_rng(2).normal(size=(len(data), 1))
    log = data.log(context=np.concatenate([data.context, noise], axis=1))
    told = numbers(evaluated(log, {"new": cr.PlackettLuce(data.new)}))
    np.testing.assert_allclose(told[:-1], plain[:-1], rtol=EXACT)
    half = (plain[-1, 5] - plain[-1, 4]) / 2
    assert abs(told[-1, 3] - plain[-1, 3]) < 0.35 * half


def test_another_target_beside_it_changes_nothing(plain):
    data = shop()
    both = {"new": cr.PlackettLuce(data.new), "other": cr.PlackettLuce(-data.old)}
    told = numbers(evaluated(data.log(), both))
    np.testing.assert_allclose(told, plain, rtol=EXACT)


def test_another_metric_beside_it_changes_nothing(plain):
    data = shop()
    log = data.log(reward={"clicks": data.clicks, "revenue": data.price})
    told = numbers(evaluated(log, {"new": cr.PlackettLuce(data.new)}))
    np.testing.assert_allclose(told, plain, rtol=EXACT)


def test_a_log_cut_in_two_has_the_mean_of_its_parts():
    data = shop()
    cut = len(data) // 3
    parts = [data.take(np.arange(cut)), data.take(np.arange(cut, len(data)))]
    names = ["ips", "iips", "rips"]
    values = [
        numbers(cr.evaluate(one.log(), {"new": cr.PlackettLuce(one.new)}, estimators=names),
                estimators=names)[:, [0, 3]]
        for one in (data, *parts)
    ]  # fmt: skip
    shares = np.array([len(one) for one in parts]) / len(data)
    np.testing.assert_allclose(shares[0] * values[1] + shares[1] * values[2], values[0], rtol=EXACT)


READING = {"logger": "plackett-luce", "policies": {"new": "plackett-luce"}, "unit": "unit"}


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """Return the numbers of the log in one Parquet file."""
    path = tmp_path_factory.mktemp("one") / "log.parquet"
    pq.write_table(shop().table(), path)
    return numbers(evaluated(path, ["new"], **READING))


def test_a_file_says_what_arrays_say(read, plain):
    np.testing.assert_allclose(read[:-1], plain[:-1], rtol=1e-6)


def test_a_folder_of_days_is_its_file(read, tmp_path):
    table = shop().table()
    for part in range(3):
        rows = table.slice(part * 500, 500)
        pq.write_table(rows, tmp_path / f"day{part}.parquet")
    told = numbers(evaluated(tmp_path, ["new"], **READING))
    np.testing.assert_allclose(told[:-1], read[:-1], rtol=EXACT)
    half = (read[-1, 5] - read[-1, 4]) / 2
    assert abs(told[-1, 3] - read[-1, 3]) < 0.25 * half


def test_candidates_in_another_order(read, tmp_path):
    data = shop()
    rng = np.random.default_rng(4)
    orders = np.argsort(rng.random((len(data), ITEMS)), axis=1)
    names = np.array([f"item{i}" for i in range(ITEMS)])
    columns = data.table().to_pydict()
    columns["candidates"] = names[orders].tolist()
    columns["propensity_scores"] = np.take_along_axis(data.old, orders, axis=1).tolist()
    columns["new_scores"] = np.take_along_axis(data.new, orders, axis=1).tolist()
    path = tmp_path / "log.parquet"
    pq.write_table(type(data.table()).from_pydict(columns), path)
    told = numbers(evaluated(path, ["new"], **READING))
    np.testing.assert_allclose(told[:-1], read[:-1], rtol=1e-7)
    half = (read[-1, 5] - read[-1, 4]) / 2
    assert abs(told[-1, 3] - read[-1, 3]) < 0.25 * half


def test_items_of_other_names(read, tmp_path):
    path = tmp_path / "log.parquet"
    pq.write_table(shop().table(["pear", "fig", "Ünö", "a b", "7", "kiwi"]), path)
    told = numbers(evaluated(path, ["new"], **READING))
    np.testing.assert_allclose(told[:-1], read[:-1], rtol=1e-7)


def test_a_condition_is_the_filtered_file(tmp_path):
    data = shop()
    whole, part = tmp_path / "whole.parquet", tmp_path / "part.parquet"
    table = data.table()
    pq.write_table(table, whole)
    kept = data.day >= "2026-10-04"
    pq.write_table(table.filter(kept.tolist()), part)
    told = numbers(evaluated(whole, ["new"], where="day >= '2026-10-04'", **READING))
    hand = numbers(evaluated(part, ["new"], **READING))
    np.testing.assert_allclose(told[:-1], hand[:-1], rtol=EXACT)
    half = (hand[-1, 5] - hand[-1, 4]) / 2
    # The random streams of `auto` follow the place of a row in its file.
    assert abs(told[-1, 3] - hand[-1, 3]) < 0.25 * half


def test_a_target_that_is_the_logger_has_no_lift():
    data = shop()
    result = evaluated(data.log(), {"new": cr.PlackettLuce(data.old.copy())})
    for name in ESTIMATORS:
        assert abs(result.estimate("new", name).lift.value) < 1e-12
