"""Examination times relevance: identification, what clicks that move along tell, windows between
IIPS and PBM.
"""

import itertools

import numpy as np
import pytest

import counterrank as cr
from counterrank.common.errors import ConfigError, EstimatorError, PropensityError
from counterrank.data.source import MemorySource
from counterrank.estimators import (
    ClickHistory,
    PositionBased,
    Workspace,
    read_position_curve,
)
from counterrank.estimators.examination import Examined, curve_error, drawn, position_based
from counterrank.policies import (
    Candidates,
    Deterministic,
    PlackettLuce,
    parse_policy,
    position_matrix,
)

THETA = np.arange(1, 6) ** -0.8


def clicks(relevance, behavior, rng):
    n, K = relevance.shape
    if behavior == "position":
        return (rng.random((n, K)) < THETA[:K] * relevance).astype(float)
    out, looking = np.zeros((n, K)), np.ones(n, bool)
    for k in range(K):
        out[:, k] = looking & (rng.random(n) < relevance[:, k])
        looking &= out[:, k] == 0
    return out


def world(seed, behavior, n=6000, A=30, C=12, K=5):
    """A deterministic logger and target, each the top of its own noisy scores; the true value of
    the target.
    """
    rng = np.random.default_rng(seed)
    x, bias, slope = rng.normal(size=(n, 2)), rng.normal(-1, 0.7, A), rng.normal(0, 0.5, (A, 2))
    sets = Candidates(
        np.arange(n + 1) * C, np.argsort(rng.random((n, A)), axis=1)[:, :C].reshape(-1), n_items=A
    )
    items = sets.items.reshape(n, C)

    def score(noise):
        own = bias + noise * rng.normal(size=A), slope + noise * rng.normal(size=(A, 2))
        return own[0][items] + np.einsum("nd,ncd->nc", x, own[1][items])

    policies = [
        parse_policy("top").bind(candidates=sets, scores=score(0.4).reshape(-1)) for _ in range(2)
    ]
    truth = 1 / (1 + np.exp(-score(0.0)))
    shown, wanted = (policy.sample(K, rng)[:, 0] for policy in policies)
    reward, fresh = (
        clicks(np.take_along_axis(truth, sets.locate(a), axis=1), behavior, rng)
        for a in (shown, np.repeat(wanted, 1, axis=0))
    )
    log = cr.RankingLog(action=shown, reward=reward, propensity=policies[0], targets={"new": policies[1]},
                        candidates=sets, context=x)  # fmt: skip
    return log, fresh.sum(axis=1).mean()


def test_a_position_based_world_is_met_and_a_cascade_is_allowed_for():
    """Seeded: bias at most 5 % of the value where the model is true, interval covers under the
    cascade.
    """
    log, truth = world(1, "position")
    for estimator in (PositionBased(), ClickHistory()):
        found = estimator.estimate(log, "new")
        assert abs(found.value / truth - 1) < 0.05
        assert found.low <= truth <= found.high
        assert any("directional at best" in flag for flag in found.flags)
    curve = np.array(found.details["position_curve"])
    np.testing.assert_allclose(curve, THETA, atol=0.08)
    log, truth = world(2, "cascade")
    found = PositionBased().estimate(log, "new")
    assert found.low <= truth <= found.high and found.allowance > 0


def test_the_target_shows_rankings_as_long_as_the_logged_ones():
    """A target equal to the logger has the logger's value; seeded, four standard errors.

    A third of the rankings end at the second of four places, and nothing is earned below.
    """
    rng = np.random.default_rng(5)
    n, logger = 3000, PlackettLuce(rng.normal(size=(1, 6)))
    action = logger.sample(4, rng, size=n)[0]
    action[::3, 2:] = -1
    reward = (rng.random((n, 4)) < THETA[:4] * 0.5) * (action >= 0) * 1.0
    log = cr.RankingLog(action=action, reward=reward, propensity=logger, targets={"new": logger})
    for estimator in (PositionBased(), ClickHistory()):
        found = estimator.estimate(log, "new")
        assert abs(found.value - reward.sum(axis=1).mean()) < 4 * found.stderr
        workspace = Workspace(MemorySource(log, threads=1), "new")
        assert ((drawn(workspace, log) >= 0).sum(axis=2) == log.lengths[:, None]).all()


def test_a_given_curve_is_used_and_read_from_files(tmp_path):
    log, _ = world(3, "position", n=1500)
    found = PositionBased(position_curve=THETA).estimate(log, "new")
    np.testing.assert_allclose(found.details["position_curve"], THETA, rtol=1e-12)
    assert found.details["curve"] == "given"
    for name, text in (
        ("a.json", "[1, 0.5, 0.25]"),
        ("b.csv", "2,1,0.5\n"),
        ("c.txt", "4\n2\n1\n"),
    ):
        (tmp_path / name).write_text(text)
        assert read_position_curve(tmp_path / name).tolist() == [1.0, 0.5, 0.25]
    (tmp_path / "d.txt").write_text("1, x")
    for path, message in (
        (tmp_path / "d.txt", "is no position curve"),
        (tmp_path / "none", "cannot be read"),
    ):
        with pytest.raises(ConfigError, match=message):
            read_position_curve(path)
    for curve in ([1, 0.5, 0], [], [[1.0]], [1, np.nan]):
        with pytest.raises(ConfigError, match="a list of positive numbers"):
            PositionBased(position_curve=curve).estimate(log, "new")
    with pytest.raises(ConfigError, match="has 2 numbers, the log 5 positions"):
        PositionBased(position_curve=[1, 0.5]).estimate(log, "new")


class Anything:
    """A model of attraction that is wrong in any way."""

    def strength(self, rankings, fold):
        return np.sin(rankings.item * 1.7 + fold[:, None]) ** 2


def test_a_reordered_list_brings_its_clicks_along_whatever_the_model():
    rng = np.random.default_rng(4)
    action = np.array([rng.permutation(7)[:4] for _ in range(50)])
    order = np.array([rng.permutation(4) for _ in range(50)])
    target = np.take_along_axis(action, order, axis=1)
    reward = rng.random((50, 4))
    log = cr.RankingLog(
        action=action,
        reward=reward,
        propensity=np.ones((50, 4)),
        targets={"new": Deterministic(target)},
    )
    theta = np.array([1.0, 0.6, 0.4, 0.2])
    fitted = Examined((Anything(),), np.tile(theta, (1, 6, 1)), np.zeros(4), False)
    found = position_based(fitted, log, target[:, None], log.bucket % 5)[0]
    np.testing.assert_allclose(
        found, theta * np.take_along_axis(reward / theta, order, axis=1), rtol=1e-12
    )


def test_curve_error_is_that_of_the_whole_information_matrix():
    """Poisson counts with a level for each item and one for each position: profile out the items by
    hand.
    """
    rng = np.random.default_rng(5)
    action = np.array([rng.permutation(6)[:3] for _ in range(80)])
    design = np.zeros((240, 9))
    rows = np.arange(240)
    design[rows, action.reshape(-1)] = 1
    design[rows, 6 + np.tile(np.arange(3), 80)] = 1
    covariance = np.linalg.pinv(0.2 * design.T @ design)
    centre = np.eye(3) - 1 / 3
    wanted = np.sqrt(np.diag(centre @ covariance[6:, 6:] @ centre))
    np.testing.assert_allclose(curve_error(action, action, 0.2), wanted, rtol=1e-9)


def test_positions_that_share_no_item_are_not_identified():
    action = np.array([[0, 1, 2, 3], [1, 0, 3, 2]] * 100)
    assert np.isinf(curve_error(action, action, 0.5)).all()
    log = cr.RankingLog(
        action=action,
        reward=(np.arange(800).reshape(200, 4) % 3 == 0).astype(float),
        # fmt: skip
        propensity=Deterministic(action),
        targets={"new": Deterministic(action[:, ::-1])},
    )
    with pytest.raises(
        EstimatorError, match=r"examination cannot be told from relevance .* --position-curve FILE"
    ):
        PositionBased().estimate(log, "new")
    assert np.isfinite(PositionBased(position_curve=[1, 0.8, 0.6, 0.4]).estimate(log, "new").value)


def test_what_cannot_be_estimated_is_refused():
    log, _ = world(6, "position", n=300)
    with pytest.raises(EstimatorError, match="must know which rankings 'target' would show"):
        PositionBased().estimate(log, np.ones((300, 5)))
    for reward, message in ((-log.reward, "below zero"), (0 * log.reward, "every reward is zero")):
        other = cr.RankingLog(
            action=log.action, reward=reward, propensity=log.propensity, targets=log.targets
        )
        with pytest.raises(EstimatorError, match=message):
            ClickHistory().estimate(other, "new")


def test_evaluate_refuses_weights_and_calls_the_models_directional():
    log, _ = world(7, "position", n=3000)
    with pytest.raises(
        PropensityError, match="the logging policy is deterministic.*pbm,click-model"
    ):
        cr.evaluate(log, ["new"])
    result = cr.evaluate(log, ["new"], estimators=["pbm", "click-model"], audit=False)
    assert result.verdict["level"] != "reliable"
    assert any(row["check"] == "model-alone" for row in result.verdict["reasons"])


def all_rankings(scores, K):
    items = np.array(list(itertools.permutations(range(len(scores)), K)))
    policy = PlackettLuce(np.tile(scores, (len(items), 1)))
    return items, policy, np.exp(policy.prefix_log_prob(items)[:, -1])


def test_position_matrix_agrees_with_enumeration():
    scores = np.random.default_rng(8).normal(size=5)
    items, policy, joint = all_rankings(scores, 3)
    found = position_matrix(policy, items)
    for i in (0, 17, 40):
        twin = [[joint[items[:, j] == items[i, k]].sum() for j in range(3)] for k in range(3)]
        np.testing.assert_allclose(found[i], twin, rtol=1e-9)
    short = items.copy()
    short[:, 2] = -1
    assert (position_matrix(policy, short)[:, 2] == 0).all()


def test_a_curve_on_the_command_line_goes_to_those_that_take_one():
    from counterrank.estimators.registry import with_position_curve

    assert with_position_curve("ips", None) == "ips"
    made = with_position_curve("pbm, ips,click-model", "curve.json")
    assert [getattr(one, "position_curve", one) for one in made] == [
        "curve.json",
        "ips",
        "curve.json",
    ]
    for names in (None, "ips"):
        with pytest.raises(ConfigError, match="name one of them with --estimators"):
            with_position_curve(names, "curve.json")
