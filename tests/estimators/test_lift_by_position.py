"""The lift at each position counts units, not rows."""

import numpy as np
import pytest

import counterrank as cr
from counterrank.estimators import registry

N, K = 20, 3


def _log(times, *, unit):
    random = np.random.default_rng(5)
    action = random.integers(0, 2, (N, K))
    target = random.uniform(0.2, 0.8, (N, K))
    reward = random.random((N, K))
    repeat = [np.repeat(a, times, axis=0) for a in (action, target, reward)]
    log = cr.RankingLog(
        action=repeat[0], reward=repeat[2], propensity=np.full((N * times, K), 0.5),
        unit=np.repeat(np.arange(N), times) if unit else None,
    )  # fmt: skip
    return log, repeat[1]


@pytest.mark.parametrize("name", ["ips", "snrips", "order-2", "iips"])
def test_rows_repeated_in_their_unit_tell_nothing_new(name):
    """Twenty units in twenty buckets; every row four times leaves each standard error as it was."""
    (log, target), (again, target_again) = _log(1, unit=True), _log(4, unit=True)
    assert len(np.unique(log.bucket)) == N
    once, four = (
        registry.get(name).estimate(*pair) for pair in ((log, target), (again, target_again))
    )
    for one, other in zip(once.lift.by_position, four.lift.by_position, strict=True):
        assert other.value == pytest.approx(one.value, rel=1e-12)
        assert other.stderr == pytest.approx(one.stderr, rel=1e-9)
    assert four.lift.stderr == pytest.approx(once.lift.stderr, rel=1e-9)
    # Without units, the same rows look like four times as many.
    loose = registry.get(name).estimate(_log(4, unit=False)[0], target_again)
    assert loose.lift.by_position[0].stderr < 0.6 * four.lift.by_position[0].stderr


def test_the_error_is_that_of_sums_by_unit():
    random = np.random.default_rng(6)
    log, target = _log(1, unit=False)
    unit = random.integers(0, 6, N)
    log = cr.RankingLog(
        action=log.action, reward=log.reward, propensity=np.full((N, K), 0.5), unit=unit
    )
    names = np.unique(unit)
    assert len(np.unique(log.bucket)) == len(names)
    found = cr.IIPS().estimate(log, target)
    paired = target / 0.5 * log.reward - log.reward
    scores = np.array([(paired[unit == u] - paired.mean(axis=0)).sum(axis=0) for u in names])
    expected = np.sqrt(len(names) / (len(names) - 1) * (scores**2).sum(axis=0)) / N
    assert [p.stderr for p in found.lift.by_position] == pytest.approx(expected, rel=1e-9)


def test_one_position_is_the_whole_lift():
    log, target = _log(3, unit=True)
    one = cr.RankingLog(
        action=log.action[:, :1],
        reward=log.reward[:, :1],
        propensity=np.full((N * 3, 1), 0.5),
        unit=log.unit,
    )
    lift = cr.IPS().estimate(one, target[:, :1]).lift
    assert (lift.by_position[0].value, lift.by_position[0].stderr) == pytest.approx(
        (lift.value, lift.stderr), rel=1e-9
    )


def _influence(name, w, r):
    """Values (K,) and influence functions (n, K) of each position, row by row."""
    y = w * r
    if name.startswith("sn"):
        value = y.mean(axis=0) / w.mean(axis=0)
        return value, (y - value * w) / w.mean(axis=0)
    if name.startswith("cv-"):
        K = r.shape[1]
        both = np.cov(np.hstack([y, w]), rowvar=False)
        beta = both[:K, K:] @ np.linalg.pinv(both[K:, K:], rcond=1e-10, hermitian=True)
        return y.mean(axis=0) - (w.mean(axis=0) - 1) @ beta.T, y - y.mean(axis=0) - (w - 1) @ beta.T
    return y.mean(axis=0), y


def _scored(scores, unit):
    """Standard errors of means of influence functions (n, K), by row or by unit."""
    away = scores - scores.mean(axis=0)
    if unit is not None:
        away = np.array([away[unit == u].sum(axis=0) for u in np.unique(unit)])
    return np.sqrt(len(away) / (len(away) - 1) * (away**2).sum(axis=0)) / len(scores)


@pytest.mark.parametrize("units", [False, True])
@pytest.mark.parametrize(
    "name", ["ips", "iips", "snips", "sniips", "snrips", "cv-ips", "cv-iips", "cv-rips"]
)
@pytest.mark.parametrize("steady", [False, True])
def test_the_error_is_that_of_influence_functions_by_row(name, units, steady):
    """A ratio and controls have influence functions of their own; steady rewards show them most."""
    random = np.random.default_rng(8)
    n = 300
    action = random.integers(0, 2, (n, K))
    target = np.where(action, 0.8, 0.2) + random.uniform(-0.1, 0.1, (n, K))
    reward = 1.0 + 0.1 * random.random((n, K)) if steady else random.random((n, K)) * action
    unit = random.integers(0, 60, n) if units else None
    log = cr.RankingLog(action=action, reward=reward, propensity=np.full((n, K), 0.5), unit=unit)
    # Units that share a bucket are one.
    unit = log.bucket if units else None
    rho = target / 0.5
    product = {
        "ips": rho.prod(axis=1, keepdims=True) + 0 * rho,
        "iips": rho,
        "rips": rho.cumprod(axis=1),
    }
    plain = name.removeprefix("sn").removeprefix("cv-")
    value, scores = _influence(name, product[plain], reward)
    found = registry.get(name).estimate(log, target).lift.by_position
    np.testing.assert_allclose([p.value for p in found], value - reward.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose([p.stderr for p in found], _scored(scores - reward, unit), rtol=1e-6)


@pytest.mark.parametrize("units", [False, True])
@pytest.mark.parametrize("name", ["ips", "iips", "snips", "sniips", "cv-iips"])
def test_over_another_target_both_are_measured_on_the_same_rows(name, units):
    random = np.random.default_rng(9)
    n = 300
    action = random.integers(0, 2, (n, K))
    new, old = (np.where(action, p, 1 - p) + random.uniform(-0.1, 0.1, (n, K)) for p in (0.8, 0.7))
    reward = random.random((n, K)) * (0.5 + action)
    log = cr.RankingLog(
        action=action, reward=reward, propensity=np.full((n, K), 0.5),
        unit=random.integers(0, 60, n) if units else None,
        targets={"new": new, "old": old, "copy": old},
    )  # fmt: skip
    result = cr.evaluate(log, estimators=[name], baseline="old", audit=False)
    shape = {"snips": "ips", "ips": "ips"}.get(name, "iips")
    weights = [p / 0.5 for p in (new, old)]
    if shape == "ips":
        weights = [w.prod(axis=1, keepdims=True) + 0 * w for w in weights]
    (value, one), (base, other) = (_influence(name, w, reward) for w in weights)
    found = result.estimate("new", name).lift.by_position
    np.testing.assert_allclose([p.value for p in found], value - base, rtol=1e-8)
    expected = _scored(one - other, log.bucket if units else None)
    np.testing.assert_allclose([p.stderr for p in found], expected, rtol=1e-6)
    for same in ("copy", "old"):
        places = result.estimate(same, name).lift.by_position
        assert len(places) == K and max(abs(p.value) + p.stderr for p in places) < 1e-9


def test_auto_over_another_target_has_the_spread_of_repeated_logs():
    """Forty logs: the mean error is the spread within 0.7 to 1.5 (the spread's own error is 11 %,
    so that chance leaves this range once in 250 tests of the right error; without pairs it is 9).
    """
    lifts, errors = [], []
    for seed in range(40):
        random = np.random.default_rng(seed)
        n = 400
        action = random.integers(0, 2, (n, K))
        new, old = (np.where(action, p, 1 - p) for p in (0.70, 0.64))
        reward = random.random((n, K)) * action
        log = cr.RankingLog(
            action=action, reward=reward, propensity=np.full((n, K), 0.5),
            targets={"new": new, "old": old, "copy": old},
        )  # fmt: skip
        result = cr.evaluate(log, estimators=["auto"], baseline="old", audit=False)
        found = result.estimate("new", "auto").lift.by_position
        lifts.append([p.value for p in found])
        errors.append([p.stderr for p in found])
        copy = result.estimate("copy", "auto").lift.by_position
        assert max(abs(p.value) + p.stderr for p in copy) < 1e-7
    ratio = np.mean(errors, axis=0) / np.std(lifts, axis=0, ddof=1)
    assert (0.7 < ratio).all() and (ratio < 1.5).all(), ratio
