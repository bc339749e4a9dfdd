"""Intervals against an independent computation."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import counterrank as cr
from counterrank.estimators import registry
from counterrank.statistics import critical_value


@pytest.fixture(scope="module")
def log():
    rng = np.random.default_rng(3)
    n = 300
    return cr.RankingLog(
        action=rng.integers(0, 3, (n, 2)),
        reward=rng.random((n, 2)),
        propensity=rng.uniform(0.3, 1, (n, 2)),
        targets={"new": rng.random((n, 2))},
    )


def test_critical_values_are_scipys():
    for level in (0.5, 0.9, 0.95, 0.999):
        assert critical_value(level) == pytest.approx(stats.norm.ppf(0.5 + level / 2), rel=1e-12)
        assert critical_value(level, df=7) == pytest.approx(
            stats.t.ppf(0.5 + level / 2, 7), rel=1e-10
        )


@pytest.mark.parametrize("name", ["ips", "snips", "cv-rips"])
def test_intervals_widen_with_the_level_around_the_estimate(log, name):
    estimate = registry.get(name).estimate(log, "new")
    half = [stats.t.ppf(0.5 + level / 2, log.n - 1) * estimate.stderr for level in (0.5, 0.9)]
    for level, reach in zip((0.5, 0.9), half, strict=True):
        ends = estimate.value - reach, estimate.value + reach
        assert estimate.interval(level) == pytest.approx(ends, rel=1e-12)
    assert (estimate.low, estimate.high) == estimate.interval(0.95)


def test_levels_and_methods_that_do_not_exist_are_refused(log):
    estimate = cr.IPS().estimate(log, "new")
    for level in (0.0, 1.0, 95):
        with pytest.raises(cr.CounterrankError, match="between 0 and 1"):
            estimate.interval(level)
    with pytest.raises(cr.CounterrankError, match="no interval method 'bernstein'"):
        estimate.interval(0.95, "bernstein")


def test_an_estimate_that_was_read_from_a_file_has_the_interval_that_was_written(log):
    bare = replace(cr.IPS().estimate(log, "new"), quantity=None)
    half = stats.norm.ppf(0.95) * bare.stderr
    assert bare.interval(0.9) == pytest.approx((bare.value - half, bare.value + half))
    written = replace(bare, ends=(-1.0, 1.0))
    assert written.interval() == (-1.0, 1.0)
    with pytest.raises(cr.CounterrankError, match="at level 0.95, not at 0.9"):
        written.interval(0.9)
