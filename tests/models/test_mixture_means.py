"""Means of the examination models under a target against the sum over all its rankings."""

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

import counterrank as cr
from counterrank.data.encoding import ContextMoments
from counterrank.models.columns import expected
from counterrank.models.mixture.model import (
    Effects,
    Link,
    MixtureModel,
    Users,
    alike_means,
    chances,
    curved_means,
    scale_of_tilt,
    sum_means,
    traits_of,
)

from .worlds import asked

Floats = NDArray[np.float64]
N, K, A, D, F, Z = 12, 3, 3, 2, 2, 4


def model_of(
    rng: np.random.Generator, link: Link, log: cr.RankingLog, *, triples: bool, classes: int = Z
) -> MixtureModel:
    """Return random classes, or one class with a tilt."""
    cube = rng.normal(size=(F, A, A, A))
    examined = rng.normal(size=(classes, K, K))
    examined[:, np.arange(K), np.arange(K)] = 7.0  # never looked at
    d = 0 if log.context is None else log.context.shape[1]
    m = traits_of(np.ones((1, 1 + d))).shape[1]
    effects = Effects(
        rng.normal(size=(F, A, 1 + d)), rng.normal(size=(F, K)), 0.5 * rng.normal(size=(F, A, A)),
        cube + cube.swapaxes(2, 3) if triples else np.zeros((F, 0, 0, 0)),
    )  # fmt: skip
    tilt = 0.2 * rng.normal(size=(2, m)) if classes == 1 else np.zeros((2, m))
    shares = 0.5 * rng.normal(size=(classes, 1 + m))
    return MixtureModel(effects, examined, tilt, shares, link, ContextMoments.of(log), draws=4000)


def log_of(
    rng: np.random.Generator, *, places: int, ragged: bool, context: bool = True
) -> cr.RankingLog:
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


def value(
    model: MixtureModel, x: Floats, chance: Floats, scale: Floats, f: int, actions: tuple[int, ...]
) -> Floats:
    """Return q (length,) of one ranking, term by term."""
    out, at = np.zeros(len(actions)), model.effects
    for k, u in enumerate(actions):
        own = x @ at.own[f, u] + at.shift[f, k]
        rest = [m for m in range(len(actions)) if m != k]
        for z in range(len(model.examined)):
            seen = model.examined[z, k] * np.where(np.arange(K) < k, scale[0], scale[1])
            part = sum(seen[m] * at.pair[f, u, actions[m]] for m in rest)
            if at.triple.size:
                part += sum(
                    seen[m] * seen[h] * at.triple[f, u, actions[m], actions[h]]
                    for m, h in product(rest, rest) if m < h
                )  # fmt: skip
            linear = {
                Link.SUM: own + part,
                Link.PRODUCT: own * np.exp(part),
                Link.LOGISTIC: 1 / (1 + np.exp(-own - part)),
            }
            out[k] += chance[z] * linear[model.link]
    return out


@pytest.mark.parametrize("places", [1, K])
@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize(
    ("link", "triples", "classes"),
    [
        (Link.SUM, False, Z),
        (Link.SUM, True, Z),
        (Link.PRODUCT, False, Z),
        (Link.SUM, False, 1),
        (Link.SUM, True, 1),
    ],
)
def test_mean_and_value_equal_enumeration(
    link: Link, triples: bool, classes: int, ragged: bool, places: int
) -> None:
    rng = np.random.default_rng([places, ragged, triples, link.curved])
    log = log_of(rng, places=places, ragged=ragged)
    model = model_of(rng, link, log, triples=triples, classes=classes)
    assert model.exact
    logged, means = asked(model, log)
    x = model.scale.standardised(np.asarray(log.context))
    chance, scale = chances(model.shares, traits_of(x)), scale_of_tilt(model.tilt, traits_of(x))
    wanted = log.dists["new"].reshape(N, places, A)
    for i, length in enumerate(log.lengths):
        f, mean = int(log.bucket[i] % F), np.zeros(length)
        for actions in product(range(A), repeat=int(length)):
            likely = np.prod([wanted[i, min(k, places - 1), u] for k, u in enumerate(actions)])
            mean += likely * value(model, x[i], chance[i], scale[i], f, actions)
        np.testing.assert_allclose(means[i, :length], mean, rtol=1e-12, atol=1e-12)
        shown = tuple(int(u) for u in log.action[i, :length])
        q = value(model, x[i], chance[i], scale[i], f, shown)
        np.testing.assert_allclose(logged[i, :length], q, rtol=1e-12, atol=1e-12)
        assert not means[i, length:].any() and not logged[i, length:].any()


def test_no_context_means_the_same_shares_for_all() -> None:
    rng = np.random.default_rng(5)
    log = log_of(rng, places=1, ragged=False, context=False)
    model = model_of(rng, Link.SUM, log, triples=True)
    _, found = asked(model, log)
    chance = np.exp(model.shares[:, 0]) / np.exp(model.shares[:, 0]).sum()
    for i in range(N):
        mean = np.zeros(K)
        for actions in product(range(A), repeat=K):
            likely = np.prod(log.dists["new"][i, list(actions)])
            mean += likely * value(
                model, np.ones(1), chance, np.ones(2), int(log.bucket[i] % F), actions
            )
        np.testing.assert_allclose(found[i], mean, rtol=1e-12, atol=1e-12)


def test_the_three_ways_to_a_mean_agree_where_all_apply() -> None:
    """One distribution for all positions, full rankings: alike_means, sum_means and its copy for
    each position.
    """
    rng = np.random.default_rng(6)
    log = log_of(rng, places=1, ragged=False)
    model = model_of(rng, Link.SUM, log, triples=True)
    x = model.scale.standardised(np.asarray(log.context))
    chance, wanted = chances(model.shares, traits_of(x)), log.dists["new"]
    one = wanted.T[None]
    users = Users(x.T, chance.T, rng.uniform(0.2, 2.0, (2, N)), log.lengths, one)
    each = users._replace(wanted=np.repeat(one, K, axis=0))
    given = model.effects, model.examined, 1
    found = alike_means(*given, users)
    np.testing.assert_allclose(sum_means(*given, users), found, atol=1e-12)
    np.testing.assert_allclose(sum_means(*given, each), found, atol=1e-12)


@pytest.mark.parametrize(
    ("link", "classes"), [(Link.SUM, Z), (Link.PRODUCT, Z), (Link.SUM, 1), (Link.LOGISTIC, 1)]
)
def test_drawn_means_of_a_dependent_target_are_near_enumeration(link: Link, classes: int) -> None:
    """4,000 draws of 6 rankings; five standard errors for each of 36 numbers: false alarms below
    3e-5.
    """
    rng = np.random.default_rng(7)
    scores = np.tile([0.0, 0.7, 1.4], (N, 1))
    policy = cr.PlackettLuce(scores)
    action = policy.sample(K, rng)[:, 0]
    log = cr.RankingLog(
        action=action, reward=rng.normal(size=(N, K)), propensity=policy, context=rng.normal(size=(N, D)),
        targets={"new": cr.PlackettLuce(-scores)},
    )  # fmt: skip
    model = model_of(rng, link, log, triples=False, classes=classes)
    _, found = asked(model, log)
    x = model.scale.standardised(np.asarray(log.context))
    chance, scale = chances(model.shares, traits_of(x)), scale_of_tilt(model.tilt, traits_of(x))
    rankings = [actions for actions in product(range(A), repeat=K) if len(set(actions)) == K]
    likely = np.exp(cr.PlackettLuce(-scores[:6]).prefix_log_prob(np.array(rankings))[:, -1])
    for i in range(3):
        f = int(log.bucket[i] % F)
        q = np.array([value(model, x[i], chance[i], scale[i], f, actions) for actions in rankings])
        spread = np.sqrt(likely @ (q - likely @ q) ** 2 / 4000)
        assert (np.abs(found[i] - likely @ q) < 5 * spread).all()


@pytest.mark.parametrize("places", [1, K])
@pytest.mark.parametrize("link", [Link.LOGISTIC, Link.PRODUCT])
def test_drawn_means_equal_enumeration_when_every_ranking_is_drawn_once(
    link: Link, places: int
) -> None:
    """Of one class, the own action summed out by its own chance; the others are drawn uniformly,
    each ranking once.
    """
    rng = np.random.default_rng(9)
    log = log_of(rng, places=places, ragged=False)
    model = model_of(rng, link, log, triples=False, classes=1)
    assert not model.exact
    x, fold, scale = (
        model.scale.standardised(np.asarray(log.context)),
        log.bucket % F,
        rng.uniform(0.2, 2.0, (N, 2)),
    )
    every = np.array(list(product(range(A), repeat=K)))
    draws, wanted = (
        np.broadcast_to(every, (N, *every.shape)).copy(),
        rng.dirichlet(np.ones(A), (N, places)),
    )
    out = np.zeros((N, K))
    for f in range(F):
        mine = np.flatnonzero(fold == f)
        chance = expected(wanted[mine], log.lengths[mine], K)
        users = Users(x[mine].T, np.ones((1, len(mine))), scale[mine].T, log.lengths[mine], chance)
        found = curved_means(link, model.effects, model.examined[0], f, users, draws[mine])
        out[mine] = found.T
    for i in range(4):
        mean = np.zeros(K)
        for actions in product(range(A), repeat=K):
            q = value(model, x[i], np.ones(1), scale[i], int(fold[i]), actions)
            own_chance = [wanted[i, min(k, places - 1), u] for k, u in enumerate(actions)]
            mean += np.array(own_chance) * q / A ** (K - 1)
        np.testing.assert_allclose(out[i], mean, atol=1e-11)


def test_drawn_means_pass_over_padding() -> None:
    rng, n = np.random.default_rng(10), 150
    lengths = rng.integers(1, K + 1, n)
    draws = np.where(np.arange(K) < lengths[:, None, None], rng.integers(0, A, (n, 2, K)), -1)
    x, scale, fold = rng.normal(size=(n, 2)), rng.uniform(0, 2, (n, 2)), rng.integers(0, F, n)
    wanted, own, shift = (
        rng.dirichlet(np.ones(A), (n, K)),
        rng.normal(size=(F, A, 2)),
        rng.normal(size=(F, K)),
    )
    examined, pair, out = rng.normal(size=(K, K)), rng.normal(size=(F, A, A)), np.zeros((n, K))
    at = Effects(own, shift, pair, np.zeros((F, 0, 0, 0)))
    for f in range(F):
        mine = np.flatnonzero(fold == f)
        chance = expected(wanted[mine], lengths[mine], K)
        users = Users(x[mine].T, np.ones((1, len(mine))), scale[mine].T, lengths[mine], chance)
        out[mine] = curved_means(Link.LOGISTIC, at, examined, f, users, draws[mine]).T
    out[np.arange(K) >= lengths[:, None]] = 0.0
    naive = np.zeros((n, K))
    for i, k, u, s in product(range(n), range(K), range(A), range(2)):
        if k < lengths[i]:
            rest = [m for m in range(lengths[i]) if m != k]
            part = sum(
                examined[k, m] * scale[i, int(m > k)] * pair[fold[i], u, draws[i, s, m]]
                for m in rest
            )
            linear = x[i] @ own[fold[i], u] + shift[fold[i], k] + part
            naive[i, k] += wanted[i, k, u] / (1 + np.exp(-linear)) / 2
    np.testing.assert_allclose(out, naive, rtol=1e-11, atol=1e-12)
