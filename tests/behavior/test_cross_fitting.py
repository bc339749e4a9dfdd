"""Trees applied to units that did not grow them; streams; what a single unit means."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import counterrank as cr
from counterrank.behavior import (
    BehaviorTree,
    Candidate,
    GoldenshlugerLepski,
    Limits,
    fit_cross_fitted,
)
from counterrank.data.source import MemorySource
from counterrank.errors import BehaviorError, ConfigError
from counterrank.research.simulate import published, true_value
from counterrank.weights.ratios import ratios_of


@dataclass(frozen=True)
class AgainstDensest:
    """Var(V_c) + max(0, (V_c - V_S)^2 - Var(V_c - V_S)): only the densest model shows the bias."""

    name: str = "densest"
    streams: bool = True

    def objective(self, position):
        against = np.ones((1, position.models), dtype=bool)
        compare = np.array([position.densest], dtype=np.int64)
        return replace(GoldenshlugerLepski().objective(position), compare=compare, against=against)


def six(env):
    return [Candidate(name, mask) for name, mask in zip(env.behavior_names, env.masks, strict=True)]


@pytest.fixture(scope="module")
def log():
    return published(4).draw(6000, np.random.default_rng(0)).to_log()


def test_each_row_is_weighed_by_the_forest_that_has_not_seen_it(log):
    model = fit_cross_fitted(
        MemorySource(log), "new", seed=0, tree=BehaviorTree(candidates=six(published(4)))
    )
    ratios = ratios_of(log, "new")
    weights = model.weights(log, ratios)
    for f, forest in enumerate(model.trees):
        rows = np.flatnonzero(log.bucket % 2 == f)
        part = log.take(rows)
        alone = BehaviorTree(candidates=forest.candidates, forest=forest).weights(
            part, ratios_of(part, "new")
        )
        np.testing.assert_allclose(weights[rows], alone, rtol=1e-13)


def test_a_forest_does_not_depend_on_the_rows_it_is_applied_to(log):
    """Other rewards in fold 0 change the forest of fold 1, never that of fold 0."""
    tree = BehaviorTree(candidates=six(published(4)))
    before = fit_cross_fitted(MemorySource(log), "new", seed=0, tree=tree)
    reward = log.reward.copy()
    reward[log.bucket % 2 == 0] *= -3.0
    other = cr.RankingLog(
        action=log.action, reward=reward, propensity=log.propensity, context=log.context, targets=dict(log.targets),
        dists=dict(log.dists),
    )  # fmt: skip
    after = fit_cross_fitted(MemorySource(other), "new", seed=0, tree=tree)
    np.testing.assert_array_equal(before.trees[0].nodes, after.trees[0].nodes)
    np.testing.assert_array_equal(before.trees[0].model, after.trees[0].model)


def test_cross_fitting_takes_off_the_bias_of_choosing_and_averaging_on_the_same_rows():
    """In the published environment the in-sample choice pulls the estimate down by 20-30 % of V.

    Same rows and same search, so the paired difference is the optimism. Cross-fitted estimates have
    heavy tails (a row with a huge weight meets a dense model), so signs and medians are compared:
    without optimism 15 or more of 16 signs agree with probability 2.6e-4.
    """
    env = published()
    value = true_value(env).value
    tree = BehaviorTree(
        candidates=six(env),
        mse=AgainstDensest(),
        limits=Limits(prune=0.0, min_gain=0.0, min_leaf=100),
    )
    inside, across = [], []
    for seed in range(16):
        log = env.draw(4000, np.random.default_rng([seed, 6])).to_log()
        inside.append(cr.AIPS(behavior=tree.fit(log, "new")).estimate(log, "new").value / value - 1)
        model = fit_cross_fitted(MemorySource(log), "new", seed=0, tree=tree)
        across.append(cr.AIPS(behavior=model).estimate(log, "new").value / value - 1)
    gain = np.array(across) - np.array(inside)
    assert (gain > 0).sum() >= 15
    assert 0.15 < np.median(gain) < 0.45


def test_streamed_growth_equals_growth_in_memory(log):
    tree = BehaviorTree(candidates=six(published(4)), limits=Limits(min_gain=0.0))
    source = MemorySource(log, threads=2)
    memory = fit_cross_fitted(source, "new", seed=0, tree=tree)
    stream = fit_cross_fitted(source, "new", seed=0, tree=tree, grow_on="stream")
    assert sum(len(f.nodes) for f in memory.trees) > 8
    for one, other in zip(memory.trees, stream.trees, strict=True):
        np.testing.assert_array_equal(one.nodes, other.nodes)
        np.testing.assert_array_equal(one.model, other.model)
        np.testing.assert_allclose(one.facts[:, [0, 2, 3]], other.facts[:, [0, 2, 3]], rtol=1e-9)


def test_streams_refuse_what_they_cannot_do(log):
    source = MemorySource(log)
    with pytest.raises(BehaviorError, match="needs rows in memory"):
        fit_cross_fitted(source, "new", seed=0, tree=BehaviorTree(mse="pasif"), grow_on="stream")
    with pytest.raises(ConfigError, match="per_position"):
        fit_cross_fitted(
            source, "new", seed=0, tree=BehaviorTree(per_position=False), grow_on="stream"
        )
    with pytest.raises(ConfigError, match="grow_on is 'disk'"):
        fit_cross_fitted(source, "new", seed=0, grow_on="disk")


def test_grown_on_a_sample_applied_to_all(log):
    model = fit_cross_fitted(MemorySource(log), "new", seed=0, rows=2000)
    assert model.trees[0].n_grown < 2000
    assert model.weights(log, ratios_of(log, "new")).shape == (log.n, log.K)


def test_one_unit_cannot_be_cross_fitted(log):
    part = log.take(slice(0, 500))
    alone = cr.RankingLog(
        action=part.action, reward=part.reward, propensity=part.propensity, context=part.context,
        targets=dict(part.targets), unit=np.zeros(500, dtype=int),
    )  # fmt: skip
    model = fit_cross_fitted(MemorySource(alone), "new", seed=0)
    assert len(model.trees) == 1
    assert any("not cross-fitted" in note for note in model.notes)
    assert np.isfinite(cr.AIPS().estimate(alone, "new").value)


def test_description_is_plain_and_complete(log):
    import json

    model = fit_cross_fitted(MemorySource(log), "new", seed=0)
    told = json.loads(json.dumps(model.describe(), allow_nan=False))
    assert told["cross_fitted"] and 0 <= told["stability"] <= 1
    assert set(told["importance"]) == set(log.context_names)
    assert len(told["folds"]) == 2 and len(told["folds"][0]["positions"]) == 4


def test_aips_fits_by_default_and_is_the_same_every_time(log):
    first, second = cr.AIPS().estimate(log, "new"), cr.AIPS().estimate(log, "new")
    assert first.value == second.value
    assert abs(first.value - true_value(published(4)).value) < 8 * first.stderr + 1.0
