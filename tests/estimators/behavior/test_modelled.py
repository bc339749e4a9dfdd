"""The value by a reward model that a tree is held against: its formula, its error, and where there is none."""

from dataclasses import replace

import numpy as np
import pytest
from tests.estimators.dozen_rows import LOG, MEAN, REWARD, WEIGHTS, Known, N, Q

import counterrank as cr
from counterrank.estimators.behavior import BehaviorTree
from counterrank.estimators.behavior.modelled import modelled_value
from counterrank.estimators.weights.ratios import ratios_of
from counterrank.statistics import bias_aware_half

K, A = 4, 3
LENGTH = 1_000


class Refitted(Known):
    """Each fit that leaves a fold out knows other numbers."""

    folds = 3

    def expected(self, rankings, fold):
        return Q[rankings.log.rows] * (1.0 + fold[:, None])

    def mean_under(self, batch, target, fold):
        return MEAN[batch.rows] * (1.0 + fold[:, None])

    def doubt(self, batch, target):
        return 0.25


def test_rows_and_variance_are_those_of_the_formula():
    found = modelled_value([Refitted()], ratios_of(LOG, "new"), "new")
    w, factor = WEIGHTS["iips"], 1.0 + (LOG.bucket % 3)[:, None]
    np.testing.assert_allclose(found.rows, MEAN * factor + w * (REWARD - Q * factor), rtol=1e-12)
    alpha = LOG.position_weights
    fits = [((MEAN * f + w * (REWARD - Q * f)) @ alpha).mean() for f in (1.0, 2.0, 3.0)]
    # Delete-a-fold jackknife, and what the log hardly shows.
    assert found.variance == pytest.approx(2 * np.var(fits) + 0.25, rel=1e-9)
    assert len(found.rows) == N and found.disagreement == 0.0
    several = modelled_value([Refitted(), Known()], ratios_of(LOG, "new"), "new")
    by_known = ((MEAN + w * (REWARD - Q)) @ alpha).mean()
    assert several.disagreement == pytest.approx(abs((found.rows @ alpha).mean() - by_known) / 2)
    np.testing.assert_array_equal(several.rows, found.rows)


def test_a_value_that_is_no_number_is_none():
    log = replace(LOG, reward=REWARD * 1e300)
    assert modelled_value([Known()], ratios_of(log, "new"), "new") is None


def grouped(seed):
    """Return a log of three groups with pair effects of their own, and the target's value by drawing it."""
    rng = np.random.default_rng(seed)
    pair, own = rng.normal(size=(3, A, A)), rng.normal(size=(A,))

    def rewards(x, action):
        group = np.digitize(x[:, 0], [-0.43, 0.43])[:, None, None]
        between = pair[group, action[:, :, None], action[:, None, :]]
        return own[action] + between.sum(axis=2) - np.einsum("nkk->nk", between)

    def drawn(n):
        x = rng.normal(size=(n, 2))
        old = np.exp(0.5 * x[:, :1] * np.arange(A))
        old /= old.sum(axis=1, keepdims=True)
        new = np.full((n, A), 0.15)
        new[np.arange(n), old.argmin(axis=1)] += 1.0 - 0.15 * A
        return x, old, new

    def shown(p):
        return (p.cumsum(axis=1)[:, None, :-1] < rng.random((len(p), K, 1))).sum(axis=2)

    x, _, new = drawn(100_000)
    truth = rewards(x, shown(new)).sum(axis=1).mean()
    x, old, new = drawn(LENGTH)
    action = shown(old)
    logged, target = (np.take_along_axis(p, action, axis=1) for p in (old, new))
    log = cr.RankingLog(
        action=action,
        reward=rewards(x, action) + 0.3 * rng.normal(size=action.shape),
        propensity=cr.Propensity("factored", logged),
        targets={"new": cr.Propensity("factored", target)},
        dists={"propensity": old, "new": new},
        context=x,
    )
    return log, truth


def test_intervals_hold_and_are_far_shorter_than_those_from_pairs():
    """Eight worlds: at 95 % fewer than five hits have probability 4e-4."""
    hits, shorter = 0, []
    for seed in range(8):
        log, truth = grouped(seed)
        found = cr.AIPS().estimate(log, "new")
        low, high = found.interval(0.95)
        hits += low <= truth <= high
        by_pairs = cr.AIPS(behavior=BehaviorTree(mse="pairs")).estimate(log, "new").interval(0.95)
        shorter.append((high - low) / (by_pairs[1] - by_pairs[0]))
    assert hits >= 5
    assert np.median(shorter) < 0.7


def test_the_interval_has_the_error_of_the_model_and_what_is_left_of_the_distance_to_it():
    log, _ = grouped(1)
    tree = BehaviorTree().fit(log, "new")
    found, doubt = cr.AIPS(behavior=tree).estimate(log, "new"), tree.fitted.doubt
    assert tree.mse == tree.fitted.mse == "models"
    chosen = (tree.weights(log, ratios_of(log, "new")) * log.reward).sum(axis=1)
    error = max(chosen.std(ddof=1) / np.sqrt(log.n), doubt.stderr)
    assert found.stderr == pytest.approx(error, rel=1e-9)
    half = bias_aware_half(error, doubt.gap + doubt.left_out, 0.9, log.n - 1)
    assert found.interval(0.9) == pytest.approx((found.value - half, found.value + half), rel=1e-9)


def test_without_the_distribution_of_the_target_pairs_stand_in():
    log, _ = grouped(2)
    blind = log.changed(dists={"propensity": log.distribution("propensity")})
    tree = BehaviorTree().fit(blind, "new")
    assert tree.mse == tree.fitted.mse == "pairs"
    by_pairs = cr.AIPS(behavior=BehaviorTree(mse="pairs")).estimate(blind, "new")
    assert cr.AIPS().estimate(blind, "new").value == by_pairs.value


def test_the_logger_s_distribution_does_not_change_what_the_tree_is_held_against():
    """No column of the model depends on the logger: knowing it makes no estimate of the value worse."""
    log, _ = grouped(3)
    blind = log.changed(dists={"new": log.distribution("new")})
    known, unknown = (BehaviorTree().fit(each, "new").fitted.doubt.stderr for each in (log, blind))
    assert known == pytest.approx(unknown, rel=1e-12)
