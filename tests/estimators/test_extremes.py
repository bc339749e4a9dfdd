"""Long rankings, vanishing propensities, targets without exploration: a number or a clear error,
never NaN.
"""

import numpy as np
import pytest

import counterrank as cr
from counterrank.estimators import registry

NAMES = [
    "ips",
    "iips",
    "rips",
    "snips",
    "sniips",
    "snrips",
    "cv-ips",
    "cv-iips",
    "order-2",
    "order-3",
]


def estimate(name, log, target):
    return registry.get(name).estimate(log, target)


def all_finite(result):
    found = [
        result.value,
        result.stderr,
        result.ess,
        *result.interval(),
        result.lift.value,
        result.lift.stderr,
    ]
    found += [x for p in result.by_position for x in (p.value, p.stderr)]
    return bool(np.isfinite(found).all())


@pytest.mark.parametrize("length", [60, 200])
@pytest.mark.parametrize("name", NAMES)
def test_long_rankings(name, length):
    rng = np.random.default_rng(0)
    n = 400
    p0 = rng.uniform(0.3, 1, (n, length))
    target = np.clip(p0 * rng.lognormal(0, 0.3, (n, length)), 0, 1)
    log = cr.RankingLog(
        action=rng.integers(0, 4, (n, length)), reward=rng.random((n, length)), propensity=p0
    )
    assert all_finite(estimate(name, log, target))


@pytest.mark.parametrize("name", NAMES)
def test_targets_without_exploration_have_zero_ratios(name):
    rng = np.random.default_rng(1)
    target = (rng.random((300, 4)) < 0.5).astype(float)
    log = cr.RankingLog(
        action=rng.integers(0, 2, (300, 4)),
        reward=rng.random((300, 4)),
        propensity=np.full((300, 4), 0.5),
    )
    result = estimate(name, log, target)
    assert all_finite(result) and result.ess > 0


@pytest.mark.parametrize("name", NAMES)
def test_a_target_that_shows_nothing_of_the_log(name):
    log = cr.RankingLog(
        action=[[0, 1]] * 20, reward=[[1.0, 2.0]] * 20, propensity=[[0.5, 0.5]] * 20
    )
    result = estimate(name, log, np.zeros((20, 2)))
    assert not result.estimable and "never logged" in result.not_estimable
    assert np.isnan([result.value, result.stderr, *result.interval(), result.lift.value]).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("tiny", [1e-30, 1e-99])
def test_vanishing_propensities_give_a_number_or_say_so(name, tiny):
    rng = np.random.default_rng(2)
    p0 = rng.uniform(0.3, 1, (50, 6))
    p0[3] = tiny
    log = cr.RankingLog(action=np.zeros((50, 6), int), reward=rng.random((50, 6)), propensity=p0)
    try:
        result = estimate(name, log, np.full((50, 6), 0.5))
    except cr.CounterrankError as problem:
        assert (
            "overflows" in str(problem)
            and "position" in str(problem)
            and "propensities near zero" in str(problem)
        )
    else:
        assert all_finite(result)


@pytest.mark.parametrize("tiny", [1e-101, 1e-300, 5e-324])
def test_propensities_of_nothing_are_refused(tiny):
    with pytest.raises(cr.CounterrankError, match="row 3, position 1.*ever shown"):
        cr.RankingLog(
            action=[[0]] * 5, reward=[[1.0]] * 5, propensity=[[0.5]] * 3 + [[tiny]] + [[0.5]]
        )


def test_one_tiny_propensity_alone_is_flagged():
    p0 = np.full((50, 2), 0.5)
    p0[0, 0] = 1e-9
    log = cr.RankingLog(action=np.zeros((50, 2), int), reward=np.ones((50, 2)), propensity=p0)
    result = cr.IIPS().estimate(log, np.full((50, 2), 0.5))
    assert {flag.partition(":")[0] for flag in result.flags} >= {"low-ess", "one-row"}


def test_one_row_has_a_value_and_no_error():
    log = cr.RankingLog(action=[[0, 1]], reward=[[1, 2]], propensity=[[0.5, 0.5]])
    result = cr.IPS().estimate(log, [[0.5, 0.25]])
    assert result.value == 1.5 and np.isnan(result.stderr)
    assert any(flag.startswith("one-unit") for flag in result.flags)


def test_one_position():
    log = cr.RankingLog(action=[[0]] * 9, reward=[[1.0]] * 9, propensity=[[0.5]] * 9)
    for name in NAMES:
        assert estimate(name, log, [[0.5]] * 9).value == pytest.approx(1.0)


@pytest.mark.parametrize("names", [None, ["iips", "aips"], ["rips"]])
def test_a_row_of_vanishing_propensities_warns_of_nothing(names):
    """Warnings of NumPy are errors here: a number, or one message."""
    rng = np.random.default_rng(0)
    action = rng.integers(0, 3, (300, 2))
    p0 = np.full((300, 2), 1 / 3)
    p0[7, 0], p0[8] = 1e-99, 1e-99
    log = cr.RankingLog(
        action=action, reward=(rng.random((300, 2)) < 0.3).astype(float), propensity=p0
    )
    target = np.where(action == 0, 0.4, 0.3)
    try:
        found = cr.evaluate(
            log, {"new": target}, **({} if names is None else {"estimators": names})
        )
    except cr.CounterrankError as problem:
        assert "overflow" in str(problem)
    else:
        assert found.verdict.level == "insufficient"
