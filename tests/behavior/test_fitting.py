"""Trees fitted to sources: samples, streams, and the interval that knows that models were chosen."""

import numpy as np
import pytest

import counterrank as cr
from counterrank.behavior import BehaviorTree, Candidate, Limits, fit_source
from counterrank.data.source import MemorySource
from counterrank.errors import BehaviorError, ConfigError
from counterrank.research.simulate import published, true_value
from counterrank.weights.ratios import ratios_of


def six(env):
    return [Candidate(name, mask) for name, mask in zip(env.behavior_names, env.masks, strict=True)]


@pytest.fixture(scope="module")
def log():
    return published(4).draw(6000, np.random.default_rng(0)).to_log()


def test_streamed_growth_equals_growth_in_memory(log):
    tree = BehaviorTree(candidates=six(published(4)), limits=Limits(min_gain=0.0))
    source = MemorySource(log, threads=2)
    memory = fit_source(source, "new", seed=0, tree=tree).fitted
    stream = fit_source(source, "new", seed=0, tree=tree, grow_on="stream").fitted
    assert len(memory.nodes) > 8
    np.testing.assert_array_equal(memory.nodes, stream.nodes)
    np.testing.assert_array_equal(memory.model, stream.model)
    np.testing.assert_allclose(memory.facts[:, [0, 2, 3]], stream.facts[:, [0, 2, 3]], rtol=1e-9)


def test_fitting_a_log_and_its_source_is_the_same(log):
    tree = BehaviorTree(candidates=six(published(4)))
    assert str(tree.fit(log, "new")) == str(fit_source(MemorySource(log), "new", seed=0, tree=tree))


def test_streams_refuse_what_they_cannot_do(log):
    source = MemorySource(log)
    for mse in ("pasif", "su"):
        with pytest.raises(BehaviorError, match="needs rows in memory"):
            fit_source(source, "new", seed=0, tree=BehaviorTree(mse=mse), grow_on="stream")
    with pytest.raises(ConfigError, match="per_position"):
        fit_source(source, "new", seed=0, tree=BehaviorTree(per_position=False), grow_on="stream")
    with pytest.raises(ConfigError, match="grow_on is 'disk'"):
        fit_source(source, "new", seed=0, grow_on="disk")


def test_grown_on_a_sample_applied_to_all(log):
    model = fit_source(MemorySource(log), "new", seed=0, rows=2000)
    assert model.fitted.n_grown == 2000
    assert model.weights(log, ratios_of(log, "new")).shape == (log.n, log.K)


def test_one_unit_confirms_nothing(log):
    part = log.take(slice(0, 500))
    alone = cr.RankingLog(
        action=part.action, reward=part.reward, propensity=part.propensity, context=part.context,
        targets=dict(part.targets), unit=np.zeros(500, dtype=int),
    )  # fmt: skip
    assert np.isfinite(cr.AIPS().estimate(alone, "new").value)


def test_a_tree_that_is_not_fitted_is_fitted_by_the_estimate(log):
    tree = BehaviorTree(candidates="paper", mse="su")
    one = cr.AIPS(behavior=tree).estimate(log, "new")
    assert one.value == cr.AIPS(behavior=tree.fit(log, "new")).estimate(log, "new").value


def test_aips_fits_by_default_and_is_the_same_every_time(log):
    first, second = cr.AIPS().estimate(log, "new"), cr.AIPS().estimate(log, "new")
    assert first.value == second.value
    assert abs(first.value - true_value(published(4)).value) < 8 * first.stderr + 1.0
