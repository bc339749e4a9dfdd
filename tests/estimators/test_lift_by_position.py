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
