"""Mean weights by group: few false alarms on true propensities whatever the tail, and the guilty
group by name.
"""

import numpy as np
import pytest

import counterrank as cr
from counterrank.checks.auditor import VITAL, audit
from counterrank.checks.base import BLOCKS
from counterrank.checks.weights import context_cuts, grouped_sums, groups_tested, mean_tests
from counterrank.data.source import MemorySource

A = 5


def log_of(seed, n=3000, K=2, sharp=1.0, hours=24, p0=None, hour=None):
    """True propensities; `sharp` makes the target's weights heavy; hours are a category of 24."""
    rng = np.random.default_rng(seed)
    base = np.exp(rng.normal(size=A) * 0.5)
    base /= base.sum()
    moved = base ** (1 - sharp) / (base ** (1 - sharp)).sum()
    action = rng.choice(A, size=(n, K), p=base)
    hour = rng.integers(0, hours, n) if hour is None else hour
    shown = base[action] if p0 is None else p0(base[action], hour)
    return cr.RankingLog(
        action=action, reward=(rng.random((n, K)) < 0.3).astype(float), propensity=shown,
        targets={"new": cr.Propensity("factored", moved[action])}, context=hour[:, None].astype(float),
        context_names=("hour",), categories={"hour": tuple(f"{h:02d}" for h in range(hours))},
    )  # fmt: skip


def by_group(log):
    return [one for one in audit(MemorySource(log, threads=1), checks=VITAL) if "-by-" in one.check]


@pytest.mark.parametrize("sharp", [0.5, 2.5])
def test_false_alarms_are_at_most_one_in_a_hundred_logs(sharp):
    """True rate 1 % at most: 6 or more of 150 logs have a chance of 0.4 %, and the seeds are fixed."""
    alarms = sum(
        any(one.status in ("warned", "failed") for one in by_group(log_of(seed, sharp=sharp)))
        for seed in range(150)
    )
    assert alarms <= 5


def test_the_group_is_named_and_a_small_one_does_not_sink_the_log():
    def wrong(p, hour):
        return np.where((hour == 11)[:, None], np.minimum(p * 1.6, 1.0), p)

    found = next(
        one for one in by_group(log_of(1, n=12_000, p0=wrong)) if one.check == "mean-weight-by-hour"
    )
    assert found.status == "warned" and not found.fatal
    assert "where hour is 11" in found.found and found.found.endswith("hour affected: 11")
    assert "--where \"hour != '11'\"" in found.remedy


def test_many_groups_sink_it():
    def wrong(p, hour):
        return np.where((hour < 12)[:, None], np.minimum(p * 1.5, 1.0), p)

    found = next(
        one for one in by_group(log_of(1, n=12_000, p0=wrong)) if one.check == "mean-weight-by-hour"
    )
    assert found.status == "failed" and found.fatal


def test_heavy_tails_are_no_finding():
    """Weights with a tail index of 0.8: means of groups stray below 1, as they must."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        w = rng.pareto(1.25, size=4000) * 0.25
        table = np.zeros((16, 5, 1))
        grouped_sums(w[:, None], np.ones(4000, dtype=np.int64), np.arange(4000) * 16 // 4000, table)
        p = groups_tested(table, table.sum(axis=0), np.array([w.max()]), 1.0)[2]
        assert not (np.nan_to_num(p, nan=1.0) * 16 <= 0.001).any()


def test_units_that_stick_to_one_draw_are_counted_as_units():
    """Each user has one list for 40 rows: without the design effect a third of such logs would be
    called wrong.
    """
    alarms = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        user = np.repeat(np.arange(100), 40)
        action = rng.choice(2, size=(100, 1))[user]
        log = cr.RankingLog(
            action=action, reward=np.ones((4000, 1)), propensity=np.full((4000, 1), 0.5), unit=user,
            targets={"new": cr.Propensity("factored", np.where(action == 1, 0.9, 0.1))},
            context=rng.normal(size=100)[user][:, None],
        )  # fmt: skip
        alarms += any(one.status in ("warned", "failed") for one in by_group(log))
    assert alarms <= 3


def test_kernel_sums_as_its_naive_twin():
    rng = np.random.default_rng(0)
    w, lengths, code = rng.random((50, 3)), rng.integers(1, 4, 50), rng.integers(0, 4, 50)
    out = np.zeros((4, 5, 3))
    grouped_sums(w, lengths, code, out)
    for g in range(4):
        for k in range(3):
            part = w[(code == g) & (k < lengths), k]
            expected = [*((part**power).sum() for power in range(4)), part.max(initial=0.0)]
            np.testing.assert_allclose(out[g, :, k], expected, atol=1e-12)


def test_cuts_cover_every_value():
    log = cr.RankingLog(
        action=[[0]] * 400, reward=[[1.0]] * 400, propensity=[[0.5]] * 400,
        context=np.column_stack([np.arange(400.0), np.repeat([0.0, 1.0], 200), [np.nan] * 9 + [7.0] * 391]),
    )  # fmt: skip
    cuts = context_cuts(log)
    assert [cut.column for cut in cuts] == ["x_0", "x_1"]  # the third does not vary
    counts = np.bincount(cuts[0].codes(log), minlength=9)
    assert counts.tolist() == [50] * 8 + [0] and len(cuts[0].names) == 9
    assert np.bincount(cuts[1].codes(log)).tolist() == [200, 200]


@pytest.mark.parametrize("ones", [1, 2, 30, 60])
def test_a_rare_flag_has_two_groups_and_crashes_nothing(ones):
    """All eighths of a column with few ones are 0: the ones are the other group all the same."""
    rng = np.random.default_rng(ones)
    flag = (np.arange(600) < ones).astype(float)
    base = np.array([0.5, 0.3, 0.2])
    action = rng.choice(3, size=(600, 2), p=base)
    log = cr.RankingLog(
        action=action, reward=(rng.random((600, 2)) < 0.3).astype(float), propensity=base[action],
        targets={"new": cr.Propensity("factored", base[::-1][action])}, context=flag[:, None],
        context_names=("x_flag",),
    )  # fmt: skip
    (cut,) = context_cuts(log)
    assert cut.names == ("below 1", "1 and above", "missing")
    assert np.bincount(cut.codes(log)).tolist() == [600 - ones, ones]
    assert cr.evaluate(log).audit and cr.audit_log(log)


def test_blocks_follow_the_rows_in_any_batches():
    log = log_of(0, n=4000)
    found = [one for one in by_group(log) if one.check == "mean-weight-by-block"]
    assert len(found) == 1 and f"{BLOCKS} groups" in found[0].found


def sorted_log(seed, n=3000, size=30, K=6, sharp=2.0):
    """A Plackett-Luce logger, a target near it and one that sorts by much the same scores."""
    rng = np.random.default_rng(seed)
    scores = sharp * rng.normal(size=(n, size))
    noisy = scores + rng.normal(size=scores.shape)
    logger = cr.PlackettLuce(scores)
    action = logger.sample(K, rng)[:, 0]
    top = cr.Deterministic(np.argsort(-noisy, axis=1, kind="stable")[:, :K], n_actions=size)
    return cr.RankingLog(
        action=action, reward=(rng.random((n, K)) < 0.2).astype(float), propensity=logger,
        targets={"near": cr.PlackettLuce(0.9 * scores), "sorted": top},
    )  # fmt: skip


def test_sorted_targets_do_not_fail_and_leave_the_others_alone():
    """At a deep position no logged item may be the sorted list's: a mean of 0 there is no finding.

    Each log accuses with at most 1 %: 4 or more of 20 have a chance of 4e-5.
    """
    accused = 0
    for seed in range(20):
        log = sorted_log(seed)
        found = [
            one
            for one in audit(MemorySource(log, threads=1), checks=VITAL)
            if one.check == "mean-weight"
        ]
        assert not any("average 0 " in one.found for one in found)
        accused += any(one.status == "failed" for one in found)
    assert accused <= 3


def test_a_target_that_fails_alone_is_judged_alone():
    log = sorted_log(0, n=6000, size=6, K=2, sharp=0.3)
    logged, near = (
        np.exp(np.diff(policy.prefix_log_prob(log.action), axis=1, prepend=0.0))
        for policy in (log.propensity, log.targets["near"])
    )
    targets = {"wrong": np.full((log.n, 2), 0.9), "near": near}
    numbers = cr.RankingLog(
        action=log.action, reward=log.reward, propensity=cr.Propensity("prefix", logged),
        targets={name: cr.Propensity("prefix", values) for name, values in targets.items()},
    )  # fmt: skip
    result = cr.evaluate(numbers, estimators=["auto"], independent_rows=True, target_is_fresh=True)
    blamed = {row["target"] for row in result.verdict.reasons if row.cause}
    assert blamed == {"wrong"}
    assert result.verdict.targets["near"] == "reliable", result.verdict


def test_a_target_that_matches_nothing_fails_as_numbers_and_warns_as_a_policy():
    action = np.zeros((200, 2), dtype=int)
    action[:, 1] = 1
    never = cr.Deterministic(np.array([[2, 3]]), n_actions=4)
    for target, status in ((np.zeros((200, 2)), "failed"), (never, "warned")):
        log = cr.RankingLog(
            action=action,
            reward=np.ones((200, 2)),
            propensity=cr.Uniform(4),
            targets={"new": target},
        )
        (found,) = [
            one for one in audit(MemorySource(log, threads=1)) if one.check == "mean-weight"
        ]
        assert (found.status, found.target) == (status, "new")
        assert "probability 0 to every logged item" in found.found


def test_a_mean_weight_far_below_one_is_the_surer_the_further_it_is():
    """Skewed weights soften a mean that is a little low; nothing excuses one that is a quarter."""
    w = np.random.default_rng(0).pareto(3.5, size=5000) * 2.5
    z = []
    for factor in (0.99, 0.9, 0.7, 0.4, 0.2, 0.05, 0.001):
        values = factor * w / w.mean()
        sums = np.array([[float((values**power).sum())] for power in range(4)])
        z.append(float(mean_tests(sums)[1][0]))
    assert z == sorted(z, reverse=True) and z[0] > -1.5 and z[3] < -10
    # Hall's cubic, written as its root.
    a = np.mean((w - w.mean()) ** 3) / np.std(w) ** 3 / (3 * np.sqrt(len(w)))
    plain = (0.4 - 1) / (0.4 * np.std(w / w.mean()) / np.sqrt(len(w) - 1))
    assert z[3] == pytest.approx(((1 + a * plain) ** 3 - 1) / (3 * a) + a / 2)


@pytest.mark.parametrize("power", [0.5, 0.8])
def test_propensities_that_are_too_large_are_refuted(power):
    from benchmarks.healthy import as_numbers, healthy_world

    world = as_numbers(healthy_world("ordinary", 0, 3000))
    wrong = world.changed(propensity=world.columns["propensity"] ** power)
    failed = cr.audit_log(wrong.log(), ["new"]).failed
    assert [finding.code for finding in failed] == ["mean-weight"]


def test_effective_rows_that_grow_down_the_page_are_too_few_to_test():
    """Weights of all items down to a position have squares that only grow in the mean: the large ones are missing."""
    n, mean = 6000.0, np.array([0.98, 0.9, 0.6])
    rows = np.array([2000.0, 22.0, 107.0])
    sums = np.stack([np.full(3, n), n * mean, (n * mean) ** 2 / rows])
    assert np.isfinite(mean_tests(sums)[2]).tolist() == [True, False, True]
    assert np.isfinite(mean_tests(sums, down_the_page=True)[2]).tolist() == [True, False, False]
    groups = np.stack([sums, sums])
    tests = groups_tested(
        groups, np.vstack([2 * sums, 2 * sums[2:]]), np.ones(3), 1.0, down_the_page=True
    )
    assert np.isfinite(tests[2]).tolist() == [[True, False, False]] * 2
