"""Long logs: models are asked about a random part of the rows, and the interval knows it."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import counterrank as cr
from counterrank.data.source import MemorySource
from counterrank.estimators import Workspace, crossfit
from counterrank.estimators.auto.auto import AutoFit
from counterrank.estimators.auto.members import add_second_phase, calibration
from counterrank.estimators.auto.nuisances import fit_aimed
from counterrank.estimators.auto.solution import MemberTable
from counterrank.research.simulate import World

WORLD = World(seed=5, behavior="dbn", K=4, items=10)


@pytest.fixture(scope="module")
def log():
    return WORLD.log(1500, 0)


@pytest.fixture(scope="module")
def fitted(log):
    return fit_aimed(Workspace(MemorySource(log, threads=1), "new"))


@pytest.fixture
def few(monkeypatch):
    """Ask about 300 rows at most."""
    monkeypatch.setattr(crossfit, "DEFAULTS", replace(crossfit.DEFAULTS, asked_rows=300))


def summed_up(log, models, seed):
    """Values and covariances (2, ...) of the members with models, without the error of fits."""
    fit = AutoFit(Workspace(MemorySource(log), "new", seed=seed), models, (), None)
    fit.limit = 10.0  # the same for any rate
    state = fit.sums(log)
    more = replace(state.extras[fit.key], folds=np.zeros((0, 4)))
    found = MemberTable.solved(fit, state.sums, more).summary
    return found.value[1:3], np.diag(found.covariance)[1:3], found


@pytest.mark.slow
def test_repeated_samples_scatter_around_all_rows_as_the_formula_says(log, fitted):
    """200 samples of a fifth of the rows. Their mean is that of all rows (|z| < 4.5: 1e-5 for two
    members); their variance is what the standard error has on top of that of all rows: its relative
    error is about .1 (kurtosis included .13), so a ratio outside .5 to 1.6 has probability 1e-4.
    """
    whole, first_phase, _ = summed_up(log, fitted, 0)
    part = replace(fitted, rate=0.2)
    runs = [summed_up(log, part, seed)[:2] for seed in range(1, 201)]
    values, variances = (np.array([run[i] for run in runs]) for i in range(2))
    scatter = values.var(axis=0, ddof=1)
    z = (values.mean(axis=0) - whole) / np.sqrt(scatter / len(runs))
    assert np.abs(z).max() < 4.5
    ratio = (variances.mean(axis=0) - first_phase) / scatter
    assert (0.5 < ratio).all() and (ratio < 1.6).all()
    assert (variances.mean(axis=0) > 1.1 * first_phase).all()


def test_all_rows_in_the_sample_are_the_plain_sums():
    rng = np.random.default_rng(0)
    fine, totals = rng.normal(size=(3, 3, 7)), rng.normal(size=(1 + 2 + 4, 7))
    columns, sums = rng.normal(size=(3, 4, 7)), rng.normal(size=(1 + 3 + 4, 7))
    last = columns[:, 3].copy(), sums[3].copy()
    add_second_phase(columns, sums, (fine, totals), np.arange(7), 1.0)
    np.testing.assert_allclose(columns[:, :3], fine, rtol=1e-12)
    np.testing.assert_allclose(sums[[0, 1, 2, 4, 5, 6, 7]], totals, rtol=1e-12)
    np.testing.assert_array_equal(columns[:, 3], last[0])
    np.testing.assert_array_equal(sums[3], last[1])
    np.testing.assert_array_equal(calibration(sums[0], np.arange(7), 1.0), np.zeros((2, 7)))


def test_over_all_samples_the_mean_is_that_of_all_rows():
    """All 2^4 samples with their probabilities: corrected sums have the mean of the models' own,
    controls the mean zero, and each is the weight of its row.
    """
    rng, rate, n = np.random.default_rng(1), 0.3, 4
    fine, totals = rng.normal(size=(3, 3, n)), rng.normal(size=(1 + 2 + 2, n))
    cheap, sums = rng.normal(size=(3, 4, n)), rng.normal(size=(1 + 3 + 2, n))
    earned, mean = rng.normal(size=n), [0.0, 0.0, 0.0]
    for drawn in product((False, True), repeat=n):
        rows = np.flatnonzero(drawn)
        chance = np.where(drawn, rate, 1 - rate).prod()
        columns, whole = cheap.copy(), sums.copy()
        add_second_phase(columns, whole, (fine[:, :, rows], totals[:, rows]), rows, rate)
        controls = calibration(earned, rows, rate)
        excess = np.where(drawn, 1 / rate, 0.0) - 1
        np.testing.assert_allclose(controls, [excess, excess * earned], atol=1e-12)
        mean = [m + chance * part for m, part in zip(mean, (columns, whole, controls), strict=True)]
    np.testing.assert_allclose(mean[0], np.concatenate([fine, cheap[:, 3:]], axis=1), atol=1e-12)
    wanted = np.concatenate([totals[:3], sums[3:4], totals[3:]])
    np.testing.assert_allclose(mean[1], wanted, atol=1e-12)
    np.testing.assert_allclose(mean[2], 0.0, atol=1e-12)


def test_calibration_takes_out_what_rewards_explain(log, fitted):
    """What is earned is known for all rows: its mean and error do not depend on the sample."""
    for rate in (1.0, 0.2):
        found = summed_up(log, replace(fitted, rate=rate), 3)[2]
        earned = log.reward @ log.position_weights
        assert found.value[0] == pytest.approx(earned.mean(), rel=1e-12)
        assert found.covariance[0, 0] == pytest.approx(earned.var() / (log.n - 1), rel=1e-9)


def test_the_estimate_says_so_and_hardly_widens(log, few):
    found = cr.Auto().estimate(log, "new")
    assert (
        found.flags[1].startswith("sampled-rows: ") and "20.0\u202f% of the 1,500" in found.flags[1]
    )
    assert [m["member"] for m in found.details["members"]] == ["models", "aimed", "iips", "ips"]


def test_pieces_of_the_log_agree(log, few):
    """Which rows are asked about hangs on their numbers, not on batches: nothing grows with n."""
    found = []
    for size in (1500, 400):
        fit = cr.Auto().fit(Workspace(MemorySource(log, threads=1), "new", by_unit=True))
        states = [fit.sums(part) for part in log.chunks(size)]
        found.append(fit.estimate(sum(states[1:], start=states[0])))
    assert found[0].value == pytest.approx(found[1].value, rel=1e-9)
    assert found[0].stderr == pytest.approx(found[1].stderr, rel=1e-9)
    # The first of the two controls sums I / p - 1.
    excess = sum(state.sums.rows.total[-2] for state in states)
    assert 220 < (log.n + excess) * fit.rate < 380  # 300 expected, five standard deviations


def test_prefix_numbers_alone_are_sampled_too(log, few):
    cumulative = log.propensity.prefix_log_prob(log.action)
    numbers = np.exp(np.diff(cumulative, axis=1, prepend=0.0))
    part = cr.RankingLog(
        action=log.action, reward=log.reward, propensity=cr.Propensity("prefix", numbers), targets=log.targets,
        context=log.context,
    )  # fmt: skip
    found = cr.Auto().estimate(part, "new")
    assert [m["member"] for m in found.details["members"]] == ["models", "rips", "ips"]
    assert abs(found.value - cr.Auto().estimate(log, "new").value) < 4 * found.stderr
