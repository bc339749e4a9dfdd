"""Estimated propensities: close to the truth, out of fold, calibrated, flagged; deterministic
loggers refused.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import log_softmax
from tests.evaluation.logs import gentle_log

import counterrank as cr
from counterrank.common.errors import ConfigError, PropensityError
from counterrank.data.log import LOGGING
from counterrank.data.source import MemorySource
from counterrank.estimators import Estimate, Workspace
from counterrank.policies import Enumerated
from counterrank.propensity_models import estimate_propensities, estimated_source
from counterrank.propensity_models.model import (
    ContextFeatures,
    calibrate,
    fit_logistic,
    fit_model,
)


def test_the_logistic_fit_is_at_a_minimum():
    """The gradient of the penalised likelihood vanishes: sum w (p - 1[a]) x + penalty theta = 0."""
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(400), rng.normal(size=(400, 2))])
    action, weight = rng.integers(3, size=400), rng.random(400)
    theta = fit_logistic(x, action, 3, weight=weight, available=np.ones((len(x), 3), bool))
    residual = weight[:, None] * (np.exp(log_softmax(x @ theta.T, axis=1)) - np.eye(3)[action])
    penalty = np.ones((3, 3))
    penalty[:, 0] = 1e-3
    assert np.abs(residual.T @ x + penalty * theta).max() < 0.05  # of some 200 weighted rows


def test_logistic_propensities_are_close_to_the_truth(contextual):
    found = estimate_propensities(contextual, "logistic")
    truth = contextual.propensity.values
    assert np.abs(np.log(found.propensity.values / truth)).mean() < 0.08
    table = found.dists[LOGGING]
    assert table.shape == (contextual.n, 3, 3)
    np.testing.assert_allclose(table.sum(axis=2), 1, atol=1e-12)
    assert found.notes[-1].startswith("estimated-propensity")


def test_a_row_never_helps_to_predict_itself(contextual):
    """Changing the items of fold 0 leaves the fold's own probabilities of a fixed item unchanged."""
    model = fit_model(contextual)
    zero = contextual.bucket % 2 == 0
    changed = contextual.action.copy()
    changed[zero] = (changed[zero] + 1) % 3
    other = cr.RankingLog(
        action=changed,
        reward=contextual.reward,
        propensity=np.ones(changed.shape),
        context=contextual.context,
    )
    again = fit_model(other)
    for k in range(contextual.K):
        ours, theirs = (
            log_softmax(m.features(contextual) @ m.models[0][k].T, axis=1) for m in (model, again)
        )
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_overconfident_probabilities_are_calibrated(contextual):
    """Scores tripled by hand: the power that makes held-out items most likely is near a third."""
    model = fit_model(contextual)

    worse = replace(model, models=tuple(tuple(3 * one for one in row) for row in model.models))
    powers = calibrate(contextual, replace(worse, power=np.ones(3)))
    np.testing.assert_allclose(powers, 1 / 3, rtol=0.25)


def test_prefix_probabilities_leave_out_what_was_shown():
    rng = np.random.default_rng(1)
    n = 1500
    action = np.argsort(-(rng.gumbel(size=(n, 4)) + np.array([1.0, 0.5, 0.0, -0.5])), axis=1)[:, :3]
    log = cr.RankingLog(action=action, reward=np.ones((n, 3)), propensity=np.ones((n, 3)))
    found = estimate_propensities(log, kind="prefix")
    assert found.propensity.kind == "prefix"
    weights = np.exp([1.0, 0.5, 0.0, -0.5])
    left = weights.sum() - np.cumsum(
        np.column_stack([np.zeros(n), weights[action[:, :-1]]]), axis=1
    )
    truth = weights[action] / left
    assert np.abs(np.log(found.propensity.values / truth)).mean() < 0.1
    joint = estimate_propensities(log, kind="joint")
    np.testing.assert_allclose(joint.propensity.values, found.propensity.values.prod(axis=1))


@pytest.fixture(scope="module")
def search_log():
    """Two queries, three lists each, clicks that depend on the list."""
    rng = np.random.default_rng(4)
    n = 3000
    lists = np.array([[[0, 1], [1, 0], [2, 0]], [[3, 4], [4, 3], [3, 2]]])
    probs = np.array([[0.6, 0.3, 0.1], [0.5, 0.25, 0.25]])
    group = rng.integers(2, size=n)
    chosen = np.array([rng.choice(3, p=probs[g]) for g in group])
    action = lists[group, chosen]
    reward = (rng.random((n, 2)) < 0.2 + 0.1 * action).astype(float)
    log = cr.RankingLog(
        action=action,
        reward=reward,
        propensity=np.ones((n, 2)),
        columns={"query": np.array(["a", "b"])[group]},
    )
    target = Enumerated(lists, np.array([[0.2, 0.4, 0.4], [0.3, 0.3, 0.4]]), group, n_actions=5)
    return log, target, group, chosen


def test_lists_by_query_are_a_policy(search_log):
    log, _, group, chosen = search_log
    found = estimate_propensities(log, "by-list:query")
    share = [[np.mean(chosen[group == g] == e) for e in range(3)] for g in range(2)]
    joint = np.exp(found.propensity.prefix_log_prob(log.action)[:, -1])
    np.testing.assert_allclose(joint, np.array(share)[group, chosen], rtol=1e-12)
    assert "6 lists in 2 contexts" in found.notes[-1]


def test_a_value_by_lists_is_the_mean_reward_of_each_list(search_log):
    """sum over lists of pi(list | query) times its mean reward, to 1e-12."""
    log, target, group, chosen = search_log
    result = cr.evaluate(
        log,
        {"new": target},
        estimators=["ips", "rips", "iips"],
        estimate_propensity="by-list:query",
        audit=False,
    )
    total = log.reward.sum(axis=1)
    expected = sum(
        (group == g).mean() * target.probs[g, e] * total[(group == g) & (chosen == e)].mean()
        for g in range(2)
        for e in range(3)
    )
    assert result.estimate("new", "ips").value == pytest.approx(expected, rel=1e-12)
    assert "estimated-propensity" in result.estimate("new", "ips").flags[0]
    assert result.verdict["level"] != "reliable"


def test_the_bootstrap_never_undercuts_the_plain_error(contextual):
    plain = cr.evaluate(
        estimate_propensities(contextual), ["new"], estimators=["iips"], audit=False
    ).estimate()
    result = cr.evaluate(
        contextual, ["new"], estimators=["iips"], estimate_propensity=True, audit=False
    )
    found = result.estimate()
    assert found.value == pytest.approx(plain.value)
    assert found.stderr == max(plain.stderr, found.details["bootstrap_stderr"])
    assert found.low <= plain.low and found.high >= plain.high
    assert found.lift.stderr >= plain.lift.stderr
    assert result.provenance["options"]["estimate_propensity"] == "auto"


def test_estimated_propensities_give_about_the_same_value(contextual):
    known = cr.evaluate(contextual, ["new"], estimators=["iips"], audit=False).estimate()
    found = cr.evaluate(
        contextual, ["new"], estimators=["iips"], estimate_propensity="logistic", audit=False
    ).estimate()
    assert abs(found.value - known.value) < 2 * known.stderr


def test_wider_errors_stretch_every_interval(contextual):
    """Replicas in which the target's value moves and the logger's does not."""
    fit = cr.IIPS().fit(Workspace(MemorySource(contextual), "new"))
    solution = fit.solution(fit.sums(contextual))
    one = Estimate.from_solution(solution, "new", "iips")
    step = 3 * one.stderr
    others = [
        replace(solution, total=replace(solution.total, value=one.value + d)) for d in (-step, step)
    ]
    wide = Estimate.from_solution(solution.with_replicas(others), "new", "iips")
    assert wide.details["bootstrap_stderr"] == pytest.approx(step * np.sqrt(2))
    factor = step * np.sqrt(2) / one.stderr
    assert wide.stderr == pytest.approx(factor * one.stderr)
    assert one.value - wide.low == pytest.approx(factor * (one.value - one.low))
    assert wide.high - one.value == pytest.approx(factor * (one.high - one.value))
    assert wide.lift.stderr == pytest.approx(step * np.sqrt(2))
    assert wide.lift.relative_high > one.lift.relative_high


def test_a_stream_is_estimated_batch_by_batch(contextual):
    class Stream:
        """A source that is no log in memory."""

        def __init__(self, inner):
            self.inner, self.n = inner, inner.n

        @property
        def first(self):
            return self.inner.first

        def reduce(self, partial, *, label=""):
            return self.inner.reduce(partial, label=label)

        def sample(self, rows, rng):
            return self.inner.sample(rows, rng)

    stream = Stream(MemorySource(contextual, threads=1))
    source, replicas = estimated_source(stream, "logistic", targets=["new"], replicates=1)
    whole = estimate_propensities(contextual, "logistic")
    assert source.reduce(lambda b: b.propensity.values.sum()) == pytest.approx(
        whole.propensity.values.sum()
    )
    assert replicas[0].first.n != source.first.n  # rows were drawn again
    with pytest.raises(PropensityError, match="in memory"):
        estimated_source(stream, "by-list:x", targets=["new"])


def test_a_logger_that_follows_the_context_is_refused():
    rng = np.random.default_rng(5)
    x = rng.choice([-1.0, 1.0], size=(800, 1))
    action = (x > 0).astype(int)
    log = cr.RankingLog(
        action=action, reward=np.ones((800, 1)), propensity=np.ones((800, 1)), context=x
    )
    with pytest.raises(PropensityError, match="deterministic.*A/B test"):
        estimate_propensities(log, "logistic")


def test_one_list_per_query_is_refused():
    log = cr.RankingLog(
        action=[[0, 1], [1, 0]] * 50, reward=np.ones((100, 2)), propensity=np.ones((100, 2)),
        columns={"query": np.array(["a", "b"] * 50)},
    )  # fmt: skip
    with pytest.raises(
        PropensityError, match="deterministic: rows of equal query always show one list"
    ):
        estimate_propensities(log, "by-list:query")
    assert estimate_propensities(log, "by-list").notes  # without the query there is variation


def test_too_many_items_and_unknown_methods_are_refused():
    log = cr.RankingLog(action=[[900], [1]], reward=[[1], [1]], propensity=[[1], [1]])
    with pytest.raises(PropensityError, match="901 items.*by-list"):
        estimate_propensities(log)
    with pytest.raises(ConfigError, match="cannot be estimated by 'magic'"):
        estimate_propensities(log, "magic")
    with pytest.raises(ConfigError, match="takes no columns"):
        estimate_propensities(log, "logistic:x")


def test_features_know_categories_and_gaps():
    context = np.array([[0.0, 2.0], [1.0, np.nan], [1.0, 4.0]])
    log = cr.RankingLog(
        action=[[0], [0], [0]], reward=[[1], [1], [1]], propensity=[[1], [1], [1]], context=context,
        context_names=("device", "age"), categories={"device": ("mobile", "desktop")},
    )  # fmt: skip
    x = ContextFeatures.learn(log).matrix(log)
    np.testing.assert_allclose(x, [[1, -1, 1, 0, 0], [1, 0, 0, 1, 1], [1, 1, 0, 1, 0]])


def test_targets_of_two_kinds_cannot_share_one_estimate():
    log = gentle_log(50)
    mixed = log.with_targets({"joint": cr.Propensity("joint", np.full(50, 0.1))})
    with pytest.raises(PropensityError, match="different kinds"):
        estimate_propensities(mixed)
