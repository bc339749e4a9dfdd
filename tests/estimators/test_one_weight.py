"""Normalised estimates of large logs are summed in one pass, as those of stored columns are."""

import numpy as np
import pytest

import counterrank as cr
from counterrank.data.source import MemorySource
from counterrank.estimators import contribution
from counterrank.estimators.base import View, Workspace


def log_of(seed: int) -> cr.RankingLog:
    rng = np.random.default_rng(seed)
    n = 300
    action = rng.integers(0, 2, (n, 3))
    action[np.arange(3) >= rng.integers(1, 4, n)[:, None]] = -1
    return cr.RankingLog(
        action=action,
        reward=np.where(action < 0, 0.0, rng.random((n, 3))),
        propensity=rng.uniform(0.3, 1, (n, 3)),
        targets={"new": rng.uniform(0.3, 1, (n, 3))},
    )


@pytest.mark.parametrize("aggregate", ["mean", "ratio", "control"])
@pytest.mark.parametrize("estimator", [cr.IPS, cr.IIPS, cr.RIPS])
def test_one_pass_over_a_large_log_makes_the_columns_of_a_small_one(
    estimator: type, aggregate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_of(0)
    workspace = Workspace(MemorySource(log, threads=1), "new")
    stored = estimator(aggregate=aggregate).fit(workspace)
    monkeypatch.setattr(contribution, "_FUSED_ROWS", 300)
    fused = estimator(aggregate=aggregate).fit(workspace)
    assert fused.one_pass and not stored.one_pass
    columns, others = (fit.columns(View(log, "new")).totals for fit in (fused, stored))
    assert columns.keys() == others.keys()
    # All positions have one weight: that of the first stands for it.
    if estimator is cr.IPS and aggregate != "mean":
        assert len(columns) == 2
    for key, column in columns.items():
        np.testing.assert_allclose(column, others[key], rtol=1e-12)
    one, other = (fit.estimate(fit.sums(log)) for fit in (fused, stored))
    for name in ("value", "stderr", "ess"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-9)
    for place, same in zip(one.lift.by_position, other.lift.by_position, strict=True):
        assert (place.value, place.stderr) == pytest.approx((same.value, same.stderr), rel=1e-8)


@pytest.mark.parametrize("aggregate", ["ratio", "control"])
def test_one_weight_of_all_positions_is_that_of_each(aggregate: str) -> None:
    log = log_of(1)
    workspace = Workspace(MemorySource(log, threads=1), "new")
    single = cr.IPS(aggregate=aggregate).fit(workspace)
    each = contribution.ContributionFit(
        "each", workspace, "each", single.traits, aggregate, single.weigh
    )
    assert single.single and not each.single
    one, other = (fit.estimate(fit.sums(log)) for fit in (single, each))
    assert one.value == pytest.approx(other.value, rel=1e-10)
    assert one.stderr == pytest.approx(other.stderr, rel=1e-8)
    assert one.lift.stderr == pytest.approx(other.lift.stderr, rel=1e-8)
