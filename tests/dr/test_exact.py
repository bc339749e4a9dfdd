"""Expectations over every ranking, to 1e-12."""

import numpy as np
import pytest

from counterrank.estimators.base import View, Workspace
from counterrank.estimators.cascade_dr import CascadeDR, CascadePlan
from counterrank.estimators.dr import DR
from counterrank.estimators.marginal import Marginalised
from counterrank.estimators.masked import IPS
from counterrank.estimators.order import OrderIPS
from counterrank.estimators.pseudo_inverse import PseudoInverse
from counterrank.models.base import Prediction
from counterrank.models.layout import Layout, count_slots, pair_slots, scale_of
from counterrank.models.linear import LinearModel, logged_values, mean_values, whole_distribution
from counterrank.sources import MemorySource

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


class Separable:
    """A wrong model that is pairwise itself, so that order-2 weights are right for its errors."""

    details: dict = {}

    def __init__(self, layout, coef):
        self.model = LinearModel(layout, coef, np.zeros(layout.K, dtype=np.int64))

    def predict(self, batch, target):
        return self.model.predict(batch, target)


def random_model(log, *, slots, cross, squares, seed=5):
    layout = Layout(log.K, 3, 2, 2, slots, scale_of(log), cross=cross, squares=squares)
    coef = np.random.default_rng(seed).standard_normal((2, log.K, 3, layout.width))
    return layout, coef


def one_fold(log):
    """All rows in one fold: an expectation over rankings needs the same model on all of them."""
    object.__setattr__(log, "bucket", np.zeros_like(log.bucket))
    return log


def test_dr_order_two_with_a_wrong_pairwise_model_is_unbiased_for_pairs():
    pairs = world(3, 3, pairwise)
    layout, coef = random_model(one_fold(pairs.log), slots=pair_slots(3), cross=True, squares=0)
    estimate = pairs.expected(DR(weights=2, model=Separable(layout, coef)))
    np.testing.assert_allclose(estimate, pairs.value(), atol=1e-12)


@pytest.mark.parametrize("positional", [False, True])
@pytest.mark.parametrize(
    ("cross", "squares"), [(False, 0), (True, 0), (False, 1), (True, 1), (True, 2)]
)
@pytest.mark.parametrize("slots", [pair_slots(3), count_slots(3)], ids=["pairs", "counts"])
def test_closed_form_mean_equals_enumeration(slots, cross, squares, positional):
    tiny = world(3, 3, anything, positional=positional)
    log = one_fold(tiny.log)
    layout, coef = random_model(log, slots=slots, cross=cross, squares=squares)
    given = layout.arrays(log)
    q = logged_values(layout, given, coef[None])[0]
    mean = mean_values(layout, given, whole_distribution(log, "new"), coef)
    for rows in (slice(0, 27), slice(27, 54)):
        listed = (tiny.wanted[rows] * 2) @ q[rows]
        np.testing.assert_allclose(mean[rows], np.tile(listed, (27, 1)), atol=1e-12)


def test_squares_and_cross_are_centred_under_the_logger():
    tiny = world(3, 3, anything)
    log = one_fold(tiny.log)
    layout, _ = random_model(log, slots=count_slots(3), cross=True, squares=1)
    _, cross, _, blocks = layout.starts
    for j in range(cross, blocks):
        coef = np.zeros((2, 3, 3, layout.width))
        coef[..., j] = 1.0
        z = logged_values(layout, layout.arrays(log), coef[None])[0]
        np.testing.assert_allclose((tiny.chance[:27] * 2) @ z[:27], 0.0, atol=1e-12)


def test_cascade_dr_is_unbiased_under_the_cascade_with_any_model():
    tiny = world(3, 3, cascade)
    layout, coef = random_model(one_fold(tiny.log), slots=pair_slots(3), cross=False, squares=0)
    workspace = Workspace(MemorySource(tiny.log, threads=1), "new")
    plan = CascadePlan(workspace, LinearModel(layout, coef, np.zeros(3, dtype=np.int64)))
    y, _ = plan.contributions(View(tiny.log, "new"))
    np.testing.assert_allclose(tiny.chance @ y, tiny.value(), atol=1e-12)
    outside = world(3, 3, anything)
    plan = CascadePlan(
        Workspace(MemorySource(one_fold(outside.log), threads=1), "new"),
        LinearModel(layout, coef, np.zeros(3, dtype=np.int64)),
    )
    y, _ = plan.contributions(View(outside.log, "new"))
    assert np.abs(outside.chance @ y - outside.value()).max() > 0.02
    assert CascadeDR().name == "cascade-dr"


class Zero:
    details: dict = {}

    def predict(self, batch, target):
        return Prediction(np.zeros(batch.action.shape), np.zeros(batch.action.shape))


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


def test_marginalised_weights_are_unbiased_when_groups_tell_all():
    groups = [0, 1, 1]

    def grouped(x, a):
        return [PAIR[x, groups[a[k]], 0, k, 0] for k in range(3)]

    tiny = world(3, 3, grouped)
    np.testing.assert_allclose(tiny.expected(Marginalised(groups=groups)), tiny.value(), atol=1e-12)
    by_pairs = world(
        3,
        3,
        lambda x, a: [
            sum(PAIR[x, groups[a[k]], groups[a[m]], k, m] for m in range(3)) for k in range(3)
        ],
    )
    np.testing.assert_allclose(
        by_pairs.expected(Marginalised(groups=groups, weights=2)), by_pairs.value(), atol=1e-12
    )
