"""No confident nonsense: logs whose answer is wrong are never called reliable, whatever was asked
for.
"""

import json

import numpy as np
import pytest
from tests.evaluation.logs import gentle_log

import counterrank as cr

LEVELS = ["insufficient", "directional", "reliable"]


def evaluated(log, **options):
    return cr.evaluate(
        log,
        **{
            "estimators": ["auto"],
            "audit": False,
            "independent_rows": True,
            "target_is_fresh": True,
            **options,
        },
    )


def statuses(result):
    return {row["check"]: row["status"] for row in result.verdict["reasons"]}


def with_propensities(log, values, **changes):
    """The same rows with other propensities, without whole distributions."""
    fields = {
        "action": log.action,
        "reward": log.reward,
        "context": log.context,
        "targets": log.targets,
        **changes,
    }
    return cr.RankingLog(propensity=values, **fields)


@pytest.mark.parametrize("factor", [0.8, 0.3])
@pytest.mark.parametrize("estimators", [["auto"], ["iips"], None])
def test_propensities_of_the_wrong_size_are_insufficient_whatever_is_asked_for(
    gentle, factor, estimators
):
    result = evaluated(
        with_propensities(gentle, gentle.propensity.values * factor), estimators=estimators
    )
    assert result.verdict["level"] == "insufficient"
    assert statuses(result)["mean-weight"] == "fail"


def test_impossible_values_are_no_headline(gentle):
    """Percentages for the target, shares for the logger: every weight is a hundred times too large."""
    log = with_propensities(gentle, gentle.propensity.values / 100)
    result = evaluated(log, estimators=["iips"])
    found = result.estimate()
    assert not found.estimable and np.isnan(found.value) and np.isnan(found.lift.relative)
    assert (
        "0 to 3" in found.not_estimable
        and "about 100 times too small, as if in another unit" in found.not_estimable
    )
    assert (
        result.verdict["level"] == "insufficient" and "in another unit" in result.verdict["summary"]
    )
    data = json.loads(result.to_json())
    assert data["estimates"][0]["value"] is None and data["estimates"][0]["estimable"] is False
    assert "in another unit" in data["estimates"][0]["not_estimable"]
    text = " ".join(str(result).split())
    assert "not estimable" in text and "%" not in text.split("Estimates")[0].replace("95", "")
    assert "not estimable" in result.to_html()


def test_the_verdict_does_not_depend_on_what_else_is_run(gentle):
    alone, together = evaluated(gentle), evaluated(gentle, estimators=["auto", "snips", "order-3"])
    assert alone.verdict["level"] == together.verdict["level"] == "reliable"
    assert statuses(alone) == statuses(together)
    assert [e.estimator for e in alone.estimates] == ["auto"] and list(
        alone.diagnostics["order_path"]["new"]
    ) == []


def test_without_units_nothing_is_reliable_unless_rows_are_declared_independent(gentle):
    declared, unsaid = (evaluated(gentle, independent_rows=flag) for flag in (True, False))
    assert declared.verdict["level"] == "reliable" and unsaid.verdict["level"] == "directional"
    reason = next(row for row in unsaid.verdict["reasons"] if row["check"] == "units")
    assert reason["status"] == "warn" and "--independent-rows" in reason["help"]
    with_units = gentle_log(6000, unit=np.arange(6000))
    assert statuses(evaluated(with_units, independent_rows=False))["units"] == "pass"


def test_robots_are_seen(gentle):
    rng = np.random.default_rng(0)
    bots = rng.random(gentle.n) < 0.1
    reward, context = gentle.reward.copy(), gentle.context.copy()
    reward[bots], context[bots] = 1.0, [0.25, -0.5]
    log = with_propensities(
        gentle, gentle.propensity, reward=reward, context=context, dists=gentle.dists
    )
    result = evaluated(log)
    assert result.verdict["level"] != "reliable"
    said = [row["reason"] for row in result.verdict["reasons"] if row["check"] == "robots"]
    assert any("recur" in reason for reason in said)


def test_a_policy_that_changed_half_way_is_seen():
    """One position, propensities averaged over both halves: the mean weight of all rows is 1."""
    n, rng = 8000, np.random.default_rng(3)
    before, after = np.array([0.7, 0.2, 0.1]), np.array([0.1, 0.2, 0.7])
    second = np.arange(n) >= n // 2
    action = rng.choice(3, size=(n, 2), p=[0.4, 0.3, 0.3])
    action[:, 1] = np.where(second, rng.choice(3, size=n, p=after), rng.choice(3, size=n, p=before))
    shown = np.stack(
        [np.array([0.4, 0.3, 0.3])[action[:, 0]], ((before + after) / 2)[action[:, 1]]], axis=1
    )
    target = np.stack(
        [np.array([0.4, 0.3, 0.3])[action[:, 0]], np.array([0.2, 0.2, 0.6])[action[:, 1]]], axis=1
    )
    reward = (rng.random((n, 2)) < 0.2 + 0.2 * second[:, None] * (action == 2)).astype(float)
    log = cr.RankingLog(
        action=action,
        reward=reward,
        propensity=shown,
        targets={"new": cr.Propensity("factored", target)},
    )
    result = evaluated(log, estimators=["iips"])
    assert result.verdict["level"] != "reliable"
    checks = {row["check"]: row["reason"] for row in result.verdict["reasons"]}
    assert "% of the rows" in checks["mean-weight-by-block"]


def test_a_continuous_confounder_is_seen():
    """Items are shown by x_u, propensities are those averaged over it."""
    n, rng = 8000, np.random.default_rng(4)
    u = rng.normal(size=n)
    p1 = 1 / (1 + np.exp(-1.5 * u))
    action = (rng.random((n, 2)) < p1[:, None]).astype(np.int64)
    reward = (rng.random((n, 2)) < 0.2 + 0.5 * p1[:, None]).astype(float)
    half = np.full((n, 2), 0.5)
    target = np.where(action == 1, 0.7, 0.3)
    log = cr.RankingLog(
        action=action, reward=reward, propensity=half, context=u[:, None], context_names=("x_u",),
        targets={"new": cr.Propensity("factored", target)},
    )  # fmt: skip
    result = evaluated(log)
    assert result.verdict["level"] != "reliable"
    assert "mean-weight-by-x_u" in {row["check"] for row in result.verdict["reasons"]}


def test_support_is_computed_for_enumerated_lists():
    """Four percent of the target's lists were never shown: no weight can speak for them."""
    n, rng = 3000, np.random.default_rng(5)
    lists = np.array([[[0, 1], [1, 0], [2, 0]]])
    group = np.zeros(n, dtype=np.int64)
    logger = cr.Enumerated(lists, [[0.5, 0.5, 0.0]], group)
    target = cr.Enumerated(lists, [[0.6, 0.36, 0.04]], group)
    action = logger.sample(2, rng)[:, 0]
    log = cr.RankingLog(
        action=action,
        reward=(action == 0).astype(float),
        propensity=logger,
        targets={"new": target},
    )
    result = evaluated(log, estimators=["ips"])
    assert statuses(result)["support"] == "warn" and result.verdict["level"] == "directional"
    found = result.diagnostics["support"]["new"]
    np.testing.assert_allclose(
        found["unlogged_share"], [0.04, 0.04], atol=0.01
    )  # 16,000 draws: five errors are 0.008
    assert found["actions"][0]["action"] == "2"


def test_support_by_draws_agrees_with_the_exact_one():
    """Plackett-Luce with an item the logger cannot show: P(it is among the first two) by
    enumeration.
    """
    n = 2000
    new = np.log([0.4, 0.3, 0.3])
    logger = cr.Enumerated(
        [[[0, 1], [1, 0]]], [[0.5, 0.5]], np.zeros(n, dtype=np.int64), n_actions=3
    )
    target = cr.PlackettLuce(np.tile(new, (n, 1)))
    action = logger.sample(2, np.random.default_rng(0))[:, 0]
    log = cr.RankingLog(
        action=action, reward=np.ones((n, 2)), propensity=logger, targets={"new": target}
    )
    from counterrank.evaluation.exploration import support

    first = 0.3
    either = first + 0.4 * 0.3 / 0.6 + 0.3 * 0.3 / 0.7
    np.testing.assert_allclose(support(log, "new")["unlogged_share"], [first, either], atol=0.02)


def test_a_target_that_shows_nothing_logged_has_no_interval():
    n, rng = 2000, np.random.default_rng(0)
    action = np.stack([rng.permutation(3)[:2] for _ in range(n)])
    action = action[(action != [2, 1]).any(axis=1)]
    n = len(action)
    reward = (rng.random((n, 2)) < 0.4).astype(float)
    third = cr.Propensity("prefix", np.tile([1 / 3, 1 / 2], (n, 1)))
    never = cr.Propensity(
        "prefix", np.where(action == [2, 1], 1.0, 0.0) * np.where(action[:, :1] == 2, 1.0, 0.0)
    )
    log = cr.RankingLog(action=action, reward=reward, propensity=third, targets={"new": never})
    for name in ("ips", "snips"):
        found = evaluated(log, estimators=[name]).estimate()
        assert not found.estimable and "never logged" in found.not_estimable
        assert np.isnan([found.value, found.low, found.high, found.lift.value]).all()
    assert evaluated(log, estimators=["ips"]).verdict["level"] == "insufficient"


def test_a_difference_without_error_is_not_significant():
    from counterrank.statistics import two_sided

    assert two_sided(-0.01466, 0.0) == 1.0 and two_sided(float("nan"), 1.0) == 1.0


def test_other_targets_are_the_same_rows(gentle):
    one = evaluated(gentle, estimators=["iips"])
    both = gentle.with_targets({"other": gentle.propensity})
    two = evaluated(both, estimators=["iips"])
    assert one.log["fingerprint"] != two.log["fingerprint"]
    assert one.log["rows_fingerprint"] == two.log["rows_fingerprint"]
    changed = evaluated(gentle_log(6000, seed=1), estimators=["iips"])
    assert changed.log["rows_fingerprint"] != one.log["rows_fingerprint"]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["iips", "rips", "ips"])
def test_an_estimator_by_name_is_no_more_reliable_than_auto(seed, name):
    """Items above lower the click below them: IIPS is wrong, and so are its short intervals."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(3000, 6))
    logger = cr.PlackettLuce(scores)
    action = logger.sample(3, rng)[:, 0]
    appeal = np.array([0.1, 0.2, 0.3, 0.5, 0.7, 0.8])[action]
    left = np.cumprod(np.concatenate([np.ones((3000, 1)), 1 - appeal[:, :-1]], axis=1), axis=1)
    reward = (rng.random(action.shape) < appeal * left).astype(float)
    log = cr.RankingLog(action=action, reward=reward, propensity=logger)
    target = {"new": cr.PlackettLuce(scores + 0.5 * np.arange(6))}
    alone, auto = (
        cr.evaluate(
            log, target, estimators=[one], audit=False, independent_rows=True, target_is_fresh=True
        )
        for one in (name, "auto")
    )
    assert LEVELS.index(alone.verdict.level) <= LEVELS.index(auto.verdict.level)


def test_a_refused_target_has_no_lift_in_any_segment_position_or_metric(gentle):
    log = with_propensities(
        gentle, gentle.propensity.values / 100, rewards={"click": gentle.reward, "twice": 2 * gentle.reward},
        columns=gentle.columns,
    )  # fmt: skip
    result = evaluated(log, segments=["device"])
    assert len(result.segments) == len(np.unique(gentle.columns["device"]))
    for estimate in (
        result.estimate(),
        *result.segments,
        *(one.estimate("new") for one in result.metrics),
    ):
        assert np.isnan([estimate.value, estimate.lift.value, estimate.lift.low]).all()
    assert all(np.isnan(place.value) for place in result.estimate().by_position)
    assert [one.verdict.level for one in result.metrics] == ["insufficient"] * 2


def test_a_copy_of_the_logger_is_not_to_be_tested(gentle):
    log = with_propensities(
        gentle, gentle.propensity.values, targets={"copy": gentle.propensity.values}
    )
    result = evaluated(log)
    assert result.decision.action == "hold" and result.decision.reasons[0].code == "primary-same"
    assert "copy and today's policy are the same" in str(result)


def test_short_rankings_are_counted_as_short(gentle):
    missing = (np.arange(gentle.n)[:, None] % 3 > 0) & (np.arange(gentle.K) > 0)
    log = cr.RankingLog(
        action=np.where(missing, -1, gentle.action), reward=np.where(missing, 0.0, gentle.reward),
        propensity=gentle.propensity.values, targets=gentle.targets,
    )  # fmt: skip
    assert f"of up to {gentle.K} positions" in str(evaluated(log, estimators=["iips"]))
    assert "up to" not in str(evaluated(gentle, estimators=["iips"])).split("metric:")[0]
