"""When `auto` lets an order inside a mask stand in for the same order in whole rankings."""

import json

import numpy as np
import pytest

import counterrank as cr
from counterrank.estimators.auto.auto import Auto
from counterrank.estimators.auto.routes import MODEL, WEIGHTS
from counterrank.estimators.auto.rule import decide, standings, stderr, unit
from counterrank.estimators.auto.state import Summary
from counterrank.estimators.base import View, Workspace
from counterrank.sources import MemorySource

K, P = 10, 0.9


def log_of(effect, n=3000, *, seed=0, dists=False):
    """Two actions shown with equal chance, the target shows the second with probability P; s is -1 or 1."""
    rng = np.random.default_rng(seed)
    action = rng.integers(0, 2, (n, K))
    reward = effect(2.0 * action - 1.0) + 0.5 * rng.standard_normal((n, K))
    tables = {"propensity": np.full((n, 2), 0.5), "new": np.tile([1 - P, P], (n, 1))}
    new = cr.Propensity("factored", np.where(action == 1, P, 1 - P))
    return cr.RankingLog(
        action=action,
        reward=reward,
        propensity=np.full((n, K), 0.5),
        targets={"new": new},
        dists=tables if dists else {},
    )


def near(s):
    """Each item with both its neighbours: inside N1, outside C and outside order 2."""
    out = 1.0 + s
    out[:, 1:-1] += 0.5 * s[:, :-2] * s[:, 1:-1] * s[:, 2:]
    return out


def far(s):
    """Pairs five positions apart, half of them below: outside both masks."""
    return 1.0 + s * np.roll(s, K // 2, axis=1)


NEAR = K + K * (2 * P - 1) + 0.5 * (K - 2) * (2 * P - 1) ** 3
FAR = K + K * (2 * P - 1) ** 2


def decided(log):
    plan = Auto().plan(Workspace(MemorySource(log, threads=1), "new"))
    return plan.decision(plan.partial(View(log, "new")).state)


def test_the_right_mask_is_chosen_and_the_interval_is_shorter():
    """30 logs: N1 must carry the interval in most, every width be at most the old one, and coverage stay.

    With coverage .95, 24 or fewer hits of 30 have probability 2e-3; the seeds are fixed.
    """
    chosen, hits, ratio = 0, 0, []
    for seed in range(30):
        log = log_of(near, seed=seed)
        found = Auto().estimate(log, "new")
        low, high = found.interval(0.95)
        hits += low <= NEAR <= high
        summary, decision = decided(log)
        whole = [
            1.96 * stderr(summary, unit(summary, name)) + share * decision.anchor for name, share in WEIGHTS.members
        ]
        chosen += decision.base == "dr-N1"
        ratio.append((high - low) / 2 / min(whole))
    assert chosen >= 20 and hits >= 25
    assert max(ratio) <= 1.001 and np.median(ratio) < 0.92


@pytest.mark.parametrize("n", [3000, 20_000])
def test_effects_outside_contradict_the_masks(n):
    log = log_of(far, n, seed=1)
    found = Auto().estimate(log, "new")
    masks = found.details["masks"]
    assert [m["mask"] for m in masks] == ["N1", "C", "N1", "C", "C", "C1"]
    assert all(m["contradicted"] and m["used_in"] == [] for m in masks)
    assert not {m["member"] for m in masks} & set(found.details["combination"])
    assert found.details["interval_base"] in ("dr-order-2", "dr-order-3", "dr-ips")
    assert "contradicts the masks C, N1" in found.details["why"]
    low, high = found.interval(0.95)
    assert low <= FAR <= high
    json.dumps(found.to_dict())


def test_with_a_model_masks_are_looked_at_and_reported():
    found = Auto().estimate(log_of(near, dists=True), "new")
    masks = {m["member"]: m for m in found.details["masks"]}
    assert [m["order"] for m in masks.values()] == [2, 2, 3, 3, K, 3]
    assert masks["dr-rips"]["stands_for"] == "dr-ips" and masks["dr-N1"]["stands_for"] == "dr-order-3"
    assert masks["dr-C1-order-3"]["stands_for"] is None and masks["dr-C1-order-3"]["used_in"] == []
    for m in masks.values():
        assert m["stderr"] > 0 and m["difference_stderr"] > 0
        assert m["bias_allowance"] >= m["outside_allowance"] > 0


def made(values, spreads, *, shared=0.0):
    """Return a summary of four positions with these members, independent but for `shared` noise."""
    from counterrank.estimators.auto.plan import column_names

    names = column_names(4)
    value, spread = np.zeros(len(names)), np.full(len(names), 0.01)
    for name in names:
        value[names.index(name)] = values.get(name, values["rest"])
        spread[names.index(name)] = spreads.get(name, 0.01)
    covariance = np.diag(spread**2) + shared**2
    return Summary(
        names, 1000, np.ones(4), np.tile(value / 4, (4, 1)), value, covariance, np.stack([covariance / 16] * 4),
        np.ones(len(names)), 1000,
    )  # fmt: skip


LOUD = {"dr-order-2": 1.0, "dr-order-3": 3.0, "dr-ips": 9.0, "dr-pairs": 1.0}


def test_what_hides_outside_is_known_where_the_log_is_exact_and_assumed_where_it_is_not():
    members, t = [("dr-order-2", 0.3), ("dr-order-3", 0.1), ("dr-ips", 0.0)], 0.1
    silent = {s.candidate.name: s for s in standings(made({"rest": 5.0}, LOUD), members, t)}
    assert silent["dr-C-order-3"].hidden == pytest.approx(1.96 * t, rel=0.01)  # s = 3: nothing known
    assert silent["dr-C-order-3"].allowance == pytest.approx(0.1 + silent["dr-C-order-3"].hidden)
    exact = {s.candidate.name: s for s in standings(made({"rest": 5.0}, {}), members, t)}
    s = np.hypot(0.01, 0.01)
    assert exact["dr-C-order-2"].hidden == pytest.approx(1.96 * s, rel=0.02)


def test_a_mask_contradicted_at_a_low_order_is_so_at_every_higher_one():
    members = [("dr-order-2", 0.3), ("dr-order-3", 0.1), ("dr-ips", 0.0)]
    spreads = {"dr-order-3": 3.0, "dr-ips": 9.0}
    found = {s.candidate.name: s for s in standings(made({"rest": 5.0, "dr-C-order-2": 4.0}, spreads), members, 0.1)}
    assert all(found[name].contradicted for name in ("dr-C-order-2", "dr-C-order-3", "dr-rips"))
    assert not found["dr-N1"].contradicted and not found["dr-N1-order-2"].contradicted
    assert found["dr-rips"].hidden >= found["dr-C-order-2"].hidden > 0.9


def test_a_larger_mask_tells_on_the_smaller_where_whole_rankings_cannot():
    """Order 3 has an error of 3 and agrees with all; inside C1 it is exact, and C misses what N1 and C1 see."""
    world = {"rest": 5.0, "dr-N1": 5.3, "dr-C1-order-3": 5.3}
    members = [("dr-order-2", 0.3), ("dr-order-3", 0.1), ("dr-ips", 0.0)]
    found = {s.candidate.name: s for s in standings(made(world, LOUD), members, 0.1)}
    assert {name for name, s in found.items() if s.contradicted} == {"dr-C-order-3", "dr-rips"}
    assert not found["dr-C1-order-3"].usable and found["dr-N1"].usable


def test_the_interval_rests_on_a_mask_only_while_it_is_not_contradicted():
    world = {"rest": 5.0, "logger": 4.0, "iips": 4.5}
    agreeing = decide(made(world, LOUD), MODEL)
    assert agreeing.base in ("dr-rips", "dr-C-order-3", "dr-N1")
    against = {"dr-C-order-2": 2.0, "dr-N1-order-2": 2.0}
    refuted = decide(made(world | against, LOUD), MODEL)
    assert refuted.base in ("dr-pairs", "dr-order-2") and refuted.allowance >= 0.32 * refuted.anchor
    assert not any(name in dict(refuted.moves) for name in (*against, "dr-rips", "dr-N1"))


def test_the_estimate_steps_to_a_mask_where_the_whole_ranking_is_all_noise():
    """Order 3 inside N1 is exact and far from the start; order 3 itself agrees within its error of 3."""
    world = {"rest": 5.0, "logger": 2.0, "iips": 2.0, "dr-N1": 5.3, "dr-C1-order-3": 5.3}
    found = decide(made(world, LOUD), MODEL)
    assert dict(found.moves)["dr-N1"] > 0.5
    assert float(found.weights @ made(world, LOUD).value) == pytest.approx(5.3, abs=0.15)
