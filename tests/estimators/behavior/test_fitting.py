"""Trees fitted to sources: samples, and the interval that knows that models were chosen."""

from dataclasses import replace

import numpy as np
import pytest

import counterrank as cr
from counterrank.data.source import MemorySource
from counterrank.estimators.behavior import BehaviorTree, Candidate, fit_source
from counterrank.estimators.behavior.forest import Reference, beyond_chance_of
from counterrank.estimators.behavior.pairs import excess, pair_rows
from counterrank.estimators.weights.ratios import ratios_of
from counterrank.research.simulate import published, true_value
from counterrank.statistics import bias_aware_half


def six(env):
    return [Candidate(name, mask) for name, mask in zip(env.behavior_names, env.masks, strict=True)]


@pytest.fixture(scope="module")
def log():
    return published(4).draw(6000, np.random.default_rng(0)).to_log()


def test_fitting_a_log_and_its_source_is_the_same(log):
    tree = BehaviorTree(candidates=six(published(4)))
    assert str(tree.fit(log, "new")) == str(fit_source(MemorySource(log), "new", seed=0, tree=tree))


def test_grown_on_a_sample_applied_to_all(log):
    model = fit_source(MemorySource(log), "new", seed=0, rows=2000)
    assert model.fitted.rows == 2000
    assert model.weights(log, ratios_of(log, "new")).shape == (log.n, log.K)


def test_a_tree_that_is_not_fitted_is_fitted_by_the_estimate(log):
    tree = BehaviorTree(candidates="paper", mse="pasif")
    one = cr.AIPS(behavior=tree).estimate(log, "new")
    assert one.value == cr.AIPS(behavior=tree.fit(log, "new")).estimate(log, "new").value


def test_aips_fits_by_default_and_is_the_same_every_time(log):
    first, second = cr.AIPS().estimate(log, "new"), cr.AIPS().estimate(log, "new")
    assert first.value == second.value
    assert abs(first.value - true_value(published(4)).value) < 8 * first.stderr + 1.0


def test_the_interval_allows_for_what_is_left_of_the_distance_to_all_pairs(log):
    """V - V_c = (V - V_2) + (V_2 - V_c): the error of the first, the second as a bias."""
    tree = BehaviorTree(candidates=six(published(4)), mse="pairs").fit(log, "new")
    found = cr.AIPSPairs(behavior=tree).estimate(log, "new")
    ratios = ratios_of(log, "new")
    own = (tree.weights(log, ratios) * log.reward).sum(axis=1)
    blend = tree.fitted.blend
    rows = pair_rows(ratios, excess(log, "new", ratios))
    pairs = rows.summed(1.0, blend.triples).sum(axis=1)
    totals = own + blend.share * (pairs - own)
    assert 0 < blend.share < 1
    assert found.value == pytest.approx(totals.mean(), rel=1e-12)
    stretched = rows.summed(*rows.tail_shares(blend.triples)).sum(axis=1)
    error = max(totals.std(ddof=1), stretched.std()) / np.sqrt(log.n)
    more = rows.triples.sum(axis=1)
    # The error of V_2 holds the noise of V_2 - V_c already.
    distance = (totals - pairs).mean() ** 2 - (totals - stretched).var() / log.n
    gap = np.sqrt(max(distance, 0.0))
    gap += np.sqrt(max(more.mean() ** 2 - 4 * more.var() / log.n, 0.0))
    assert found.allowance == pytest.approx(gap, rel=1e-9)
    assert found.stderr == pytest.approx(error, rel=1e-9)
    half = bias_aware_half(error, gap, 0.9, log.n - 1)
    assert found.interval(0.9) == pytest.approx((found.value - half, found.value + half), rel=1e-9)
    base = log.reward.sum(axis=1).mean()
    assert found.lift.value == pytest.approx(found.value - base)
    # What is allowed for is allowed for in the lift too, and in shares of what the logger earned.
    assert found.lift.high - found.lift.value > gap
    assert found.lift.relative_high - found.lift.relative > gap / base


def test_what_chance_explains_is_no_bias():
    """Differences of mean d with n variances: d^2 less one of the gap, and less four of the triples."""
    n = 400
    sides = np.tile([1.0, -1.0], n // 2)
    own, pairs = 2.0 + 0.0 * sides, 1.7 + 4.0 * sides
    doubt = Reference(pairs, pairs, beyond_chance_of(0.5 + 2.0 * sides)).doubt_of(own)
    assert doubt.gap == pytest.approx(np.sqrt(0.3**2 - 16.0 / n))
    assert doubt.left_out == pytest.approx(np.sqrt(0.5**2 - 4 * 4.0 / n))
    assert doubt.stderr == pytest.approx(4.0 / np.sqrt(n))
    assert Reference(1.9 + 4.0 * sides, pairs, 0.0).doubt_of(own).gap == 0.0
    assert beyond_chance_of(0.1 + 2.0 * sides) == 0.0
    # A spread that is no number is that of the rows.
    assert Reference(pairs, np.full(n, np.nan), 0.0).doubt_of(own).gap == doubt.gap
    # A variance that rows do not show is noise of the gap, and part of the error.
    fitted = Reference(pairs, pairs, 0.0, 0.01).doubt_of(own)
    assert fitted.gap == pytest.approx(np.sqrt(0.3**2 - 16.0 / n - 0.01))
    assert fitted.stderr == pytest.approx(np.sqrt(16.0 / n + 0.01))


def test_intervals_hold_though_the_models_were_chosen():
    """24 logs of the published environment: at 95 % fewer than 19 hits have probability 6e-4."""
    env = published()
    value, hits, plain = true_value(env).value, 0, 0
    for seed in range(24):
        log = env.draw(2000, np.random.default_rng([seed, 11])).to_log()
        found = cr.AIPS(behavior=BehaviorTree(candidates=six(env))).estimate(log, "new")
        low, high = found.interval(0.95)
        hits += low <= value <= high
        tree = BehaviorTree(candidates=six(env)).fit(log, "new")
        bare = cr.AIPS(behavior=replace(tree, forest=replace(tree.fitted, doubt=None)))
        low, high = bare.estimate(log, "new").interval(0.95)
        plain += low <= value <= high
    assert hits >= 19
    assert plain < hits
