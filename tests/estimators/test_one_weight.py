"""Normalised estimates of large logs are summed in one pass, as those of stored columns are."""

import numpy as np
import pytest

import counterrank as cr
from counterrank.data.source import MemorySource
from counterrank.estimators import contribution
from counterrank.estimators.base import View, Workspace


@pytest.mark.parametrize("aggregate", ["ratio", "control"])
def test_normalised_ips_of_a_large_log_is_that_of_its_long_columns(
    aggregate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contribution, "_FUSED_ROWS", 300)
    rng = np.random.default_rng(0)
    n = 300
    action = rng.integers(0, 2, (n, 3))
    action[np.arange(3) >= rng.integers(1, 4, n)[:, None]] = -1
    log = cr.RankingLog(
        action=action,
        reward=np.where(action < 0, 0.0, rng.random((n, 3))),
        propensity=rng.uniform(0.3, 1, (n, 3)),
        targets={"new": rng.uniform(0.3, 1, (n, 3))},
    )
    workspace = Workspace(MemorySource(log, threads=1), "new")
    plan = cr.IPS(aggregate=aggregate).plan(workspace)
    view = View(log, "new")
    short, long = plan.partial(view), plan.stored(view)
    assert len(short.columns()) == 2 and len(long.columns()) == 7
    np.testing.assert_allclose(short.state.gram, long.state.gram, rtol=1e-10)
    np.testing.assert_allclose(short.state.positions, long.state.positions, rtol=1e-10)
    combined = [plan.combination(short.state) @ np.stack(short.columns())]
    plan.one_weight = False
    combined.append(plan.combination(long.state) @ np.stack(long.columns()))
    np.testing.assert_allclose(*combined, rtol=1e-9, atol=1e-9)
    one, other = plan.finish(short.state), plan.finish(long.state)
    assert one.value == pytest.approx(other.value, rel=1e-12)
    assert one.stderr == pytest.approx(other.stderr, rel=1e-9)
    # The plain mean shares these columns.
    plain = cr.IPS().plan(workspace)
    np.testing.assert_allclose(
        plain.combination(short.state) @ np.stack(short.columns()), long.columns()[0], rtol=1e-12
    )


@pytest.mark.parametrize("estimator", [cr.IIPS, cr.RIPS])
def test_normalised_weights_of_a_large_log_are_those_of_stored_columns(
    estimator: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contribution, "_FUSED_ROWS", 300)
    rng = np.random.default_rng(1)
    old, new = rng.uniform(0.3, 1, (2, 300, 3))
    action, reward = rng.integers(0, 2, (300, 3)), rng.random((300, 3))
    log = cr.RankingLog(action=action, reward=reward, propensity=old, targets={"new": new})
    workspace = Workspace(MemorySource(log, threads=1), "new")
    plan, plain = estimator(aggregate="ratio").plan(workspace), estimator().plan(workspace)
    view = View(log, "new")
    stored = plan.stored(view)
    for own in (plan, plain):
        part = own.partial(view)
        np.testing.assert_allclose(part.state.gram, stored.state.gram, rtol=1e-10)
        np.testing.assert_allclose(part.columns(), stored.columns(), rtol=1e-12)
        one, other = own.finish(part.state), own.finish(stored.state)
        assert one.value == pytest.approx(other.value, rel=1e-12)
        assert one.stderr == pytest.approx(other.stderr, rel=1e-9)
