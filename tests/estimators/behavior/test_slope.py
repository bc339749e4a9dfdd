"""SLOPE over nested behaviour models, on worlds where its assumption holds and where it does not."""

import numpy as np
import pytest

import counterrank as cr
from counterrank.estimators.behavior import BehaviorTree
from counterrank.estimators.behavior.estimates import mse_estimate
from counterrank.estimators.behavior.slope import nested_chain, selected
from counterrank.estimators.behavior.training import Position
from counterrank.policies import Factored

K, A = 4, 2
NAMES = ["S", "W2", "W1", "I"]


def world_log(n, rng, effects):
    """Return a log whose reward at the last position is the sum of effects of all items: E = sum_l e_l a_l.

    Leaving out an item of positive effect loses it, so that with effects of one sign the bias grows
    along nested masks: SLOPE's assumption.
    """
    p0, p1 = np.full((n, A), 0.5), np.tile([0.2, 0.8], (n, 1))
    action = Factored(p0).sample(K, rng)[:, 0]
    reward = np.zeros((n, K))
    reward[:, -1] = action @ effects + 0.3 * rng.normal(size=n)
    return cr.RankingLog(
        action=action,
        reward=reward,
        propensity=np.take_along_axis(p0, action, axis=1),
        targets={"new": np.take_along_axis(p1, action, axis=1)},
        dists={"propensity": p0, "new": p1},
    )


def last_position(log):
    data = BehaviorTree(candidates=cr.candidates(K, NAMES)).training_set(log, "new", seed=0)
    data.tails[:] = 1.0
    return Position(data, K - 1, log.n)


def expected_by_model(effects):
    """Return E[V] of each model of the chain: kept items at the target's mean .8, others at the log's .5."""
    windows = {"S": 3, "W2": 2, "W1": 1, "I": 0}
    means = []
    for name in NAMES:
        kept = np.arange(K) >= K - 1 - windows[name]
        means.append(float(np.where(kept, 0.8, 0.5) @ effects))
    return np.array(means)


@pytest.mark.parametrize("effects", [[0, 0, 0, 1], [0, 0, 1, 1], [0.3, 0.6, 1, 1], [1, 1, 1, 1]])
def test_the_error_is_bounded_where_the_bias_grows_along_the_chain(effects):
    """|V_s - V| <= 6 min_i (|bias_i| + CNF_i) where all intervals hold: Theorem 3 of Su et al. (2020).

    All four intervals of 1.96 standard errors hold in at least 80 % of the logs (Bonferroni), so in 40
    logs the bound fails more than 20 times with probability 2e-5.
    """
    effects, failures = np.array(effects, dtype=float), 0
    truth, means = 0.8 * effects.sum(), expected_by_model(effects)
    for seed in range(40):
        log = world_log(400, np.random.default_rng([seed, 1]), effects)
        position = last_position(log)
        value = mse_estimate("slope").objective(position).value
        y = position.y[:, nested_chain(np.stack([c.mask[K - 1] for c in position.data.candidates]))]
        cnf = 1.96 * y.std(axis=0) / np.sqrt(log.n)
        bound = 6.0 * np.min(np.abs(means - truth) + cnf)
        failures += abs(value - truth) > bound
    assert failures <= 20


def test_the_own_item_is_chosen_without_interaction_and_refused_with_it():
    """Without interaction every model is unbiased, and the last is chosen; strong effects exclude it."""
    counts = {}
    for name, effects in (("none", [0, 0, 0, 1.0]), ("strong", [0, 0, 2.0, 1.0])):
        chosen = []
        for seed in range(30):
            log = world_log(2000, np.random.default_rng([seed, 2]), np.array(effects))
            position = last_position(log)
            y = position.y
            half = 1.96 * y.std(axis=0) / np.sqrt(log.n)
            chosen.append(selected(y.mean(axis=0), half))
        counts[name] = np.bincount(chosen, minlength=len(NAMES))
    # Intervals of twice 1.96 standard errors that miss a common point: chance below 1e-3 a log, so two
    # or more of 30 have probability 4e-4. The bias of .6 is twenty standard errors.
    assert counts["none"][-1] >= 29
    assert counts["strong"][-1] == 0 and counts["strong"][-2] >= 29


def test_effects_of_opposite_sign_break_the_assumption():
    """Leaving out both items has no bias, leaving out one has: the chain stops before the best model."""
    log = world_log(20_000, np.random.default_rng(3), np.array([0, 3.0, -3.0, 1.0]))
    position = last_position(log)
    y = position.y
    means, half = y.mean(axis=0), 1.96 * y.std(axis=0) / np.sqrt(log.n)
    assert abs(means[-1] - 0.8) < half[-1] * 2  # own item: unbiased
    assert selected(means, half) < len(NAMES) - 1


def test_the_objective_is_selected_by_name():
    log = world_log(600, np.random.default_rng(0), np.array([0, 0, 0.5, 1.0]))
    tree = BehaviorTree(candidates=NAMES, mse="slope").fit(log, "new")
    assert tree.forest.mse == "slope"
    # Rewards are at the last position alone, and the context says nothing: one group.
    assert np.isfinite(cr.AIPS(behavior=tree).estimate(log, "new").value)
