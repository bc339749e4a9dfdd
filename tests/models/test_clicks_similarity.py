"""Likeness of items by their features."""

import numpy as np

from counterrank.models.base import ALL
from counterrank.models.clicks.competition import alike_above
from counterrank.models.clicks.fit import fit_history
from counterrank.models.rankings import Rankings, Variant

ITEMS, K, GROUPS = 12, 4, 3
GROUP = np.arange(ITEMS) % GROUPS
LEVEL = np.random.default_rng(3).normal(-0.5, 0.6, ITEMS)


def _world(n, pull, rng):
    """Items of a group above cost `pull` logits each; slots are always seen."""
    item = rng.permuted(np.tile(np.arange(ITEMS), (n, 1)), axis=1)[:, :K]
    same = np.stack(
        [(GROUP[item[:, :k]] == GROUP[item[:, [k]]]).sum(axis=1) for k in range(K)], axis=1
    )
    q = 1 / (1 + np.exp(-(LEVEL[item] - pull * same)))
    return item, (rng.random((n, K)) < q).astype(float), q


def test_likeness_of_features_is_used_by_competition():
    """The groups can be seen in the features: half the error."""
    n = 3_000
    look = np.eye(GROUPS)[GROUP] - 1 / GROUPS
    errors = []
    for competition in (False, True):
        item, click, _ = _world(n, 1.2, np.random.default_rng(6))
        rankings = Rankings(item, np.empty((n, 0)), features=look[item])
        variant = (Variant(competition=competition),)
        model = fit_history(rankings, click, np.arange(n) % 2, folds=2, variants=variant)[0]
        item, _, q = _world(3_000, 1.2, np.random.default_rng(7))
        fresh = Rankings(item, np.empty((3_000, 0)), features=look[item])
        errors.append(((model.expected(fresh, ALL) - q) ** 2).mean())
    assert errors[1] < 0.5 * errors[0]
    assert not alike_above(look[[[0, 1, 2]]], np.zeros((1, 3), dtype=bool)).any()


def test_likeness_of_features_equals_its_naive_twin():
    rng = np.random.default_rng(8)
    z, shown = rng.normal(size=(20, 5, 3)), np.arange(5) < rng.integers(1, 6, (20, 1))
    z[3, 1] = 0.0  # of no direction: like nothing
    unit = np.where(
        shown[..., None], z / np.maximum(np.linalg.norm(z, axis=2), 1e-12)[..., None], 0.0
    )
    wanted = [[sum(row[k] @ row[j] for j in range(k)) for k in range(5)] for row in unit]
    np.testing.assert_allclose(alike_above(z, shown), wanted, atol=1e-14)
