"""From contributions of rows to estimates, lifts and evidence, in plain NumPy."""

import numpy as np
import pytest
from scipy import stats
from tests.estimators.dozen_rows import ACTION, ALPHA, LOG, P0, P1, REWARD, RHO, K, Known, N, shown

import counterrank as cr
from counterrank.data.source import MemorySource
from counterrank.estimators.base import View, Workspace
from counterrank.estimators.clip import limit_for
from counterrank.estimators.doubly_robust import DM


@pytest.mark.parametrize("units", [None, np.arange(N) // 2])
@pytest.mark.parametrize("aggregate", ["mean", "ratio"])
def test_lift_and_evidence(aggregate, units):
    log = cr.RankingLog(
        action=ACTION, reward=REWARD + 2, propensity=shown(P0), position_weights=ALPHA, unit=units,
        targets={"new": cr.Propensity("factored", shown(P1))},
    )  # fmt: skip
    found = cr.IIPS(aggregate=aggregate).estimate(log, "new", level=0.9)
    r, w = REWARD + 2, RHO
    base = r @ ALPHA
    mean_w = w.mean(0) if aggregate == "ratio" else np.ones(K)
    values = (w * r).mean(0) / mean_w
    centred = w * r / mean_w - (
        values * w / mean_w if aggregate == "ratio" else values
    )  # (n, K), mean zero
    score = centred @ ALPHA
    value = ALPHA @ values

    def error(scores):
        scores = scores - scores.mean()
        if units is None:
            return np.sqrt((scores**2).sum() / (N - 1) / N)
        sums = np.bincount(units, weights=scores)
        return np.sqrt(len(sums) / (len(sums) - 1) * (sums**2).sum()) / N

    df = (N if units is None else N // 2) - 1
    t = stats.t.ppf(0.95, df)
    assert found.value == pytest.approx(value, rel=1e-12) and found.stderr == pytest.approx(
        error(score), rel=1e-9
    )
    np.testing.assert_allclose(
        [p.stderr for p in found.by_position], [error(c) for c in centred.T], rtol=1e-9
    )
    lift, gain = found.lift, value - base.mean()
    paired = error(score - base)
    assert (lift.value, lift.stderr) == pytest.approx((gain, paired), rel=1e-9)
    assert (lift.low, lift.high) == pytest.approx((gain - t * paired, gain + t * paired), rel=1e-9)
    ratio = error(score / base.mean() - value / base.mean() ** 2 * base)
    relative = gain / base.mean()
    expected = (relative, relative - t * ratio, relative + t * ratio)
    assert (lift.relative, lift.relative_low, lift.relative_high) == pytest.approx(
        expected, rel=1e-9
    )
    np.testing.assert_allclose([p.value for p in lift.by_position], values - r.mean(0), rtol=1e-10)
    pairs = [error(c) for c in (centred - r).T]
    np.testing.assert_allclose([p.stderr for p in lift.by_position], pairs, rtol=1e-9)


@pytest.mark.parametrize("aggregate", ["mean", "ratio"])
def test_row_totals_combine_to_the_estimate(aggregate):
    workspace = Workspace(MemorySource(LOG, threads=1), "new")
    fitted = cr.IIPS(aggregate=aggregate).fit(workspace)
    state, totals = fitted.sums(LOG), fitted.columns(View(LOG, "new")).totals
    scores = fitted.solution(state).total.gradient[1:] @ np.stack([*totals.values()])
    spread = scores.std(ddof=1) / np.sqrt(N)
    assert spread == pytest.approx(fitted.estimate(state).stderr, rel=1e-9)
    assert len(totals) == (1 if aggregate == "mean" else 1 + 2 * K)


def test_a_mean_is_one_column_of_totals():
    fitted = DM(model=Known()).fit(Workspace(MemorySource(LOG, threads=1), "new"))
    assert list(fitted.columns(View(LOG, "new")).totals) == [fitted.mean_of]


def test_rows_are_counted_where_they_are_not_known():
    class Unknown(MemorySource):
        n = None

    known = MemorySource(LOG, threads=1)
    assert limit_for(Unknown(LOG, threads=1), None) == N**0.5 == limit_for(known, None)
    assert limit_for(known, 2.0) == 2.0
