"""Means of the behaviour model under a target against the sum over all its rankings."""

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

import counterrank as cr
from counterrank.models.behaviors.model import BehaviorModel
from counterrank.models.behaviors.state import chances
from counterrank.models.kernels import behaviors, behaviors_means
from counterrank.models.layout import scale_of
from counterrank.models.visibility.links import PRODUCT, SUM, Link
from counterrank.models.visibility.rows import moods

Floats = NDArray[np.float64]
N, K, A, D, F, Z = 12, 3, 3, 2, 2, 4


def model_of(rng: np.random.Generator, link: Link, log: cr.RankingLog, *, triples: bool) -> BehaviorModel:
    cube = rng.normal(size=(F, A, A, A))
    sight = rng.normal(size=(Z, K, K))
    sight[:, np.arange(K), np.arange(K)] = 7.0  # never looked at
    d = 0 if log.context is None else log.context.shape[1]
    return BehaviorModel(
        rng.normal(size=(F, A, 1 + d)), rng.normal(size=(F, K)), 0.5 * rng.normal(size=(F, A, A)),
        cube + cube.swapaxes(2, 3) if triples else np.zeros((F, 0, 0, 0)), sight,
        0.5 * rng.normal(size=(Z, 1 + moods(np.ones((1, 1 + d))).shape[1])), link, scale_of(log), draws=4000,
    )  # fmt: skip


def log_of(rng: np.random.Generator, *, places: int, ragged: bool, context: bool = True) -> cr.RankingLog:
    lengths = rng.integers(1, K + 1, N) if ragged else np.full(N, K)
    action = np.where(np.arange(K) < lengths[:, None], rng.integers(0, A, (N, K)), -1)
    wanted = rng.dirichlet(np.ones(A), (N, places))
    wanted[0, 0] = 0.0, 1.0, 0.0  # a target that shows one item only
    third = np.full((N, K), 1 / A)
    return cr.RankingLog(
        action=action, reward=rng.normal(size=(N, K)) * (action >= 0), propensity=third,
        context=rng.normal(size=(N, D)) if context else None, targets={"new": cr.Propensity("factored", third)},
        dists={"propensity": np.full((N, A), 1 / A), "new": wanted[:, 0] if places == 1 else wanted},
    )  # fmt: skip


def value(model: BehaviorModel, x: Floats, chance: Floats, f: int, actions: tuple[int, ...]) -> Floats:
    """Return q (length,) of one ranking, term by term."""
    out = np.zeros(len(actions))
    for k, u in enumerate(actions):
        own = x @ model.own[f, u] + model.shift[f, k]
        rest = [m for m in range(len(actions)) if m != k]
        for z in range(Z):
            seen = model.sight[z, k]
            part = sum(seen[m] * model.pair[f, u, actions[m]] for m in rest)
            if model.triple.size:
                part += sum(
                    seen[m] * seen[h] * model.triple[f, u, actions[m], actions[h]]
                    for m, h in product(rest, rest) if m < h
                )  # fmt: skip
            out[k] += chance[z] * (own * np.exp(part) if model.link == PRODUCT else own + part)
    return out


@pytest.mark.parametrize("places", [1, K])
@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize(("link", "triples"), [(SUM, False), (SUM, True), (PRODUCT, False)])
def test_mean_and_value_equal_enumeration(link: Link, triples: bool, ragged: bool, places: int) -> None:
    rng = np.random.default_rng([places, ragged, triples, link.curved])
    log = log_of(rng, places=places, ragged=ragged)
    model = model_of(rng, link, log, triples=triples)
    found = model.predict(log, "new")
    x = model.scale.apply(np.asarray(log.context))
    chance = chances(model.shares, moods(x))
    assert chance.min() > behaviors.RARE  # none is passed over
    wanted = log.dists["new"].reshape(N, places, A)
    for i, length in enumerate(log.lengths):
        f, mean = int(log.bucket[i] % F), np.zeros(length)
        for actions in product(range(A), repeat=int(length)):
            likely = np.prod([wanted[i, min(k, places - 1), u] for k, u in enumerate(actions)])
            mean += likely * value(model, x[i], chance[i], f, actions)
        np.testing.assert_allclose(found.mean[i, :length], mean, rtol=1e-12, atol=1e-12)
        shown = tuple(int(u) for u in log.action[i, :length])
        np.testing.assert_allclose(found.q[i, :length], value(model, x[i], chance[i], f, shown), rtol=1e-12, atol=1e-12)
        assert not found.mean[i, length:].any() and not found.q[i, length:].any()


def test_no_context_means_the_same_shares_for_all() -> None:
    rng = np.random.default_rng(5)
    log = log_of(rng, places=1, ragged=False, context=False)
    model = model_of(rng, SUM, log, triples=True)
    found = model.predict(log, "new").mean
    chance = np.exp(model.shares[:, 0]) / np.exp(model.shares[:, 0]).sum()
    for i in range(N):
        mean = np.zeros(K)
        for actions in product(range(A), repeat=K):
            likely = np.prod(log.dists["new"][i, list(actions)])
            mean += likely * value(model, np.ones(1), chance, int(log.bucket[i] % F), actions)
        np.testing.assert_allclose(found[i], mean, rtol=1e-12, atol=1e-12)


def test_the_three_ways_to_a_mean_agree_where_all_apply() -> None:
    """One distribution for all positions, full rankings: alike_means, sum_means and its copy for each position."""
    rng = np.random.default_rng(6)
    log = log_of(rng, places=1, ragged=False)
    model = model_of(rng, SUM, log, triples=True)
    x = model.scale.apply(np.asarray(log.context))
    fold, chance, wanted = log.bucket % F, chances(model.shares, moods(x)), log.dists["new"]
    effects, out = (model.own, model.shift, model.pair, model.triple, model.sight), np.zeros((3, N, K))
    behaviors_means.alike_means(fold, x, chance, wanted, *effects, out[0])
    behaviors_means.sum_means(log.lengths, fold, x, chance, wanted[:, None], *effects, out[1])
    each = np.repeat(wanted[:, None], K, axis=1)
    behaviors_means.sum_means(log.lengths, fold, x, chance, each, *effects, out[2])
    np.testing.assert_allclose(out[1], out[0], atol=1e-12)
    np.testing.assert_allclose(out[2], out[0], atol=1e-12)


@pytest.mark.parametrize("link", [SUM, PRODUCT])
def test_drawn_means_of_a_dependent_target_are_near_enumeration(link: Link) -> None:
    """4,000 draws of 6 rankings; five standard errors for each of 9 numbers: false alarms below 1e-5."""
    rng = np.random.default_rng(7)
    scores = np.tile([0.0, 0.7, 1.4], (N, 1))
    policy = cr.PlackettLuce(scores)
    action = policy.sample(K, rng)[:, 0]
    log = cr.RankingLog(
        action=action, reward=rng.normal(size=(N, K)), propensity=policy, context=rng.normal(size=(N, D)),
        targets={"new": cr.PlackettLuce(-scores)},
    )  # fmt: skip
    model = model_of(rng, link, log, triples=False)
    found = model.predict(log, "new").mean
    x = model.scale.apply(np.asarray(log.context))
    chance = chances(model.shares, moods(x))
    rankings = [actions for actions in product(range(A), repeat=K) if len(set(actions)) == K]
    likely = np.exp(cr.PlackettLuce(-scores[:6]).prefix_log_prob(np.array(rankings))[:, -1])
    for i in range(3):
        q = np.array([value(model, x[i], chance[i], int(log.bucket[i] % F), actions) for actions in rankings])
        spread = np.sqrt(likely @ (q - likely @ q) ** 2 / 4000)
        assert (np.abs(found[i] - likely @ q) < 5 * spread).all()


def test_rare_classes_are_passed_over_in_products() -> None:
    rng = np.random.default_rng(8)
    wanted, factor = rng.dirichlet(np.ones(A), (1, 1)), rng.uniform(0.5, 2.0, (1, 2, K, K, A, A))
    own, shift = rng.normal(size=(1, A, 1)), rng.normal(size=(1, K))
    given = (np.array([K]), np.zeros(1, dtype=np.int64), np.ones((1, 1)))
    means = []
    for rare in (0.5 * behaviors.RARE, 0.0, 0.1):
        out = np.zeros((1, K))
        behaviors_means.product_means(*given, np.array([[rare, 0.9]]), wanted, own, shift, factor, out)
        means.append(out[0])
    assert means[0].tolist() == means[1].tolist() and (means[2] != means[1]).all()
