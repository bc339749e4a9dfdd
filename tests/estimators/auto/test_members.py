"""Members, tails, jackknife and units, held against enumeration: a log in which every ranking
stands exactly once.
"""

from itertools import permutations, product
from types import SimpleNamespace

import numpy as np
import pytest

import counterrank as cr
from counterrank.data.source import MemorySource
from counterrank.estimators import DR, View, Workspace
from counterrank.estimators.auto.auto import AutoFit
from counterrank.estimators.auto.members import members_of, tails_of, weights_of
from counterrank.estimators.auto.rule import expected_squares
from counterrank.estimators.auto.solution import MemberTable
from counterrank.estimators.crossfit import NO_MODELS, Prediction, folds_of
from counterrank.models import RewardModel
from counterrank.policies import Candidates, attraction, parse_policy
from counterrank.research.simulate import World

A, K = 4, 3
RANKINGS = np.array(list(permutations(range(A), K)))
SCORES = np.array([[0.3, -0.5, 1.1, 0.0]])


def log_of(reward, **options):
    """All rankings of a uniform logger, once each: a mean over rows is an expectation."""
    return cr.RankingLog(
        action=RANKINGS, reward=reward, propensity=cr.UniformPermutation(A), targets={"new": cr.PlackettLuce(SCORES)},
        **options,
    )  # fmt: skip


CHANCE = np.exp(cr.PlackettLuce(SCORES).prefix_log_prob(RANKINGS)[:, -1])
OWN = np.array([0.1, 0.7, 0.4, 0.9])


def rewards(kind):
    """Rewards that depend on the own item, on the items above too, or on the whole ranking."""
    own = OWN[RANKINGS]
    above = np.cumsum(own, axis=1) - own
    return {"own": own, "above": own / (1 + above), "whole": own * own.sum(axis=1, keepdims=True)}[
        kind
    ]


class Stub(RewardModel):
    """A model that looks at what its name says; its mean under the target is exact."""

    folds, shares, counted = 3, np.array([0.5, 0.5]), np.ones(2)
    rate, draws, unknown, doubted, span = 1.0, 0, 0.0, False, None
    details: dict = {}

    def __init__(self, sees, shift=(0.0, 0.0, 0.0)):
        table = {"own": OWN**2, "above": OWN**2, "whole": OWN**2}[sees][RANKINGS]
        above = np.cumsum(table, axis=1) - table
        below = table.sum(axis=1, keepdims=True) - np.cumsum(table, axis=1)
        self.q = table + (above if sees != "own" else 0) + (below if sees == "whole" else 0)
        self.mean = np.broadcast_to(CHANCE @ self.q, self.q.shape)
        self.shift = shift

    def predict(self, view, fold=None):
        n = view.batch.n
        mean = self.mean[:n] + (0.0 if fold is None else self.shift[fold])
        errors = view.batch.position_weights * (view.batch.reward - self.q[:n])
        means = mean @ view.batch.position_weights
        totals = means + errors.sum(axis=1)
        return Prediction(self.q[:n], mean, errors, np.stack([totals, totals + 0.5]))

    def compared(self, view, rows):
        return view.part("compared", rows)

    def expected(self, rankings, fold):
        return self.q[: rankings.m]

    def mean_under(self, batch, target, fold):
        return self.mean[: batch.n]


def members(log, model, **options):
    workspace = Workspace(MemorySource(log, threads=1), "new", **options)
    fit = AutoFit(workspace, model, (), None)
    fit.limit = np.inf
    state = fit.sums(log)
    rows = fit.estimate(state).details["members"]
    return MemberTable.solved(fit, state.sums, state.extras[fit.key]).summary, {
        m["member"]: m["value"] for m in rows
    }


@pytest.mark.parametrize(
    ("reward", "sees", "exact"),
    [
        ("own", "own", ("iips", "ips")),
        ("above", "own", ("ips",)),
        ("above", "above", ("ips",)),
        ("whole", "own", ("ips",)),
        ("whole", "whole", ("ips",)),
        ("own", "whole", ("ips",)),
    ],
)
def test_members_are_unbiased_where_weights_carry_reward_and_model_over(reward, sees, exact):
    """Own-position weights need both to look at the own item alone."""
    truth = float(CHANCE @ rewards(reward).sum(axis=1))
    _, found = members(log_of(rewards(reward)), Stub(sees))
    for name, value in found.items():
        assert (value == pytest.approx(truth, abs=1e-12)) is (name in exact), name


def test_dr_rips_is_biased_by_a_model_that_looks_below_and_by_no_other():
    log, truth = log_of(rewards("above")), float(CHANCE @ rewards("above").sum(axis=1))
    assert DR("rips", model=Stub("above")).estimate(log, "new").value == pytest.approx(
        truth, abs=1e-12
    )
    stub = Stub("whole")
    prefix = np.exp(cr.PlackettLuce(SCORES).prefix_log_prob(RANKINGS)) * np.array([4.0, 12.0, 24.0])
    bias = (stub.mean - prefix * stub.q).mean(axis=0).sum()
    assert abs(bias) > 0.01
    assert DR("rips", model=stub).estimate(log, "new").value - truth == pytest.approx(
        bias, abs=1e-12
    )


def test_squares_of_weights_are_their_mean_under_the_target():
    """The target draws every ranking once, so the drawn second moment is exact; half of it is
    unsupported.
    """
    sharp = cr.PlackettLuce(np.array([[0.3, -0.5, 1.1, -np.inf]]))
    for logger, missing in ((cr.PlackettLuce(SCORES), 0.0), (sharp, 0.75)):
        p0 = np.exp(logger.prefix_log_prob(RANKINGS))
        shown = p0 > 0
        possible = RANKINGS[shown[:, -1]]
        log = cr.RankingLog(
            action=possible,
            reward=OWN[possible],
            propensity=logger,
            targets={"new": cr.UniformPermutation(A)},
        )
        draws = np.broadcast_to(RANKINGS, (log.n, *RANKINGS.shape))
        tails = tails_of(View(log, "new"), ("iips", "rips", "ips"), draws)
        (square, unsupported), rows = tails.sum(axis=2), tails.shape[2]
        p1 = np.exp(cr.UniformPermutation(A).prefix_log_prob(RANKINGS))
        w = np.where(shown, p1 / np.where(shown, p0, 1.0), 0.0)
        exact = [0.0, (p1[:, -1, None] * w).sum(), K * (p1[:, -1] * w[:, -1]).sum()]
        np.testing.assert_allclose(square / rows, exact, rtol=1e-10)
        np.testing.assert_allclose(unsupported / rows, [0.0, missing, missing], rtol=1e-12)


def test_squares_of_independent_positions_follow_from_single_ratios():
    v = np.array([0.5, 1.0, 0.2, 0.3])
    found = expected_squares(("iips", "order-2", "ips"), v[None], np.ones((1, 4), dtype=bool))[:, 0]
    pairs = sum((1 + v[k]) * (1 + np.delete(v, k).sum()) for k in range(4))
    np.testing.assert_allclose(found, [0.0, pairs, 4 * (1 + v).prod()], rtol=1e-12)
    assert not expected_squares(("rips",), np.zeros((1, 0)), np.ones((1, 0), dtype=bool)).any()


def test_the_error_of_the_fits_is_in_the_covariance():
    log = log_of(rewards("own"))
    plain, moved = (
        members(log, Stub("own", shift)) for shift in ((0.0, 0.0, 0.0), (0.1, 0.2, 0.6))
    )
    added, before = (summary.covariance for summary, _ in (moved, plain))
    away = K * (np.array([0.1, 0.2, 0.6]) - 0.3)
    np.testing.assert_allclose((added - before)[1:4, 1:4], 2 / 3 * away @ away, rtol=1e-10)
    np.testing.assert_allclose(added[0], before[0], rtol=1e-12)


def test_rows_of_a_unit_count_once():
    """Every ranking twice: with units the errors and degrees of freedom of single ones, but for
    (n-1)/n.
    """
    reward = rewards("whole")
    twice = cr.RankingLog(
        action=np.repeat(RANKINGS, 2, axis=0), reward=np.repeat(reward, 2, axis=0), propensity=cr.UniformPermutation(A),
        targets={"new": cr.PlackettLuce(SCORES)}, unit=np.repeat(np.arange(len(RANKINGS)), 2),
    )  # fmt: skip
    found = {}
    for name, log, options in (("once", log_of(reward), {}), ("twice", twice, {"by_unit": True})):
        workspace = Workspace(MemorySource(log, threads=1), "new", **options)
        fit = AutoFit(workspace, NO_MODELS, (), 0.0)
        state = fit.sums(log)
        found[name] = MemberTable.solved(fit, state.sums, state.extras[fit.key]).summary
    assert found["once"].units == len(RANKINGS)
    used = len(np.unique(twice.bucket))  # units may share a bucket
    assert found["twice"].units == used <= len(RANKINGS)
    if used == len(RANKINGS):
        np.testing.assert_allclose(
            found["twice"].covariance, found["once"].covariance, rtol=1e-8, atol=1e-12
        )


def test_a_target_that_the_log_hardly_shows_has_no_value():
    rng = np.random.default_rng(0)
    n, items = 200, 40
    action = np.argsort(rng.random((n, items)), axis=1)[:, :2]
    far = np.full((1, items), -10.0)
    far[0, :2] = 10.0
    log = cr.RankingLog(
        action=np.where(action < 2, action + 2, action), reward=rng.integers(0, 2, (n, 2)).astype(float),
        propensity=cr.PlackettLuce(np.zeros((1, items))), targets={"new": cr.PlackettLuce(far)},
    )  # fmt: skip
    keep = log.action[:, 0] != log.action[:, 1]
    found = cr.Auto().estimate(log.where(keep), "new")
    assert not found.estimable and "never or hardly ever" in found.not_estimable
    assert np.isnan([found.value, found.stderr, *found.interval()]).all()
    assert any(flag.startswith("model-alone") for flag in found.flags)


def test_scores_are_centred_by_row_and_unknown_items_have_none():
    policy = cr.PlackettLuce(np.array([[1.0, 3.0, -np.inf], [0.0, 0.0, 3.0]]))
    found = attraction(policy, np.array([[[0, 1, 2]], [[2, 0, -1]]]))
    np.testing.assert_allclose(found, [[[-1.0, 1.0, np.nan]], [[2.0, -1.0, np.nan]]])
    greedy = cr.SlotEpsilonGreedy(np.array([[0.1, 0.9]]), epsilon=0.2)
    assert attraction(greedy, np.array([[[1, 0]]]))[0, 0, 0] > 0
    sets = Candidates.from_lists([[5, 2], [7]])
    ragged = parse_policy("plackett-luce").bind(candidates=sets, scores=np.array([1.0, 3.0, 4.0]))
    np.testing.assert_allclose(
        attraction(ragged, np.array([[[2, 5]], [[7, 2]]])), [[[1.0, -1.0]], [[0.0, np.nan]]]
    )
    mixed = cr.Mixture([cr.PlackettLuce(np.zeros((1, 3))), policy], [0.5, 0.5])
    np.testing.assert_allclose(attraction(mixed, np.array([[[0, 1, 2]], [[2, 0, -1]]])), found)
    assert attraction(cr.UniformPermutation(3), np.array([[[1, 0]]])) is None


def test_rows_are_asked_of_their_own_fold_or_all_of_one():
    log = log_of(rewards("own"))
    assert (folds_of(log, 3) == log.bucket % 3).all() and len(set(folds_of(log, 3))) == 3
    assert folds_of(log, 3, 2).tolist() == [2] * log.n


@pytest.mark.parametrize(
    ("kind", "K", "found"),
    [
        ("factored", 1, "iips"),
        ("factored", 2, "iips ips"),
        ("factored", 3, "iips order-2 ips"),
        ("factored", 4, "iips order-2 order-3 ips"),
        ("factored", 1024, "iips order-2 order-3 ips"),
        ("factored", 1025, "iips rips ips"),
        ("dependent", 1, "iips"),
        ("dependent", 2, "iips rips ips"),
    ],
)
def test_members_are_those_that_ratios_support(kind, K, found):
    names = found.split()
    given = SimpleNamespace(
        rho=np.empty((0, K)),
        kind=kind,
        supports={"position", "prefix", "joint"},
        batch=SimpleNamespace(page_reward=False),
    )
    assert members_of(given, modelled=False) == tuple(names)
    # Models see what stands above: prefixes are for logs without them.
    assert members_of(given, modelled=True) == ("models", *(n for n in names if n != "rips"))
    rho, whole_page = np.empty((0, 2)), SimpleNamespace(page_reward=True)
    whole = SimpleNamespace(rho=rho, kind="dependent", supports={"joint"}, batch=given.batch)
    assert members_of(whole, modelled=False) == ("ips",)
    # One reward per ranking: nothing stands between the models and the whole of it.
    page = SimpleNamespace(rho=rho, kind=kind, supports={"prefix", "joint"}, batch=whole_page)
    assert members_of(page, modelled=True) == ("models", "ips")
    none = SimpleNamespace(rho=rho, kind="dependent", supports=set(), batch=given.batch)
    assert members_of(none, modelled=True) == ()


def test_exact_squares_and_missing_mass_are_those_of_the_distributions():
    """Positions of their own distributions, an item the logger never shows at the first of them."""
    rng = np.random.default_rng(5)
    n, length, items = 6, 3, 4
    old, new = rng.dirichlet(np.ones(items), (2, n, length))
    old[:, 0, 3] = 0.0
    old /= old.sum(axis=2, keepdims=True)
    log = cr.RankingLog(
        action=np.zeros((n, length), int), reward=np.ones((n, length)), propensity=old[:, :, 0],
        targets={"new": new[:, :, 0]}, dists={"propensity": old, "new": new},
    )  # fmt: skip
    names = ("iips", "order-2", "ips")
    by_row = tails_of(View(log, "new"), names, None)
    halves = [tails_of(View(part, "new"), names, None) for part in log.chunks(4)]
    found = by_row.sum(axis=2)
    shown = old > 0
    square = np.where(shown, new**2 / np.where(shown, old, 1.0), 0.0).sum(axis=2)
    np.testing.assert_allclose(found[0, 2], length * square.prod(axis=1).sum(), rtol=1e-12)
    missing = new[:, 0, 3].sum() / length
    np.testing.assert_allclose(found[1], missing, rtol=1e-12)
    assert by_row.shape[2] == n
    np.testing.assert_allclose(np.concatenate(halves, axis=2), by_row, rtol=1e-12)


def test_weights_go_by_the_members_names():
    n = 4
    rng = np.random.default_rng(6)
    old, new = rng.uniform(0.2, 0.9, (2, n, 3))
    log = cr.RankingLog(
        action=np.zeros((n, 3), int), reward=np.ones((n, 3)), propensity=old, targets={"new": new}
    )  # fmt: skip
    rho = new / old
    # Numbers alone say nothing of the rankings that did not occur.
    assert tails_of(View(log, "new"), ("iips", "ips"), None).shape[2] == 0
    found = weights_of(View(log, "new"), ("models", "iips", "order-2", "rips", "ips"), 1.1)
    np.testing.assert_allclose(found["iips"], np.minimum(rho, 1.1), rtol=1e-12)
    np.testing.assert_allclose(found["rips"], np.cumprod(rho, axis=1), rtol=1e-12)
    whole = np.broadcast_to(rho.prod(axis=1, keepdims=True), rho.shape)
    np.testing.assert_allclose(np.broadcast_to(found["ips"], rho.shape), whole, rtol=1e-12)
    away = rho - 1
    pairs = rho * (1 + away.sum(axis=1, keepdims=True) - away)
    np.testing.assert_allclose(found["order-2"], pairs, rtol=1e-12)
    np.testing.assert_array_equal(found["models"], np.ones((n, 3)))


def test_drawn_squares_of_single_slots():
    action = np.arange(A)[:, None]
    log = cr.RankingLog(
        action=action, reward=OWN[action], propensity=cr.UniformPermutation(A), targets={"new": cr.PlackettLuce(SCORES)}
    )  # fmt: skip
    draws = np.broadcast_to(action, (log.n, A, 1))
    square, _ = tails_of(View(log, "new"), ("ips",), draws)
    np.testing.assert_allclose(square.mean(axis=1), [1.0], rtol=1e-12)  # sum of A p(a) / A


def test_the_logger_s_scores_stand_beside_the_target_s():
    """Both policies' scores, the target's first; those that a policy does not have are left out."""
    from counterrank.estimators.crossfit import scores

    rng = np.random.default_rng(4)
    old, new = (cr.PlackettLuce(rng.normal(size=(6, 5))) for _ in range(2))
    action = np.argsort(rng.random((6, 5)), axis=1)[:, :3]

    def log(logger, target):
        return cr.RankingLog(
            action=action, reward=np.zeros((6, 3)), propensity=logger, targets={"new": target}
        )

    items = np.argsort(rng.random((6, 2, 5)), axis=2)[:, :, :3]
    found = scores(log(old, new), "new", items)
    np.testing.assert_array_equal(found[..., 0], attraction(new, items))
    np.testing.assert_array_equal(found[..., 1], attraction(old, items))
    assert scores(log(cr.UniformPermutation(5), new), "new", items).shape == (6, 2, 3, 1)
    assert scores(log(cr.UniformPermutation(5), cr.UniformPermutation(5)), "new", items) is None


def test_shares_are_a_power_of_the_likelihood():
    from counterrank.estimators.crossfit import shares_of

    losses = np.array([[3.0, 2.0], [4.0, 2.0], [3.0, 4.0]])
    likely = np.exp(-0.5 * (losses.sum(axis=1) - 5.0) / (5.0 / 10))
    for power in (1.0, 0.125):
        wanted = likely**power / (likely**power).sum()
        np.testing.assert_allclose(shares_of(losses, 10, power=power), wanted, rtol=1e-12)


@pytest.mark.parametrize("spread", [False, True])
def test_positions_have_the_error_of_their_members_and_a_share_of_what_is_of_the_page(spread):
    """Values and lifts at positions against the rows themselves, the aimed step as uncorrelated with them."""
    rng = np.random.default_rng(9)
    n, K = 300, 3
    old, new = rng.dirichlet(np.full(4, 3.0), (2, n, K))
    action = (old.cumsum(2) > rng.random((n, K, 1))).argmax(2)
    shown = [np.take_along_axis(p, action[:, :, None], 2)[:, :, 0] for p in (old, new)]
    alpha = np.array([1.0, 0.5, 0.5]) if spread else np.ones(K)
    log = cr.RankingLog(
        action=action, reward=rng.random((n, K)) + 0.2 * action, propensity=shown[0], position_weights=alpha,
        targets={"new": cr.Propensity("factored", shown[1])}, dists={"propensity": old, "new": new},
    )  # fmt: skip
    fit = cr.Auto().fit(Workspace(MemorySource(log, threads=1), "new"))
    state, columns = fit.sums(log), fit.columns(View(log, "new"))
    found, solution = fit.estimate(state), fit.solution(state)
    centre, weights = solution.decision.decision.centre, solution.decision.decision.weights
    root = np.sqrt([m["tail_inflation"] for m in found.details["members"]])
    places = columns.positions.rows().swapaxes(0, 1)  # (1 + J, K, n)
    members = np.insert(places[1:], 1, places[1], axis=0)
    share = alpha / (alpha @ alpha)
    names = [(fit.key, ("aim", j)) for j in range(3)]
    step = centre[1] * solution.decision.aim @ np.stack([columns.totals[key] for key in names])
    local = np.einsum("j,jkn->k", weights, members) / n
    values = local + (found.value - alpha @ local) * share
    np.testing.assert_allclose([p.value for p in found.by_position], values, rtol=1e-9)
    # Midway between the estimate and the centre, with room for a bias of half their distance.
    local, total = (
        np.einsum("j,jkn->k", centre, members) / n,
        found.value + 2 * solution.total.shift,
    )
    shifts = (local + (total - alpha @ local) * share - values) / 2
    assert np.abs(shifts).max() > 0
    np.testing.assert_allclose([p.shift for p in solution.positions], shifts, atol=1e-12)
    np.testing.assert_allclose(
        [p.allowance for p in solution.positions], np.abs(shifts), atol=1e-12
    )
    for lift, earned in ((found, 0.0), (found.lift, 1.0)):
        rows = np.einsum("j,jkn->kn", centre * root, members) - earned * places[0]
        variances = rows.var(axis=1, ddof=1) / n + share**2 * step.var(ddof=1) / n
        errors = [p.stderr for p in lift.by_position]
        np.testing.assert_allclose(errors, np.sqrt(variances), rtol=1e-9)
    assert centre[1] > 0 and step.var() > 0


def test_inflation_is_the_expected_square_over_that_of_the_log():
    """By listing all 27 rankings of a row: E_0[w^2] of a position, against the mean of the weights that occurred.

    Rows have the weights of few draws, so the log lacks some of the rankings with the heaviest.
    """
    rng, n, K = np.random.default_rng(5), 60, 3
    old, new = rng.dirichlet(np.full(3, 4.0), (2, n, K))
    pages = np.array(list(product(range(3), repeat=K)))
    rho = (new / old)[:, np.arange(K), pages]  # (n, 27, K)
    chance = old[:, np.arange(K), pages].prod(axis=2)
    others = rho.sum(axis=2, keepdims=True) - rho - (K - 1)
    weights = {"order-2": rho * (1 + others), "ips": np.tile(rho.prod(axis=2)[:, :, None], K)}
    row = np.arange(n)
    drawn = np.array([rng.choice(len(pages), p=p / p.sum()) for p in chance])
    shown = [p[row[:, None], np.arange(K), pages[drawn]] for p in (old, new)]
    log = cr.RankingLog(
        action=pages[drawn], reward=rng.random((n, K)), propensity=shown[0],
        targets={"new": cr.Propensity("factored", shown[1])}, dists={"propensity": old, "new": new},
    )  # fmt: skip
    details = cr.Auto().estimate(log, "new").details["members"]
    inflation = {member["member"]: member["tail_inflation"] for member in details}
    for name, w in weights.items():
        expected = (chance[:, :, None] * w**2).sum(axis=(1, 2)).mean()
        occurred = (w[row, drawn] ** 2).sum(axis=1).mean()
        assert inflation[name] == pytest.approx(max(1.0, expected / occurred), rel=1e-9)
    assert max(inflation.values()) > 1.05
    assert inflation["models"] == inflation["iips"] == 1.0


def test_own_position_weights_multiply_surprises_and_richer_weights_residuals():
    """What earlier clicks of a page foretell is no surprise: row by row, from the models' prediction."""
    log = World(seed=5, behavior="cascade", K=3, items=6).log(400, 0)
    fit = cr.Auto().fit(Workspace(MemorySource(log, threads=1), "new"))
    view, alpha = View(log, "new"), log.position_weights
    prediction = fit.nuisances.predict(view)
    weights, mean = weights_of(view, fit.members, fit.limit), prediction.mean @ alpha
    residual = alpha * (log.reward - prediction.q)
    totals = fit.columns(view).totals
    assert np.abs(prediction.delta - residual).max() > 0.1
    for name, errors in (("iips", prediction.delta), ("ips", residual)):
        expected = mean + (weights[name] * errors).sum(axis=1)
        np.testing.assert_allclose(totals[fit.key, name], expected, rtol=1e-10)
