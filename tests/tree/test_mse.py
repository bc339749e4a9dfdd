"""Each MSE estimate against its formula, written out on rows."""

import numpy as np
import pytest

import counterrank as cr
from counterrank.errors import BehaviorError
from counterrank.ratios import ratios_of
from counterrank.simulate import random, true_value
from counterrank.tree.behavior_tree import BehaviorTree
from counterrank.tree.confirm import Scorer
from counterrank.tree.kernels import splitting
from counterrank.tree.limits import Limits
from counterrank.tree.mse import registry
from counterrank.tree.mse.dr import DoublyRobust
from counterrank.tree.mse.gl import GoldenshlugerLepski
from counterrank.tree.mse.lepski import Lepski
from counterrank.tree.mse.oracle import Oracle
from counterrank.tree.mse.pasif import odds_scale
from counterrank.tree.mse.pasif_fitted import PasIfFitted, _slope
from counterrank.tree.mse.reference import Reference
from counterrank.tree.mse.slope import Slope


@pytest.fixture(scope="module")
def env():
    return random(3, K=3, form="paper")


@pytest.fixture(scope="module")
def log(env):
    return env.draw(1500, np.random.default_rng(0)).to_log()


def scored(log, mse, choice, *, names=("S", "C", "I")):
    """Return y (n, M), the score of `choice` per row at the last position, and the position."""
    plan = BehaviorTree(candidates=cr.candidates(log.K, list(names)), mse=mse)
    ground, _ = plan.ground(log, "new", seed=0)
    slot = log.K - 1
    ground.tails[:] = 1.0  # formulas without the correction; it has a test of its own
    position = ground.position(slot, ground.is_logged() > 0, n_apply=log.n, seed=0)
    objective = registry.get(mse).objective(position)
    y = ground.contributions(slot)
    rows = objective.rows(y, ground.is_logged())
    node = (
        choice.astype(np.int32) if len(choice) == len(y) else np.concatenate([choice, np.zeros(len(y) - len(choice))])
    )
    sums = rows.totals(node.astype(np.int32), len(y[0]))
    scorer = Scorer(objective, sums)
    total = sum(scorer.channels[m, m] for m in range(len(y[0])))  # the rows of node m get model m
    value = splitting.score(total, np.zeros_like(total), scorer.rule, scorer.marks, np.inf)
    return y, float(value), position


@pytest.fixture
def choice(log):
    # At the last position S and C coincide: two distinct models, 0 = S and 1 = I.
    return (log.context[:, 0] > 0).astype(np.int64)


def own(y, choice):
    return y[np.arange(len(choice)), choice]


@pytest.mark.parametrize("kappa", [0.0, 1.0, 3.0])
def test_reference_and_gl(log, choice, kappa):
    for mse in (Reference(kappa), GoldenshlugerLepski(kappa)):
        y, score, _ = scored(log, mse, choice)
        v, d = own(y, choice), own(y, choice) - y[:, 0]
        expected = v.var() / log.n + max(0.0, d.mean() ** 2 - kappa * d.var() / log.n)
        assert score == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("z", [0.01, 100.0])
def test_lepski_and_slope(log, choice, z):
    y, lepski, _ = scored(log, Lepski(z), choice)
    _, slope, _ = scored(log, Slope(z), choice)
    v, d = own(y, choice), own(y, choice) - y[:, 0]
    se = np.sqrt(d.var() / log.n)
    apart = np.sqrt(v.var() / log.n) + np.sqrt(y[:, 0].var() / log.n)
    plain = v.var() / log.n
    assert lepski == (np.inf if abs(d.mean()) > z * se else pytest.approx(plain))
    assert slope == (np.inf if abs(d.mean()) > z * apart else pytest.approx(plain))


def test_known_values(env, log, choice):
    truth = true_value(env).by_position
    y, score, _ = scored(log, Oracle(truth), choice)
    v = own(y, choice)
    var = v.var() / log.n
    assert score == pytest.approx(var + max(0.0, (v.mean() - truth[2]) ** 2 - var), rel=1e-9)
    errors = np.array([0.1, 0.2, 0.3])
    _, score, _ = scored(log, DoublyRobust(truth, errors), choice)
    assert score == pytest.approx(var + max(0.0, (v.mean() - truth[2]) ** 2 - var - 0.09), rel=1e-9)


def test_oracle_with_fresh_rows_uses_them_for_the_bias_only(env, log, choice):
    truth = true_value(env).by_position
    fresh = env.draw(4000, np.random.default_rng(1)).to_log()
    y, score, _ = scored(log, Oracle(truth, fresh), choice)
    v = own(y[: log.n], choice)
    bias = y[log.n :, 0].mean() - truth[2]  # `scored` puts fresh rows under model 0
    assert score == pytest.approx(v.var() / log.n + bias**2, rel=1e-9)


@pytest.mark.parametrize("name", ["ocv", "pasif"])
def test_estimates_over_splits(log, choice, name):
    y, score, position = scored(log, name, choice)
    objective = registry.get(name).objective(position)
    v = own(y if objective.averaged is None else objective.averaged, choice)
    assert objective.replicates.sum(axis=1) == pytest.approx(1)
    expected = np.mean((objective.replicates @ v - objective.targets) ** 2)
    assert score == pytest.approx(expected, rel=1e-9)


def test_pasif_has_the_share_asked_for():
    w = np.random.default_rng(0).lognormal(0, 1, 4000)
    odds = np.exp(odds_scale(w, 0.15)) * w
    assert np.mean(odds / (1 + odds)) == pytest.approx(0.15, rel=1e-9)
    assert odds_scale(np.zeros(4), 0.15) < -50  # no ranking of the target at all


def test_fitted_pasif_descends_its_own_loss():
    rng = np.random.default_rng(0)
    x = np.concatenate([np.ones((300, 1)), rng.normal(size=(300, 2))], axis=1)
    w = np.exp(0.5 * x[:, 1])
    score = rng.normal(size=300) - 1

    def loss(s):
        rho = 1 / (1 + np.exp(-s))
        m = rho.mean()
        return np.mean((rho / m / ((1 - rho) / (1 - m)) - w) ** 2) + 10 * (m - 0.2) ** 2

    slope = _slope(score, w, 0.2, 10.0)
    for i in (0, 7, 123):
        step = np.zeros(300)
        step[i] = 1e-5
        assert slope[i] == pytest.approx((loss(score + step) - loss(score - step)) / 2e-5, rel=1e-4, abs=1e-9)
    beta = PasIfFitted(steps=400).fit(x, w)
    assert np.corrcoef(x @ beta, np.log(w))[0, 1] > 0.95
    assert loss(x @ beta) < loss(np.full(300, beta[0]))


def test_tail_correction_is_the_exact_second_moment(env):
    """With everything enumerable: inflation times the log's mean of w^2 is E[w^2], whatever the log missed."""
    log = env.draw(3000, np.random.default_rng(2)).to_log()
    models = cr.candidates(3, ["S", "I"], orders=[2])
    ground, _ = BehaviorTree(candidates=models).ground(log, "new", seed=0)
    ratios = ratios_of(log, "new")
    p0, p1 = log.dists["propensity"][::2], log.dists["new"][::2]
    v = (p1**2 / p0).sum(axis=1) - 1
    expected = {"S": (1 + v) ** 3, "I": 1 + v, "S, order 2": (1 + v) * (1 + 2 * v)}
    for m, c in enumerate(models):
        w = ratios.masked(c.mask) if c.order is None else ratios.ordered(c.mask, c.order)
        seen = (w**2).mean(axis=0)
        want = np.maximum(1.0, expected[c.label].mean() / seen)
        np.testing.assert_allclose(ground.tails[:, m], want, rtol=1e-9)


def test_every_name_grows_a_tree(log):
    for name in registry.FEASIBLE:
        tree = BehaviorTree(mse=name, limits=Limits(max_depth=2)).fit(log, "new")
        assert tree.assign(log.context).shape == (log.n, 3)
        assert tree.fitted.mse == name


def test_values_for_too_few_positions_are_refused(log):
    with pytest.raises(BehaviorError, match="was given 2 values, but position 3 needs one"):
        BehaviorTree(mse=Oracle(np.ones(2))).fit(log, "new")
    with pytest.raises(BehaviorError, match="needs reference values"):
        BehaviorTree(mse=DoublyRobust()).fit(log, "new")
