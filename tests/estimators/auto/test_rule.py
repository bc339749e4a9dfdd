"""The rule by itself: a pure function of means and covariances, moved and bounded as it says."""

from dataclasses import replace
from itertools import combinations, product
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks.interval_coverage import World
from scipy.special import ndtr

import counterrank as cr
from counterrank.estimators.auto.defaults import DEFAULTS
from counterrank.estimators.auto.rule import (
    DIFFER,
    Decision,
    MemberStep,
    Summary,
    adaptive,
    basis_of,
    combined,
    decide,
    expected_squares,
    half_of_lift,
    left_open,
    shorter,
    threshold,
)
from counterrank.estimators.auto.solution import Members, MemberTable, solution_of
from counterrank.estimators.base import Estimate
from counterrank.statistics import (
    PositionSums,
    Quantity,
    UnitScores,
    bias_aware_half,
    bias_aware_value,
    critical_value,
)


def test_expected_squares_of_weights_are_those_of_every_page():
    """Ratios of four positions that take two values each, with mean one: 16 pages, weighed one by one."""
    rng, K = np.random.default_rng(5), 4
    high, chance = rng.uniform(1.2, 3.0, K), rng.uniform(0.1, 0.3, K)
    values = np.stack([high, (1 - chance * high) / (1 - chance)])  # (2, K), of mean one
    chances = np.stack([chance, 1 - chance])

    def weight(ratios, k, most):
        others = [ratios[j] - 1 for j in range(K) if j != k]
        sets = (subset for size in range(most) for subset in combinations(others, size))
        return ratios[k] * sum(np.prod(subset) for subset in sets)

    expected = dict.fromkeys(("order-2", "order-3", "ips"), 0.0)
    for page in product((0, 1), repeat=K):
        ratios, share = values[page, np.arange(K)], chances[page, np.arange(K)].prod()
        for name, most in zip(expected, (2, 3, K), strict=True):
            # The last position is empty: what is not shown has no weight and does not act.
            shown = np.append(ratios[:-1], 1.0)
            expected[name] += share * sum(weight(shown, k, most) ** 2 for k in range(K - 1))
    excess = (chances * values**2).sum(axis=0) - 1
    squares = expected_squares(("iips", *expected), excess[None], np.arange(K)[None] < K - 1)
    assert squares[:, 0] == pytest.approx([0.0, *expected.values()], rel=1e-12)


def summary(values, errors, *, models=(), members=("iips", "ips"), earned=1.0, **changes):
    """Independent members of two equal positions with these values and standard errors."""
    J = len(members)
    value = np.array([earned, *values, *models], dtype=float)
    covariance = np.diag(np.array([0.01, *errors, *np.ones(len(models))], dtype=float) ** 2)
    options = {
        "members": members, "n": 1000, "units": 1000, "alpha": np.ones(2), "value": value, "covariance": covariance,
        "position_means": np.tile(value[: 1 + J] / 2, (2, 1)),
        "inflation": np.ones(J),
        "occurred": np.ones(J, dtype=bool), "unsupported": np.zeros(J), "alone": 0.0, "jointly": 0.0,
        "volume": np.zeros(2), "ess": 20.0,
    }  # fmt: skip
    return Summary(**{**options, **changes})


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
@pytest.mark.parametrize("bias", [0.0, 0.3, 1.0, 4.0, 60.0])
def test_the_quantile_covers_exactly_at_the_stated_bias(bias, level):
    c = bias_aware_value(bias, level)
    assert ndtr(c - bias) - ndtr(-c - bias) == pytest.approx(level, abs=1e-11)
    assert bias_aware_value(-bias, level) == c
    assert max(critical_value(level), bias) <= c <= critical_value(level) + bias + 1e-12


def test_what_was_not_taken_of_a_difference_is_left_open():
    open_after = {
        share: left_open(summary([1.0, 1.3], [0.1, 0.1]), [MemberStep("ips", 0.3, error, share)])
        for share, error in ((0.0, 0.1), (0.4, 0.1), (0.5, 0.8))
    }
    assert [*map(sum, (bounds.values() for bounds in open_after.values()))] == pytest.approx(
        [0.3, 0.6 * 0.3, 0.5 * 0.8]
    )


def test_what_lists_leave_unknown_makes_the_interval_of_the_lift_longer():
    given = summary([1.0, 1.0], [0.3, 0.4])
    decision = replace(decide(given), centre=np.array([1.0, 0.0]), parts={}, unknown=0.04)
    half = bias_aware_half(np.sqrt(0.01**2 + 0.3**2 + 0.04), 0.0, 0.95, given.units - 1)
    assert half_of_lift(given, decision) == pytest.approx(half, rel=1e-12)


def test_few_units_take_the_t_quantile():
    assert bias_aware_value(0.0, 0.95, df=4) == pytest.approx(critical_value(0.95, 4), rel=1e-12)
    assert bias_aware_half(2.0, 1.0, 0.95, df=4) > bias_aware_half(2.0, 1.0, 0.95)
    assert np.isnan(bias_aware_half(np.nan, 1.0, 0.95))


def test_a_member_that_knows_takes_over():
    found = decide(summary([1.0, 1.3], [0.01, 0.001]))
    assert found.weights[1] > 0.99 and found.centre.tolist() == found.weights.tolist()


def test_a_member_that_knows_nothing_moves_nothing_and_its_interval_says_so():
    given = summary([1.0, 3.0], [0.01, 50.0])
    found = decide(given)
    assert found.weights.tolist() == found.centre.tolist() == [1.0, 0.0]
    # The log could not have shown a bias below the error of the difference.
    assert found.allowance == pytest.approx(np.hypot(50.0, 0.01))
    assert half_of(given, found) > found.allowance


@pytest.mark.parametrize("exploration", [0.7, 0.2])
def test_intervals_of_weights_alone_contain_the_truth(exploration):
    """Clicks depend on the items above, which neither single items nor pairs know.

    95 % intervals of 150 logs contain the truth in fewer than 132 with probability 3e-4.
    """
    world = World(exploration=exploration) if exploration > 0.5 else World()
    inside = 0
    for number in range(150):
        log = world.draw(1500, np.random.default_rng([12, number]))
        low, high = cr.Auto().estimate(log, "new").interval(0.95)
        inside += low <= world.truth <= high
    assert inside >= 132


def half_of(given, decision):
    """Half the length of the 95 % interval of the lift."""
    return half_of_lift(given, decision)


#: Own-position weights never occurred, so that the other steps stand alone.
MODELLED = {
    "members": ("models", "aimed", "iips", "ips"), "models": (0.9, 1.2),
    "occurred": np.array([True, True, False, True]),
}  # fmt: skip
ALONE = {**MODELLED, "models": ()}
#: Whole rankings too rare to tell anything.
RARE = 1e6


@pytest.mark.parametrize("difference", [0.05, 0.19, 0.21, 0.3, -0.3, 2.0])
def test_the_estimate_moves_by_the_formula_and_the_interval_by_all_of_it(difference):
    """Nothing within two standard errors; beyond, all but the square of two over z."""
    given = summary([1.0, 1.0 + difference, 9.0, 1.0], [0.0, 0.1, 0.1, RARE], **ALONE)
    found = decide(given)
    z = abs(difference) / 0.1
    share = max(1 - (2 / z) ** 2, 0.0)
    np.testing.assert_allclose(found.weights, [1 - share, share, 0, 0], atol=1e-12)
    assert found.centre.tolist() == [0, 1, 0, 0]
    assert found.allowance == pytest.approx((1 - share) * abs(difference) / 2)
    step = found.steps[0]
    assert (step.towards, step.share) == ("aimed", pytest.approx(share, abs=1e-12))
    assert step.difference == pytest.approx(difference) and step.difference_stderr == pytest.approx(
        0.1
    )


@pytest.mark.parametrize("bias", [0.0, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0])
def test_the_interval_contains_the_truth_whatever_the_bias_in_the_direction_of_the_target(bias):
    """The models are wrong by `bias` standard errors of d and otherwise know all.

    An exact 95 % interval of 4,000 draws falls below 0.94 in 0.2 %.
    """
    draws, inside = 4_000, 0
    for number, d in enumerate(bias + np.random.default_rng(7).standard_normal(draws)):
        given = summary([0.0, d, 9.0, 0.0], [0.01, 1.0, 1.0, RARE], **ALONE, earned=0.0)
        found = decide(given)
        centre, value = (w @ given.value[1:5] for w in (found.centre, found.weights))
        half, middle = half_of(given, found), (centre + value) / 2
        inside += abs(middle - bias) <= half
        # Never near an end.
        assert abs(middle - value) <= half / 2
        if number < 5:
            lift = estimate_of(given, found, level=0.95).lift
            ends = (lift.value, lift.low, lift.high)
            np.testing.assert_allclose(ends, (value, middle - half, middle + half))
    assert inside / draws >= 0.94


def test_every_step_is_taken_from_the_combination_so_far():
    """Three members, correlated, so that a step moves all weights; the same by plain arithmetic."""
    values = np.array([1.0, 1.9, 0.3])
    covariance = np.array([[0.01, 0.004, 0.002], [0.004, 0.09, 0.03], [0.002, 0.03, 0.04]])
    whole = np.eye(4)
    whole[1:, 1:] = covariance
    given = summary(values, np.ones(3), members=("iips", "order-2", "ips"), covariance=whole)
    for start in (0, 1):
        w = np.eye(3)[start]
        for j in range(start + 1, 3):
            move = np.eye(3)[j] - w
            d, s = move @ values, np.sqrt(move @ covariance @ move)
            share = 1 - (2 * s / d) ** 2
            assert 0.0 < share < 1.0
            w = w + share * move
        np.testing.assert_allclose(
            combined(given, np.eye(3)[start], start + 1, 0.0)[0], w, rtol=1e-12
        )


def test_members_whose_weights_never_occurred_are_not_asked():
    never = decide(summary([1.0, 9.0], [0.01, 0.0], occurred=np.array([True, False]), earned=0.7))
    assert never.weights.tolist() == [1.0, 0.0] and not never.steps
    # Nothing speaks for the change that is expected, so all of it may be wrong.
    assert never.parts == {"what the log leaves open": pytest.approx(0.3)}


def test_without_an_aimed_step_the_interval_starts_at_the_next_member():
    """Log ratios that are all equal: a deterministic target and a uniform logger."""
    seen = np.array([True, False, True, True])
    given = summary([1.0, 1.0, 1.4, 1.0], [0.01, 0.0, 0.5, RARE], **{**MODELLED, "occurred": seen})
    found = decide(given)
    assert found.centre.tolist() == [0, 0, 1, 0] and found.weights[2] < 1e-3
    assert half_of(given, found) > 1.96 * 0.5


def test_the_allowance_adds_its_parts_in_squares():
    given = summary([1.5, 1.6, 9.0, 1.5], [0.0, 0.2, 0.1, 5.0], alone=0.5, jointly=0.4, **MODELLED)
    found = decide(given)
    assert found.parts == {
        "models disagree": pytest.approx(0.15),
        "rests on the models alone": pytest.approx(0.25),
        DIFFER: pytest.approx(0.05),
    }
    assert found.allowance == pytest.approx(np.sqrt(0.15**2 + 0.25**2 + 0.05**2))
    more = decide(
        summary([1.5, 1.6, 9.0, 1.5], [0.0, 0.2, 0.1, 5.0], alone=0.5, jointly=0.8, **MODELLED)
    )
    assert more.parts["rests on the models alone"] == pytest.approx(0.4)


def test_whole_rankings_need_no_allowance_where_their_interval_is_shorter():
    changes = {"alone": 0.5, "unsupported": np.array([0.0, 0.0, 0.0, 0.02])}
    given = summary([1.5, 1.6, 9.0, 1.515], [0.0, 0.2, 0.1, 0.01], **changes, **MODELLED)
    found = decide(given)
    assert found.centre.tolist() == [0, 0, 0, 1]
    assert found.parts == {
        "never shown": pytest.approx(0.02 * 0.5),
        DIFFER: pytest.approx(0.0075 * (1 - found.weights[3])),
    }
    assert estimate_of(given, found).unreached == 0.0
    less = summary([1.5, 1.6, 9.0, 1.515], [0.0, 0.2, 0.1, 0.5], **changes, **MODELLED)
    wide = decide(less)
    assert wide.centre.tolist() == [0, 1, 0, 0] and estimate_of(less, wide).unreached == 0.5


def test_the_interval_moves_continuously_to_whole_rankings_as_theirs_gets_shorter():
    def given(error):
        errors = [0.0, 0.2, 0.1, error]
        return summary([1.5, 1.6, 9.0, 2.0], errors, alone=0.5, jointly=0.8, **MODELLED)

    errors = np.linspace(0.1, 0.5, 8001)
    found = [decide(given(error)) for error in errors]
    centres = np.array([decision.centre @ [1.5, 1.6, 9.0, 2.0] for decision in found])
    assert centres[0] == 2.0 and centres[-1] == pytest.approx(1.6)
    # At once it would be a step of .4.
    assert np.abs(np.diff(centres)).max() < 0.01
    halves = [half_of_lift(given(e), d) for e, d in zip(errors, found, strict=True)]
    assert np.abs(np.diff(halves)).max() < 0.02


def test_of_two_intervals_the_much_shorter_one_is_taken_as_it_is():
    given = summary([1.5, 1.6, 9.0, 2.0], [0.0, 0.2, 0.1, 0.01], **MODELLED)
    lists, whole = (Decision.centred(given, np.eye(4)[member], {}) for member in (1, 3))
    assert shorter(given, lists, whole, 0.0) is whole is shorter(given, whole, lists, 0.0)
    # Of the same length, both count half.
    assert shorter(given, lists, lists, 0.0).centre.tolist() == lists.centre.tolist()


@pytest.mark.parametrize("error", [0.03, 0.05, 0.2])
def test_the_interval_has_room_on_both_sides_of_estimate_and_centre(error):
    """1.9 standard errors of the difference are chance, but the corrected estimate errs less than the difference."""
    whole = np.diag([0.0, 0.05, error**2, 1.0, 1e9])
    given = summary([1.0, 1.45, 9.0, 1.0], np.ones(4), covariance=whole, **ALONE)
    found = decide(given)
    value, centre = (w @ given.value[1:5] for w in (found.weights, found.centre))
    assert (value, centre) == (1.0, 1.45) and found.allowance == pytest.approx(0.225)
    half = half_of(given, found)
    estimate = estimate_of(given, found, level=0.95)
    low, high = estimate.interval()
    np.testing.assert_allclose((low, high), (1.225 - half, 1.225 + half), rtol=1e-12)
    # The one-sided quantile, at least, beyond both of them.
    assert min(value - low, high - centre) >= 1.644 * error


def correlated(variances, covariance, values, **changes):
    """Models, own-position weights and whole rankings; the logged reward is zero and known."""
    whole = np.diag([0.0, *variances, 1e9])
    whole[1, 2] = whole[2, 1] = covariance
    members = ("models", "iips", "ips")
    return summary(
        [*values, 0.0], np.ones(3), members=members, covariance=whole, earned=0.0, **changes
    )


def test_a_step_that_takes_variance_away_is_taken_as_a_whole_and_not_further():
    # Beyond the member the variance would still fall; the lift so far varies with -1.67 times the step.
    given = correlated((1.0, 0.3), 0.5, [1.0, 1.4])
    assert adaptive(given, np.array([1.0, 0.0, 0.0]), np.array([-1.0, 1.0, 0.0])) == 1.0


@pytest.mark.parametrize("d", [-3.0, -0.4, 0.0, 0.4, 1.0, 5.0])
def test_own_position_weights_move_the_estimate_by_the_formula(d):
    """V = 1, Var(own) = 1.6 and a covariance of 0.5: s^2 = 1.6, c = -0.5."""
    given = correlated((1.0, 1.6), 0.5, (2.0, 2.0 + d))
    g = 0.5 / 1.6
    least, corrected = 1.0 - 0.5**2 / 1.6, 1.6
    limit = threshold(least / corrected) * np.sqrt(1.6)
    share = g + (1 - g) * max(0.0, 1 - limit / abs(d)) if d else g
    move = np.array([-1.0, 1.0, 0.0])
    assert adaptive(given, np.eye(3)[0], move) == pytest.approx(share, rel=1e-12)
    found = decide(given)
    np.testing.assert_allclose(found.weights, [1 - share, share, 0], atol=1e-7)
    assert found.steps[0] == MemberStep("iips", pytest.approx(d), pytest.approx(1.6**0.5), share)


def test_without_noise_own_position_weights_are_followed_and_rounding_is_not():
    assert decide(correlated((0.0, 0.0), 0.0, (1.0, 1.5))).weights[1] == 1.0
    assert decide(correlated((0.0, 0.0), 0.0, (1.0, 1.0))).weights[1] == 0.0


def risk(limit, bias):
    """Mean squared error of the soft threshold of N(bias, 1) for the bias."""
    z = np.linspace(-9.0, 9.0, 6001)
    seen = bias[:, None] + z
    kept = np.sign(seen) * np.maximum(np.abs(seen) - limit, 0.0)
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) * (z[1] - z[0])
    return (kept - bias[:, None]) ** 2 @ density


@pytest.mark.parametrize("ratio", [0.01, 0.03, 0.1, 0.3, 0.6, 0.9])
def test_the_threshold_has_nearly_the_least_regret(ratio):
    bias = np.linspace(0.0, 8.0, 81)
    oracle = ratio + (1 - ratio) * bias**2 / (1 + bias**2)

    def regret(limit):
        return ((ratio + (1 - ratio) * risk(limit, bias)) / oracle).max()

    assert regret(threshold(ratio)) <= 1.1 * min(regret(x) for x in np.linspace(0.3, 2.0, 35))


def test_one_position_has_whole_rankings_in_place_of_own_positions():
    single = summary([1.0, 1.0, 2.0], [0.01, 0.1, 0.01], members=("models", "aimed", "iips"), models=(1.0,),
                     alpha=np.ones(1), position_means=np.ones((1, 4)), volume=np.zeros(1))  # fmt: skip
    assert decide(single).weights[2] > 0.99


def test_models_that_the_log_refutes_do_not_disagree():
    given = summary([1.5, 1.6, 9.0, 1.5], [0.0, 0.2, 0.1, 5.0], **MODELLED)
    differ = {DIFFER: pytest.approx(0.05)}
    assert decide(given).parts == {"models disagree": pytest.approx(0.15), **differ}
    found = decide(given, counted=np.array([1.0, 0.0]))
    assert found.parts == differ and (found.weights == decide(given).weights).all()


def test_no_interval_jumps_where_a_model_stops_counting():
    given = summary([1.5, 1.6, 9.0, 1.5], [0.0, 0.2, 0.1, 5.0], **MODELLED)
    parts = [decide(given, counted=np.array([1.0, c])).parts for c in (0.0, 1e-9, 0.5, 1.0 - 1e-9)]
    bias = [part.get("models disagree", 0.0) for part in parts]
    assert bias[0] == 0.0 and 0.0 < bias[1] < 1e-9 < bias[2] < bias[3]
    assert bias[3] == pytest.approx(decide(given).parts["models disagree"], abs=1e-8)


def test_what_lists_leave_unknown_counts_for_what_rests_on_models():
    given = summary([1.0, 1.0, 1.0, 1.0], [0.1, 0.1, 0.1, 1e9], **MODELLED)
    found = decide(given, unknown=0.04)
    assert estimate_of(given, found).stderr == pytest.approx(np.sqrt(0.01 + 0.04))
    sure = summary([1.0, 1.0, 1.0, 2.0], [0.1, 0.1, 0.1, 1e-9], **MODELLED)
    assert decide(sure, unknown=0.04).unknown < 0.04 * 0.01


def test_whole_rankings_count_by_what_lists_leave_unknown():
    # d = 0.1 with s = 0.1: chance by itself. Beside an unknown variance of 0.03 it is three quarters
    # of what is known.
    given = summary([1.0, 1.0, 1.0, 1.1], [0.0, 0.0, 0.1, 0.1], **ALONE)
    assert decide(given).steps[-1].share == 0.0
    found = decide(given, unknown=0.03)
    assert found.steps[-1].towards == "ips" and found.steps[0].share == 0.0
    assert found.steps[-1].share == pytest.approx(0.75, rel=1e-12)
    np.testing.assert_allclose(found.centre, [0, 0.25, 0, 0.75], rtol=1e-12)
    assert found.unknown == pytest.approx(0.03 * 0.25**2, rel=1e-12)
    # Strong evidence is taken as ever, and without models as far as the log contradicts the rest.
    strong = summary([1.0, 1.0, 1.0, 3.0], [0.0, 0.1, 0.1, 0.1], **MODELLED)
    shares = [decide(strong, unknown=u).steps[-1].share for u in (0.0, 1e-9)]
    assert shares[0] == shares[1] > 0.9
    alone = summary([1.0, 3.0], [0.0, 0.1])
    assert decide(alone, unknown=1e-9).steps[-1].share == pytest.approx(0.99, rel=1e-9)


def test_whole_rankings_move_an_estimate_by_models_with_the_least_regret_and_its_centre_only_beyond_chance():
    # d = 0.19 with s = 0.1 is chance for the centre.
    given = summary([1.0, 1.0, 1.0, 1.19], [0.0, 0.05, 0.1, 0.1], **{**MODELLED, "models": ()})
    found = decide(given)
    share = adaptive(given, np.eye(4)[0], np.eye(4)[3] - np.eye(4)[0])
    assert 0.0 < share < 0.5
    np.testing.assert_allclose(found.weights, [1.0 - share, 0, 0, share], rtol=1e-12)
    assert found.centre.tolist() == [0, 1, 0, 0]


def test_a_group_of_rows_follows_all_rows_and_has_an_interval_of_its_own():
    whole = summary([1.0, 1.02, 9.0, 1.0], [0.0, 0.1, 0.1, RARE], **ALONE)
    group = summary([1.0, 1.7, 9.0, 1.0], [0.0, 0.3, 0.1, RARE], **ALONE)
    decision = decide(whole)
    assert decide(group).weights[1] > 0.2 and decision.weights[1] == 0.0
    found = decide(group, follows=decision)
    # All rows do not move. The group moves by what its own rows show beyond chance.
    assert found.centre.tolist() == [0, 1, 0, 0] and half_of(group, found) > 0.3 * 1.96
    assert found.weights @ group.value[1:5] == pytest.approx(1.0 + 0.7 * (1 - (0.6 / 0.7) ** 2))
    far = summary([1.0, 9.0, 9.0, 1.0], [0.0, 0.3, 0.1, RARE], **ALONE)
    followed = decide(far, follows=decision)
    assert followed.weights @ far.value[1:5] == pytest.approx(1.0 + 8.0 * (1 - (0.6 / 8.0) ** 2))
    calm = summary([1.0, 1.5, 9.0, 1.0], [0.0, 0.3, 0.1, RARE], **ALONE)
    assert decide(calm, follows=decision).weights.tolist() == [1.0, 0.0, 0.0, 0.0]


def test_a_given_allowance_is_the_allowance():
    found = decide(summary([1.0, 1.2], [0.0, 0.1]), allowance=0.4)
    assert found.parts == {"given": 0.4, DIFFER: pytest.approx(0.1)}
    known = decide(summary([1.2, 1.2], [0.0, 0.1]), allowance=0.4)
    assert known.allowance == 0.4 and known.parts == {"given": 0.4}


def test_what_the_logger_never_shows_is_not_measured_by_whole_rankings_either():
    missing = {"unsupported": np.array([0.0, 0.2]), "earned": 0.5}
    found = decide(summary([1.0, 1.2], [0.1, 0.1], **missing))
    # A difference of 0.2 within two of its errors is not taken, and 0.2 of a change of 0.5 is not shown.
    assert found.centre.tolist() == [1, 0]
    assert found.parts == {"what the log leaves open": pytest.approx(0.2 + 0.1)}


def test_one_member_of_whole_rankings_needs_no_allowance():
    assert decide(summary([2.0], [0.1], members=("ips",))).allowance == 0.0


def test_nothing_to_allow_for_and_nothing_seen_moves_nothing():
    found = decide(summary([1.0, 1.0], [0.0, 0.0]))
    assert found.weights @ [1.0, 1.0] == 1.0 and found.allowance == 0.0


ALPHA = np.array([1.0, 0.5])


def of_two_positions(**changes):
    """Three members and two models at two positions, everything correlated with everything."""
    rng = np.random.default_rng(11)
    root = rng.normal(size=(6, 6))
    whole = 1e-3 * root @ root.T
    options = {
        "members": ("models", "iips", "ips"), "n": 40, "units": 5, "alpha": ALPHA,
        "value": np.array([0.8, 1.0, 1.3, 1.1, 0.9, 1.2]), "covariance": whole,
        "position_means": np.array([[0.5, 0.7, 0.9, 0.6], [0.4, 0.5, 0.3, 0.8]]),
        "inflation": np.array([1.0, 1.5, 4.0]),
        "occurred": np.ones(3, dtype=bool), "unsupported": np.array([0.0, 0.1, 0.25]), "alone": 0.5,
        "jointly": 0.0, "volume": np.zeros(2), "ess": 20.0,
    }  # fmt: skip
    return Summary(**{**options, **changes})


def chosen(
    weights=(0.2, 0.5, 0.3), centre=(0.1, 0.3, 0.6), *, allowance=0.07, steps=(), unknown=0.0
):
    parts = {"given": allowance, "nothing": 0.0}
    w, c = np.array(weights), np.array(centre)
    return Decision(w, c, parts, unknown, steps)


def estimate_of(given, decision=None, *, level=0.9):
    """The estimate of a decision over columns whose means have just this covariance."""
    values, vectors = np.linalg.eigh(given.covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    rows, T, J = UnitScores(given.n, given.units), len(root), len(given.members)
    earned = Quantity(rows, float(given.value[0]), root[0])
    sums = SimpleNamespace(rows=rows, mean=lambda key: earned)
    nothing = np.zeros((T, 0))
    members = Members(
        given.members, given.value, root, nothing, given.position_means, np.zeros((2, 1 + J, 0)),
        given.inflation, given.occurred, given.unsupported,
    )  # fmt: skip
    block = PositionSums(("earned",), np.zeros((2, 1)))
    table = MemberTable(members, given, sums, block, np.eye(T), np.zeros(0))
    solution = solution_of(table, decision or chosen())
    return Estimate.from_solution(solution, "new", "auto", level=level)


def test_the_estimate_and_its_interval_are_their_combinations_of_members():
    """Value, error, interval, positions, lift and ratio from first principles, to the last digits."""
    given, w, c = of_two_positions(), np.array([0.2, 0.5, 0.3]), np.array([0.1, 0.3, 0.6])
    found = estimate_of(given)
    value, centre = (x @ given.value[1:4] for x in (w, c))
    se = np.sqrt(c @ given.covariance[1:4, 1:4] @ c)
    assert found.value == pytest.approx(value, rel=1e-12)
    assert found.stderr == pytest.approx(se, rel=1e-12)
    for level in (0.5, 0.9):
        half, middle = bias_aware_half(se, 0.07, level, 4), (centre + value) / 2
        np.testing.assert_allclose(
            found.interval(level), (middle - half, middle + half), rtol=1e-12
        )
    assert (found.ess, found.n, found.level, found.allowance) == (20.0, 40, 0.9, 0.07)

    lift, away = found.lift, np.array([-1.0, *c])
    covariance = given.covariance[:4, :4]
    error = np.sqrt(away @ covariance @ away)
    half = bias_aware_half(error, 0.07, 0.9, 4)
    middle = (value + centre) / 2
    wanted = [value - 0.8, error, middle - 0.8 - half, middle - 0.8 + half]
    np.testing.assert_allclose([lift.value, lift.stderr, lift.low, lift.high], wanted, rtol=1e-12)
    gradient = np.array([-value / 0.8**2, *(c / 0.8)])
    half = bias_aware_half(np.sqrt(gradient @ covariance @ gradient), 0.07 / 0.8, 0.9, 4)
    middle = middle / 0.8 - 1
    np.testing.assert_allclose(
        [lift.relative, lift.relative_low, lift.relative_high],
        [value / 0.8 - 1, middle - half, middle + half],
        rtol=1e-12,
    )


def test_the_details_are_those_of_the_members():
    given = of_two_positions()
    found = estimate_of(given, chosen((0.0, 0.6, 0.4))).details
    errors = np.sqrt(np.diag(given.covariance))
    rows = [
        ("models", 1.0, errors[1], 0.0, 1.0, 0.0),
        ("iips", 1.3, errors[2], 0.6, 1.5, 0.1),
        ("ips", 1.1, errors[3], 0.4, 4.0, 0.25),
    ]
    assert [tuple(m.values()) for m in found["members"]] == rows
    assert found["models"] == [0.9, 1.2]


def test_the_weights_that_judge_an_interval_are_those_of_its_largest_part():
    """Models have the weights of single items; a hundredth of whole rankings has no tail to speak of."""
    given = of_two_positions()
    for centre, judged in (
        ((0.9, 0.0, 0.1), "iips"),
        ((0.3, 0.1, 0.6), "ips"),
        ((0.3, 0.5, 0.2), "iips"),
    ):
        assert basis_of(given, chosen(centre=centre)) == judged
    alone = of_two_positions(members=("ips", "order-2", "order-3"))
    assert basis_of(alone, chosen(centre=(0.3, 0.5, 0.2))) == "order-2"


def test_few_units_have_few_degrees_of_freedom_and_a_logger_that_earned_nothing_no_ratio():
    given = of_two_positions(units=2, value=np.array([0.0, 1.0, 1.3, 1.1, 0.9, 1.2]))
    found = estimate_of(given)
    half = bias_aware_half(found.stderr, 0.07, 0.9, 1)
    centre = np.array([0.15, 0.4, 0.45]) @ given.value[1:4]
    np.testing.assert_allclose(found.interval(), (centre - half, centre + half), rtol=1e-12)
    half = bias_aware_half(found.lift.stderr, 0.07, 0.9, 1)
    assert found.lift.high == pytest.approx(centre + half, rel=1e-12)
    assert half_of_lift(given, chosen(), 0.9) == pytest.approx(half, rel=1e-12)
    assert np.isnan(found.lift.relative)


def test_flags_say_what_is_missing_and_what_is_not():
    found = estimate_of(of_two_positions())
    assert [flag.partition(":")[0] for flag in found.flags] == [
        "no-support",
        "model-alone",
        "bias-allowance",
    ]
    assert found.flags[-1].endswith("a bias of 0.07 (given 0.07; docs/explanation/auto.md)")
    at_the_line = DEFAULTS.flag_model_share
    calm = estimate_of(of_two_positions(unsupported=np.zeros(3), alone=at_the_line))
    assert [flag.partition(":")[0] for flag in calm.flags] == ["bias-allowance"]
    given = of_two_positions(unsupported=np.zeros(3), alone=0.0)
    assert estimate_of(given, chosen(allowance=0.0)).flags == ()
    between = replace(chosen(allowance=0.0), parts={DIFFER: 0.1})
    assert estimate_of(given, between).flags == ()


def test_a_log_is_no_evidence_without_weights_or_beyond_the_reach_of_models():
    at_the_line = DEFAULTS.max_model_share
    assert estimate_of(of_two_positions(alone=at_the_line)).estimable
    assert not estimate_of(of_two_positions(alone=at_the_line + 1e-9)).estimable
    unseen = np.array([False, True, True])
    assert estimate_of(of_two_positions(occurred=unseen)).estimable
    bare = {"covariance": np.eye(4), "value": np.array([0.8, 1.0, 1.3, 1.1])}
    assert estimate_of(of_two_positions(**bare)).estimable
    assert not estimate_of(of_two_positions(**bare, occurred=unseen)).estimable


def test_the_reason_names_steps_that_moved_it_by_half_a_percent():
    def why(share):
        step = MemberStep("ips", 0.1, 0.1, share)
        return estimate_of(of_two_positions(), chosen(steps=(step,))).details["why"]

    assert why(0.0049).startswith("no correction was needed")
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
