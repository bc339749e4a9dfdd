"""Standard errors from additive moments against the same formulas on the rows themselves."""

import numpy as np
import pytest

import counterrank as cr
from counterrank.data.source import MemorySource
from counterrank.estimators import registry
from counterrank.estimators.base import View, Workspace

N, K = 700, 3
ALPHA = np.array([1.0, 0.6, 0.3])


@pytest.fixture(scope="module")
def log():
    rng = np.random.default_rng(0)
    return cr.RankingLog(
        action=rng.integers(0, 3, (N, K)),
        reward=rng.normal(1, 1, (N, K)),
        propensity=rng.uniform(0.2, 1, (N, K)),
        targets={"new": rng.random((N, K))},
        position_weights=ALPHA,
    )


def columns(log, kind):
    rho = log.targets["new"].values / log.propensity.values
    w = {
        "ips": np.repeat(rho.prod(1, keepdims=True), K, 1),
        "iips": rho,
        "rips": np.cumprod(rho, 1),
    }[kind]
    return w * log.reward, w


def influence(log, kind, aggregate):
    """Return per-row influence values (n, K) of each V_k: their variance over n is that of the
    estimate.
    """
    y, w = columns(log, kind)
    if aggregate == "mean":
        return y
    if aggregate == "ratio":
        return (y - y.mean(0) / w.mean(0) * w) / w.mean(0)
    centred = w - w.mean(0)
    beta = np.linalg.lstsq(centred, y - y.mean(0), rcond=1e-10)[0]
    return y - centred @ beta


@pytest.mark.parametrize("kind", ["ips", "iips", "rips"])
@pytest.mark.parametrize(
    ("aggregate", "prefix"), [("mean", ""), ("ratio", "sn"), ("control", "cv-")]
)
def test_delta_method(log, kind, aggregate, prefix):
    estimate = registry.get(prefix + kind).estimate(log, "new")
    psi = influence(log, kind, aggregate)
    assert estimate.stderr == pytest.approx((psi @ ALPHA).std(ddof=1) / np.sqrt(N), rel=1e-8)
    for k in range(K):
        assert estimate.by_position[k].stderr == pytest.approx(
            psi[:, k].std(ddof=1) / np.sqrt(N), rel=1e-8
        )
    base = log.reward @ ALPHA
    assert estimate.lift.value == pytest.approx(estimate.value - base.mean(), rel=1e-10)
    assert estimate.lift.stderr == pytest.approx(
        (psi @ ALPHA - base).std(ddof=1) / np.sqrt(N), rel=1e-8
    )
    relative = (psi @ ALPHA - estimate.value / base.mean() * base) / base.mean()
    half = (estimate.lift.relative_high - estimate.lift.relative_low) / 2
    from scipy import stats

    expected = stats.t.ppf(0.975, N - 1) * relative.std(ddof=1) / np.sqrt(N)
    assert half == pytest.approx(expected, rel=1e-8)
    assert estimate.lift.relative == pytest.approx(estimate.value / base.mean() - 1, rel=1e-10)


@pytest.mark.parametrize(("kind", "prefix"), [("ips", ""), ("iips", "sn"), ("rips", "cv-")])
def test_row_totals_and_gradient_carry_the_error(log, kind, prefix):
    """What pairs two estimates: the variance of the gradient times the columns is that of the estimate."""
    fitted = registry.get(prefix + kind).fit(Workspace(MemorySource(log), "new"))
    state, columns = fitted.sums(log), fitted.columns(View(log, "new")).totals
    gradient = fitted.solution(state).total.gradient
    # What the logger earned comes first, and moves the value of no target.
    assert state.sums.keys[1:] == tuple(columns) and gradient[0] == 0.0
    rows = gradient[1:] @ np.stack([*columns.values()])
    stderr = rows.std(ddof=1) / np.sqrt(N)
    assert stderr == pytest.approx(fitted.estimate(state).stderr, rel=1e-8)


def exact_cluster_variance(psi, unit):
    """Liang and Zeger on the units themselves."""
    names, back = np.unique(unit, return_inverse=True)
    scores = np.bincount(back, weights=psi - psi.mean())
    return len(names) / (len(names) - 1) * (scores @ scores) / len(psi) ** 2


def test_few_units_are_clustered_exactly(log):
    # 20 units that fall into 20 different buckets: the bucket table is the cluster table.
    unit = np.random.default_rng(1).integers(0, 20, N)
    clustered = cr.RankingLog(
        action=log.action, reward=log.reward, propensity=log.propensity, targets=log.targets, unit=unit,
        position_weights=ALPHA,
    )  # fmt: skip
    assert len(np.unique(clustered.bucket)) == 20
    for prefix, aggregate in (("", "mean"), ("sn", "ratio")):
        estimate = registry.get(f"{prefix}rips").estimate(clustered, "new")
        psi = influence(log, "rips", aggregate) @ ALPHA
        assert estimate.stderr**2 == pytest.approx(exact_cluster_variance(psi, unit), rel=1e-9)
        # Degrees of freedom follow the units.
        from scipy import stats

        half = stats.t.ppf(0.975, 19) * estimate.stderr
        assert estimate.interval(0.95) == pytest.approx(
            (estimate.value - half, estimate.value + half), rel=1e-12
        )


def test_many_units_are_clustered_nearly_exactly():
    # 6000 units in 1024 buckets: the ratio of the two standard errors has a standard deviation of
    # about 1/sqrt(2*1024) = 2.2 %; 12 % is more than 5 of them (false alarm below 1e-6).
    rng = np.random.default_rng(2)
    unit = np.repeat(np.arange(6000), 3)
    n = len(unit)
    shift = rng.normal(0, 1, 6000)[unit]
    log = cr.RankingLog(
        action=np.zeros((n, 2), int), reward=rng.normal(1, 1, (n, 2)) + shift[:, None],
        propensity=np.full((n, 2), 0.5), unit=unit,
    )  # fmt: skip
    target = rng.uniform(0.3, 0.7, (n, 2))
    estimate = cr.IIPS().estimate(log, target)
    psi = (target / 0.5 * log.reward).sum(1)
    exact = np.sqrt(exact_cluster_variance(psi, unit))
    assert estimate.stderr == pytest.approx(exact, rel=0.12)
    assert estimate.stderr > 1.3 * psi.std() / np.sqrt(n)  # and the units matter here


def test_a_single_unit_gives_no_error_but_a_flag():
    log = cr.RankingLog(
        action=[[0]] * 5, reward=[[1.0]] * 5, propensity=[[0.5]] * 5, unit=["a"] * 5
    )
    estimate = cr.IPS().estimate(log, [[0.4]] * 5)
    assert np.isnan(estimate.stderr)
    assert any(flag.startswith("one-unit") for flag in estimate.flags)


@pytest.mark.parametrize("users", [1, 30, 600, 3000])
def test_users_are_counted_although_some_share_a_bucket(users):
    """Linear counting: an error of 3 % at 600 users, so one draw misses by 12 % in 1 of 10,000 logs."""
    rng = np.random.default_rng(users)
    n = 6000
    unit = np.concatenate([np.arange(users), rng.integers(users, size=n - users)])
    log = cr.RankingLog(
        action=rng.integers(3, size=(n, 2)),
        reward=rng.random((n, 2)),
        propensity=np.full((n, 2), 1 / 3),
        unit=[f"u{name}" for name in unit],
        targets={"new": np.full((n, 2), 1 / 3)},
    )
    found = cr.evaluate(log, ["new"], estimators=["ips"]).log["units"]
    assert abs(found - users) <= 0.12 * users
