"""Second moments of the weights of effects, on spaces small enough to enumerate."""

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from counterrank.estimators.behavior import settings
from counterrank.estimators.behavior.masks import Candidate
from counterrank.estimators.behavior.pairs import effect_inflation, excess, inflation

ITEMS = 3


@pytest.mark.parametrize("length", [2, 3, 4])
def test_effects_of_pairs_and_triples_have_their_exact_second_moments(length):
    """E of the squares over all rankings, term by term, against the formula in v."""
    rng = np.random.default_rng(length)
    target, logging = (rng.dirichlet(np.full(ITEMS, 2.0), size=length) for _ in range(2))
    expected = np.zeros((2, length))
    for ranking in product(range(ITEMS), repeat=length):
        at = (np.arange(length), np.array(ranking))
        chance, rho = logging[at].prod(), target[at] / logging[at]
        for k in range(length):
            rest = np.delete(rho - 1.0, k)
            couples = sum(rest[i] * rest[j] for i in range(len(rest)) for j in range(i))
            expected[:, k] += chance * np.array([rho[k] * rest.sum(), rho[k] * couples]) ** 2
    v = (target**2 / logging).sum(axis=1) - 1.0
    seen = np.full((2, length), 1e-3)
    found = effect_inflation(v[None], seen)
    np.testing.assert_allclose(found, np.maximum(1.0, expected / seen), rtol=1e-12)


def test_moments_are_averaged_over_contexts_and_only_go_up():
    v = np.array([[0.5, 1.0, 2.0], [0.1, 0.2, 0.3]])
    one = effect_inflation(v, np.full((2, 3), 1e-6)) * 1e-6
    each = [effect_inflation(row[None], np.full((2, 3), 1e-6)) * 1e-6 for row in v]
    np.testing.assert_allclose(one, np.mean(each, axis=0), rtol=1e-12)
    assert (effect_inflation(v, np.full((2, 3), 1e9)) == 1.0).all()
    assert (effect_inflation(None, np.full((2, 3), 1e-6)) == 1.0).all()


@pytest.mark.parametrize(("kind", "lengths"), [("factored", [1, 2]), ("prefix", [2, 2])])
def test_second_moments_are_known_of_full_rankings_with_independent_positions(kind, lengths):
    log = SimpleNamespace(lengths=np.array(lengths), K=2)
    assert excess(log, "new", SimpleNamespace(kind=kind)) is None


def factored(rho=None, p0=None, p1=None, n=2):
    """A log of full rankings of two positions, and its ratios."""
    tables = {"propensity": p0, "new": p1}
    log = SimpleNamespace(lengths=np.full(n, 2), K=2, n=n, distribution=tables.get)
    return log, "new", SimpleNamespace(kind="factored", rho=rho)


HALF = np.full((2, 2), 0.5)
WANTED = np.array([[0.8, 0.2], [0.6, 0.4]])  # sum of squares / .5, less 1: .36 and .04


@pytest.mark.parametrize(("p0", "p1"), [(None, None), (HALF, None), (None, HALF)])
def test_without_whole_distributions_the_mean_square_of_ratios_is_taken(p0, p1):
    found = excess(*factored(np.array([[2.0, 0.5], [1.0, 0.5]]), p0, p1))
    assert found.tolist() == [[1.5, 0.0]]


def test_second_moments_follow_from_the_distributions_of_each_context():
    np.testing.assert_allclose(excess(*factored(None, HALF, WANTED)), [[0.36, 0.36], [0.04, 0.04]])
    by_place = np.stack([HALF, WANTED], axis=1)
    found = excess(*factored(None, np.stack([HALF, HALF], axis=1), by_place))
    np.testing.assert_allclose(found, [[0.0, 0.36], [0.0, 0.04]], atol=1e-15)
    same = excess(*factored(None, HALF, np.tile([0.8, 0.2], (2, 1))))
    np.testing.assert_allclose(same, [[0.36, 0.36]])
    # Over the logger's support: .9^2 / .5 without the item that is never shown.
    p0 = np.array([[0.5, 0.5, 0.0], [0.25, 0.25, 0.5]])
    p1 = np.array([[0.9, 0.0, 0.1], [0.0, 1.0, 0.0]])
    np.testing.assert_allclose(excess(*factored(None, p0, p1))[:, 0], [0.62, 3.0])


def test_a_sample_of_rows_gives_the_moments(monkeypatch):
    monkeypatch.setattr(settings, "MOMENT_ROWS", 2)
    p1 = np.stack([np.linspace(0.5, 0.9, 5), np.linspace(0.5, 0.1, 5)], axis=1)
    found = excess(*factored(None, np.full((5, 2), 0.5), p1, n=5))
    np.testing.assert_allclose(found[:, 0], (p1[[0, 3]] ** 2 / 0.5).sum(axis=1) - 1.0, atol=1e-15)


def test_products_are_inflated_to_their_exact_second_moments():
    v = np.array([[0.5, 1.0, 3.0], [0.5, 1.0, 1.0]])
    whole = np.ones((3, 3), dtype=bool)
    models = (Candidate("S", whole), Candidate("I", np.eye(3, dtype=bool)))
    seen = np.ones((3, 2))
    found = inflation(v, models, seen)
    np.testing.assert_allclose(found[:, 0], (1.0 + v).prod(axis=1).mean())
    np.testing.assert_allclose(found[:, 1], (1.0 + v).mean(axis=0))
    np.testing.assert_allclose(inflation(v, models, 4.0 * seen)[:, 1], 1.0)
    assert (inflation(None, models, 4.0 * seen) == 1.0).all()
    np.testing.assert_allclose(inflation(v, models[:1], np.zeros((3, 1))), 1e100)
    assert (effect_inflation(np.zeros((1, 3)), np.zeros((2, 3))) == 1.0).all()
