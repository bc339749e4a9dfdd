"""The path without a sampler: unbiased weights, a proven bound, no certificate on noise."""

from dataclasses import replace

import numpy as np
import pytest
from tests.learning.conftest import EXAMINED, RELEVANCE, clicks_log, learn

import counterrank as cr
from counterrank.errors import LogError
from counterrank.learning.paths import STRENGTHS, Rewards, tilted

PATH = {"path": "plackett-luce"}


def numbers_only(log: cr.RankingLog, kind: str = "prefix") -> cr.RankingLog:
    """The same rankings with their probabilities, and no scores."""
    total = np.exp(log.propensity.prefix_log_prob(log.action))
    before = np.concatenate([np.ones((log.n, 1)), total[:, :-1]], axis=1)
    values = {"prefix": total / before, "joint": total[:, -1]}
    values["position"] = np.exp(log.propensity.position_log_prob(log.action))
    propensity = cr.Propensity(kind, values[kind])
    return cr.RankingLog(
        action=log.action, reward=log.reward, propensity=propensity, context=log.context
    )


def flat_log(seed: int, n: int = 4000) -> cr.RankingLog:
    """Clicks on pages that a nearly uniform ranker shows."""
    rng = np.random.default_rng(seed)
    policy = cr.PlackettLuce(0.3 * rng.normal(size=(n, 6)))
    action = policy.sample(3, rng)[:, 0]
    reward = (rng.random(action.shape) < RELEVANCE[action] * EXAMINED).astype(float)
    context = rng.normal(size=(n, 1))
    return cr.RankingLog(action=action, reward=reward, propensity=policy, context=context)


@pytest.fixture(scope="module")
def added():
    return learn(flat_log(1), **PATH)


def truth(policy, log):
    drawn = policy.sample(log.K, np.random.default_rng(0), size=40)
    return float((RELEVANCE[drawn] * EXAMINED).sum(axis=2).mean())


def test_the_exported_policy_adds_to_todays_scores_and_the_bound_holds(added):
    found, log = added.certificate, flat_log(2)
    assert found.certified and added.policy.kind == "added" and found.strength in STRENGTHS
    gain = truth(added.policy.bind(log), log) - truth(log.propensity, log)
    assert 0 < found.low < gain and abs(found.value - gain) < 5 * found.stderr
    assert str(found).startswith("Today's scores + ")
    assert [step.strength for step in added.path] == list(STRENGTHS)
    assert added.path[0].value == pytest.approx(0.0, abs=1e-12) and added.path[0].step == 0.0
    assert "how often the learned score is added" in added.to_html()


def test_scores_are_todays_plus_strength_times_learned(added):
    log = flat_log(3, 50)
    table = log.propensity.scores + added.certificate.strength * added.policy.scores(log.context)
    np.testing.assert_allclose(added.policy.bind(log).scores, table, rtol=0, atol=1e-12)


def test_lifts_are_unbiased_and_never_below_what_the_bound_is_told():
    """One score table for all rows: mean lifts of 40,000 rows against the exact gain, |z| < 5."""
    n = 40_000
    scores = np.array([[0.5, 0.0, 0.2, -0.3, 0.1, 0.0]])
    rng = np.random.default_rng(5)
    action = cr.PlackettLuce(scores).sample(3, rng, size=n)[0]
    reward = (rng.random(action.shape) < RELEVANCE[action] * EXAMINED).astype(float)
    logger = cr.PlackettLuce(np.repeat(scores, n, axis=0))
    log = cr.RankingLog(action=action, reward=reward, propensity=logger)
    policy = learn(log.take(slice(0, 400)), **PATH, despite_audit=True).policy
    side = tilted(log, Rewards(reward.sum(axis=1), 3.0, 0.0), np.zeros(n), policy, -1)
    each = np.tile(np.arange(6)[:, None], (1, 3))
    for strength in (0.5, 2.0):
        first = log.take(slice(0, 1))
        new = np.exp(policy.plackett_luce(first, strength).position_log_prob(each))
        old = np.exp(cr.PlackettLuce(scores).position_log_prob(each))
        gain = float(((new - old) * RELEVANCE[:, None] * EXAMINED).sum())
        lifts = side.lifts(strength, np.inf)
        assert abs(lifts.mean() - gain) < 5 * lifts.std() / np.sqrt(n) and abs(gain) > 0.01
        assert lifts.min() >= side.lowest(strength, np.inf)


@pytest.mark.parametrize("kind", ["prefix", "joint"])
def test_probabilities_of_the_shown_rankings_are_enough(kind):
    log = flat_log(4)
    bare = numbers_only(log, kind)
    found = learn(bare, **PATH)
    assert found.policy.kind == "plackett-luce" and found.certificate.certified
    gain = truth(found.policy.bind(bare), log) - truth(log.propensity, log)
    assert 0 < found.certificate.low < gain


def test_what_gives_no_certificate_is_refused_with_what_to_log():
    log = flat_log(6, 400)
    with pytest.raises(LogError, match="does not say how.*path = plackett-luce"):
        learn(numbers_only(log), despite_audit=True)
    with pytest.raises(LogError, match="no probability of them.*'prefix'.*'joint'"):
        learn(numbers_only(log, "position"), **PATH, despite_audit=True)


def test_noise_is_not_certified():
    """20 logs: more than 4 would happen by chance once in 400 times at the stated rate."""
    shipped = sum(
        learn(clicks_log(seed, 300, noise=True), seed=seed, **PATH).certificate.certified
        for seed in range(20)
    )
    assert shipped <= 2


def test_it_is_saved_and_evaluated_elsewhere(added, tmp_path):
    added.save(tmp_path / "policy.json")
    loaded = cr.load_policy(tmp_path / "policy.json")
    log = flat_log(7)
    np.testing.assert_array_equal(loaded.bind(log).scores, added.policy.bind(log).scores)
    again = cr.evaluate(log.with_targets({"new": loaded.bind(log)}), ["new"], estimators=["ips"])
    assert again.estimate("new", "ips").lift.value > 0
    with pytest.raises(cr.CounterrankError, match="this log has none"):
        loaded.bind(numbers_only(log))
    assert replace(loaded, kind="top").bind(log).sample(3, np.random.default_rng(0)).shape
