"""The aimed step: exact where everything can be enumerated, and right where models are wrong."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import counterrank as cr
from counterrank.data.source import MemorySource
from counterrank.estimators.auto import solution
from counterrank.estimators.auto.auto import AutoFit
from counterrank.estimators.auto.nuisances import (
    aim_sums,
    correction,
    cut,
    fit_aimed,
    log_ratios,
    ratio_sums,
    span_of,
)
from counterrank.estimators.auto.rule import decide
from counterrank.estimators.auto.solution import MemberTable
from counterrank.estimators.base import View, Workspace
from counterrank.models import page_policy, paired_draws

WIDE = (-50.0, 50.0)


def enumerated(policy, K, A):
    """Every ranking without repeats, and its probability."""
    pages = np.array(list(itertools.permutations(range(A), K)))
    return pages, np.exp(policy.take(np.zeros(len(pages), np.int64)).prefix_log_prob(pages)[:, -1])


def test_a_residual_along_the_log_ratio_is_corrected_exactly():
    """f = b h + c(x) with any c: the slope is b, and the correction b (E_target h - E_logger h)."""
    K, A, b = 2, 4, 0.37
    rng = np.random.default_rng(3)
    terms, weights, wanted = [], [], 0.0
    for context in range(3):
        new, old = (cr.PlackettLuce(rng.normal(size=(1, A))) for _ in range(2))
        pages, p0 = enumerated(old, K, A)
        p1 = enumerated(new, K, A)[1]
        h = np.log(p1 / p0)
        means = [np.full(len(h), p @ h) for p in (p0, p1)]
        terms.append(aim_sums(h, *means, b * h + 10.0 * context))
        weights.append(p0 / 3)
        wanted += b * (p1 - p0) @ h / 3
    sums = np.concatenate(terms, axis=1) @ np.concatenate(weights)
    assert correction(sums) @ sums == pytest.approx(wanted, abs=1e-12)


def test_the_coefficients_are_the_derivatives():
    sums = np.array([0.3, 1.7, -0.8])
    value = lambda s: s[0] * s[2] / s[1]  # noqa: E731
    assert correction(sums) @ sums == pytest.approx(value(sums), rel=1e-12)
    for j in range(3):
        step = 1e-6 * np.eye(3)[j]
        slope = (value(sums + step) - value(sums - step)) / 2e-6
        assert correction(sums)[j] == pytest.approx(slope, rel=1e-8)
    assert correction(np.array([0.3, 0.0, 1.0])).tolist() == [0.0, 0.0, 0.0]


def test_log_ratios_are_those_of_whole_rankings():
    rng = np.random.default_rng(1)
    new, old = (cr.PlackettLuce(rng.normal(size=(5, 4))) for _ in range(2))
    pages = rng.permuted(np.tile(np.arange(4), (5, 3, 1)), axis=2)[:, :, :2]
    found = log_ratios(new, old, pages)
    for i, s in np.ndindex(5, 3):
        page, p = pages[i, s], []
        for policy in (new, old):
            left = np.exp(policy.scores[i])
            p.append(left[page[0]] / left.sum() * left[page[1]] / (left.sum() - left[page[0]]))
        assert found[i, s] == pytest.approx(np.log(p[0] / p[1]), abs=1e-12)


def test_rankings_of_one_policy_alone_are_cut_to_what_was_logged():
    span = span_of(np.array([*np.linspace(-1, 1, 201), -np.inf]))
    assert span == pytest.approx((-0.9, 0.9))
    assert cut(np.array([np.inf, -np.inf, np.nan, 0.2]), span).tolist() == pytest.approx(
        [0.9, -0.9, 0, 0.2]
    )
    assert span_of(np.array([np.inf])) == (0.0, 0.0)


def test_independent_positions_have_exact_means():
    rng = np.random.default_rng(5)
    new, old = (rng.dirichlet(np.ones(3), size=(4, 2)) for _ in range(2))
    shown = np.array([[True, True], [True, True], [True, False], [True, True]])
    span = (-0.4, 0.6)
    logged = rng.uniform(0.2, 3.0, size=(4, 2))
    h, by_logger, by_target = ratio_sums(span, new, old, logged, np.where(shown, 1, -1))
    ratio = np.clip(np.log(new / old), -0.4, 0.6)
    for i in range(4):
        places = np.flatnonzero(shown[i])
        assert h[i] == pytest.approx(np.clip(np.log(logged[i, places]), -0.4, 0.6).sum(), abs=1e-12)
        pairs = [(old, by_logger), (new, by_target)]
        for whole, mean in pairs:
            assert mean[i] == pytest.approx(
                sum(whole[i, k] @ ratio[i, k] for k in places), abs=1e-12
            )


def shrunk_world(n, seed, effect=0.5):
    """Rewards that follow the target's taste, which no model that sees ids alone can learn at n = 600."""
    rng = np.random.default_rng(seed)
    A, K = 400, 3
    taste = rng.normal(size=A)
    candidates = np.stack([rng.choice(A, 8, replace=False) for _ in range(n)])
    scores = np.full((n, A), -np.inf)
    np.put_along_axis(scores, candidates, 0.0, axis=1)
    wanted = np.full((n, A), -np.inf)
    np.put_along_axis(wanted, candidates, 0.7 * taste[candidates], axis=1)
    old, new = cr.PlackettLuce(scores), cr.PlackettLuce(wanted)
    action = old.sample(K, rng)[:, 0] if old.sample(K, rng).ndim == 3 else old.sample(K, rng)
    reward = effect * taste[action] + rng.normal(size=action.shape)
    drawn = new.sample(K, np.random.default_rng(1), size=20).reshape(n, 20, K)
    lift = effect * (taste[drawn].sum(axis=2).mean() - taste[action].sum(axis=1).mean())
    return cr.RankingLog(action=action, reward=reward, propensity=old), new, lift


def test_the_aimed_member_finds_what_models_shrink_away():
    log, new, lift = shrunk_world(1500, 2)
    found = cr.Auto().estimate(log, new)
    by_name = {row["member"]: row["value"] - log.value for row in found.details["members"]}
    assert abs(by_name["aimed"] - lift) < 0.5 * abs(by_name["models"] - lift) or (
        abs(by_name["models"] - lift) < 2 * found.lift.stderr
    )
    assert found.lift.low <= lift <= found.lift.high


def test_the_sums_of_the_pass_are_those_of_the_rows():
    log, new, _ = shrunk_world(300, 4)
    log = log.with_targets({"new": new})
    workspace = Workspace(MemorySource(log), "new")
    nuisances = fit_aimed(workspace)
    fit = AutoFit(workspace, nuisances, (), None)
    view = View(log, "new")
    state = fit.sums(log)
    look = nuisances.predict(view)
    e = (log.reward - look.q).sum(axis=1)
    policies = page_policy(log, "new"), page_policy(log, "propensity")
    h = cut(log_ratios(*policies, log.action[:, None]), nuisances.span)[:, 0]
    others = paired_draws(log, policies[1], nuisances.draws, 0)
    by_logger = cut(log_ratios(*policies, others), nuisances.span).mean(axis=1)
    t = h - by_logger
    terms = state.sums.rows.total[state.sums.numbers([(fit.key, ("aim", j)) for j in range(3)])]
    np.testing.assert_allclose(terms[:2], [t @ e, t @ h], rtol=1e-9)
    summary = MemberTable.solved(fit, state.sums, state.extras[fit.key]).summary
    c = correction(terms / log.n) @ (terms / log.n)
    models, aimed = summary.value[1], summary.value[2]
    assert summary.members[:2] == ("models", "aimed")
    assert aimed - models == pytest.approx(c, rel=1e-9)


def test_models_that_the_log_refutes_do_not_widen_the_interval(monkeypatch):
    log, new, _ = shrunk_world(300, 4)
    log = log.with_targets({"new": new})
    workspace = Workspace(MemorySource(log), "new")
    nuisances = fit_aimed(workspace)
    shares = np.full(len(nuisances.shares), 1e-4)
    shares[:2] = 0.6, 0.4 - 1e-4 * (len(shares) - 2)
    fit = AutoFit(workspace, replace(nuisances, shares=shares), (), None)
    seen = []

    def watched(*given, **more):
        seen.append(given[3])
        return decide(*given, **more)

    monkeypatch.setattr(solution, "decide", watched)
    fit.solution(fit.sums(log))
    np.testing.assert_allclose(seen[0], [1.0, 1.0] + [0.1] * (len(shares) - 2))
    assert len(shares) > 2


@pytest.mark.parametrize(("old_places", "new_places"), [(4, 4), (1, 4), (4, 1), (1, 1)])
def test_means_of_log_ratios_equal_plain_loops(old_places, new_places):
    """Cut log ratios of shown items, some impossible under one policy or both, and padding."""
    rng, (n, K, A), (low, high) = np.random.default_rng(6), (40, 4, 3), (-1.1, 0.9)
    old, new = (rng.dirichlet(np.ones(A), (n, places)) for places in (old_places, new_places))
    old[:5, :, 0], new[3:9, :, 0] = 0.0, 0.0
    shown = np.arange(K) < rng.integers(1, K + 1, n)[:, None]
    logged = rng.uniform(0.05, 4.0, (n, K))
    logged[2, 0] = 0.0
    action = np.where(shown, rng.integers(0, A, (n, K)), -1)
    # Of the last rows the ratio of the shown item is that of the distributions.
    rows, columns = np.arange(20, n)[:, None], np.arange(K)
    of_old, of_new = np.minimum(columns, old_places - 1), np.minimum(columns, new_places - 1)
    logged[20:] = new[rows, of_new, action[20:]] / old[rows, of_old, action[20:]]
    twin = np.zeros((3, n))
    for i, k in zip(*np.nonzero(shown), strict=True):
        twin[0, i] += np.clip(np.log(logged[i, k]) if logged[i, k] > 0 else low, low, high)
        for p, q in zip(
            old[i, min(k, old_places - 1)], new[i, min(k, new_places - 1)], strict=True
        ):
            if p == q == 0.0:
                continue
            ratio = high if p == 0.0 else low if q == 0.0 else np.clip(np.log(q / p), low, high)
            twin[1:, i] += p * ratio, q * ratio
    sums = ratio_sums((low, high), new, old, logged, action)
    np.testing.assert_allclose(sums, twin, atol=1e-12)
