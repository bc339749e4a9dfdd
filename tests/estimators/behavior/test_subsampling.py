"""Weights between the two parts of a divided log, on a space small enough to enumerate."""

from itertools import product

import numpy as np
import pytest

import counterrank as cr
from counterrank.estimators.behavior import PasIf
from counterrank.estimators.behavior.estimates import chance, odds_given_part, part_weights
from counterrank.estimators.weights.ratios import ratios_of

TARGET = np.array([0.15, 0.25, 0.6])
MODELS = cr.candidates(3, ["S", "C", "I"])
FULL, CASCADE, OWN = range(3)


@pytest.fixture(scope="module")
def every_ranking():
    """Each of 27 rankings once: the logging policy is uniform, so this log is its whole
    distribution.
    """
    action = np.array(list(product(range(3), repeat=3)))
    rng = np.random.default_rng(0)
    return cr.RankingLog(
        action=action,
        reward=rng.normal(3, 2, size=action.shape),
        propensity=np.full(action.shape, 1 / 3),
        targets={"new": TARGET[action]},
    )


def divided(log, estimate):
    """Return the exact rho (n,) and the weights (K, M, n), without drawing anything."""
    ratios = ratios_of(log, "new")
    scale, odds = estimate.log_odds(ratios)
    found = part_weights(scale, ratios, tuple(MODELS), odds)
    weights = [[found[model.mask[k].tobytes()] for model in MODELS] for k in range(log.K)]
    return chance(odds), np.array(weights)


def means(rho, weight, reward):
    """Return the expectations of the weighted mean of D_0 and of the plain mean of D_1."""
    return (1 - rho) @ (weight * reward) / (1 - rho).sum(), rho @ reward / rho.sum()


ESTIMATES = [PasIf(), PasIf(share=0.05), PasIf(share=0.4)]


@pytest.mark.parametrize("estimate", ESTIMATES)
def test_whole_rankings_carry_one_part_to_the_other_exactly(every_ranking, estimate):
    rho, weight = divided(every_ranking, estimate)
    assert rho.mean() == pytest.approx(estimate.share, rel=1e-9)
    for k in range(3):
        from_rest, truth = means(rho, weight[k, FULL], every_ranking.reward[:, k])
        assert from_rest == pytest.approx(truth, rel=1e-12)


@pytest.mark.parametrize("estimate", ESTIMATES)
def test_sparse_models_do_the_same_where_they_are_right(every_ranking, estimate):
    """Rewards that depend on the own item, or on the items above too. What is left is the table's
    interpolation.
    """
    rho, weight = divided(every_ranking, estimate)
    rng = np.random.default_rng(1)
    a = every_ranking.action
    alone, above = rng.normal(3, 2, size=3)[a], rng.normal(3, 2, size=(3, 3))[a[:, 0], a[:, 1]]
    for k in range(3):
        assert np.diff(means(rho, weight[k, OWN], alone[:, k])) == pytest.approx(0, abs=2e-3)
    assert np.diff(means(rho, weight[1, CASCADE], above)) == pytest.approx(0, abs=2e-3)
    # And where they are not right, they miss: the log's own weights are no substitute.
    assert abs(np.diff(means(rho, weight[1, OWN], 4.0 * above))[0]) > 0.01


def test_odds_given_a_part_against_the_average_written_out():
    rng = np.random.default_rng(4)
    own, rest = rng.normal(-2, 2, 300), rng.normal(0, 1.5, 80)
    out = odds_given_part(own, rest)
    p = chance(own[:, None] + rest)
    np.testing.assert_allclose(out, p.mean(axis=1) / (1 - p).mean(axis=1), rtol=1e-3)
    out = odds_given_part(own, np.zeros(5))
    np.testing.assert_allclose(out, np.exp(own), rtol=1e-13)
    out = odds_given_part(np.full(3, -1.0), rest)  # one value: a table without width
    assert np.ptp(out) == 0 and out[0] == pytest.approx(
        chance(rest - 1).mean() / (1 - chance(rest - 1)).mean()
    )


def test_rankings_the_target_never_shows_stay(every_ranking):
    log = cr.RankingLog(
        action=every_ranking.action,
        reward=every_ranking.reward,
        propensity=every_ranking.propensity,
        targets={"new": np.array([0.0, 0.4, 0.6])[every_ranking.action]},
    )
    rho, weight = divided(log, PasIf())
    assert np.isfinite(weight).all()
    never = (log.action == 0).any(axis=1)
    assert rho[never].max() < 1e-100 and weight[:, FULL, never].max() < 1e-100
