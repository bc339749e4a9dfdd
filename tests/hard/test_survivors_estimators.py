"""Estimators against their formulas on a dozen rows in plain NumPy: cases that kill mutants (`make
mutation`).
"""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

import counterrank as cr
from counterrank.behavior import mask
from counterrank.data.source import MemorySource
from counterrank.estimators import masked
from counterrank.estimators.base import View, Workspace
from counterrank.estimators.clip import Clipped, Shrunk, Switch, rows_of
from counterrank.estimators.clip import _Rows as Rows
from counterrank.estimators.doubly_robust import DM, DR, CascadeDR
from counterrank.estimators.marginal import Marginalised, PseudoInverse
from counterrank.estimators.masked import (
    _TREE,
    AIPS,
    MaskEstimator,
    OrderIPS,
    fused_kind,
    sampling_flags,
    supported_mask,
)
from counterrank.models.base import Prediction
from counterrank.weights.ratios import ratios_of

N, K, A = 12, 3, 4
RNG = np.random.default_rng(11)
P0, P1 = RNG.dirichlet(np.full(A, 4.0), size=(N, K)), RNG.dirichlet(np.ones(A), size=(N, K))
ACTION = RNG.integers(0, A, (N, K))
REWARD = RNG.normal(1.0, 1.0, (N, K))
ALPHA = np.array([1.0, 0.5, 0.25])
Q, MEAN = RNG.normal(size=(2, N, K))


def shown(table):
    return np.take_along_axis(table, ACTION[:, :, None], axis=2)[:, :, 0]


RHO = shown(P1) / shown(P0)
LOG = cr.RankingLog(
    action=ACTION, reward=REWARD, propensity=shown(P0), position_weights=ALPHA, behavior=np.array(["S", "I", "C"] * 4),
    targets={"new": cr.Propensity("factored", shown(P1))}, dists={"propensity": P0, "new": P1},
)  # fmt: skip
WEIGHTS = {
    "ips": np.repeat(RHO.prod(1)[:, None], K, axis=1),
    "rips": np.cumprod(RHO, axis=1),
    "iips": RHO,
}


class Known:
    """A model that knows its numbers."""

    details: dict = {"kind": "known"}

    def predict(self, batch, target):
        return Prediction(Q[batch.rows], MEAN[batch.rows])


def same(estimate, y):
    """Value, error and positions of an estimate that is the mean of y (n, K)."""
    total = y @ ALPHA
    assert estimate.value == pytest.approx(total.mean(), rel=1e-12)
    assert estimate.stderr == pytest.approx(total.std(ddof=1) / np.sqrt(N), rel=1e-9)
    np.testing.assert_allclose([p.value for p in estimate.by_position], y.mean(0), rtol=1e-12)
    np.testing.assert_allclose(
        [p.stderr for p in estimate.by_position], y.std(0, ddof=1) / np.sqrt(N), rtol=1e-9
    )


@pytest.mark.parametrize("name", WEIGHTS)
def test_standard_weights(name):
    estimator = {"ips": cr.IPS, "rips": cr.RIPS, "iips": cr.IIPS}[name]()
    same(estimator.estimate(LOG, "new"), WEIGHTS[name] * REWARD)
    same(estimator.estimate(LOG, "new", full=True), WEIGHTS[name] * REWARD)


@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize("limit", [None, 1.2])
def test_taming(name, limit):
    w, used = WEIGHTS[name], np.sqrt(N) if limit is None else limit
    for kind, tamed in ((Clipped, np.minimum(w, used)), (Shrunk, used**2 * w / (w**2 + used**2))):
        found = kind(name, limit=limit).estimate(LOG, "new")
        same(found, tamed * REWARD)
        lost = 1 - tamed.mean(0)
        bias = ALPHA @ (np.maximum(lost, 0) * np.sqrt((REWARD**2).mean(0)))
        assert found.details["limit"] == pytest.approx(used)
        np.testing.assert_allclose(found.details["weight_lost"], lost, rtol=1e-10, atol=1e-12)
        assert found.details["bias_if_rewards_are_typical"] == pytest.approx(bias, rel=1e-10)
        assert f"above {used:.4g}; {100 * lost.max():.1f}\u202f% of the weight" in found.flags[0]
        assert f"roughly {bias:.2g} " in found.flags[0]


def test_taming_cuts_negative_weights_too_and_refuses_a_limit_of_zero():
    w = np.array([[-3.0, 0.5, 3.0]])
    assert Clipped("iips").tame(2.0)(w).tolist() == [[-2.0, 0.5, 2.0]]
    assert Shrunk("iips").tame(3.0)(w).tolist() == [[-1.5, 9 * 0.5 / 9.25, 1.5]]
    for limit in (0.0, -1.0):
        with pytest.raises(cr.CounterrankError, match="positive"):
            Clipped("iips", limit=limit).estimate(LOG, "new")
    assert Clipped("iips", limit=0.5).estimate(LOG, "new").value == pytest.approx(
        (np.minimum(RHO, 0.5) * REWARD @ ALPHA).mean(), rel=1e-12
    )


@pytest.mark.parametrize("limit", [None, float(np.sort(RHO.ravel())[20])])
def test_switching_keeps_weights_up_to_the_limit(limit):
    used = np.sqrt(N) if limit is None else limit
    kept = np.where(used >= RHO, RHO, 0.0)
    found = Switch("iips", limit=limit, model=Known()).estimate(LOG, "new")
    same(found, MEAN + kept * (REWARD - Q))
    assert (
        found.details["limit"] == pytest.approx(used)
        and found.details["regression"] == Known.details
    )
    np.testing.assert_allclose(
        found.details["weight_lost"], 1 - kept.mean(0), rtol=1e-10, atol=1e-12
    )
    assert (
        f"above {used:.4g} " in found.flags[0]
        and f"model, {100 * (1 - kept.mean(0)).max():.1f}\u202f% of the weight" in found.flags[0]
    )
    order = np.abs(RHO * (1 + sum(np.roll(RHO - 1, j, axis=1) for j in (1, 2))))
    negative = Switch(2, limit=1e-9, model=Known()).estimate(
        LOG, "new"
    )  # order weights below zero count by size
    assert order.min() > 1e-9 and negative.value == pytest.approx((MEAN @ ALPHA).mean(), rel=1e-12)


@pytest.mark.parametrize("name", WEIGHTS)
def test_doubly_robust_and_model_alone(name):
    found = DR(weights=name, model=Known()).estimate(LOG, "new")
    same(found, MEAN + WEIGHTS[name] * (REWARD - Q))
    alone = DM(model=Known()).estimate(LOG, "new")
    same(alone, MEAN)
    assert found.details["regression"] == alone.details["regression"] == Known.details
    assert alone.ess == pytest.approx(N) and alone.flags[0].startswith("model-only")


def test_pseudo_inverse_and_orders():
    same(PseudoInverse().estimate(LOG, "new"), (RHO.sum(1) - (K - 1))[:, None] * REWARD)
    others = [sum(RHO[:, m] - 1 for m in range(K) if m != k) for k in range(K)]
    same(OrderIPS(order=1).estimate(LOG, "new"), RHO * REWARD)
    same(OrderIPS(order=2).estimate(LOG, "new"), RHO * (1 + np.stack(others, axis=1)) * REWARD)
    for order in (3, 4):
        same(OrderIPS(order=order).estimate(LOG, "new"), WEIGHTS["ips"] * REWARD)
    assert OrderIPS().name == "order-2"
    with pytest.raises(cr.CounterrankError, match="1 or more, got 0"):
        OrderIPS(order=0).estimate(LOG, "new")


GROUP = np.array([0, 1, 1, 0])
MASKS = {"ips": mask("S", K), "rips": mask("C", K), "iips": mask("I", K), "N1": mask("N1", K)}


def products(ratio, c):
    """prod over l with c[k, l] of the ratios, by loops."""
    return np.stack([ratio[:, c[k]].prod(1) for k in range(K)], axis=1)


def truncated(ratio, order):
    """Interaction orders 1, 2 and K (or more) written out."""
    if order == 2:
        return ratio * np.stack(
            [1 + sum(ratio[:, m] - 1 for m in range(K) if m != k) for k in range(K)], axis=1
        )
    return ratio if order == 1 else products(ratio, MASKS["ips"])


@pytest.mark.parametrize("weights", ["ips", "rips", "iips", "N1", 1, 2, 7, "matrix"])
def test_groups_of_actions(weights):
    ratio = np.empty((N, K))
    for i, k in np.ndindex(N, K):
        alike = GROUP == GROUP[ACTION[i, k]]
        ratio[i, k] = P1[i, k, alike].sum() / P0[i, k, alike].sum()
    matrix = np.array([[1, 0, 1], [0, 1, 0], [1, 1, 1]], dtype=bool)
    c = MASKS.get(weights, matrix)
    w = truncated(ratio, weights) if isinstance(weights, int) else products(ratio, c)
    for groups in (["a", "b", "b", "a"], np.column_stack([GROUP, 1 - GROUP])):
        given = matrix if weights == "matrix" else weights
        found = Marginalised(groups=groups, weights=given).estimate(LOG, "new")
        same(found, w * REWARD)
        assert found.flags[0].startswith("groups")


def test_behaviour_by_name_by_row_and_by_matrix():
    names = np.array(["S", "I", "C"] * 4)
    w = np.stack([products(RHO, mask(str(c), K))[i] for i, c in enumerate(names)])
    stacked = np.stack([mask(str(c), K) for c in names])
    for behavior in ("log", names, list(names), stacked, stacked.astype(int)):
        same(AIPS(behavior=behavior).estimate(LOG, "new"), w * REWARD)
    for behavior in ("C", mask("C", K), mask("C", K).tolist()):
        same(AIPS(behavior=behavior).estimate(LOG, "new"), WEIGHTS["rips"] * REWARD)
    short = LOG.take(slice(3, 9))  # rows keep their own models when the log is cut
    plan = AIPS(behavior=stacked).plan(Workspace(MemorySource(LOG, threads=1), "new"))
    np.testing.assert_allclose(plan.weigh(View(short, "new")), w[3:9], rtol=1e-12)
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
    fitted, given = AIPS().plan(workspace), AIPS(behavior="C").plan(workspace)
    tree = workspace.memo[_TREE, "default"]
    assert fitted.behavior_model is tree and fitted.flags == tree.fitted.notes
    assert given.behavior_model is None and given.flags == ()


def test_plans_on_one_workspace_are_summed_in_one_pass():
    def wanted(*estimators):
        workspace = Workspace(MemorySource(LOG, threads=1), "new")
        plans = [estimator.plan(workspace) for estimator in estimators]
        return workspace.memo.get("standard weights", set()), [plan.fused for plan in plans]

    assert wanted(cr.IPS(), cr.RIPS(), cr.IIPS()) == (
        {"joint", "prefix", "position"},
        ["joint", "prefix", "position"],
    )
    assert wanted(cr.IPS(aggregate="ratio")) == ({"joint", "gram"}, ["joint"])
    # Only the joint weight has its Gram matrix from that pass.
    assert wanted(cr.RIPS(aggregate="ratio")) == (set(), ["prefix"])
    assert wanted(cr.OrderIPS(order=2), cr.OrderIPS(order=K)) == ({"order-2"}, ["order-2", None])
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

    workspace, drawn = Workspace(MemorySource(LOG, threads=1), "new"), Drawn()
    monkeypatch.setattr(masked, "ratios_of", lambda batch, target: drawn)
    assert [sampling_flags(workspace, mask(name, K)) for name in ("S", "C")] == [(), ()]
    assert "relative errors up to 0.25" in sampling_flags(workspace, mask("N1", K))[0]
    drawn.kind = "factored"
    assert sampling_flags(workspace, mask("N1", K)) == ()


def test_fused_kinds_are_exactly_three_masks():
    assert [fused_kind(mask(name, K)) for name in ("S", "C", "I", "N1", "IC", "P1")] == [
        "joint", "prefix", "position", None, None, None
    ]  # fmt: skip
    assert fused_kind(np.ones((1, 1), dtype=bool)) == "joint"


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


def test_marginals_without_replacement_are_no_products():
    scores, items = (
        RNG.normal(size=(N, 5)),
        np.array([np.random.default_rng(i).permutation(5)[:K] for i in range(N)]),
    )
    logging, target = cr.PlackettLuce(scores), cr.PlackettLuce(-scores)
    log = cr.RankingLog(
        action=items,
        reward=REWARD,
        propensity=logging,
        targets={"new": target},
        position_weights=ALPHA,
    )
    w = np.exp(target.position_log_prob(items) - logging.position_log_prob(items))
    same(cr.IIPS().estimate(log, "new"), w * REWARD)
    prefix = np.exp(target.prefix_log_prob(items) - logging.prefix_log_prob(items))
    same(cr.RIPS().estimate(log, "new"), prefix * REWARD)
    same(cr.IPS().estimate(log, "new"), prefix[:, -1:] * REWARD)
    workspace = Workspace(MemorySource(log, threads=1), "new")
    assert [e.plan(workspace).fused for e in (cr.IPS(), cr.RIPS(), cr.IIPS())] == [
        "joint",
        "prefix",
        None,
    ]
    assert [sampling_flags(workspace, mask(name, K)) for name in ("S", "C", "I")] == [(), (), ()]


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
    pairs = [error(c) for c in (w * r - r).T]
    np.testing.assert_allclose([p.stderr for p in lift.by_position], pairs, rtol=1e-9)
    assert found.evidence.linear == (aggregate == "mean") and found.evidence.clustered == (
        units is not None
    )
    doubled = found.evidence.value_at(2 * (w * r).mean(0)[None], w.mean(0)[None])
    assert doubled == pytest.approx([2 * value], rel=1e-12)


def test_rows_summed_one_by_one_are_not_clustered():
    assert not cr.IIPS().estimate(LOG, "new", by_unit=True).evidence.clustered
    assert not cr.IIPS().estimate(LOG, "new").evidence.clustered


@pytest.mark.parametrize("aggregate", ["mean", "ratio"])
@pytest.mark.parametrize("full", [False, True])
def test_row_totals_combine_to_the_estimate(aggregate, full):
    workspace = Workspace(MemorySource(LOG, threads=1), "new", full=full)
    plan = cr.IIPS(aggregate=aggregate).plan(workspace)
    part = plan.partial(View(LOG, "new"))
    scores = part.totals @ plan.combination(part.state)
    spread = scores.std(ddof=1) / np.sqrt(N)
    assert spread == pytest.approx(plan.finish(part.state).stderr, rel=1e-9)
    assert part.totals.shape == (N, 1 if aggregate == "mean" and not full else 1 + 2 * K)


@pytest.mark.parametrize("full", [False, True])
def test_products_of_columns_are_made_only_when_asked_for(full):
    plan = DM(model=Known()).plan(Workspace(MemorySource(LOG, threads=1), "new", full=full))
    part = plan.partial(View(LOG, "new"))
    assert (part.state.gram is not None) == full and part.state.buckets is None
    assert part.totals.shape == (N, 1 + 2 * K if full else 1)


def test_rows_are_counted_where_they_are_not_known():
    class Unknown(MemorySource):
        n = None

    assert rows_of(Unknown(LOG, threads=1)) == N == rows_of(MemorySource(LOG, threads=1))
    assert (Rows(2) + Rows(3)).count == 5


def test_cascade_dr_says_what_it_rests_on():
    found = CascadeDR().estimate(LOG, "new")
    assert found.estimator == "cascade-dr" and np.isfinite([found.value, found.stderr]).all()
    assert "regression" in found.details
