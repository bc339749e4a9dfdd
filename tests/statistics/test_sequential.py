"""Looking every night: false alarms over all looks together, widths, and the evaluation that uses
them.
"""

import numpy as np
import pytest

import counterrank as cr
from counterrank.common.errors import ConfigError
from counterrank.statistics import Looks, bias_aware_half, critical_value


def paths(runs, looks, step, seed):
    """Running means and standard errors of skewed, weight-like totals with mean zero: (runs,
    looks).
    """
    rng = np.random.default_rng(seed)
    values = np.exp(0.8 * rng.normal(size=(runs, looks * step))) - np.exp(0.32)
    n = np.arange(1, looks + 1) * step
    mean = values.cumsum(axis=1)[:, step - 1 :: step] / n
    square = (values**2).cumsum(axis=1)[:, step - 1 :: step] / n
    return n, mean, np.sqrt((square - mean**2) / (n - 1))


def test_false_alarms_over_a_thousand_looks():
    """Looks at 50, 100, ... 50,000 rows. 5 % of 150 runs: more than 15 have a chance of 0.5 %; t
    must fail visibly.
    """
    n, mean, stderr = paths(150, 1000, 50, seed=0)
    looks = Looks(10_000)
    wide = np.array([looks.critical(0.95, int(m)) for m in n])
    alarms = (np.abs(mean) > wide * stderr).any(axis=1).mean()
    usual = (np.abs(mean) > critical_value(0.95) * stderr).any(axis=1).mean()
    assert alarms <= 0.1 and usual > 0.4
    assert wide[-1] <= 2 * critical_value(0.95)


def test_width_is_at_most_twice_the_usual_over_four_decades():
    for rows in (1_000, 10_000, 1_000_000):
        for factor in (0.1, 1.0, 10.0, 1000.0):
            assert 1.4 < Looks(rows).critical(0.95, int(rows * factor)) / critical_value(0.95) < 2.0


def test_p_values_and_intervals_agree():
    looks = Looks(5_000)
    for n in (200, 5_000, 80_000):
        edge = looks.critical(0.95, n)
        assert looks.p_value(edge * 1.001, 1.0, n) < 0.05 < looks.p_value(edge * 0.999, 1.0, n)
    assert looks.p_value(3.0, 0.0, 100) == 1.0 and looks.p_value(0.0, 1.0, 100) == 1.0


def test_one_look_is_the_usual_interval():
    assert Looks().critical(0.9, 100) == critical_value(0.9) and Looks().level(0.9, 100) == 0.9


@pytest.fixture(scope="module")
def log():
    rng = np.random.default_rng(0)
    action = rng.choice(3, size=(2000, 2))
    new = cr.Propensity("factored", np.array([0.2, 0.3, 0.5])[action])
    other = cr.Propensity("factored", np.array([0.5, 0.3, 0.2])[action])
    reward = (rng.random((2000, 2)) < 0.2 + 0.1 * action).astype(float)
    return cr.RankingLog(
        action=action, reward=reward, propensity=np.full((2000, 2), 1 / 3), targets={"new": new, "other": other},
        columns={"half": np.arange(2000) % 2},
    )  # fmt: skip


def test_an_evaluation_widens_every_interval(log):
    options = {"estimators": ["iips", "auto"], "segments": ["half"], "independent_rows": True}
    once, often = cr.evaluate(log, **options), cr.evaluate(log, sequential=True, **options)
    ratio = Looks(10_000).critical(0.95, 2000) / critical_value(0.95)
    a, b = once.estimate("new", "iips"), often.estimate("new", "iips")
    assert (b.high - b.low) / (a.high - a.low) == pytest.approx(ratio, rel=0.01)
    assert (b.lift.high - b.lift.low) / (a.lift.high - a.lift.low) == pytest.approx(ratio, rel=0.01)
    assert b.value == a.value and b.lift.relative_low < a.lift.relative_low
    for one, two in zip(once.comparisons, often.comparisons, strict=True):
        assert two["low"] < one["low"] and two["p_value"] >= one["p_value"]
    for one, two in zip(once.segments, often.segments, strict=True):
        assert two["lift"]["adjusted_low"] < one["lift"]["adjusted_low"]
    assert often.log["sequential"] == 10_000 and once.log["sequential"] is None


def test_an_allowance_for_bias_is_not_stretched(log):
    """What is allowed for bias does not grow with the number of looks; only the standard error counts
    more often.
    """
    once, often = (
        cr.evaluate(log, ["new"], estimators=[cr.Auto(allowance=0.01)], sequential=s).estimate()
        for s in (False, 10_000)
    )
    looks, error, allowed = Looks(10_000), often.lift.stderr, often.allowance
    assert error == once.lift.stderr and allowed == once.allowance > 0
    half = bias_aware_half(error, allowed, looks.level(0.95, 2000), 1999)
    assert often.lift.high - often.lift.low == pytest.approx(2 * half, rel=1e-9)
    far = looks.critical(0.95, 2000)
    assert far * error < half < allowed + 1.01 * far * error


def test_bad_numbers_of_rows_are_refused(log):
    with pytest.raises(ConfigError, match="sequential"):
        cr.evaluate(log, ["new"], estimators=["iips"], sequential=-5)
