"""One weight for all positions: it and the total say what the columns of all positions do."""

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
    assert short.totals.shape == (n, 2) and long.totals.shape == (n, 7)
    np.testing.assert_allclose(short.state.gram, long.state.gram, rtol=1e-10)
    np.testing.assert_allclose(short.state.positions, long.state.positions, rtol=1e-10)
    combined = [short.totals @ plan.combination(short.state)]
    plan.one_weight = False
    combined.append(long.totals @ plan.combination(long.state))
    np.testing.assert_allclose(*combined, rtol=1e-9, atol=1e-9)
    one, other = plan.finish(short.state), plan.finish(long.state)
    assert one.value == pytest.approx(other.value, rel=1e-12)
    assert one.stderr == pytest.approx(other.stderr, rel=1e-9)
    # The plain mean shares these columns.
    plain = cr.IPS().plan(workspace)
    np.testing.assert_allclose(
        short.totals @ plain.combination(short.state), long.totals[:, 0], rtol=1e-12
    )
