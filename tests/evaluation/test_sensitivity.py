"""The marginal sensitivity model: bounds against brute force."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterrank as cr
from counterrank.evaluation.sensitivity import GAMMAS, bounds_of, curve, cuts, sign_change


def brute(weight, reward, gamma, upper):
    """All corners of the box of multipliers: a linear-fractional function is largest at one of
    them.
    """
    best = []
    for choice in product([1 / gamma, gamma], repeat=len(weight)):
        w = weight * np.array(choice)
        best.append(w @ reward / w.sum())
    return max(best) if upper else min(best)


numbers = st.lists(st.integers(0, 4), min_size=2, max_size=7)


@settings(max_examples=60, deadline=None)
@given(numbers, st.floats(1.0, 4.0), st.integers(0, 1000))
def test_bounds_are_those_of_the_corners(rewards, gamma, seed):
    reward = np.array(rewards, dtype=float)
    weight = np.random.default_rng(seed).gamma(1.0, size=len(reward)) + 0.01
    for upper in (False, True):
        assert cuts(weight, reward).bound(gamma, upper=upper) == pytest.approx(
            brute(weight, reward, gamma, upper)
        )


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.floats(1.0, 1.3))
def test_negative_weights_are_handled_while_their_sum_stays_positive(seed, gamma):
    rng = np.random.default_rng(seed)
    weight = np.concatenate([rng.gamma(3.0, size=5) + 1.0, -0.2 * rng.random(2)])
    reward = rng.normal(size=7)
    found = cuts(weight, reward)
    assert found.bound(gamma, upper=True) == pytest.approx(brute(weight, reward, gamma, True))
    assert found.bound(gamma, upper=False) == pytest.approx(brute(weight, reward, gamma, False))


def test_a_sum_that_can_vanish_has_no_bound():
    found = cuts(np.array([1.0, -0.9]), np.array([1.0, 0.0]))
    assert found.bound(2.0, upper=True) == np.inf and found.bound(2.0, upper=False) == -np.inf


def test_gamma_one_gives_the_value_and_ranges_grow():
    rng = np.random.default_rng(0)
    w, r = rng.gamma(2.0, size=(200, 3)), rng.random((200, 3))
    found = curve(w, r, np.ones(3), value=1.4, logged=1.0)["curve"]
    assert found[0]["low"] == pytest.approx(1.4) and found[0]["high"] == pytest.approx(1.4)
    assert found[0]["lift_low"] == pytest.approx(0.4)
    lows, highs = [row["low"] for row in found], [row["high"] for row in found]
    assert (np.diff(lows) < 0).all() and (np.diff(highs) > 0).all()


@pytest.mark.parametrize("lift", [0.05, -0.05])
def test_the_sign_changes_where_the_range_reaches_zero(lift):
    rng = np.random.default_rng(1)
    bounds = bounds_of(np.ones((500, 1)), rng.random((500, 1)), np.ones(1))
    gamma = sign_change(bounds, lift)
    assert gamma is not None
    for factor, reached in ((0.99, False), (1.0, True)):
        below, above = (bounds(gamma * factor, upper) for upper in (False, True))
        assert (lift + below <= 0 if lift > 0 else lift + above >= 0) == reached


def test_a_lift_beyond_every_range_never_changes_sign():
    bounds = bounds_of(np.ones((50, 1)), np.linspace(0, 1, 50)[:, None], np.ones(1))
    assert sign_change(bounds, 100.0) is None
    assert sign_change(bounds, 0.0) == 1.0


def test_position_weights_of_either_sign():
    rng = np.random.default_rng(2)
    w, r = np.ones((50, 1)), rng.random((50, 1))
    (low, high), mirrored = (
        tuple(bounds_of(w, r, sign * np.ones(1))(1.5, upper) for upper in (False, True))
        for sign in (1, -1)
    )
    assert mirrored == (pytest.approx(-high), pytest.approx(-low))


def test_sensitivity_is_part_of_the_result(gentle):
    found = cr.evaluate(gentle, estimators=["iips"], audit=False).to_dict()["sensitivity"]["new"]
    assert [row["gamma"] for row in found["curve"]] == list(GAMMAS)
    assert set(found) == {"curve", "sign_changes_at"}


@pytest.mark.parametrize("negative", [False, True])
def test_the_cut_at_the_bound_itself_is_the_best_of_all(negative: bool) -> None:
    rng = np.random.default_rng(int(negative))
    for _ in range(20):
        weight = rng.exponential(size=40) - (0.2 if negative else 0.0)
        found = cuts(weight, rng.integers(0, 6, 40) - 2.0)
        for gamma in (1.0, 1.1, 1.5, 2.0):
            if found.positive / gamma + gamma * found.negative <= 0:
                assert found.bound(gamma, upper=True) == np.inf == -found.bound(gamma, upper=False)
                continue
            above = gamma * found.enlarged + found.shrunk / gamma
            below = found.enlarged / gamma + gamma * found.shrunk
            assert found.bound(gamma, upper=True) == pytest.approx((above[1] / above[0]).max())
            assert found.bound(gamma, upper=False) == pytest.approx((below[1] / below[0]).min())
