"""Each interval method against an independent computation."""

import numpy as np
import pytest
from scipy import optimize, stats

import counterrank as cr
from counterrank.estimators import registry
from counterrank.inference.intervals import METHODS, bernstein_half_width, critical_value


@pytest.fixture(scope="module")
def log(request):
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
@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_method_widens_with_the_level_and_holds_its_centre(log, name, method):
    estimate = registry.get(name).estimate(
        log, "new", by_unit=method in ("bootstrap", "poisson"), full=True
    )
    if method == "bernstein" and name != "ips":
        with pytest.raises(cr.CounterrankError, match="ratio or regression"):
            estimate.interval(0.9, method)
        return
    ends = [estimate.interval(level, method) for level in (0.5, 0.8, 0.95, 0.99)]
    widths = [high - low for low, high in ends]
    assert all(np.diff(widths) > 0) and widths[0] > 0
    assert all(low < high for low, high in ends)
    if method != "cressie-read":
        assert ends[1][0] < estimate.value < ends[1][1]


def test_t_is_the_default_and_normal_is_a_little_shorter(log):
    estimate = cr.IPS().estimate(log, "new")
    assert estimate.interval(0.9) == estimate.interval(0.9, "t")
    half = stats.t.ppf(0.95, log.n - 1) * estimate.stderr
    assert estimate.interval(0.9) == pytest.approx((estimate.value - half, estimate.value + half))
    low, high = estimate.interval(0.9, "normal")
    assert high - low == pytest.approx(2 * stats.norm.ppf(0.95) * estimate.stderr)
    assert (estimate.low, estimate.high) == estimate.interval(0.95)


def test_bootstrap_draws_rows_when_each_is_its_own_bucket(log):
    """With n <= 1024 rows and no units the bucket bootstrap is the bootstrap of rows."""
    estimate = registry.get("snips").estimate(log, "new", by_unit=True)
    rho = (log.targets["new"].values / log.propensity.values).prod(1)
    base = log.reward.sum(1)
    rng = np.random.default_rng(0)
    rows = rng.integers(0, log.n, (20_000, log.n))
    values = (rho[rows] * base[rows]).sum(1) / rho[rows].sum(1)
    naive = np.quantile(values, [0.025, 0.975])
    # Both ends carry Monte-Carlo error of 2000 draws: sd about 3 % of the half-width; 5 of them
    # allowed (1e-6).
    allowed = 0.15 * (naive[1] - naive[0]) / 2
    for method in ("bootstrap", "poisson"):
        np.testing.assert_allclose(estimate.interval(0.95, method), naive, atol=allowed)
        assert estimate.interval(0.95, method) == estimate.interval(
            0.95, method
        )  # the same draws every time


def test_bootstrap_of_units_is_wider_where_units_repeat_themselves(log):
    twice = cr.RankingLog(
        action=np.tile(log.action, (4, 1)), reward=np.tile(log.reward, (4, 1)),
        propensity=np.tile(log.propensity.values, (4, 1)), unit=np.tile(np.arange(log.n), 4),
    )  # fmt: skip
    target = np.tile(log.targets["new"].values, (4, 1))
    by_unit = cr.IPS().estimate(twice, target)
    alone = cr.IPS().estimate(log, "new", by_unit=True)
    for method in ("t", "bootstrap", "poisson"):
        width, once = (np.diff(e.interval(0.95, method))[0] for e in (by_unit, alone))
        assert width == pytest.approx(once, rel=0.2)  # four copies of the data are no more data


def test_bernstein_is_maurer_and_pontil(log):
    estimate = cr.IPS().estimate(log, "new")
    totals = (log.targets["new"].values / log.propensity.values).prod(1) * log.reward.sum(1)
    bound, n, delta = np.abs(totals).max(), log.n, 0.1
    half = np.sqrt(2 * totals.var(ddof=1) * np.log(4 / delta) / n) + 7 * 2 * bound * np.log(
        4 / delta
    ) / (3 * (n - 1))
    low, high = estimate.interval(0.9, "bernstein")
    assert (high - low) / 2 == pytest.approx(half, rel=1e-9)
    assert bernstein_half_width(totals.var(ddof=1), 2 * bound, n, 0.9) == pytest.approx(
        half, rel=1e-12
    )


def test_cressie_read_is_the_profile_of_the_euclidean_likelihood():
    """Find the ends by search: the least sum (n q - 1)^2 over reweightings with E[w] = 1 and E[T] =
    theta.
    """
    rng = np.random.default_rng(5)
    n = 40
    p0, p1, reward = rng.uniform(0.3, 1, (n, 2)), rng.random((n, 2)), rng.random((n, 2))
    log = cr.RankingLog(action=np.zeros((n, 2), int), reward=reward, propensity=p0)
    got = cr.IIPS().estimate(log, p1, full=True).interval(0.9, "cressie-read")
    w = p1 / p0
    totals = (w * reward).sum(1)

    def distance(theta=None):
        rows, goal = [np.ones(n), *w.T], [1.0, 1.0, 1.0]
        if theta is not None:
            rows, goal = [*rows, totals], [*goal, theta]
        matrix = np.array(rows)
        # Least squares from q = 1/n: the smallest step that meets the constraints.
        step = np.linalg.lstsq(matrix, np.array(goal) - matrix @ np.full(n, 1 / n), rcond=None)[0]
        return n**2 * float(step @ step)

    allowed = distance() + stats.f.ppf(0.9, 1, n - 1 - 2) * n / (n - 1)
    centre = optimize.minimize_scalar(distance, bracket=(0.5, 1.5)).x
    low = optimize.brentq(lambda t: distance(t) - allowed, centre - 5, centre)
    high = optimize.brentq(lambda t: distance(t) - allowed, centre, centre + 5)
    assert got == pytest.approx((low, high), rel=1e-6)


def test_what_was_not_collected_is_asked_for(log):
    estimate = cr.IPS().estimate(log, "new")
    with pytest.raises(cr.CounterrankError, match="by_unit=True"):
        estimate.interval(0.95, "bootstrap")
    with pytest.raises(cr.CounterrankError, match="by_unit=True"):
        estimate.interval(0.95, "poisson")
    with pytest.raises(cr.CounterrankError, match="full=True"):
        estimate.interval(0.95, "cressie-read")
    with pytest.raises(cr.CounterrankError, match="no interval method 'exact'; known: t, normal"):
        estimate.interval(0.95, "exact")
    for level in (0.0, 1.0, 95):
        with pytest.raises(cr.CounterrankError, match="between 0 and 1"):
            estimate.interval(level)
    clustered = cr.RankingLog(
        action=log.action, reward=log.reward, propensity=log.propensity, unit=np.arange(log.n) // 2
    )
    with pytest.raises(cr.CounterrankError, match="independent rows"):
        cr.IPS().estimate(clustered, log.targets["new"]).interval(0.95, "bernstein")


def test_estimates_without_moments_still_have_two_methods(log):
    from dataclasses import replace

    bare = replace(cr.IPS().estimate(log, "new"), evidence=None)
    assert bare.interval(0.95, "t") == bare.interval(0.95, "normal")
    with pytest.raises(cr.CounterrankError, match="keeps no moments"):
        bare.interval(0.95, "bootstrap")
    own = replace(bare, interval_at=lambda level: (-level, level))
    assert own.interval(0.9) == (-0.9, 0.9)
