"""Expectations over every ranking, to 1e-12."""

from itertools import permutations

import numpy as np
import pytest

import counterrank as cr
from counterrank.data.encoding import ContextMoments
from counterrank.data.source import MemorySource
from counterrank.estimators import registry
from counterrank.estimators.base import View, Workspace
from counterrank.estimators.doubly_robust import DR, CascadeDR, model_fit
from counterrank.estimators.masked import IPS, OrderIPS, PseudoInverse, weights_for
from counterrank.models import RewardModel, rankings_of
from counterrank.models.columns import Layout, count_slots, logged_values, pair_slots
from counterrank.models.linear import LinearModel, mean_values
from counterrank.models.rankings import whole_distribution
from counterrank.research import simulate

from .worlds import TableModel, world

RNG = np.random.default_rng(3)
PAIR = RNG.standard_normal((2, 3, 3, 3, 3))  # context, own action, other action, k, l
TRIPLE = RNG.standard_normal((3, 3, 3))
ANY = RNG.standard_normal((2, 3, 3, 3, 3))


def pairwise(x, a):
    return [sum(PAIR[x, a[k], a[m], k, m] for m in range(3)) for k in range(3)]


def anything(x, a):
    return ANY[x][tuple(a)]


def cascade(x, a):
    return [ANY[x, a[0], 0, 0, 0], ANY[x, a[0], a[1], 0, 1], ANY[x, a[0], a[1], a[2], 2]]


@pytest.mark.parametrize("positional", [False, True])
def test_order_two_is_unbiased_for_pairs_and_full_order_for_anything(positional):
    pairs, full = (
        world(3, 3, pairwise, positional=positional),
        world(3, 3, anything, positional=positional),
    )
    np.testing.assert_allclose(pairs.expected(OrderIPS(order=2)), pairs.value(), atol=1e-12)
    np.testing.assert_allclose(full.expected(OrderIPS(order=3)), full.value(), atol=1e-12)
    # The negative: order 2 must be wrong where three items interact.
    assert np.abs(full.expected(OrderIPS(order=2)) - full.value()).max() > 0.05


@pytest.mark.parametrize("weights", ["ips", 3])
def test_dr_with_any_wrong_model_is_unbiased_when_the_weights_are(weights):
    full = world(3, 3, anything)
    model = TableModel(full, 2)
    np.testing.assert_allclose(
        full.expected(DR(weights=weights, model=model)), full.value(), atol=1e-12
    )


def random_model(log, *, slots, cross, squares, curved=False, seed=5):
    moments = ContextMoments.from_batch(log).mean_and_spread
    layout = Layout(log.K, 3, 2, slots, *moments, cross=cross, squares=squares, curved=curved)
    coef = np.random.default_rng(seed).standard_normal((2, log.K, 3, layout.width))
    return layout, coef


def one_fold(log):
    """All rows in one fold: an expectation over rankings needs the same model on all of them."""
    object.__setattr__(log, "bucket", np.zeros_like(log.bucket))
    return log


def test_dr_order_two_with_a_wrong_pairwise_model_is_unbiased_for_pairs():
    pairs = world(3, 3, pairwise)
    layout, coef = random_model(one_fold(pairs.log), slots=pair_slots(3), cross=True, squares=0)
    # A wrong model that is pairwise itself: order-2 weights are right for its errors.
    model = LinearModel(layout, coef, np.zeros(3, dtype=np.int64))
    estimate = pairs.expected(DR(weights=2, model=model))
    np.testing.assert_allclose(estimate, pairs.value(), atol=1e-12)


@pytest.mark.parametrize("positional", [False, True])
@pytest.mark.parametrize(
    ("cross", "squares", "curved"),
    [(False, 0, False), (True, 0, True), (False, 1, False), (True, 1, True), (True, 2, False)],
)
@pytest.mark.parametrize("slots", [pair_slots(3), count_slots(3)], ids=["pairs", "counts"])
def test_closed_form_mean_equals_enumeration(slots, cross, squares, curved, positional):
    tiny = world(3, 3, anything, positional=positional)
    log = one_fold(tiny.log)
    layout, coef = random_model(log, slots=slots, cross=cross, squares=squares, curved=curved)
    given = layout.arrays(log)
    q = logged_values(layout, given, coef)
    mean = mean_values(layout, given, whole_distribution(log, "new"), coef, np.arange(3))
    for rows in (slice(0, 27), slice(27, 54)):
        listed = (tiny.wanted[rows] * 2) @ q[rows]
        np.testing.assert_allclose(mean[rows], np.tile(listed, (27, 1)), atol=1e-12)


def cascade_fit(log, model):
    """The fit of `cascade-dr` with any model."""
    workspace = Workspace(MemorySource(log, threads=1), "new")
    weights = weights_for(workspace, "rips")
    return model_fit("cascade-dr", workspace, CascadeDR().traits, model, weights)


def test_cascade_dr_is_unbiased_under_the_cascade_with_any_model():
    tiny, outside = world(3, 3, cascade), world(3, 3, anything)
    layout, coef = random_model(one_fold(tiny.log), slots=pair_slots(3), cross=False, squares=0)
    model = LinearModel(layout, coef, np.zeros(3, dtype=np.int64))
    for given in (tiny, outside):
        fit = cascade_fit(one_fold(given.log), lambda view: model.cascade(view.batch, view.target))
        y, _ = fit.contributions(View(given.log, "new"))
        off = np.abs(given.chance @ y - given.value()).max()
        assert off < 1e-12 if given is tiny else off > 0.02
    assert CascadeDR().name == "cascade-dr"


def test_the_cascade_of_a_linear_model_averages_what_stands_below():
    tiny = world(3, 3, cascade)
    log = one_fold(tiny.log)
    layout, coef = random_model(log, slots=pair_slots(3), cross=False, squares=0)
    model = LinearModel(layout, coef, np.zeros(3, dtype=np.int64))
    fold = log.bucket % model.folds
    (known, mean), q = model.cascade(log, "new"), model.expected(rankings_of(log), fold)
    np.testing.assert_allclose(mean, model.mean_under(log, "new", fold), atol=1e-12)
    # Naive twin: rows that agree in context and a_1..a_k, weighted by the target.
    for k in range(3):
        keys = np.column_stack([log.context, log.action[:, : k + 1]])
        for i in range(0, log.n, 5):
            same = (keys == keys[i]).all(axis=1)
            mean = np.average(q[same, k], weights=tiny.wanted[same])
            assert known[i, k] == pytest.approx(mean, abs=1e-12)


RANKINGS = np.array(list(permutations(range(4), 3)))


def dependent_policies():
    """A policy of each kind that knows P(a_k | above)."""
    scores = np.array([[0.3, -0.5, 1.1, 0.0]])

    def chances(rows, prefixes):
        left = np.ones((len(prefixes), 4))
        left[np.arange(len(prefixes))[:, None], prefixes] = 0.0
        left *= 1.0 + np.arange(4) * (1 + prefixes.shape[1])
        return left / left.sum(axis=1, keepdims=True)

    return {
        "plackett-luce": cr.PlackettLuce(scores),
        "slot epsilon": cr.SlotEpsilonGreedy(scores, epsilon=0.4),
        "mixture": cr.Mixture([cr.PlackettLuce(scores), cr.UniformPermutation(4)], [0.7, 0.3]),
        "autoregressive": cr.Autoregressive(chances, n_rows=1, n_actions=4),
    }


@pytest.mark.parametrize("kind", sorted(dependent_policies()))
@pytest.mark.parametrize("sees", ["above", "below"])
def test_cascade_dr_of_dependent_positions(kind, sees):
    """Right under the cascade with any model that looks up; wrong with one that looks down."""
    target, logger = dependent_policies()[kind], cr.PlackettLuce(np.array([[0.5, 0.2, 0.0, -0.2]]))
    log = cr.RankingLog(
        action=RANKINGS,
        reward=np.cos(np.cumsum(RANKINGS + 1.0, axis=1)),
        propensity=logger,
        targets={"new": target},
    )
    chance = np.exp(logger.prefix_log_prob(RANKINGS)[:, -1])
    wanted = np.exp(target.prefix_log_prob(RANKINGS)[:, -1])
    assert chance.sum() == pytest.approx(1.0) and wanted.sum() == pytest.approx(1.0)
    turned = RANKINGS if sees == "above" else RANKINGS[:, ::-1]
    q = np.sin(np.cumsum(turned * 1.7, axis=1))
    q = q if sees == "above" else q[:, ::-1]
    mean = np.broadcast_to(wanted @ q, q.shape)
    fit = cascade_fit(log, lambda view: (q, mean))
    y, _ = fit.contributions(View(log, "new"))
    off = np.abs(chance @ y - wanted @ log.reward).max()
    assert off < 1e-12 if sees == "above" else off > 0.01


@pytest.mark.parametrize("logger", ["plackett-luce", "epsilon", "mixture"])
def test_cascade_dr_of_click_logs_is_narrower_than_rips(logger):
    tiny = simulate.World(seed=4, behavior="cascade", logger=logger, K=3, items=6)
    log = tiny.log(1500, 0)
    found, plain = (registry.get(name).estimate(log, "new") for name in ("cascade-dr", "rips"))
    assert found.stderr < 0.9 * plain.stderr
    assert abs(found.value - simulate.true_value(tiny).value) < 4 * found.stderr
    variants = [one["competition"] for one in found.details["regression"]["models"]]
    assert variants == [False, False]


def test_cascade_dr_needs_prefix_probabilities():
    given = cr.Propensity("joint", np.full(24, 1 / 24))
    log = cr.RankingLog(
        action=RANKINGS, reward=np.ones(RANKINGS.shape), propensity=given,
        targets={"new": cr.PlackettLuce(np.zeros((1, 4)))},
    )  # fmt: skip
    with pytest.raises(cr.CounterrankError, match="prefix probabilities"):
        CascadeDR().estimate(log, "new")


class Zero(RewardModel):
    folds, details = 1, {}

    def expected(self, rankings, fold):
        return np.zeros(rankings.item.shape)


def test_dr_with_a_zero_model_is_ips():
    full = world(3, 3, anything)
    np.testing.assert_allclose(
        full.expected(DR(weights="ips", model=Zero())), full.expected(IPS()), atol=1e-12
    )
    assert DR(weights="ips", model=Zero()).estimate(full.log, "new").value == pytest.approx(
        IPS().estimate(full.log, "new").value, rel=1e-12
    )


def test_pseudo_inverse_is_unbiased_for_additive_totals():
    def total(x, a):
        return [0.0, 0.0, PAIR[x, a[0], 0, 0, 0] + PAIR[x, a[1], 1, 1, 1] + PAIR[x, a[2], 2, 2, 2]]

    tiny, full = world(3, 3, total), world(3, 3, anything)
    np.testing.assert_allclose(tiny.expected(PseudoInverse()), tiny.value(), atol=1e-12)
    assert np.abs(full.expected(PseudoInverse()) - full.value()).max() > 0.02
