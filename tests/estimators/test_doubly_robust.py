"""Doubly robust estimates against their formulas in plain NumPy."""

from dataclasses import replace

import numpy as np
import pytest
from tests.estimators.dozen_rows import ALPHA, LOG, MEAN, REWARD, WEIGHTS, Known, N, Q, same

import counterrank as cr
from counterrank.data.source import MemorySource
from counterrank.estimators.doubly_robust import DM, DR, CascadeDR
from counterrank.models import fit_close, fit_linear, train


@pytest.mark.parametrize("name", WEIGHTS)
def test_doubly_robust_and_model_alone(name):
    found = DR(weights=name, model=Known()).estimate(LOG, "new")
    same(found, MEAN + WEIGHTS[name] * (REWARD - Q))
    alone = DM(model=Known()).estimate(LOG, "new")
    same(alone, MEAN)
    assert found.details["regression"] == alone.details["regression"] == Known.details
    assert alone.ess == pytest.approx(N) and alone.flags[0].startswith("model-only")


class Refitted(Known):
    """Each fit that leaves a fold out knows other numbers."""

    folds = 3

    def expected(self, rankings, fold):
        return Q[rankings.log.rows] * (1.0 + fold[:, None])

    def mean_under(self, batch, target, fold):
        return MEAN[batch.rows] * (1.0 + fold[:, None])


@pytest.mark.parametrize("name", WEIGHTS)
def test_the_error_of_the_fits_is_in_the_standard_error(name):
    """The delete-a-fold jackknife: 2/3 of the squared deviations of three fits, each asked about all rows."""
    found = DR(weights=name, model=Refitted()).estimate(LOG, "new")
    factor = 1.0 + (LOG.bucket % 3)[:, None]
    y = MEAN * factor + WEIGHTS[name] * (REWARD - Q * factor)
    rows = (y @ ALPHA).var(ddof=1) / N
    fits = [((MEAN * f + WEIGHTS[name] * (REWARD - Q * f)) @ ALPHA).mean() for f in (1.0, 2.0, 3.0)]
    assert found.value == pytest.approx((y @ ALPHA).mean(), rel=1e-12)
    assert found.stderr == pytest.approx(np.sqrt(rows + 2 * np.var(fits)), rel=1e-9)


def test_what_the_log_hardly_shows_is_in_the_standard_error_unless_weights_correct_any_model():
    rng = np.random.default_rng(5)
    p0, p1 = rng.dirichlet(np.ones(3), 400), rng.dirichlet(np.ones(3), 400)
    action = (rng.random((400, 2, 1)) > p0.cumsum(axis=1)[:, None, :2]).sum(axis=2)
    shown = [np.take_along_axis(p, action, axis=1) for p in (p0, p1)]
    log = cr.RankingLog(
        action=action, reward=action + rng.normal(size=action.shape), context=p0[:, :2],
        propensity=cr.Propensity("factored", shown[0]), targets={"new": cr.Propensity("factored", shown[1])},
        dists={"propensity": p0, "new": p1},
    )  # fmt: skip
    model = fit_linear(train(MemorySource(log)))
    sure = replace(model, posteriors=())
    for weights, doubt in (
        ("iips", model.doubt(log, "new")),
        ("rips", model.doubt(log, "new")),
        ("ips", 0.0),
    ):
        found, without = (
            DR(weights=weights, model=each).estimate(log, "new") for each in (model, sure)
        )
        assert found.value == without.value
        assert found.stderr**2 - without.stderr**2 == pytest.approx(doubt, rel=1e-9)
    assert model.doubt(log, "new") > 0.0
    # A model of visibility does not know what the ridge of the same rows has not seen either.
    close = fit_close(train(MemorySource(log)), within=10.0)
    assert len(close.models) > 1
    assert {each.doubt(log, "new") for each in close.models} == {model.doubt(log, "new")}


def test_cascade_dr_says_what_it_rests_on():
    found = CascadeDR().estimate(LOG, "new")
    assert found.estimator == "cascade-dr" and np.isfinite([found.value, found.stderr]).all()
    assert "regression" in found.details
