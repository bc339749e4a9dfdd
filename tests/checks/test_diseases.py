"""Every check of the audit: a healthy log passes all, a log with one disease fails that check with
its cause.
"""

import numpy as np
import pytest

import counterrank as cr
from counterrank.checks.auditor import CHECKS, audit
from counterrank.data.source import MemorySource

N, K, A = 4000, 3, 5


def tables(seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N, 2))
    p0 = np.exp(x @ rng.normal(size=(2, A)) * 0.4)
    p1 = p0 * np.exp(0.4 * np.arange(A) / A)
    return x, p0 / p0.sum(axis=1, keepdims=True), p1 / p1.sum(axis=1, keepdims=True)


X, P0, P1 = tables()
ROWS = np.arange(N)[:, None]


def drawn(rng, table=P0):
    return np.minimum(
        (rng.random((N, K, 1)) > np.cumsum(table, axis=1)[:, None]).sum(axis=2), A - 1
    )


def healthy(**changes):
    rng = np.random.default_rng(1)
    action = changes.pop("action", drawn(rng))
    shown = np.minimum(action, A - 1)
    reward = (rng.random((N, K)) < 0.3).astype(float)
    fields = {
        "action": action,
        "reward": reward,
        "propensity": P0[ROWS, shown],
        "context": X,
        "unit": np.arange(N) // 2,
        "targets": {"new": cr.Propensity("factored", P1[ROWS, shown])},
        "dists": {"propensity": P0, "new": P1},
        "columns": {
            "day": np.array(["2024-03-01", "2024-03-02", "2024-03-03", "2024-03-04"])[
                np.arange(N) * 4 // N
            ],
            "device": rng.choice(["mobile", "desktop"], N),
        },
    }
    return cr.RankingLog(**{**fields, **changes})


def findings(log, targets=None, **options):
    return audit(MemorySource(log, threads=1), targets, **options)


def the(log, check, **options):
    found = [one for one in findings(log, **options) if one.check == check]
    assert found, f"no finding of {check}"
    return max(found, key=lambda one: ["passed", "skipped", "warned", "failed"].index(one.status))


def bad(log, **options):
    return {one.check for one in findings(log, **options) if one.status in ("warned", "failed")}


@pytest.mark.parametrize("seed", range(3))
def test_a_healthy_log_passes_everything(seed):
    log = healthy(action=drawn(np.random.default_rng(100 + seed)))
    found = findings(log, segments=["device"])
    assert {one.status for one in found} == {"passed"}, [
        one for one in found if one.status != "passed"
    ]
    assert {one.check for one in found} >= {
        "mean-weight",
        "mean-weight-by-day",
        "mean-weight-by-device",
        "drift",
    }


def test_a_bare_log_skips_with_a_reason():
    log = cr.RankingLog(action=[[0], [1]] * 60, reward=[[1], [0]] * 60, propensity=[[0.5]] * 120)
    for one in findings(log):
        assert one.status in ("passed", "skipped") and one.found


def test_constant_propensities_of_one():
    found = the(healthy(propensity=np.ones((N, K)), dists={}), "exploration")
    assert found.status == "failed" and "deterministic" in found.cause


def test_one_position_without_choice():
    values = P0[ROWS, drawn(np.random.default_rng(1))].copy()
    values[:, 0] = 1.0
    found = the(healthy(propensity=values, dists={}), "exploration")
    assert found.status == "warned" and "position 1" in found.found


def test_rounded_propensities():
    values = P0[ROWS, drawn(np.random.default_rng(1))]
    found = the(healthy(propensity=np.maximum(np.round(values, 2), 0.01), dists={}), "rounding")
    assert (
        found.status == "warned" and "multiples of 0.01" in found.found and "rounded" in found.cause
    )


def test_few_exact_values_are_not_rounding():
    log = cr.RankingLog(action=[[0], [1]] * 60, reward=[[1], [0]] * 60, propensity=[[0.1]] * 120)
    assert the(log, "rounding").status == "passed"


def test_a_joint_repeated_at_every_position():
    values = P0[ROWS, drawn(np.random.default_rng(1))].prod(axis=1, keepdims=True)
    log = healthy(propensity=np.repeat(values, K, axis=1), dists={})
    found = the(log, "propensity-kind")
    assert found.status == "failed" and "--propensity-kind joint" in found.remedy
    assert "too small" in the(log, "mean-weight").cause


def test_cumulative_products():
    values = np.cumprod(P0[ROWS, drawn(np.random.default_rng(1))], axis=1)
    found = the(healthy(propensity=values, dists={}), "propensity-kind")
    assert found.status == "warned" and "cumulative" in found.cause


def test_a_propensity_that_is_not_its_distribution():
    values = P0[ROWS, drawn(np.random.default_rng(1))].copy()
    values[17, 1] *= 0.9
    found = the(healthy(propensity=values), "propensity-vs-distribution")
    assert (
        found.status == "failed"
        and found.examples[0]["row"] == 17
        and found.examples[0]["position"] == 2
    )


def test_actions_beyond_the_candidates():
    action = drawn(np.random.default_rng(1)).copy()
    action[5, 0] = A + 3
    with pytest.raises(cr.CounterrankError, match=f"item {A + 3} was shown .row 5, position 1."):
        healthy(action=action)


def test_actions_that_had_no_chance():
    action = np.random.default_rng(2).integers(A - 1, size=(N, K))
    action[7, 2] = A - 1
    even = np.tile([0.25] * 4 + [0.0], (N, 1))
    log = healthy(action=action, propensity=np.full((N, K), 0.25), dists={"propensity": even})
    found = the(log, "candidates")
    assert (
        found.status == "failed"
        and "probability 0" in found.found
        and found.examples[0]["row"] == 7
    )


def test_a_distribution_that_was_not_drawn_from():
    shuffled = P0[:, ::-1]
    action = drawn(np.random.default_rng(1))
    log = healthy(
        action=action, propensity=shuffled[ROWS, action], dists={"propensity": shuffled, "new": P1}
    )
    found = the(log, "calibration")
    assert found.status == "failed" and "not the one that was drawn from" in found.cause


def test_rankings_without_repeats_are_no_independent_draws():
    rng = np.random.default_rng(3)
    action = np.argsort(rng.random((N, A)), axis=1)[:, :K]
    log = healthy(action=action, propensity=np.full((N, K), 0.2), dists={})
    found = the(log, "repeated-items")
    assert (
        found.status == "failed"
        and "without replacement" in found.cause
        and "prefix" in found.remedy
    )
    prefix = cr.Propensity("prefix", np.tile([1 / 5, 1 / 4, 1 / 3], (N, 1)))
    right = healthy(action=action, propensity=prefix, targets={}, dists={})
    assert the(right, "repeated-items").status == "skipped"


def test_wrong_logging_propensities_move_every_target():
    values = np.minimum(1.4 * P0[ROWS, drawn(np.random.default_rng(1))], 1.0)
    log = healthy(propensity=values, dists={})
    found = the(log, "mean-weight")
    assert found.status == "failed" and "too large" in found.cause


def test_propensities_too_small_for_any_policy_are_seen_without_a_target():
    values = 0.5 * P0[ROWS, drawn(np.random.default_rng(1))]
    found = the(healthy(propensity=values, targets={}, dists={}), "inverse-propensity")
    assert found.status == "failed" and "too small" in found.cause


def test_a_wrong_target_among_right_ones_is_named():
    log = healthy()
    wrong = cr.Propensity("factored", 0.7 * log.targets["new"].values)
    log = log.with_targets({"stale": wrong})
    by_target = {
        one.found.split("'")[1]: one for one in findings(log) if one.check == "mean-weight"
    }
    assert by_target["new"].status == "passed"
    assert by_target["stale"].status == "failed" and "this target alone" in by_target["stale"].cause


def test_one_day_with_another_policy():
    log = healthy()
    values = log.propensity.values.copy()
    values[: N // 4] = np.minimum(values[: N // 4] * 1.5, 1)
    found = the(healthy(propensity=values, dists={}), "mean-weight-by-day")
    assert (
        found.status == "failed"
        and found.found.endswith("day affected: 2024-03-01")
        and "changed" in found.cause
    )


def test_one_segment_with_another_policy():
    device = healthy().columns["device"]
    values = healthy().propensity.values.copy()
    values[device == "mobile"] = np.minimum(values[device == "mobile"] * 1.5, 1)
    log = healthy(propensity=values, dists={})
    assert "mobile" in the(log, "mean-weight-by-device", segments=["device"]).found
    assert "mean-weight-by-device" not in bad(log)


@pytest.mark.parametrize("name", ["any_click", "bounce", "time"])
def test_outcomes_beside_the_reward_are_no_groups(name):
    """Weights need not average 1 where somebody clicked: the target shows what is clicked more."""
    rng = np.random.default_rng(3)
    base, moved = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.2, 0.7])
    action = rng.choice(3, size=(6000, 2), p=base)
    reward = (rng.random((6000, 2)) < np.array([0.05, 0.3, 0.8])[action]).astype(float)
    clicks = reward.sum(axis=1)
    outcome = {"any_click": clicks > 0, "bounce": clicks == 0, "time": 3 * clicks}[name]
    log = cr.RankingLog(
        action=action, reward=reward, propensity=base[action], columns={name: outcome},
        targets={"new": cr.Propensity("factored", moved[action])},
    )  # fmt: skip
    assert bad(log) == set()
    result = cr.evaluate(log, estimators=["auto"], independent_rows=True, target_is_fresh=True)
    assert result.verdict.level == "reliable", result.verdict
    # Whoever names it means a group, and gets what the sums say.
    assert f"mean-weight-by-{name}" in bad(log, segments=[name])


def test_a_target_that_is_the_logger():
    log = healthy(targets={"new": healthy().propensity}, dists={})
    found = the(log, "target-differs")
    assert found.status == "warned" and "itself" in found.found


def test_a_target_that_never_shows_what_was_shown():
    values = P1[ROWS, drawn(np.random.default_rng(1))].copy()
    values[: int(0.8 * N)] = 0.0
    found = the(
        healthy(targets={"new": cr.Propensity("factored", values)}, dists={}), "probabilities"
    )
    assert found.status == "warned" and "joined to other rankings" in found.cause


def test_duplicated_rows():
    log = healthy()
    twice = log.take(np.concatenate([np.arange(N), np.arange(400)]))
    found = the(twice, "duplicates")
    assert found.status == "failed" and found.examples[0]["equals"] == 0
    assert "delivered twice" in found.cause


def test_equal_rows_without_identity_are_no_duplicates():
    log = cr.RankingLog(action=[[0]] * 100, reward=[[1.0], [0.0]] * 50, propensity=[[0.5]] * 100)
    assert the(log, "duplicates").status == "skipped"


def test_drift_of_rewards():
    reward = healthy().reward.copy()
    reward[: N // 4] = 0.0
    reward[::50] = 1.0
    found = the(healthy(reward=reward), "drift")
    assert found.status == "warned" and "2024-03-01" in found.found


@pytest.mark.parametrize(
    ("values", "day"),
    [
        (np.full(N, 1_709_251_200), "2024-03-01"),
        (np.full(N, 1_709_251_200_000), "2024-03-01"),
        (np.full(N, np.datetime64("2024-03-01T12:00")), "2024-03-01"),
        (np.full(N, "2024-03-01 10:00:01+00:00"), "2024-03-01"),
        (np.full(N, 12), "000012"),
    ],
)
def test_days_are_read_from_many_kinds_of_time(values, day):
    from counterrank.checks.rows import days_of

    assert set(days_of(healthy(columns={"ts": values}), "ts").tolist()) == {day}


def test_rewards_that_never_vary():
    found = the(healthy(reward=np.zeros((N, K))), "rewards")
    assert found.status == "failed" and "every reward is 0" in found.found


def test_one_ranking_with_most_of_the_reward():
    reward = healthy().reward.copy()
    reward[123, 1] = 5000.0
    found = the(healthy(reward=reward), "rewards")
    assert found.status == "warned" and found.examples[0]["row"] == 123


def test_a_code_for_missing_among_clicks():
    reward = healthy().reward.copy()
    reward[:7, 0] = -1
    found = the(healthy(reward=reward), "rewards")
    assert found.status == "warned" and "missing" in found.cause


def test_one_user_with_a_third_of_the_rows():
    unit = np.arange(N)
    unit[: N // 3] = 0
    found = the(healthy(unit=unit), "units")
    assert found.status == "warned" and "robot" in found.cause


def test_findings_do_not_depend_on_the_cut_into_batches():
    log = healthy()

    class Small(MemorySource):
        def reduce(self, partial, *, label=""):
            total = None
            for batch in self.log.chunks(333):
                state = partial(batch)
                total = state if total is None else total + state
            return total

    assert [f.to_dict() for f in audit(Small(log))] == [f.to_dict() for f in findings(log)]


def test_every_check_has_a_name_and_its_findings_the_agreed_shape():
    assert len({check.code for check in CHECKS}) == len(CHECKS)
    for one in findings(healthy()):
        row = one.to_dict()
        agreed = {"code", "status", "kind", "about", "text", "cause", "remedies", "examples"}
        assert agreed <= {*row} and row["about"]
        assert row["status"] in ("passed", "warned", "failed", "skipped")
