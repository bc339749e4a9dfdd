"""Second moments of the weights of effects, on spaces small enough to enumerate."""

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from counterrank.behavior.tails import effect_inflation, excess

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
