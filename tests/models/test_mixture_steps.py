"""Each step of a fit with classes does what it says: Bayes' rule, descent, ascent, and folds left
out.
"""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from counterrank.data.encoding import ContextMoments
from counterrank.models.mixture import steps
from counterrank.models.mixture.model import Link, Rows, chances, rows_of
from counterrank.models.mixture.search import (
    alternate,
    by_fold,
    described,
    first_classes,
    improved,
    with_room_for_triples,
)
from counterrank.models.mixture.state import Fit, carried, moved, start
from counterrank.models.settings import ROUGH, SHARE, SIZE
from counterrank.research import simulate

Floats = NDArray[np.float64]
K, A, FOLDS, COMMON = 4, 3, 3, 0.4
KINDS = ["sum", "triple", "product"]


def rows_for(kind: str, n: int = 400, *, ragged: bool = True) -> Rows:
    reward = {"sum": "pairwise", "product": "multiplicative"}.get(kind, kind)
    env = simulate.random(2, reward=reward, K=K, actions=A, form="paper")  # type: ignore[arg-type]
    log = env.draw(n, np.random.default_rng(2)).to_log()
    action = log.action.copy()
    if ragged:
        action[np.arange(K) >= np.random.default_rng(3).integers(1, K + 1, n)[:, None]] = -1
    return rows_of(replace(log, action=action), ContextMoments.of(log), FOLDS)


def begun(kind: str, *, ragged: bool = True, rounds: int = 1) -> tuple[Fit, Rows]:
    """Return a fit on its way, its posterior without the traces that steps pass over, errors
    correlated by COMMON.
    """
    rows = rows_for(kind, ragged=ragged)
    link = Link.PRODUCT if kind == "product" else Link.SUM
    alike = alternate(rows, start(rows, link, A), ROUGH)
    fit = first_classes(rows, alike, 0.0, np.random.default_rng(4))
    if kind == "triple":
        fit = with_room_for_triples(rows, fit)
    fit = steps.posterior_step(improved(rows, fit, rounds), rows)
    kept = np.where(fit.posterior < 0.05, 0.0, fit.posterior)
    count = rows.present.sum(axis=1)
    shared = COMMON / (1.0 + (count - 1.0) * COMMON)
    return replace(
        fit, posterior=kept / kept.sum(axis=1, keepdims=True), shared=shared, common=COMMON
    ), rows


@pytest.mark.parametrize("kind", KINDS)
def test_posterior_is_bayes_rule_with_correlated_noise(kind: str) -> None:
    """Covariance noise (I + c / (1 - c) 11'), whose inverse is (I - shared 11') / noise."""
    fit, rows = begun(kind)
    shares = np.random.default_rng(5).normal(size=fit.shares.shape) * 0.3
    found = steps.posterior_step(replace(fit, shares=shares), rows)
    prior, total = chances(shares, rows.traits), 0.0
    for i in range(rows.n):
        used = np.flatnonzero(rows.action[i] >= 0)
        covariance = fit.noise * (np.eye(len(used)) + COMMON / (1 - COMMON))
        level = [
            np.log(prior[i, z])
            + multivariate_normal.logpdf(rows.reward[i, used], fit.q[i, z, used], covariance)
            for z in range(len(fit.examined))
        ]
        whole = logsumexp(level)
        np.testing.assert_allclose(found.posterior[i], np.exp(level - whole), rtol=1e-7, atol=1e-12)
        total += float(whole) + 0.5 * len(used) * np.log(2 * np.pi)  # the constant is left out
    assert found.likelihood == pytest.approx(total / rows.n, rel=1e-10)


def test_chances_are_a_softmax_of_the_context() -> None:
    rng = np.random.default_rng(6)
    shares, traits = rng.normal(size=(5, 4)), rng.normal(size=(7, 3))
    scores = shares[:, 0] + traits @ shares[:, 1:].T
    np.testing.assert_allclose(
        chances(shares, traits), np.exp(scores - logsumexp(scores, axis=1)[:, None]), rtol=1e-12
    )


def loss_by_hand(fit: Fit, rows: Rows) -> float:
    """Return sum over rankings and classes of posterior e'(I - shared 11')e, and the pulls of the
    prior.
    """
    total = 0.0
    for i in range(rows.n):
        used = np.flatnonzero(rows.action[i] >= 0)
        for z in range(len(fit.examined)):
            e = rows.reward[i, used] - fit.q[i, z, used]
            total += fit.posterior[i, z] * e @ (np.eye(len(used)) - fit.shared[i]) @ e
    at = fit.prior
    pulls = (at.effect_penalty * (fit.effect - at.effect) ** 2).sum()
    pulls += (at.examined_penalty * (fit.examined - at.examined) ** 2).sum() + 3.0 * (
        fit.shift**2
    ).sum()
    return float(total + pulls)


def test_loss_is_its_formula() -> None:
    fit, rows = begun("sum")
    assert fit.loss(rows) == pytest.approx(loss_by_hand(fit, rows), rel=1e-12)


def with_old_scale(found: Fit, fit: Fit) -> Fit:
    """Return what the step found before visibility was rescaled, under the prior before it was
    renewed.
    """
    p = fit.shape[3]
    size = float(np.median(found.effect[:, p:] / fit.effect[:, p:]))
    return replace(
        found, examined=found.examined * size, effect=fit.effect, triple=fit.triple, prior=fit.prior
    )


@pytest.mark.parametrize("kind", ["sum", "product"])
def test_a_examination_step_does_not_raise_the_penalised_loss(kind: str) -> None:
    fit, rows = begun(kind)
    before = fit.loss(rows)
    found = with_old_scale(steps.examination_step(fit, rows), fit)
    assert found.loss(rows) < before * (1 - 1e-4)
    np.testing.assert_allclose(
        moved(found, rows).q, found.q, rtol=1e-10, atol=1e-10
    )  # rescaling changed nothing
    assert not found.examined[:, np.arange(K), np.arange(K)].any()


@pytest.mark.parametrize("kind", KINDS)
def test_visibility_of_another_scale_is_the_same_model(kind: str) -> None:
    """Visibility is made 1 on average; rewards, and the prior's pulls, do not notice."""
    fit, rows = begun(kind, rounds=2)
    found = steps._rescaled(replace(fit, examined=fit.examined * 3.0))
    plain = moved(replace(fit, examined=fit.examined * 3.0), rows)
    average = np.tensordot(found.posterior.mean(axis=0), found.examined, axes=1)
    assert np.abs(average[~np.eye(K, dtype=bool)]).mean() == pytest.approx(1.0)
    again = moved(found, rows, effect=found.effect)
    assert np.abs(found.effect - fit.effect).max() > 0.05 and (kind != "triple" or fit.triple.any())
    np.testing.assert_allclose(again.q, plain.q, rtol=1e-9, atol=1e-9)
    assert again.loss(rows) == pytest.approx(plain.loss(rows), rel=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_an_effects_step_does_not_raise_the_penalised_loss(kind: str) -> None:
    fit, rows = begun(kind)
    before = fit.loss(rows)
    found = steps.effects_step(fit, rows)
    assert replace(found, prior=fit.prior).loss(rows) < before * (1 - 1e-4)


def test_a_triples_step_does_not_raise_the_penalised_loss() -> None:
    fit, rows = begun("triple")
    before = fit.loss(rows)
    found = steps.triples_step(fit, rows)
    assert replace(found, prior=fit.prior).loss(rows) < before * (1 - 1e-4)
    np.testing.assert_array_equal(found.triple, found.triple.swapaxes(1, 2))
    assert 0.0 < found.freedom < A * A * (A + 1) / 2


def test_steps_of_a_sum_end_at_the_minimum() -> None:
    """From the place they find no small change of a parameter is better."""
    fit, rows = begun("sum")
    rng = np.random.default_rng(7)
    seen = with_old_scale(steps.examination_step(fit, rows), fit)
    least = seen.loss(rows)
    off = 1.0 - np.eye(K)
    for _ in range(20):
        change = 1e-3 * rng.normal(size=seen.examined.shape) * off
        assert moved(seen, rows, examined=seen.examined + change).loss(rows) > least
    found = replace(steps.effects_step(fit, rows), prior=fit.prior)
    least = found.loss(rows)
    for _ in range(20):
        effect = found.effect + 1e-3 * rng.normal(size=found.effect.shape)
        shift = found.shift + 1e-3 * rng.normal(size=K)
        assert moved(found, rows, effect=effect, shift=shift).loss(rows) > least


def test_examination_steps_with_three_way_effects_end_at_a_minimum() -> None:
    fit, rows = begun("triple", rounds=3)
    for _ in range(15):
        before = fit.loss(rows)
        fit = with_old_scale(steps.examination_step(fit, rows), fit)
        assert fit.loss(rows) <= before * (1 + 1e-9)
    rng, least = np.random.default_rng(12), fit.loss(rows)
    for _ in range(20):
        change = 3e-3 * rng.normal(size=fit.examined.shape) * (1.0 - np.eye(K))
        assert moved(fit, rows, examined=fit.examined + change).loss(rows) > least


def test_rounds_raise_the_likelihood() -> None:
    """Penalties and their renewal may cost a little of it near the end, not before."""
    for kind in ("sum", "product"):
        fit, rows = begun(kind, ragged=False)
        first = steps.posterior_step(fit, rows).likelihood
        assert improved(rows, fit, 4).likelihood > first + 0.1


def share_objective(shares: Floats, fit: Fit, rows: Rows) -> float:
    """Return the multinomial log-likelihood of the posterior, less half the penalties."""
    penalty = np.full(shares.shape[1], SHARE)
    penalty[0] = SIZE
    return float(
        (fit.posterior * np.log(chances(shares, rows.traits))).sum()
        - 0.5 * (penalty * shares**2).sum()
    )


def test_shares_steps_climb_to_the_penalised_multinomial_maximum() -> None:
    fit, rows = begun("sum")
    wild = np.random.default_rng(8).normal(size=fit.shares.shape)
    fit = replace(fit, shares=wild)
    heights = [share_objective(wild, fit, rows)]
    for _ in range(300):
        fit = steps.shares_step(fit, rows)
        heights.append(share_objective(fit.shares, fit, rows))
    rises = np.diff(heights)
    assert rises[0] > 1.0 and (rises > -1e-9 * abs(heights[-1])).all() and rises[-1] < 1e-4
    rng = np.random.default_rng(9)
    for _ in range(20):
        away = fit.shares + 1e-2 * rng.normal(size=wild.shape)
        assert share_objective(away, fit, rows) < heights[-1]


def expected_likelihood(fit: Fit, rows: Rows, noise: float, common: float) -> float:
    """Return the mean over posteriors of the log-likelihood, its constant left out."""
    (square, total), count = fit.squares(rows), rows.present.sum(axis=1)
    shared = common / (1.0 + (count - 1.0) * common)
    size = 0.5 * np.log(1.0 - count * shared) - 0.5 * count * np.log(noise)
    distance = (fit.posterior * (square - shared[:, None] * total)).sum(axis=1) / noise
    return float((size - 0.5 * distance).sum())


def test_noise_step_is_the_likeliest_noise_of_full_rankings() -> None:
    fit, rows = begun("sum", ragged=False)
    rng = np.random.default_rng(10)
    drawn = rng.normal(size=(rows.n, 1)) + 0.7 * rng.normal(size=(rows.n, K))
    rows = replace(rows, reward=np.einsum("iz,izk->ik", fit.posterior, fit.q) + drawn)
    found = steps.noise_step(fit, rows)
    shared = float(found.shared[0])
    common = shared / (1.0 - (K - 1) * shared)
    most = expected_likelihood(fit, rows, found.noise, common)
    for change in (0.97, 1.03):
        assert expected_likelihood(fit, rows, change * found.noise, common) < most
        assert expected_likelihood(fit, rows, found.noise, change * common) < most


def test_noise_step_knows_noise_and_correlation_of_ragged_rankings() -> None:
    """4,000 rankings of one class: noise .49 and correlation 1 / 1.49, standard errors about .008
    and .01.
    """
    rows = rows_for("sum", 4000)
    rng = np.random.default_rng(11)
    alike = alternate(rows, start(rows, Link.SUM, A), ROUGH)
    fit = first_classes(rows, alike, 0.0, rng)
    fit = replace(fit, posterior=np.eye(len(fit.examined))[np.zeros(rows.n, dtype=np.int64)])
    noisy = fit.q[:, 0] + rng.normal(size=(rows.n, 1)) + 0.7 * rng.normal(size=(rows.n, K))
    found = steps.noise_step(fit, replace(rows, reward=noisy * rows.present))
    count = rows.present.sum(axis=1)
    common = 1 / 1.49
    assert found.noise == pytest.approx(0.49, abs=0.04)
    np.testing.assert_allclose(found.shared, common / (1 + (count - 1) * common), atol=0.05)
    exact = steps.noise_step(fit, replace(rows, reward=fit.q[:, 0]))
    assert exact.noise > 0.0 and not exact.shared.any()


@pytest.mark.parametrize("kind", KINDS)
def test_effects_of_a_fold_do_not_see_it(kind: str) -> None:
    fit, rows = begun(kind)
    before = by_fold(fit, rows, FOLDS)
    noisy = np.where(rows.fold[:, None] == 1, rows.reward + 5.0 * rows.present, rows.reward)
    after = by_fold(fit, replace(rows, reward=noisy), FOLDS)
    assert len(before.triple[0]) == (A if kind == "triple" else 0)
    for old, new in zip(before, after, strict=True):
        np.testing.assert_allclose(new[1], old[1], rtol=1e-9, atol=1e-9)
    assert np.abs(after.own[0] - before.own[0]).max() > 0.05


def test_left_out_sums_equal_a_step_without_the_fold() -> None:
    fit, rows = begun("sum")
    own, shift, pair, _ = by_fold(fit, rows, FOLDS)
    effect = np.concatenate([own, pair], axis=2)
    for f in range(FOLDS):
        kept = replace(fit, posterior=fit.posterior * (rows.fold != f)[:, None])
        alone = steps.effects_step(kept, rows)
        np.testing.assert_allclose(effect[f], alone.effect, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(shift[f], alone.shift, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("ragged", [False, True])
def test_a_fit_carried_to_its_own_rows_is_the_same(ragged: bool) -> None:
    fit, rows = begun("sum", ragged=ragged)
    found = carried(fit, rows)
    np.testing.assert_allclose(found.shared, fit.shared, rtol=1e-10)
    np.testing.assert_allclose(found.q, fit.q, rtol=1e-10, atol=1e-12)
    few = carried(fit, rows.take(slice(None, None, 7)))
    np.testing.assert_allclose(few.q, fit.q[::7], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(few.shared, fit.shared[::7], rtol=1e-10)


def test_the_likelihood_of_one_class_is_that_of_normal_errors() -> None:
    rows = rows_for("sum")
    alike = steps.noise_step(alternate(rows, start(rows, Link.SUM, A), ROUGH), rows)
    assert alike.shared.max() > 0.0
    total = 0.0
    for i in range(rows.n):
        used = np.flatnonzero(rows.action[i] >= 0)
        covariance = alike.noise * np.linalg.inv(np.eye(len(used)) - alike.shared[i])
        total += multivariate_normal.logpdf(rows.reward[i, used], alike.q[i, 0, used], covariance)
        total += 0.5 * len(used) * np.log(2 * np.pi)
    assert steps.posterior_step(alike, rows).likelihood == pytest.approx(total / rows.n, rel=1e-9)


def test_three_way_effects_are_the_same_in_both_orders() -> None:
    lower = np.arange(8.0).reshape(2, 2, 2)
    assert steps.both_orders(lower).tolist() == [[[0.0, 2.0], [2.0, 3.0]], [[4.0, 6.0], [6.0, 7.0]]]


def test_classes_are_described_with_the_most_common_first() -> None:
    fit, _ = begun("sum")
    classes = described(fit)
    shares = [one["share"] for one in classes]
    assert shares == sorted(shares, reverse=True) and sum(shares) == pytest.approx(1.0)
    most = int(fit.posterior.mean(axis=0).argmax())
    assert classes[0]["sees"] == fit.examined[most].tolist()
