"""Estimates made by hand against each other: who may judge whom, and which target is better."""

import numpy as np
import pytest

import counterrank as cr
from counterrank.data.source import MemorySource
from counterrank.estimators import Estimate, parse
from counterrank.estimators.base import Lift, PositionValue
from counterrank.estimators.weights.moments import moments_of
from counterrank.estimators.weights.thresholds import SIGNIFICANT, THRESHOLDS
from counterrank.evaluation.comparing import (
    PairedEstimate,
    compare,
    path_of,
    rivals,
    usable,
    weighed_like,
)
from counterrank.evaluation.jobs import Job
from counterrank.evaluation.passing import Pass
from counterrank.evaluation.provenance import Options
from counterrank.evaluation.rewards import RewardRun
from counterrank.evaluation.run import metrics_of
from counterrank.statistics import Known, Looks, Quantity, bias_aware_half, holm, two_sided

K = 4


def weights(w):
    w = np.asarray(w, dtype=float)
    return moments_of(w, w, np.ones_like(w), np.ones(w.shape[1]))[0]


def calm(n=1000):
    return weights(1.0 + 0.1 * np.where(np.arange(n) % 2, 1.0, -1.0)[:, None])


def estimate(name, value=1.0, *, target="new", ess=1000.0, moments=None, **more):
    return Estimate(
        target=target, estimator=name, value=value, stderr=0.1, by_position=(PositionValue(value, 0.1),) * K, ess=ess,
        n=1000, level=0.95, lift=Lift(0.0, 0.1, -0.2, 0.2), ends=(value - 0.2, value + 0.2),
        moments=moments, **more,
    )  # fmt: skip


class Row(PairedEstimate):
    """An estimate whose difference to another has the standard error that is written down for it."""

    errors, default = {}, 0.1

    @property
    def by_rows(self):
        return self

    def __sub__(self, other):
        error = self.errors.get((self.job.name, other.job.name), self.default)
        one, two = self.estimate, other.estimate
        return Quantity(
            Known(400, 10**9, np.array([[error**2]])), one.value - two.value, np.ones(1),
            allowance=one.allowance + two.allowance,
        )  # fmt: skip


def made(*found, errors=(), default=0.1):
    kind = type("Errors", (Row,), {"errors": dict(errors), "default": default})
    return [
        kind(Job(one.target, one.estimator, None, parse(one.estimator).plain), one, None, 1, None)
        for one in found
    ]


def test_weights_behind_an_estimate_are_found_by_assumption_or_by_order():
    plain = [
        estimate("iips", moments=calm(), target="other"),
        estimate("iips"),
        estimate("rips", moments=calm()),
    ]
    found = made(*plain, estimate("order-2", moments=calm()), estimate("ips", moments=calm()))
    assert weighed_like(estimate("auto", basis="rips"), found) is found[2]
    assert weighed_like(estimate("auto", basis="dr-order-2"), found) is found[3]
    assert weighed_like(estimate("snips"), found) is found[4]
    assert weighed_like(estimate("auto", basis="iips"), found) is None
    # Of four positions, order 9 is all of them.
    assert weighed_like(estimate("order-9"), found) is found[4]


def test_rivals_are_the_plain_ones_that_assume_less():
    found = made(
        estimate("iips"), estimate("order-2", 1.3), estimate("rips", 1.1), estimate("snrips", 9.0),
        estimate("ips", 0.7), errors={("iips", "rips"): 0.4}, default=9.0,
    )  # fmt: skip
    made_by = rivals(found[0], found[1:])
    assert [one.name for one in made_by] == ["order-2", "rips", "ips"]
    np.testing.assert_allclose([one.difference for one in made_by], [-0.3, -0.1, 0.3])
    assert [one.stderr for one in made_by] == pytest.approx([9.0, 0.4, 9.0])
    assert [one.name for one in rivals(found[1], found[2:])] == ["ips"]
    assert rivals(found[4], found[:4]) == []


def test_self_normalised_whole_rankings_judge_as_ips_does():
    found = made(
        estimate("iips"), estimate("rips", 1.1), estimate("snips", 0.6),
        errors={("rips", "snips"): 0.1}, default=9.0,
    )  # fmt: skip
    made_by = rivals(found[0], found[1:])
    # Where both differ beyond chance, it is RIPS that assumes more.
    assert [(one.name, one.usable) for one in made_by] == [("rips", False), ("snips", True)]


def test_a_rival_that_is_contradicted_itself_is_no_judge():
    def usable_of(z, **of_ips):
        found = made(
            estimate("iips"), estimate("rips", 1.0), estimate("ips", 1.0 + z, **of_ips), default=1.0
        )
        by_name = {one.name: one.usable for one in rivals(found[0], found[1:])}
        return by_name["rips"], by_name["ips"]

    line = next(z for z in np.arange(1.0, 5.0, 0.01) if two_sided(z, 1.0) < SIGNIFICANT)
    assert usable_of(line - 0.02) == (True, True)
    assert usable_of(line + 0.01) == usable_of(-line - 0.01) == (False, True)
    assert usable_of(line + 0.01, ess=1.0) == (True, False)  # IPS itself cannot be believed


def test_weights_that_may_judge_others():
    least = THRESHOLDS["ess"].directional
    assert usable(estimate("ips", ess=least)) and not usable(estimate("ips", ess=least - 0.1))
    assert usable(estimate("ips", moments=calm()))
    assert not usable(estimate("ips", ess=least - 0.1, moments=calm()))
    heavy = np.random.default_rng(0).pareto(0.8, size=(4000, 1))
    assert not usable(estimate("ips", moments=weights(heavy / heavy.mean())))
    assert not usable(estimate("ips", moments=weights(1.2 * np.asarray([[0.9], [1.1]] * 500))))


def test_the_order_path_runs_from_own_items_to_whole_rankings():
    found = [
        estimate("ips", 4.0),
        estimate("rips"),
        estimate("order-2", 2.0),
        estimate("iips", 1.0),
    ]
    path = path_of("new", [*found, estimate("order-3", target="other")])
    assert [(row["order"], row["estimator"], row["value"]) for row in path] == [
        (1, "iips", 1.0), (2, "order-2", 2.0), (4, "ips", 4.0)
    ]  # fmt: skip
    assert (path[0]["low"], path[0]["high"], path[0]["ess"]) == (0.8, 1.2, 1000.0)
    assert path_of("nobody", found) == ()


def test_targets_are_compared_on_the_same_rows_with_all_pairs_counted():
    found = made(
        estimate("auto", 3.0, target="a", allowance=0.1), estimate("ips", 2.0, target="b"),
        estimate("auto", 2.6, target="c", allowance=0.05),
        errors={("auto", "ips"): 0.2, ("ips", "auto"): 0.3}, default=0.25,
    )  # fmt: skip
    rows = compare(found, 0.9)
    assert [(row["better"], row["than"]) for row in rows] == [("a", "b"), ("a", "c"), ("b", "c")]
    values, errors, allowed = (1.0, 0.4, -0.6), (0.2, 0.25, 0.3), (0.1, 0.15, 0.05)
    p = holm(
        [
            two_sided(max(abs(v) - b, 0.0), s)
            for v, s, b in zip(values, errors, allowed, strict=True)
        ]
    )
    for row, value, error, b, p_value in zip(rows, values, errors, allowed, p, strict=True):
        assert row["value"] == pytest.approx(value) and row["stderr"] == pytest.approx(error)
        half = bias_aware_half(error, b, 1 - 0.1 / 3)
        assert (row["low"], row["high"]) == pytest.approx((value - half, value + half))
        assert row["bias_allowance"] == pytest.approx(b) and row["p_value"] == pytest.approx(
            p_value
        )


def test_a_difference_within_the_allowances_is_no_difference():
    found = made(
        estimate("auto", 1.0, target="a", allowance=0.3),
        estimate("auto", 1.4, target="b", allowance=0.2),
        default=0.01,
    )
    (row,) = compare(found, 0.95)
    assert row["p_value"] == 1.0 and row["low"] < 0 < row["high"]


def test_looking_every_night_widens_by_the_rows_of_the_pass():
    found = made(estimate("auto", 1.0, target="a"), estimate("auto", 1.4, target="b"))
    looks = Looks(2000)
    (row,) = compare(found, 0.95, looks)
    assert row["high"] - row["value"] == pytest.approx(looks.critical(0.95, 400) * 0.1)
    assert row["p_value"] == pytest.approx(looks.p_value(0.4, 0.1, 400, 0.95))


def test_a_ratio_of_means_may_follow_a_mean_of_other_weights():
    """Plans that share one pass ask it for more as they come: snips needs products that rips did not."""
    rng = np.random.default_rng(0)
    p0, p1 = rng.uniform(0.2, 1, (60_000, 2)), rng.uniform(0.2, 1, (60_000, 2))
    log = cr.RankingLog(
        action=np.zeros((60_000, 2), int), reward=p0, propensity=p0, targets={"new": p1}
    )
    found = cr.evaluate(log, ["new"], estimators="rips,snips", audit=False)
    assert {one.estimator for one in found.estimates} == {"rips", "snips"}


@pytest.mark.parametrize("context", [False, True])
def test_controls_count_where_auto_is_held_against_others(context):
    """One position and weights alone: auto is the mean of y = w r with (w - 1) and (w - 1) x regressed out.

    Its difference to IPS is the part that the controls take away: its error is theirs, row by row.
    """
    rng = np.random.default_rng(4)
    n = 500
    action = rng.integers(0, 2, (n, 1))
    target = np.where(action, 0.75, 0.25)
    x = rng.normal(size=(n, 1))
    reward = 1.0 + 0.3 * x + rng.random((n, 1)) * action
    log = cr.RankingLog(
        action=action, reward=reward, propensity=np.full((n, 1), 0.5), targets={"new": target},
        context=x if context else None,
    )  # fmt: skip
    options = Options(targets=("new",), estimators=("auto", "ips"))
    run = RewardRun(
        MemorySource(log), options, metrics_of(log, None, None, ()).measures[0], True, False
    )
    run.prepare({}, None, run)
    whole = run.source.reduce(Pass([run.passing(audited=True)], [], False, False))
    found = {one.job.name: one for one in run.estimates(whole.parts[0])}
    w = target[:, 0] / 0.5
    controls = np.column_stack([w - 1, (w - 1) * x[:, 0]] if context else [w - 1])
    y = w * reward[:, 0]
    away = controls - controls.mean(axis=0)
    beta = np.linalg.lstsq(away, y - y.mean(), rcond=None)[0]
    auto, ips = found["auto"], found["ips"]
    assert auto.estimate.value == pytest.approx(y.mean() - controls.mean(axis=0) @ beta, rel=1e-9)
    left = y - y.mean() - away @ beta
    assert auto.by_rows.stderr == pytest.approx(left.std(ddof=1) / n**0.5, rel=1e-9)
    assert auto.by_rows.stderr < 0.7 * auto.without_controls.by_rows.stderr
    taken = away @ beta
    assert (auto.by_rows - ips.by_rows).stderr == pytest.approx(
        taken.std(ddof=1) / n**0.5, rel=1e-9
    )
