"""Each MSE estimate against its formula, written out on rows."""

import numpy as np
import pytest

import counterrank as cr
from counterrank.common.errors import BehaviorError
from counterrank.estimators.behavior import BehaviorTree, Oracle, TreeLimits
from counterrank.estimators.behavior.estimates import FEASIBLE, log_of, mse_estimate, odds_scale
from counterrank.estimators.behavior.growth import TreeRows
from counterrank.estimators.behavior.settings import ORACLE_NOISE_STREAM
from counterrank.estimators.behavior.training import Position
from counterrank.estimators.weights.ratios import ratios_of
from counterrank.research.simulate import random, true_value


@pytest.fixture(scope="module")
def env():
    return random(3, K=3, form="paper")


@pytest.fixture(scope="module")
def log(env):
    return env.draw(1500, np.random.default_rng(0)).to_log()


def scored(log, mse, choice, *, names=("S", "C", "I")):
    """Return y (n, M), the score of `choice` per row at the last position, and the position."""
    plan = BehaviorTree(candidates=cr.candidates(log.K, list(names)), mse=mse)
    data = plan.training_set(log, "new", seed=0)
    tree = log.K - 1
    data.tails[:] = 1.0  # formulas without the correction; it has a test of its own
    position = Position(data, tree, log.n)
    objective = mse_estimate(mse).objective(position)
    y = data.y[tree]
    rows = TreeRows.from_objective(objective, y, data.codes)
    places = [np.flatnonzero(choice == m) for m in range(len(y[0]))]
    sums = np.stack([rows._replace(chosen=place).histogram(99)[0].sum(axis=0) for place in places])
    channels = objective.channels(sums)
    total = sum(channels[m, m] for m in range(len(y[0])))  # the rows of node m get model m
    value = objective.score(total)
    return y, float(value), position


@pytest.fixture
def choice(log):
    # At the last position S and C coincide: two distinct models, 0 = S and 1 = I.
    return (log.context[:, 0] > 0).astype(np.int64)


def own(y, choice):
    return y[np.arange(len(choice)), choice]


def test_pairs(log, choice):
    y, score, position = scored(log, "pairs", choice)
    v = own(y, choice)
    pairs = position.data.pairs
    by_pairs = pairs.summed(*pairs.shares())[:, 2].mean()
    assert score == pytest.approx(v.var() / log.n + (v.mean() - by_pairs) ** 2, rel=1e-9)


def test_known_values(env, log, choice):
    truth = true_value(env).by_position
    y, score, _ = scored(log, Oracle(truth), choice)
    v = own(y, choice)
    var = v.var() / log.n
    assert score == pytest.approx(var + max(0.0, (v.mean() - truth[2]) ** 2 - var), rel=1e-9)


def test_oracle_noise_scales_the_bias(env, log, choice):
    """b (1 + noise z) squared plus Var has the minimiser of b^2 + Var / (1 + noise z)^2."""
    truth = true_value(env).by_position
    y, score, position = scored(log, Oracle(truth, noise=0.5), choice)
    z = np.random.default_rng([0, position.index + 1, ORACLE_NOISE_STREAM]).standard_normal()
    v = own(y, choice)
    var, bias = v.var() / log.n, v.mean() - truth[2]
    expected = var / (1 + 0.5 * z) ** 2 + max(0.0, bias**2 - var)
    assert score == pytest.approx(expected, rel=1e-9)


def test_pasif(log, choice):
    _, score, position = scored(log, "pasif", choice)
    objective = mse_estimate("pasif").objective(position)
    v = own(objective.averaged, choice)
    assert objective.replicates.sum(axis=1) == pytest.approx(1)
    expected = np.mean((objective.replicates @ v - objective.targets) ** 2)
    assert score == pytest.approx(expected, rel=1e-9)


def test_pasif_has_the_share_asked_for():
    w = np.random.default_rng(0).lognormal(0, 1, 4000)
    odds = np.exp(odds_scale(np.log(w), 0.15)) * w
    assert np.mean(odds / (1 + odds)) == pytest.approx(0.15, rel=1e-9)
    assert odds_scale(log_of(np.zeros(4)), 0.15) < -50  # no ranking of the target at all


def test_tail_correction_is_the_exact_second_moment(env):
    """With everything enumerable: inflation times the log's mean of w^2 is E[w^2], whatever the log
    missed.
    """
    log = env.draw(3000, np.random.default_rng(2)).to_log()
    models = cr.candidates(3, ["S", "I"])
    data = BehaviorTree(candidates=models).training_set(log, "new", seed=0)
    ratios = ratios_of(log, "new")
    p0, p1 = log.dists["propensity"][::2], log.dists["new"][::2]
    v = (p1**2 / p0).sum(axis=1) - 1
    expected = {"S": (1 + v) ** 3, "I": 1 + v}
    for m, c in enumerate(models):
        seen = (ratios.masked(c.mask) ** 2).mean(axis=0)
        want = np.maximum(1.0, expected[c.name].mean() / seen)
        np.testing.assert_allclose(data.tails[:, m], want, rtol=1e-9)


def test_every_name_grows_a_tree(log):
    for name in FEASIBLE:
        tree = BehaviorTree(mse=name, limits=TreeLimits(max_depth=2)).fit(log, "new")
        assert tree.assign(log.context).shape == (log.n, 3)
        assert tree.fitted.mse == name


def test_values_for_too_few_positions_are_refused(log):
    with pytest.raises(BehaviorError, match="was given 2 values, but position 3 needs one"):
        BehaviorTree(mse=Oracle(np.ones(2))).fit(log, "new")


def test_names_that_need_values_or_are_unknown_say_so(log):
    with pytest.raises(BehaviorError, match=r"pass Oracle\(values"):
        BehaviorTree(mse="oracle").fit(log, "new")
    with pytest.raises(BehaviorError, match="did you mean 'pasif'"):
        BehaviorTree(mse="pas-if").fit(log, "new")
