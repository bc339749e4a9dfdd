"""Diagnostics of weights against their definitions on the rows."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import counterrank as cr
from counterrank.estimators.weights import diagnostics as weights
from counterrank.estimators.weights.diagnostics import (
    KEPT,
    top_rows_of,
    weight_flags,
    weight_report,
)
from counterrank.estimators.weights.moments import moments_of
from counterrank.evaluation.exploration import support
from counterrank.statistics import mean, sums_of


def moments(w, *, bucket=None):
    w = np.asarray(w, dtype=float)
    w = w[:, None] if w.ndim == 1 else w
    found = moments_of(w, w, np.ones_like(w), np.ones(w.shape[1]))[0]
    if bucket is None:
        return found
    sums = sums_of([*w.T], bucket)
    errors = [mean(sums, k).stderr for k in range(w.shape[1])]
    return replace(found, units=sums.units, by_unit=np.array(errors))


def names(flags):
    return {flag.partition(":")[0] for flag in flags}


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 400), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_effective_rows_and_shares(n, length, seed):
    w = np.random.default_rng(seed).lognormal(0, 1.5, (n, length))
    m, mean = moments(w), w.mean(1)
    assert weights.effective_rows(m) == pytest.approx(mean.sum() ** 2 / (mean**2).sum(), rel=1e-10)
    np.testing.assert_allclose(
        weights.effective_rows_by_position(m), w.sum(0) ** 2 / (w**2).sum(0), rtol=1e-10
    )
    assert weights.largest_weight_share(m) == pytest.approx((w.max(0) / w.sum(0)).max(), rel=1e-10)
    heaviest = np.sort(mean)[::-1]
    exact = (np.searchsorted(np.cumsum(heaviest) / heaviest.sum(), 0.9) + 1) / n
    # A bin is an eighth of an octave wide: the answer is off by at most the rows of one bin, plus
    # one.
    edges = weights.BIN_EDGES
    crossing = np.searchsorted(edges, heaviest[min(int(exact * n) - 1, n - 1)], side="right") - 1
    in_bin = ((mean >= edges[crossing]) & (mean < edges[crossing + 1])).sum()
    assert abs(weights.share_of_rows_carrying(m) - exact) <= (in_bin + 2) / n
    levels, share = weights.survival(m)
    np.testing.assert_allclose(share, [(mean >= level).mean() for level in levels], rtol=1e-12)


@pytest.mark.parametrize("rows", [2, 7, 1000, 1200, 9999])
def test_equal_weights_other_than_one_contradict(rows):
    """Their variance is rounding of either sign; unknown it is only for a single row."""
    w = np.tile([0.8, 1.2, 0.7, 0.1, 1.3], (rows, 1))
    found = weights.mean_weight_test(moments(w))
    assert found.p_value == 0.0 and not np.isnan(found.z).any()
    assert weights.mean_weight_test(moments(w[:1])).p_value == 1.0


def test_equal_weights_are_as_good_as_it_gets():
    report = weight_report(moments(np.ones((500, 3))))
    assert report.ess == pytest.approx(500) and report.ess_by_position == pytest.approx(
        (500, 500, 500)
    )
    assert report.rows_carrying_90 == pytest.approx(
        0.9, abs=1e-9
    ) and report.largest_share == pytest.approx(1 / 500)
    assert report.tail_index == 0.0 and report.mean_weight_p == 1.0 and report.flags == ()


@pytest.mark.parametrize("shape", [0.1, 0.3, 0.5, 0.7, 1.0, 1.5])
def test_tail_index_finds_the_shape_of_pareto_samples(shape):
    # Mean of 10 fits at n = 40,000: each uses 600 rows and has a standard deviation of about (1 +
    # k)/sqrt(600), so the mean's is below 0.033; 5 of them and a bias of 0.05 by shrinkage and bins
    # allowed (false alarm 1e-6).
    rng = np.random.default_rng(0)
    found = [
        weights.tail_index(moments(stats.genpareto.rvs(shape, size=40_000, random_state=rng)))
        for _ in range(10)
    ]
    error = (1 + shape) / np.sqrt(600 * 10)
    assert np.mean(found) == pytest.approx(shape, abs=0.05 + 5 * error)


def test_tail_index_agrees_with_a_maximum_likelihood_fit():
    w = np.random.default_rng(3).lognormal(0, 1.5, 20_000)
    largest = np.sort(w)[-425:]  # 3 sqrt(n)
    shape, *_ = stats.genpareto.fit(largest[1:] - largest[0], floc=0)
    assert weights.tail_index(moments(w)) == pytest.approx(shape, abs=0.12)


@pytest.mark.parametrize(
    "w",
    [np.zeros(50), np.ones(3), np.array([2.0]), np.r_[np.zeros(99), 4.0], np.tile([0.0, 4.0], 500)],
)
def test_no_tail_is_no_trouble(w):
    assert weights.tail_index(moments(w)) == 0.0
    assert np.isfinite(weights.share_of_rows_carrying(moments(w)))
    json.dumps(weight_report(moments(w)).to_dict())


def test_mean_weight_test_is_a_z_test():
    w = np.random.default_rng(1).lognormal(0.1, 0.5, (2000, 3))
    test = weights.mean_weight_test(moments(w))
    z = (w.mean(0) - 1) / (w.std(0, ddof=1) / np.sqrt(2000))
    np.testing.assert_allclose(test.z, z, rtol=1e-9)
    p = 2 * stats.norm.sf(np.abs(z))
    assert test.p_value == pytest.approx(min(1, 3 * p.min()), rel=1e-9)
    np.testing.assert_allclose(test.adjusted, stats.false_discovery_control(p), rtol=1e-9)
    assert not test.passed and "mean-weight" in names(weight_flags(moments(w)))


def test_mean_weight_test_respects_units():
    # Every row ten times: the same weights are no new evidence.
    w = np.random.default_rng(2).lognormal(-0.1, 0.6, 300)
    ten = np.tile(w, 10)
    alone = weights.mean_weight_test(moments(w, bucket=np.arange(300)))
    tiled = weights.mean_weight_test(moments(ten, bucket=np.tile(np.arange(300), 10)))
    assert tiled.z == pytest.approx(alone.z, rel=1e-9)


def test_mean_weight_alarms_at_its_level():
    # 400 correct logs at the 1 % level: expected 4 alarms; more than 15 has a chance of 5e-6.
    rng = np.random.default_rng(4)
    alarms = sum(
        not weights.mean_weight_test(moments(rng.gamma(2.0, 0.5, (500, 4)))).passed
        for _ in range(400)
    )
    assert alarms <= 15


def test_flags_say_what_is_wrong():
    rng = np.random.default_rng(5)
    assert "low-ess" in names(weight_flags(moments(rng.lognormal(0, 1, 60))))
    assert "heavy-tail" in names(
        weight_flags(moments(stats.pareto.rvs(0.9, size=5000, random_state=rng)))
    )
    assert "one-row" in names(weight_flags(moments(np.r_[np.ones(200), 500.0])))
    assert weight_flags(moments(rng.gamma(4, 0.25, 5000))) == ()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=6), st.integers(0, 2**32 - 1))
def test_top_rows_do_not_depend_on_the_cut(sizes, seed):
    rng = np.random.default_rng(seed)
    totals = rng.integers(-9, 10, sum(sizes)).astype(float)  # many ties
    cuts = [0, *np.cumsum(sizes)]
    parts = [top_rows_of(slice(a, b), totals[a:b]) for a, b in zip(cuts, cuts[1:], strict=False)]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole + part
    expected = sorted(range(len(totals)), key=lambda i: (-abs(totals[i]), i))[:KEPT]
    assert whole.rows.tolist() == expected
    assert whole.totals.tolist() == totals[expected].tolist()


def test_top_rows_of_an_estimator_point_into_the_log():
    from counterrank.data.source import MemorySource
    from counterrank.estimators.base import View, Workspace

    rng = np.random.default_rng(6)
    log = cr.RankingLog(
        action=np.zeros((5000, 2), int), reward=rng.random((5000, 2)), propensity=rng.uniform(0.1, 1, (5000, 2)),
        targets={"new": rng.random((5000, 2))},
    )  # fmt: skip
    source = MemorySource(log)
    fitted = cr.IPS().fit(Workspace(source, "new"))
    top = source.reduce(
        lambda batch: top_rows_of(
            batch.rows, fitted.columns(View(batch, "new")).totals[fitted.mean_of]
        )
    )
    totals = (log.targets["new"].values / log.propensity.values).prod(1) * log.reward.sum(1)
    assert top.rows.tolist() == np.argsort(-totals)[:KEPT].tolist()


def test_support_counts_unlogged_mass():
    rng = np.random.default_rng(7)
    n, length, items = 60, 3, 5
    old = rng.dirichlet(np.ones(items), (n, length))
    old[:, :, 0] = 0.0
    old[:, 1, 1] = 5e-4  # rare at the second position
    old /= old.sum(-1, keepdims=True)
    new = rng.dirichlet(np.ones(items), n)
    action = np.where(np.arange(length) < rng.integers(1, 4, n)[:, None], 2, -1)
    log = cr.RankingLog(
        action=action, reward=np.zeros((n, length)), propensity=np.full((n, length), 0.2),
        targets={"new": np.full((n, length), 0.2)}, dists={"propensity": old, "new": new},
    )  # fmt: skip
    used = action >= 0
    found = support(log, "new")
    for k in range(length):
        rows = used[:, k]
        assert found["unlogged_share"][k] == pytest.approx(new[rows, 0].mean())
        rare = np.where((old[:, k] < 1e-3) & (old[:, k] < new / 10), new, 0).sum(1)[rows].mean()
        assert found["rare_share"][k] == pytest.approx(rare)
    assert found["actions"][0]["action"] == "0"


def test_support_is_unknown_without_distributions():
    log = cr.RankingLog(action=[[0]], reward=[[1]], propensity=[[0.5]], targets={"new": [[0.5]]})
    assert support(log, "new") is None


def test_report_is_plain_data():
    rng = np.random.default_rng(8)
    report = weight_report(moments(rng.lognormal(0, 2, (300, 2))), support={"rows": 3})
    data = json.loads(json.dumps(report.to_dict()))
    assert data["ess"] == report.ess and data["support"] == {"rows": 3} and data["n"] == 300
    assert len(data["survival"]["weight"]) == len(data["survival"]["share"])
