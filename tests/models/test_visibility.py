"""The visibility model: exact means, normal equations against a naive twin, folds that are left out, and where
it is chosen.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import counterrank as cr
from counterrank.data.encoding import ContextMoments
from counterrank.data.source import MemorySource
from counterrank.estimators.base import Workspace
from counterrank.estimators.crossfit import trained
from counterrank.models import rankings_of
from counterrank.models.choice import fit_close
from counterrank.models.columns import Layout, pair_slots
from counterrank.models.visibility import (
    Rows,
    VisibilityModel,
    alternate,
    by_fold,
    effect_grams,
    effects_step,
    start,
    visibility_grams,
    visibility_step,
)
from counterrank.research import simulate

K, A = 3, 3


def log_of(reward: str, seed: int = 3, n: int = 4000, **options: object) -> cr.RankingLog:
    env = simulate.random(seed, reward=reward, K=5, actions=3, **options)  # type: ignore[arg-type]
    return env.draw(n, np.random.default_rng(seed)).to_log()


def layout_of(log: cr.RankingLog, folds: int) -> Layout:
    moments = ContextMoments.from_batch(log).mean_and_spread
    return Layout(log.K, A, folds, pair_slots(log.K), *moments)


def some_model(rng: np.random.Generator, layout: Layout, *, multiply: bool) -> VisibilityModel:
    visible = rng.uniform(0, 2, (K, K)) * (1 - np.eye(K))
    return VisibilityModel(
        np.concatenate([rng.normal(size=(2, A, 2)), 0.4 * rng.normal(size=(2, A, A))], axis=2),
        rng.normal(size=(2, K)),
        visible,
        layout,
        multiply,
    )


def naive(model: VisibilityModel, x: np.ndarray, a: tuple[int, ...], fold: int) -> np.ndarray:
    """The formula, term by term."""
    out = np.zeros(K)
    for k, u in enumerate(a):
        if u < 0:
            continue
        own = x @ model.effect[fold, u, :2] + model.shift[fold, k]
        part = sum(
            model.visible[k, m] * model.effect[fold, u, 2 + b]
            for m, b in enumerate(a)
            if m != k and b >= 0
        )
        out[k] = own * np.exp(part) if model.product else own + part
    return out


@pytest.mark.parametrize("multiply", [False, True])
@pytest.mark.parametrize("places", [1, K])
@pytest.mark.parametrize("ragged", [False, True])
def test_values_and_means_equal_enumeration(multiply, places, ragged):
    rng = np.random.default_rng(1)
    action = rng.integers(0, A, (6, K))
    if ragged:
        action[::2, 2] = -1
    p0, p1 = (rng.dirichlet(np.ones(A), (6, places)) for _ in range(2))
    p0, p1 = (one[:, 0] if places == 1 else one for one in (p0, p1))
    log = cr.RankingLog(
        action=action, reward=np.where(action >= 0, 1.0, 0.0), propensity=np.full((6, K), 0.5),
        context=rng.normal(size=(6, 1)), targets={"new": cr.Propensity("factored", np.full((6, K), 0.5))},
        dists={"propensity": p0, "new": p1},
    )  # fmt: skip
    model = some_model(rng, layout_of(log, 2), multiply=multiply)
    fold = np.arange(6) % 2
    x = model.layout.standardised(log.context)
    values = model.expected(rankings_of(log), fold)
    means = model.mean_under(log, "new", fold)
    wanted = np.broadcast_to(p1[:, None] if places == 1 else p1, (6, K, A))
    for i in range(6):
        np.testing.assert_allclose(values[i], naive(model, x[i], tuple(action[i]), fold[i]))
        mean, shown = np.zeros(K), int((action[i] >= 0).sum())
        for a in product(range(A), repeat=shown):
            chance = np.prod([wanted[i, k, u] for k, u in enumerate(a)])
            mean += chance * naive(model, x[i], (*a, *[-1] * (K - shown)), fold[i])
        np.testing.assert_allclose(means[i], mean, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("multiply", [False, True])
def test_the_gradient_of_the_effects_is_that_of_the_squared_errors(multiply):
    rng = np.random.default_rng(2)
    log = log_of("pairwise", n=60)
    rows = Rows.from_log(log, layout_of(log, 2))
    fit = start(rows, 3, product=multiply)
    effect = fit.effect + 0.1 * rng.normal(size=fit.effect.shape)
    fit = replace(fit, effect=effect, visible=rng.uniform(0, 2, (5, 5)) * (1 - np.eye(5)))

    def squares(fold: int, **changed: np.ndarray) -> float:
        some = rows.take(rows.fold == fold)
        return float((replace(fit, **changed).predicting(some).error ** 2).sum())

    for at in ((0, 0), (2, 1), (1, -1)):
        step = np.zeros(effect.shape)
        step[at] = 1e-5
        for fold in range(2):
            _, right = effect_grams(fit.predicting(rows.take(rows.fold == fold)))
            slope = squares(fold, effect=effect + step) - squares(fold, effect=effect - step)
            flat = np.ravel_multi_index((at[0], at[1] % effect.shape[1]), effect.shape)
            assert -slope / 4e-5 == pytest.approx(right[flat], rel=1e-5)


def test_planted_visibility_is_recovered():
    rng = np.random.default_rng(1)
    n, places, actions = 4000, 5, 3
    far = np.abs(np.arange(places)[:, None] - np.arange(places))
    sight = np.where(far > 0, 2.0 / np.maximum(far, 1), 0.0)
    pair, action = rng.normal(size=(actions, actions)), rng.integers(0, actions, (n, places))
    beside = np.einsum("km,nkm->nk", sight, pair[action[:, :, None], action[:, None, :]])
    present, fold = np.ones((n, places)), np.arange(n) % 4
    reward = 0.5 * action + beside + 0.5 * rng.normal(size=(n, places))
    rows = Rows(np.ones((n, 1)), action, reward, present, fold)
    fit = alternate(start(rows, actions, product=False))
    off = far > 0
    assert np.corrcoef(fit.visible[off], sight[off])[0, 1] > 0.99
    assert fit.noise == pytest.approx(0.25, rel=0.05)


@pytest.mark.parametrize("multiply", [False, True])
def test_no_step_raises_the_penalised_loss(multiply):
    log = log_of("multiplicative" if multiply else "pairwise", n=1500)
    rows = Rows.from_log(log, layout_of(log, 2))
    fit = start(rows, 3, product=multiply)
    for step in (effects_step, visibility_step, effects_step):
        # Each step updates its prior afterwards: the parameters alone are judged by the prior before.
        found = step(fit)
        if step is effects_step:
            moved = replace(fit, effect=found.effect, shift=found.shift).predicting(rows)
            assert moved.loss <= fit.loss
        fit = found


def test_effects_of_a_fold_do_not_see_it():
    log = log_of("pairwise", n=1200)
    rows = Rows.from_log(log, layout_of(log, 3))
    for multiply in (False, True):
        fit = alternate(start(rows, 3, product=multiply), 1e-2)
        noisy = np.where(rows.fold[:, None] == 0, rows.reward + 5.0, rows.reward)
        before = by_fold(fit, 3)
        after = by_fold(fit.predicting(rows._replace(reward=noisy)), 3)
        np.testing.assert_allclose(after[0][0], before[0][0], atol=1e-10)
        assert np.abs(after[0][1] - before[0][1]).max() > 0.1


@pytest.mark.parametrize(
    ("reward", "wanted"),
    [("pairwise", "ridge"), ("multiplicative", "visibility-product"), ("binary", "")],
)
def test_the_form_of_the_world_is_chosen(reward, wanted):
    """Seeded; 0/1 rewards have the logistic ridge alone."""
    log = log_of(reward, seed=5, form="paper")
    close = fit_close(trained(Workspace(MemorySource(log, threads=1), "new")))
    details = close.models[0].details
    if not wanted:
        assert "out_of_fold_mse_of" not in details
        return
    assert details["model"] == wanted
    losses = details["out_of_fold_mse_of"]
    assert losses[wanted] == min(losses.values())
    # Sums are told from products, also by the visibility models alone.
    visibility = {name: loss for name, loss in losses.items() if name != "ridge"}
    assert min(visibility, key=visibility.get).endswith(
        "sum" if reward == "pairwise" else "product"
    )


@pytest.mark.parametrize("multiply", [False, True])
def test_normal_equations_equal_the_naive_sums(multiply):
    """Every slot's columns, written out; some rankings end early."""
    rng = np.random.default_rng(3)
    n, places, actions, p = 60, 5, 4, 2
    action = rng.integers(0, actions, (n, places))
    action[rng.random(n) < 0.3, 3:] = -1
    present = (action >= 0).astype(float)
    x, reward = rng.normal(size=(n, p)), rng.normal(size=(n, places)) * present
    rows = Rows(x, action, reward, present, np.arange(n) % 3)
    effect, visible = 0.3 * rng.normal(size=(actions, p + actions)), rng.uniform(size=(5, 5))
    np.fill_diagonal(visible, 0.0)
    fit = replace(start(rows, actions, product=multiply), effect=effect, visible=visible)
    fit = fit.predicting(rows)
    width = p + actions
    size = actions * width + places
    gram, right = np.zeros((size, size)), np.zeros(size)
    seen, sight = np.zeros((places, places, places)), np.zeros((places, places))
    for i, k in zip(*np.nonzero(present), strict=True):
        beside, near = np.zeros(actions), np.zeros(places)
        for m in range(places):
            if m != k and action[i, m] >= 0:
                beside[action[i, m]] += visible[k, m]
                near[m] = effect[action[i, k], p + action[i, m]]
        own = effect[action[i, k]]
        part = own[p:] @ beside
        q = x[i] @ own[:p] * np.exp(part) if multiply else x[i] @ own[:p] + part
        assert fit.q[i, k] == pytest.approx(q, rel=1e-12)
        lift, weight = (np.exp(part), q) if multiply else (1.0, 1.0)
        column = np.zeros(size)
        column[action[i, k] * width :][:width] = [*(lift * x[i]), *(weight * beside)]
        column[actions * width + k] = lift
        gram += np.outer(column, column)
        right += column * (reward[i, k] - q)
        seen[k] += np.outer(weight * near, weight * near)
        sight[k] += weight * near * (reward[i, k] - q)
    for found, twin in zip(effect_grams(fit), (gram, right), strict=True):
        np.testing.assert_allclose(found, twin, atol=1e-10)
    for found, twin in zip(visibility_grams(fit), (seen, sight), strict=True):
        np.testing.assert_allclose(found, twin, atol=1e-10)
