"""Every line of the verdict on evidence made by hand: which side of each line a value falls on, and
what it says.
"""

import math

import numpy as np
import pytest
from scipy.special import ndtri

from counterrank.common.errors import ConfigError
from counterrank.common.findings import FAILED, Finding
from counterrank.estimators import Estimate, get_estimator
from counterrank.estimators.base import Lift, PositionValue
from counterrank.estimators.weights.diagnostics import mean_weight_test
from counterrank.estimators.weights.moments import moments_of
from counterrank.estimators.weights.thresholds import SIGNIFICANT
from counterrank.evaluation.comparisons import Rival
from counterrank.evaluation.verdict import (
    TargetEvidence,
    _times,
    level_of,
    meets,
    of_audit,
    reasons,
    round_up,
    scale_of,
    verdict,
)


def estimate(
    *, value=2.0, half=0.01, lift=0.0, lift_half=0.01, ess=1000.0, n=1000, estimator="iips", **more
):
    return Estimate(
        target="new", estimator=estimator, value=value, stderr=half / 2, by_position=(PositionValue(value, half),) * 2,
        ess=ess, n=n, level=0.95, lift=Lift(lift, lift_half / 2, lift - lift_half, lift + lift_half),
        ends=(value - half, value + half), **more,
    )  # fmt: skip


def row_of(check, found=None, **evidence):
    found = estimate() if found is None else found
    fields = {"logged": 1.0, "units": 1000, "outcomes": 1000.0, **evidence}
    rows = reasons(TargetEvidence(found, **fields))
    return next(row for row in rows if row["check"] == check)


def judged(evidence, *audit):
    return verdict({"new": [*of_audit(audit, "new"), *reasons(evidence)]})


def weights(w):
    w = np.asarray(w, dtype=float)
    return moments_of(w, w, np.ones_like(w), np.ones(w.shape[1]))[0]


def test_what_mostly_rests_on_models_is_not_reliable():
    found = row_of("model-alone", estimate(unreached=0.51))
    assert found["status"] == "warn" and "of what the target shows together" in found["reason"]
    rows = reasons(TargetEvidence(estimate(unreached=0.5), logged=1.0, units=1000, outcomes=1000.0))
    assert not [row for row in rows if row["check"] == "model-alone"]


@pytest.mark.parametrize(
    "units, status", [(500, "pass"), (499, "warn"), (100, "warn"), (99, "fail")]
)
def test_units(units, status):
    found = row_of("units", units=units)
    assert found["status"] == status
    assert found["rows"] == (None if status == "pass" else round_up(1000 * 500 / units))
    unsaid = row_of("units", units=units, clustered=False)
    assert (
        unsaid["status"] == ("fail" if status == "fail" else "warn")
        and "--independent-rows" in unsaid["help"]
    )
    assert row_of("units", units=units, clustered=False, independent=True)["status"] == status


@pytest.mark.parametrize("ess, status", [(500, "pass"), (499, "warn"), (100, "warn"), (99, "fail")])
def test_effective_rows(ess, status):
    found = row_of("ess", estimate(ess=ess))
    assert found["status"] == status and found["rows"] == (
        None if status == "pass" else round_up(1000 * 500 / ess)
    )


def test_effective_rows_are_the_fewer_of_the_estimate_and_what_it_rests_on():
    """Every tenth row carries the weight: 100 of 1,000; of 200 rows 20, which fails unless the
    weights are borrowed.
    """
    few = np.tile([[10.0]] + [[0.0]] * 9, (100, 2))
    assert row_of("ess", moments=weights(few))["status"] == "warn"
    assert row_of("ess", moments=weights(few[:200]))["status"] == "fail"
    assert row_of("ess", moments=weights(few[:200]), borrowed=True)["status"] == "warn"
    assert (
        row_of("ess", estimate(ess=50.0), moments=weights(few[:200]), borrowed=True)["status"]
        == "warn"
    )
    assert (
        row_of("ess", estimate(ess=15.0), moments=weights(few[:200]), borrowed=True)["status"]
        == "fail"
    )


def test_a_weak_position_is_named():
    w = np.ones((1000, 6))
    w[:, 1] = np.where(np.arange(1000) % 11 == 0, 11.0, 0.0)  # 91 rows
    found = row_of("ess", moments=weights(w))
    assert found["status"] == "warn" and "fewer than 100 at position 2" in found["reason"]
    assert found["rows"] == round_up(1000 * 100 / 91)
    w[:, 1] = np.where(np.arange(1000) % 10 == 0, 10.0, 0.0)  # 100 rows
    assert row_of("ess", moments=weights(w))["status"] == "pass"


@pytest.mark.parametrize(
    "outcomes, status", [(100, "pass"), (99.9, "warn"), (30, "warn"), (29.9, "fail")]
)
def test_outcomes(outcomes, status):
    found = row_of("outcomes", outcomes=outcomes)
    assert found["status"] == status
    assert found["rows"] == (None if status == "pass" else round_up(1000 * 100 / outcomes))


@pytest.mark.parametrize(
    "lift, half, status",
    [(0, 0.05, "pass"), (0, 0.0501, "warn"), (0, 0.25, "warn"), (0, 0.2501, "fail"), (0.6, 0.3, "pass"),
     (-0.6, 0.3, "pass"), (0.6, 0.301, "warn"), (0.6, 0.6, "warn"), (0.6, 0.601, "fail"), (-0.6, 0.601, "fail"),
     (0.2, 0.24, "warn"), (0, math.nan, "fail"), (0, math.inf, "fail")],
)  # fmt: skip
def test_precision_is_relative_to_the_logger_or_to_the_lift(lift, half, status):
    assert row_of("precision", estimate(lift=lift, lift_half=half))["status"] == status


def test_precision_counts_in_what_the_logger_earns_and_says_how_many_rows_would_do():
    found = row_of("precision", estimate(lift_half=0.2), logged=-2.0)
    assert found["status"] == "warn" and found["rows"] == 4000 and "10.0\u202f%" in found["reason"]
    assert row_of("precision", estimate(value=8.0, lift_half=0.4), logged=0.0)["status"] == "pass"
    assert row_of("precision", estimate(value=8.0, lift_half=0.41), logged=0.0)["status"] == "warn"
    assert row_of("precision", estimate(value=0.0, lift_half=0.0), logged=0.0)["status"] == "pass"
    assert row_of("precision", estimate(value=0.0, lift_half=0.1), logged=0.0)["status"] == "fail"
    near = row_of(
        "precision", estimate(lift=0.1, lift_half=0.06)
    )  # (2 * .06 / .1)^2 and (.06 / .05)^2 are both 1.44
    assert near["rows"] == round_up(1440)
    assert row_of("precision", estimate(lift=0.18, lift_half=0.1))["rows"] == round_up(
        1000 * (0.2 / 0.18) ** 2
    )


@pytest.mark.parametrize(
    "half, status", [(0.01, "pass"), (0.011, "warn"), (0.05, "warn"), (0.051, "fail")]
)
def test_what_matters_in_practice_sets_the_lines(half, status):
    assert row_of("precision", estimate(lift_half=half), practical=0.01)["status"] == status


@pytest.mark.parametrize(
    "share, status", [(0.01, "pass"), (0.011, "warn"), (0.05, "warn"), (0.051, "fail")]
)
def test_support_is_that_of_the_worst_position(share, status):
    found = row_of("support", unsupported=[0.0, share, 0.005])
    assert (
        found["status"] == status and f"{100 * share:.1f}\u202f% of position 2" in found["reason"]
    )
    assert status == "pass" or found["help"].endswith("position 2")


def test_estimated_propensities_are_directional_at_best():
    said = row_of("propensities", estimated_propensity=True, sign_changes_at=1.234)["reason"]
    assert said.endswith("wrong by a factor of 1.23 they turn the sign")
    found = reasons(
        TargetEvidence(
            estimate(), 1.0, 1000, 1000.0, estimated_propensity=True, assumption_free=True
        )
    )
    assert level_of(found) == "directional"


def test_the_unit_of_propensities_is_guessed_beyond_a_factor_of_three():
    # Means below 1 tell nothing: rare heavy weights may be missing. Later positions have products of factors.
    for mean in ([2.99], [1 / 3.01], [0.0], [np.nan], [1.0, 100.0]):
        assert scale_of(np.array(mean)) == ""
    assert "about 3 times too small" in scale_of(np.array([3.01, 9.0]))


def test_the_sentence_blames_the_worst_and_counts_the_rest():
    bad = TargetEvidence(
        estimate(ess=50.0, estimator="auto"), 1.0, 400, 1000.0, assumption_free=True, fresh=True
    )
    said = judged(bad)
    assert (
        said["level"] == "insufficient"
        and "50 effective" in said["summary"]
        and "(and 1 more)" in said["summary"]
    )
    good = TargetEvidence(
        estimate(estimator="auto"), 1.0, 1000, 1000.0, assumption_free=True, fresh=True
    )
    said = judged(good)
    assert (
        said["level"] == "reliable" and f"all {len(reasons(good))} checks passed" in said["summary"]
    )
    alone = TargetEvidence(
        estimate(estimator="auto"), 1.0, 400, 1000.0, assumption_free=True, fresh=True
    )
    assert judged(alone)["level"] == "directional" and "more)" not in judged(alone)["summary"]


@pytest.mark.parametrize("basis, told", [("pbm", True), ("iips", False), ("dm", False)])
def test_a_model_of_users_that_nothing_contradicts_is_directional(basis, told):
    named = estimate(basis=basis, traits=get_estimator(basis).traits)
    rows = reasons(TargetEvidence(named, 1.0, 1000, 1000.0, assumption_free=True))
    assert [row["status"] for row in rows if row["check"] == "model-alone"] == (
        ["warn"] if told else []
    )


def test_an_interval_without_length_is_contradicted_by_any_real_difference():
    sure = estimate(half=0.25, allowance=0.25)
    assert (
        row_of("agreement", sure, rivals=[Rival("ips", 1.0, 0.1, usable=True)])["status"] == "fail"
    )
    assert (
        row_of("agreement", sure, rivals=[Rival("ips", 0.2, 0.001, usable=True)])["status"]
        == "pass"
    )


def test_where_there_is_next_to_nothing_the_rows_needed_stay_finite():
    assert row_of("units", units=0)["rows"] == 500_000
    assert row_of("ess", estimate(ess=0.5))["rows"] == 500_000
    assert row_of("outcomes", outcomes=0.2)["rows"] == 100_000
    w = np.ones((1000, 6))
    w[1:, 1] = 0.0  # one row is left at position 2
    assert row_of("ess", moments=weights(w))["rows"] == 100_000


def spread_around(mean, n=1000):
    return weights(mean + 0.1 * np.where(np.arange(n) % 2, 1.0, -1.0)[:, None])


def test_a_mean_weight_a_little_off_warns_and_far_off_fails():
    assert row_of("mean-weight", moments=spread_around(1.04))["status"] == "warn"
    assert row_of("mean-weight", moments=spread_around(0.96))["status"] == "warn"
    assert row_of("mean-weight", moments=spread_around(1.4))["status"] == "fail"


def test_two_sets_of_weights_are_two_tests():
    """Alone the mean is off beyond chance; as the worse of two it is not."""
    z = -ndtri(0.7 * SIGNIFICANT / 2)
    off = spread_around(1 + z * 0.1 / math.sqrt(1000))
    assert SIGNIFICANT / 2 < mean_weight_test(off).p_value < SIGNIFICANT
    assert row_of("mean-weight", moments=off)["status"] != "pass"
    assert row_of("mean-weight", moments=off, lightest=spread_around(1.0))["status"] == "pass"


def test_a_position_on_the_line_of_support_is_not_blamed():
    assert row_of("support", unsupported=[0.02, 0.01])["help"].endswith("position 1")


def test_without_rivals_an_allowance_stands_in():
    none = row_of("agreement")
    assert none["status"] == "warn" and "(none was run)" in none["reason"]
    named = row_of("agreement", rivals=[Rival("ips", 0.1, 9.0, usable=False)])
    assert named["status"] == "warn" and "(ips)" in named["reason"]
    allowed = row_of("agreement", estimate(half=0.5, allowance=0.25))
    assert allowed["status"] == "pass" and "allows for a bias of 0.25" in allowed["reason"]


def test_a_contradiction_is_counted_in_half_widths_beyond_what_is_allowed():
    found = estimate(half=0.5, allowance=0.1)
    said = row_of("agreement", found, rivals=[Rival("ips", -0.9, 0.01, usable=True)])
    assert said["status"] == "fail" and "by 2.0 times the half-width" in said["reason"]


def test_precision_at_its_lines():
    assert row_of("precision", estimate(lift_half=0.02), logged=0.5)["status"] == "pass"
    nothing = row_of("precision", estimate(value=0.0, lift_half=0.0), logged=0.0)
    assert "± 0.0\u202f%" in nothing["reason"]
    assert row_of("precision", estimate(lift=0.5, lift_half=0.25))["status"] == "pass"
    assert row_of("precision", estimate(lift_half=0.15))["rows"] == 9000


def test_needs_are_rounded_up_to_two_digits_and_said_as_people_do():
    counts = [0, 7, 7.2, 99, 99.5, 100, 101, 999, 1000, 12_345]
    rounded = [0, 7, 8, 99, 100, 100, 110, 1000, 1000, 13_000]
    assert [round_up(one) for one in counts] == rounded
    assert [_times(one) for one in (1.3218, 2.0, 9.94, 10.4, 497.2)] == [
        "1.3",
        "2",
        "9.9",
        "11",
        "500",
    ]


def test_levels_are_ordered():
    levels = ("insufficient", "directional", "reliable")
    for i, level in enumerate(levels):
        assert [meets(level, required) for required in levels] == [i >= j for j in range(3)]
    with pytest.raises(ConfigError, match="'certain' is no evidence level"):
        meets("certain", "reliable")
    with pytest.raises(ConfigError, match="'sure' is no evidence level"):
        meets("reliable", "sure")


@pytest.mark.parametrize("z, status", [(1.6, "pass"), (1.7, "warn"), (2.5, "warn"), (2.6, "fail")])
def test_a_rival_that_may_well_differ_is_a_doubt(z, status):
    """Within a tenth of chance and further than half the half-width: 0.03 beside 0.01."""
    rival = Rival("ips", 0.03, 0.03 / z, usable=True)
    found = row_of("agreement", rivals=[rival])
    assert found["status"] == status
    assert (
        row_of("agreement", rivals=[Rival("ips", 0.004, 0.004 / z, usable=True)])["status"]
        == "pass"
    )


@pytest.mark.parametrize(
    "lift, lifts, status",
    [
        (0.05, (-0.01, -0.02), "warn"),
        (-0.05, (0.01, 0.02), "warn"),
        (0.05, (-0.01, 0.02), "pass"),
        (0.05, (-0.01,), "pass"),
        (0.005, (-0.01, -0.02), "pass"),
    ],
)
def test_weights_that_all_point_the_other_way_are_no_agreement(lift, lifts, status):
    near = [Rival("ips", 0.06, 0.06, usable=True)]
    found = row_of("agreement", estimate(lift=lift, lift_half=0.01), rivals=near, lifts=lifts)
    assert found["status"] == status


def test_no_rows_are_named_where_none_would_do():
    # What is allowed for bias is part of the interval, and falls with the rows as the rest does.
    for allowance in (0.0, 0.1):
        some = row_of("precision", estimate(lift=0.0, lift_half=0.2, allowance=allowance))
        assert some["status"] == "warn" and some["rows"] == round_up(1000 * (0.2 / 0.05) ** 2)
    absurd = row_of("precision", estimate(lift=0.0, lift_half=5.0))
    assert absurd["rows"] is None and "no number of rows like these" in absurd["help"]


def test_the_cause_goes_before_more_rows():
    day = Finding("mean-weight-by-day", FAILED, "off on 2026-10-09", ("leave that day out",))
    bad = TargetEvidence(
        estimate(ess=50.0, estimator="auto"),
        1.0,
        400,
        1000.0,
        assumption_free=True,
    )
    said = judged(bad, day)
    assert said["level"] == "insufficient"
    assert "What would help: leave that day out" in said["summary"] and "more)" in said["summary"]


def test_weights_that_are_the_smaller_part_of_an_estimate_do_not_judge_it():
    from types import SimpleNamespace

    from counterrank.evaluation.verdict import resting_on

    moments = object()
    for weighted, expected in ((0.0, None), (0.5, None), (0.6, moments), (1.0, moments)):
        evidence = SimpleNamespace(moments=moments, estimate=SimpleNamespace(weighted=weighted))
        assert resting_on(evidence) is expected


@pytest.mark.parametrize(("shares", "fatal"), [([0.0, 0.9, 0.9], True), ([0.0, 0.0, 0.9], False)])
def test_most_of_a_target_that_was_never_shown_leaves_nothing_to_say(shares, fatal):
    rows = reasons(TargetEvidence(estimate(), 1.0, 1000, 1000.0, unsupported=shares))
    support = next(row for row in rows if row.code == "support")
    assert support.status is FAILED and support.fatal is fatal
