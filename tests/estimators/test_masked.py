"""Weights by behaviour masks against their formulas in plain NumPy."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from tests.estimators.dozen_rows import (
    ACTION,
    ALPHA,
    LOG,
    REWARD,
    RHO,
    WEIGHTS,
    K,
    N,
    products,
    same,
)

import counterrank as cr
from counterrank.data.source import MemorySource
from counterrank.estimators import contribution, masked
from counterrank.estimators.base import View, Workspace
from counterrank.estimators.behavior import mask
from counterrank.estimators.masked import (
    _TREE,
    AIPS,
    MaskEstimator,
    sampling_flags,
    supported_mask,
    weights_of_mask,
)
from counterrank.estimators.weights.ratios import ratios_of


def test_behaviour_by_name_by_row_and_by_matrix():
    names = np.array(["S", "I", "C"] * 4)
    w = np.stack([products(RHO, mask(str(c), K))[i] for i, c in enumerate(names)])
    stacked = np.stack([mask(str(c), K) for c in names])
    for behavior in ("log", names, list(names), stacked, stacked.astype(int)):
        same(AIPS(behavior=behavior).estimate(LOG, "new"), w * REWARD)
    for behavior in ("C", mask("C", K), mask("C", K).tolist()):
        same(AIPS(behavior=behavior).estimate(LOG, "new"), WEIGHTS["rips"] * REWARD)
    short = LOG.take(slice(3, 9))  # rows keep their own models when the log is cut
    fitted = AIPS(behavior=stacked).fit(Workspace(MemorySource(LOG, threads=1), "new"))
    np.testing.assert_allclose(fitted.weights(View(short, "new")), w[3:9], rtol=1e-12)
    for wrong in (names[:5], stacked[:, :2], stacked[:5]):
        with pytest.raises(cr.CounterrankError, match="behavior has shape"):
            AIPS(behavior=wrong).estimate(LOG, "new")


class OwnWeights:
    """A behaviour model that weighs rows itself."""

    notes = ("not shown: the model was not fitted here",)

    def weights(self, batch, ratios):
        return np.asfortranarray(ratios.rho**2)


def test_a_model_may_weigh_rows_itself():
    found = AIPS(behavior=OwnWeights()).estimate(LOG, "new")
    same(found, RHO**2 * REWARD)
    assert not [flag for flag in found.flags if "not shown" in flag]


def test_a_fitted_tree_is_shown_with_its_notes_and_other_models_are_not():
    workspace = Workspace(MemorySource(LOG, threads=1), "new")
    fitted, given = AIPS().fit(workspace), AIPS(behavior="C").fit(workspace)
    tree = workspace.memo[_TREE, "default"]
    assert fitted.behavior_model is tree and fitted.flags == tree.fitted.notes
    assert given.behavior_model is None and given.flags == ()


def test_fits_on_one_workspace_are_summed_in_one_pass(monkeypatch):
    monkeypatch.setattr(contribution, "_FUSED_ROWS", 1)

    def wanted(*estimators):
        workspace = Workspace(MemorySource(LOG, threads=1), "new")
        fits = [estimator.fit(workspace) for estimator in estimators]
        return workspace.memo.get("standard weights", set()), [fit.fused for fit in fits]

    assert wanted(cr.IPS(), cr.RIPS(), cr.IIPS()) == (
        {"joint", "prefix", "position"},
        ["joint", "prefix", "position"],
    )
    ratio = cr.RIPS(aggregate="ratio")
    assert wanted(ratio, cr.RIPS()) == ({"prefix"}, ["prefix"] * 2)
    orders = cr.OrderIPS(order=2), cr.OrderIPS(order=K)
    assert wanted(*orders) == ({"order-2"}, ["order-2", None])
    assert wanted(cr.OrderIPS(order=2, behavior="C")) == (set(), [None])
    assert wanted(Neighbours()) == (set(), [None])
    same(Neighbours().estimate(LOG, "new"), products(RHO, mask("N1", K)) * REWARD)
    same(AIPS(behavior="N1").estimate(LOG, "new"), products(RHO, mask("N1", K)) * REWARD)


@dataclass(frozen=True)
class Neighbours(MaskEstimator):
    """A mask that is none of the three."""

    name: str = "neighbours"

    def mask(self, length):
        return mask("N1", length)


def test_sampled_probabilities_are_said(monkeypatch):
    class Drawn:
        kind, sampling_error = "policy", 0.0

        def masked(self, c):
            self.sampling_error = 0.25

    drawn = Drawn()
    workspace = SimpleNamespace(first=LOG, target="new", ratios=drawn)
    monkeypatch.setattr(masked, "ratios_of", lambda batch, target: drawn)
    assert [sampling_flags(workspace, mask(name, K)) for name in ("S", "C")] == [(), ()]
    assert "relative errors up to 0.25" in sampling_flags(workspace, mask("N1", K))[0]
    drawn.kind = "factored"
    assert sampling_flags(workspace, mask("N1", K)) == ()


def test_fused_kinds_are_exactly_three_masks():
    workspace = Workspace(MemorySource(LOG, threads=1), "new")
    assert [
        weights_of_mask(workspace, mask(name, K)).fused
        for name in ("S", "C", "I", "N1", "IC", "P1")
    ] == ["joint", "prefix", "position", None, None, None]


def of_kind(kind, **options):
    values = np.full(N, 0.25) if kind == "joint" else np.full((N, K), 0.5)
    twice = np.full(N, 0.5) if kind == "joint" else np.full((N, K), 0.75)
    log = cr.RankingLog(
        action=ACTION, reward=REWARD, propensity=cr.Propensity(kind, values), position_weights=ALPHA,
        targets={"new": cr.Propensity(kind, twice)},
    )  # fmt: skip
    return cr.IIPS(on_missing="superset", **options).estimate(log, "new"), log


def test_a_larger_mask_where_the_log_demands_it():
    found, log = of_kind("prefix")
    same(found, 1.5 ** np.arange(1, K + 1) * REWARD)
    assert "so 6 instead of 3 item-reward pairs" in found.flags[0]
    found, _ = of_kind("joint")
    same(found, 2.0 * REWARD)
    assert "so 9 instead of 3 item-reward pairs" in found.flags[0]
    found, log = of_kind("position")
    same(found, 1.5 * REWARD)
    assert not [flag for flag in found.flags if "superset" in flag]
    with pytest.raises(cr.CounterrankError, match="only IIPS is possible"):
        cr.RIPS(on_missing="superset").estimate(log, "new")
    with pytest.raises(cr.CounterrankError, match="'prefix' probabilities"):
        cr.RIPS().estimate(log, "new")
    with pytest.raises(cr.CounterrankError, match="use 'error' or 'superset'"):
        supported_mask(ratios_of(LOG, "new"), mask("S", K), "larger")
