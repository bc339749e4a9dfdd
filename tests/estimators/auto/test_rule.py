"""The rule by itself: a pure function of means and covariances, moved and bounded as it says."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import ndtr

from counterrank.estimators.auto.defaults import DEFAULTS
from counterrank.estimators.auto.rule import (
    Decision,
    MemberStep,
    contrast_of,
    decide,
    estimate_from,
)
from counterrank.estimators.auto.state import Summary
from counterrank.statistics import ONCE, bias_aware_half, bias_aware_value, critical_value


def summary(values, errors, *, models=(), members=("iips", "ips"), earned=1.0, **changes):
    """Independent members of two equal positions with these values and standard errors."""
    J = len(members)
    value = np.array([earned, *values, *models], dtype=float)
    covariance = np.diag(np.array([0.01, *errors, *np.ones(len(models))], dtype=float) ** 2)
    options = {
        "members": members, "n": 1000, "units": 1000, "alpha": np.ones(2), "value": value, "covariance": covariance,
        "at": np.tile(value[: 1 + J] / 2, (2, 1)), "at_covariance": np.zeros((2, 1 + J, 1 + J)),
        "inflation": np.ones(J),
        "seen": np.ones(J, dtype=bool), "unsupported": np.zeros(J), "alone": 0.0, "terms": np.eye(J), 
        "volume": np.zeros(2),
    }  # fmt: skip
    return Summary(**{**options, **changes})


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
@pytest.mark.parametrize("bias", [0.0, 0.3, 1.0, 4.0, 60.0])
def test_the_quantile_covers_exactly_at_the_stated_bias(bias, level):
    c = bias_aware_value(bias, level)
    assert ndtr(c - bias) - ndtr(-c - bias) == pytest.approx(level, abs=1e-11)
    assert bias_aware_value(-bias, level) == c
    assert max(critical_value(level), bias) <= c <= critical_value(level) + bias + 1e-12


def test_few_units_take_the_t_quantile():
    assert bias_aware_value(0.0, 0.95, df=4) == pytest.approx(critical_value(0.95, 4), rel=1e-12)
    assert bias_aware_half(2.0, 1.0, 0.95, df=4) > bias_aware_half(2.0, 1.0, 0.95)
    assert np.isnan(bias_aware_half(np.nan, 1.0, 0.95))


def test_a_member_that_knows_takes_over():
    found = decide(summary([1.0, 1.3], [0.01, 0.001]))
    assert found.weights[1] > 0.99 and found.allowance < 0.01 and found.basis == "ips"


def test_a_member_that_knows_nothing_changes_nothing_and_leaves_the_bias_open():
    found = decide(summary([1.0, 3.0], [0.01, 50.0]))
    assert found.weights.tolist() == [1.0, 0.0] and found.basis == "iips"
    assert found.allowance == pytest.approx(np.hypot(0.01, 50.0), rel=1e-12)


@pytest.mark.parametrize("difference", [0.05, 0.19999, 0.20001, 0.3, -0.3, 2.0])
def test_a_step_follows_its_formula(difference):
    """Nothing within two standard errors; beyond, all but the square of two over z."""
    found = decide(summary([1.0, 1.0 + difference], [0.0, 0.1]))
    z = abs(difference) / 0.1
    share = max(1 - (2 / z) ** 2, 0.0)
    np.testing.assert_allclose(found.weights, [1 - share, share], atol=1e-12)
    assert found.allowance == pytest.approx((1 - share) * max(abs(difference), 0.1), rel=1e-9)
    step = found.steps[0]
    assert (step.member, step.share) == ("ips", pytest.approx(share, abs=1e-12))
    assert step.difference == pytest.approx(difference) and step.stderr == pytest.approx(0.1)


def test_every_step_is_taken_from_the_combination_so_far():
    """Three members, correlated, so that a step moves all weights; the same by plain arithmetic."""
    values = np.array([1.0, 1.9, 0.3])
    covariance = np.array([[0.01, 0.004, 0.002], [0.004, 0.09, 0.03], [0.002, 0.03, 0.04]])
    whole = np.eye(4)
    whole[1:, 1:] = covariance
    unsupported = np.array([0.0, 0.2, 0.1])
    given = summary(values, np.ones(3), members=("iips", "order-2", "ips"), unsupported=unsupported,
                    covariance=whole, earned=0.4)  # fmt: skip
    found = decide(given)
    w, bounds = np.array([1.0, 0.0, 0.0]), []
    for j in (1, 2):
        move = np.eye(3)[j] - w
        d, s = move @ values, np.sqrt(move @ covariance @ move)
        share = 1 - (2 * s / d) ** 2
        assert 0.0 < share < 1.0
        w = w + share * move
        # The first member expects a change of .6; what has no support of it stays open.
        bounds.append((1 - share) * max(abs(d), s) + unsupported[j] * 0.6)
    np.testing.assert_allclose(found.weights, w, rtol=1e-12)
    assert found.allowance == pytest.approx(min(bounds), rel=1e-12)
    assert contrast_of(given, found).value.stderr == pytest.approx(
        np.sqrt(w @ covariance @ w), rel=1e-12
    )


def test_members_whose_weights_never_occurred_are_not_asked():
    never = decide(summary([1.0, 9.0], [0.01, 0.0], seen=np.array([True, False]), earned=0.7))
    assert never.weights.tolist() == [1.0, 0.0] and not never.steps
    # Nothing speaks for the change that is expected, so all of it may be wrong.
    assert never.allowance == pytest.approx(0.3)


MODELLED = {"members": ("models", "aimed", "iips", "ips"), "models": (0.9, 1.2)}


def test_the_allowance_adds_its_parts_in_squares():
    given = summary([1.5, 1.6, 9.0, 1.5], [0.0, 0.2, 0.1, 5.0], alone=0.5, **MODELLED)
    found = decide(given)
    assert found.parts == {
        "what the log leaves open": pytest.approx(0.2),
        "models disagree": pytest.approx(0.15),
        "rests on the models alone": pytest.approx(0.25),
    }
    assert found.allowance == pytest.approx(np.sqrt(0.2**2 + 0.15**2 + 0.25**2))


def test_whole_rankings_bound_what_everything_else_leaves_open():
    given = summary([1.5, 1.6, 9.0, 1.515], [0.0, 0.2, 0.1, 0.01], alone=0.5, **MODELLED)
    found = decide(given)
    assert found.parts == {"what whole rankings leave open": pytest.approx(0.015)}


def test_own_position_weights_do_not_move_models_that_see_the_page_unless_they_are_all_there_is():
    given = summary([1.0, 1.0, 2.0, 1.0], [0.01, 0.1, 0.01, 9.0], **MODELLED)
    found = decide(given)
    assert found.weights.tolist() == [1.0, 0.0, 0.0, 0.0] and found.basis == "iips"
    single = summary([1.0, 1.0, 2.0], [0.01, 0.1, 0.01], members=("models", "aimed", "iips"), models=(1.0,),
                     alpha=np.ones(1), at=np.ones((1, 4)), volume=np.zeros(1))  # fmt: skip
    assert decide(single).weights[2] > 0.99


def test_models_that_the_log_refutes_do_not_disagree():
    given = summary([1.5, 1.6, 9.0, 1.5], [0.0, 0.2, 0.1, 5.0], **MODELLED)
    assert decide(given).parts["models disagree"] == pytest.approx(0.15)
    found = decide(given, counted=np.array([True, False]))
    assert "models disagree" not in found.parts
    assert found.allowance == pytest.approx(0.2) and (found.weights == decide(given).weights).all()


def test_what_lists_leave_unknown_counts_for_what_rests_on_models():
    given = summary([1.0, 1.0, 1.0, 1.0], [0.1, 0.1, 0.1, 1e9], **MODELLED)
    found = decide(given, unknown=0.04)
    assert contrast_of(given, found).value.stderr == pytest.approx(np.sqrt(0.01 + 0.04))
    sure = summary([1.0, 1.0, 1.0, 2.0], [0.1, 0.1, 0.1, 1e-9], **MODELLED)
    assert decide(sure, unknown=0.04).unknown < 0.04 * 0.01


def test_whole_rankings_count_by_what_lists_leave_unknown():
    # d = 0.1 with s = 0.1: chance by itself. Beside an unknown variance of 0.03 it is three quarters
    # of what is known.
    given = summary([1.0, 1.0, 1.0, 1.1], [0.0, 0.1, 0.1, 0.1], **MODELLED)
    assert decide(given).steps[-1].share == 0.0
    found = decide(given, unknown=0.03)
    assert found.steps[-1].member == "ips" and found.steps[0].share == 0.0
    assert found.steps[-1].share == pytest.approx(0.75, rel=1e-12)
    assert found.steps[-1].bound == pytest.approx(0.25 * 0.1, rel=1e-12)
    assert found.unknown == pytest.approx(0.03 * 0.25**2, rel=1e-12)
    # Strong evidence is taken as ever.
    strong = summary([1.0, 1.0, 1.0, 3.0], [0.0, 0.1, 0.1, 0.1], **MODELLED)
    assert decide(strong, unknown=1e-9).steps[-1].share == pytest.approx(0.99, rel=1e-9)


def test_a_given_allowance_is_the_allowance():
    found = decide(summary([1.0, 1.2], [0.0, 0.1]), allowance=0.4)
    assert found.allowance == 0.4 and found.parts == {"given": 0.4}


def test_one_member_of_whole_rankings_needs_no_allowance():
    assert decide(summary([2.0], [0.1], members=("ips",))).allowance == 0.0


def test_nothing_to_allow_for_and_nothing_seen_moves_nothing():
    found = decide(summary([1.0, 1.0], [0.0, 0.0]))
    assert found.weights.tolist() == [1.0, 0.0] and found.allowance == 0.0


ALPHA = np.array([1.0, 0.5])


def of_two_positions(**changes):
    """Three members and two models at two positions, everything correlated with everything."""
    rng = np.random.default_rng(11)
    roots = rng.normal(size=(3, 6, 6))
    whole, *by_position = 1e-3 * roots @ roots.swapaxes(1, 2)
    options = {
        "members": ("models", "iips", "ips"), "n": 40, "units": 5, "alpha": ALPHA,
        "value": np.array([0.8, 1.0, 1.3, 1.1, 0.9, 1.2]), "covariance": whole,
        "at": np.array([[0.5, 0.7, 0.9, 0.6], [0.4, 0.5, 0.3, 0.8]]),
        "at_covariance": np.stack(by_position)[:, :4, :4], "inflation": np.array([1.0, 1.5, 4.0]),
        "seen": np.ones(3, dtype=bool), "unsupported": np.array([0.0, 0.1, 0.25]), "alone": 0.5,
        "terms": np.eye(3), "volume": np.zeros(2),
    }  # fmt: skip
    return Summary(**{**options, **changes})


def estimate_of(
    given, weights=(0.2, 0.5, 0.3), *, mean_weight=(30.0, 45.0), allowance=0.07, steps=()
):
    parts = {"given": allowance, "nothing": 0.0}
    decision = Decision(np.array(weights), allowance, parts, steps, "iips")
    state = SimpleNamespace(mean_weight=np.array(mean_weight), n=given.n)
    workspace = SimpleNamespace(target="new", level=0.9, looks=ONCE)
    return estimate_from(state, given, decision, workspace, ("first",), {})


def test_the_estimate_is_its_combination_of_members():
    """Value, error, interval, positions, lift and ratio from first principles, to the last digits."""
    given, w = of_two_positions(), np.array([0.2, 0.5, 0.3])
    found = estimate_of(given)
    value, se = w @ given.value[1:4], np.sqrt(w @ given.covariance[1:4, 1:4] @ w)
    assert found.value == pytest.approx(value, rel=1e-12)
    assert found.stderr == pytest.approx(se, rel=1e-12)
    for level in (0.5, 0.9):
        half = bias_aware_half(se, 0.07, level, 4)
        np.testing.assert_allclose(found.interval(level), (value - half, value + half), rtol=1e-12)
    assert (found.ess, found.n, found.level, found.allowance) == (20.0, 40, 0.9, 0.07)
    # What histories add to the total stands at positions in proportion to alpha: totals agree.
    plain = given.at[:, 1:] @ w
    added = (value - ALPHA @ plain) / (ALPHA @ ALPHA) * ALPHA
    assert abs(added).min() > 0.01
    own = np.array([p.value for p in found.by_position])
    np.testing.assert_allclose(own, plain + added, rtol=1e-12)
    errors = [np.sqrt(w @ c[1:, 1:] @ w) for c in given.at_covariance]
    np.testing.assert_allclose([p.stderr for p in found.by_position], errors, rtol=1e-12)

    lift, away = found.lift, np.array([-1.0, *w])
    covariance = given.covariance[:4, :4]
    error = np.sqrt(away @ covariance @ away)
    half = bias_aware_half(error, 0.07, 0.9, 4)
    wanted = [value - 0.8, error, value - 0.8 - half, value - 0.8 + half]
    np.testing.assert_allclose([lift.value, lift.stderr, lift.low, lift.high], wanted, rtol=1e-12)
    np.testing.assert_allclose(
        [p.value for p in lift.by_position], own - given.at[:, 0], rtol=1e-12
    )
    errors = [np.sqrt(away @ c @ away) for c in given.at_covariance]
    np.testing.assert_allclose([p.stderr for p in lift.by_position], errors, rtol=1e-12)
    gradient = np.array([-value / 0.8**2, *(w / 0.8)])
    half = bias_aware_half(np.sqrt(gradient @ covariance @ gradient), 0.07 / 0.8, 0.9, 4)
    ratio = value / 0.8 - 1
    np.testing.assert_allclose(
        [lift.relative, lift.relative_low, lift.relative_high],
        [ratio, ratio - half, ratio + half],
        rtol=1e-12,
    )


def test_the_details_are_those_of_the_members():
    given = of_two_positions()
    found = estimate_of(given, (0.0, 0.6, 0.4)).details
    errors = np.sqrt(np.diag(given.covariance))
    rows = [
        ("models", 1.0, errors[1], 0.0, 1.0, 0.0),
        ("iips", 1.3, errors[2], 0.6, 1.5, 0.1),
        ("ips", 1.1, errors[3], 0.4, 4.0, 0.25),
    ]
    assert [tuple(m.values()) for m in found["members"]] == rows
    assert found["combination"] == {"iips": 0.6, "ips": 0.4} and found["models"] == [0.9, 1.2]
    path = [tuple(step.values()) for step in found["order_path"]]
    assert path == [(1, 1.3, errors[2]), (2, 1.1, errors[3])]


def test_one_unit_has_one_degree_of_freedom_and_a_logger_that_earned_nothing_no_ratio():
    given = of_two_positions(units=1, value=np.array([0.0, 1.0, 1.3, 1.1, 0.9, 1.2]))
    found = estimate_of(given, mean_weight=(0.0, 0.0))
    half = bias_aware_half(found.stderr, 0.07, 0.9, 1)
    np.testing.assert_allclose(
        found.interval(), (found.value - half, found.value + half), rtol=1e-12
    )
    half = bias_aware_half(found.lift.stderr, 0.07, 0.9, 1)
    assert found.lift.high == pytest.approx(found.value + half, rel=1e-12)
    assert np.isnan(found.lift.relative) and found.ess == 0.0


def test_flags_say_what_is_missing_and_what_is_not():
    found = estimate_of(of_two_positions())
    assert [flag.partition(":")[0] for flag in found.flags] == [
        "first",
        "no-support",
        "model-alone",
        "bias-allowance",
    ]
    assert found.flags[-1].endswith("a bias of 0.07 (given 0.07; docs/auto.md)")
    at_the_line = DEFAULTS.told
    calm = estimate_of(of_two_positions(unsupported=np.zeros(3), alone=at_the_line))
    assert [flag.partition(":")[0] for flag in calm.flags] == ["first", "bias-allowance"]
    given = of_two_positions(unsupported=np.zeros(3), alone=0.0)
    assert estimate_of(given, allowance=0.0).flags == ("first",)


def test_a_log_is_no_evidence_without_weights_or_beyond_the_reach_of_models():
    at_the_line = DEFAULTS.reach
    assert estimate_of(of_two_positions(alone=at_the_line)).estimable
    assert not estimate_of(of_two_positions(alone=at_the_line + 1e-9)).estimable
    unseen = np.array([False, True, True])
    assert estimate_of(of_two_positions(seen=unseen)).estimable
    bare = {"covariance": np.eye(4), "value": np.array([0.8, 1.0, 1.3, 1.1])}
    assert estimate_of(of_two_positions(**bare)).estimable
    assert not estimate_of(of_two_positions(**bare, seen=unseen)).estimable


def test_the_reason_names_steps_that_moved_it_by_half_a_percent():
    def why(share):
        step = MemberStep("ips", 0.1, 0.1, share, 0.07)
        return estimate_of(of_two_positions(), steps=(step,)).details["why"]

    assert why(0.0049).startswith("no richer weights moved it")
    assert why(0.005).startswith("moved towards ips") and why(0.5).startswith(
        "moved towards ips (50"
    )


def test_rewards_whose_squares_vanish_move_nothing():
    tiny = summary([1e-200, 2e-200], [0.0, 0.0], earned=1e-200)
    assert np.isfinite(decide(tiny).weights).all()


def test_gains_in_clicks_and_losses_in_amounts_both_count():
    """At each position a change of nothing is +.3 in clicks and -.3 in what they earn."""
    given = summary(
        [1.0, 1.0, 1.0, 1.0], [0.1, 0.1, 0.1, 9.0], **MODELLED, volume=np.full(2, 0.3), alone=0.5
    )
    assert given.change == pytest.approx(1.2)
    assert decide(given).parts["rests on the models alone"] == pytest.approx(0.6)
