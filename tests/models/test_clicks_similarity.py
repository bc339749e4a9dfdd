"""Learned likeness of items: found where it is planted, not where there is none; its kernels
against slow twins.
"""

import numpy as np
import pytest

from counterrank.models.base import ALL
from counterrank.models.clicks.fit import fit_history
from counterrank.models.clicks.kernels.recursion import (
    Examination,
    Shown,
    pair_evidence,
    similar_above,
)
from counterrank.models.clicks.model import alike_above
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


def test_hidden_groups_are_found_and_halve_the_error():
    n = 6_000
    item, click, _ = _world(n, 1.0, np.random.default_rng(0))
    rankings = Rankings(item, np.empty((n, 0)))
    variants = (Variant(), Variant(competition=True))
    plain, rich = fit_history(rankings, click, np.arange(n) % 3, folds=3, variants=variants)
    assert rich.details["similarity_rank"] >= 1
    item, _, q = _world(4_000, 1.0, np.random.default_rng(1))
    fresh = Rankings(item, np.empty((4_000, 0)))
    error = [((model.expected(fresh, ALL) - q) ** 2).mean() for model in (plain, rich)]
    assert error[1] < 0.5 * error[0]
    similarity = rich.predictor.similarity
    effect = (similarity.place[-1] * similarity.sign[-1]) @ similarity.place[-1].T
    effect = effect[:ITEMS, :ITEMS]
    same = (GROUP[:, None] == GROUP) & ~np.eye(ITEMS, dtype=bool)
    assert effect[same].mean() < effect[GROUP[:, None] != GROUP].mean() - 0.3


def test_without_likeness_none_is_claimed():
    """Twenty logs without likeness: at most two claims (a rate of 2 % would give three in one of
    140 runs).
    """
    claims = 0
    for seed in range(20):
        n = 800
        item, click, _ = _world(n, 0.0, np.random.default_rng(100 + seed))
        model = fit_history(
            Rankings(item, np.empty((n, 0))),
            click,
            np.arange(n) % 2,
            folds=2,
            variants=(Variant(competition=True),),
        )[0]
        claims += model.details["similarity_rank"] > 0
    assert claims <= 2


def test_pair_evidence_equals_its_slow_twin():
    rng = np.random.default_rng(4)
    m, folds = 40, 2
    item = rng.permuted(np.tile(np.arange(5), (m, 1)), axis=1)[:, :3]
    lengths, fold = rng.integers(1, 4, m), rng.integers(0, folds, m)
    attraction, click = rng.random((m, 3)), (rng.random((m, 3)) < 0.4).astype(float)
    odds, after = (
        np.exp(rng.normal(size=(folds + 1, 3, 4))),
        np.exp(rng.normal(size=(folds + 1, 6))),
    )
    slope, bend = np.zeros((folds, 6, 6)), np.zeros((folds, 6, 6))
    seen = Examination(odds, after, np.zeros(folds + 1))
    pair_evidence(attraction, seen, Shown(item, lengths, fold), click, slope, bend)

    def log_likelihood(i, k, shift, last):
        v = np.log(attraction[i, k] / (1 - attraction[i, k])) + shift
        f = fold[i]
        t = odds[f, k, 0] if last is None else odds[f, k, last + 1] * after[f, item[i, last]]
        p = 1 / (1 + np.exp(-v)) / (1 + t)
        return np.log(p) if click[i, k] else np.log1p(-p)

    wanted, information = np.zeros_like(slope), np.zeros_like(bend)
    for i in range(m):
        last = None
        for k in range(lengths[i]):
            first = (log_likelihood(i, k, 1e-5, last) - log_likelihood(i, k, -1e-5, last)) / 2e-5
            t = (
                odds[fold[i], k, 0]
                if last is None
                else odds[fold[i], k, last + 1] * after[fold[i], item[i, last]]
            )
            p = attraction[i, k] / (1 + t)
            for j in range(k):
                wanted[fold[i], item[i, k], item[i, j]] += first
                information[fold[i], item[i, k], item[i, j]] += (
                    p / (1 - p) * (1 - attraction[i, k]) ** 2
                )
            last = k if click[i, k] else last
    np.testing.assert_allclose(slope, wanted, atol=1e-7)
    np.testing.assert_allclose(bend, information, rtol=1e-10)


def test_effect_of_items_above_equals_its_slow_twin():
    rng = np.random.default_rng(5)
    place, sign = rng.normal(size=(2, 6, 3)), rng.choice((-1.0, 1.0), (2, 3))
    item = rng.permuted(np.tile(np.arange(6), (30, 1)), axis=1)[:, :4]
    lengths, fold = rng.integers(1, 5, 30), rng.integers(0, 2, 30)
    out = np.zeros((30, 4))
    similar_above(place, sign, item, lengths, fold, out)
    for i in range(30):
        effect = (place[fold[i]] * sign[fold[i]]) @ place[fold[i]].T
        for k in range(4):
            wanted = (
                sum(effect[item[i, k], item[i, j]] for j in range(k)) if k < lengths[i] else 0.0
            )
            assert out[i, k] == pytest.approx(wanted, abs=1e-12)


def test_likeness_of_features_is_used_by_competition():
    """The groups can be seen in the features: half the error without anything learned by pairs."""
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
