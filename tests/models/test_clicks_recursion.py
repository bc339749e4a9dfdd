"""Click histories against all 2^K click sequences, and the identities that must hold for any
reward.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from counterrank.common.errors import EstimatorError
from counterrank.data.encoding import Scaling
from counterrank.models.base import ALL
from counterrank.models.clicks.competition import last_click, reading, rivalry, skipped
from counterrank.models.clicks.kernels.recursion import (
    Examination,
    backward,
    click_history,
    forward,
)
from counterrank.models.clicks.model import ClickModel, Encoding, Predictor
from counterrank.models.clicks.parameters import Parameters
from counterrank.models.clicks.settings import SETTINGS
from counterrank.models.rankings import Rankings, Variant


def _sequences(chance, length):
    """Yield every click sequence of a ranking and its probability."""
    for clicks in itertools.product((0, 1), repeat=length):
        p, state = 1.0, 0
        for k, c in enumerate(clicks):
            p *= chance[k, state] if c else 1 - chance[k, state]
            state = k + 1 if c else state
        yield np.array(clicks, dtype=float), p


@pytest.mark.parametrize("length", [1, 2, 3, 5])
def test_forward_is_the_sum_over_all_click_sequences(length):
    K = 5
    chance = np.random.default_rng(length).random((K, K + 1))
    out, state = np.zeros(K), np.zeros(K + 1)
    forward(chance, length, state, out)
    wanted = sum(p * np.pad(clicks, (0, K - length)) for clicks, p in _sequences(chance, length))
    np.testing.assert_allclose(out, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("length", [1, 3, 5])
def test_backward_is_the_mean_of_later_gains_given_the_last_click(length):
    K = 5
    rng = np.random.default_rng(length)
    chance, gain = rng.random((K, K + 1)), rng.normal(size=K)
    ahead = np.zeros((K + 1, K + 1))
    backward(chance, gain, length, ahead)
    for k in range(length):
        for s in range(k + 1):
            total, mass = 0.0, 0.0
            for clicks, p in _sequences(chance, length):
                seen = np.flatnonzero(clicks[:k])
                if (seen[-1] + 1 if len(seen) else 0) == s:
                    total += p * float(clicks[k:] @ gain[k:length])
                    mass += p
            assert ahead[k, s] == pytest.approx(total / mass, abs=1e-12)


def _random(seed, m=40, K=4, items=6, folds=2):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, K + 1, m)
    item = np.where(
        np.arange(K) < lengths[:, None],
        rng.permuted(np.tile(np.arange(items), (m, 1)), axis=1)[:, :K],
        -1,
    )
    attraction = np.where(item >= 0, rng.random((m, K)), 0.0)
    odds, after = (
        np.exp(rng.normal(size=(folds, K, K + 1))),
        np.exp(rng.normal(size=(folds, items + 1))),
    )
    left = np.where(item >= 0, rng.random((m, K)), 0.0), rng.normal(size=folds)
    return rng, lengths, item, attraction, odds, after, *left, rng.integers(0, folds, m)


def _table(i, item, attraction, odds, after, strength, power, fold):
    length = np.array([(item[i] >= 0).sum()])
    K, gone = item.shape[1], power[fold[i]] * skipped(strength[[i]], length)[0]
    chance = np.zeros((K, K + 1))
    for k in range(K):
        chance[k, 0] = attraction[i, k] / (1 + odds[fold[i], k, 0] * np.exp(gone[k, 0]))
        for last in range(k):
            chance[k, last + 1] = attraction[i, k] / (
                1
                + odds[fold[i], k, last + 1]
                * after[fold[i], item[i, last]]
                * np.exp(gone[k, 1] - gone[last + 1, 1])
            )
    return chance


def test_factored_and_tabulated_chances_agree_and_padding_stays_zero():
    rng, lengths, item, attraction, *parts, fold = _random(1)
    odds, after, strength, power = parts
    seen, shown = Examination(odds, after, power), (item, lengths, fold)
    m, K = item.shape
    chances = np.stack([_table(i, item, attraction, *parts, fold) for i in range(m)])
    one, two = np.zeros((m, K)), np.zeros((m, K))
    none = np.empty((0, K))
    click_history(attraction, strength, seen, shown, none, none.astype(int), one, none)
    for i in range(m):
        forward(chances[i], lengths[i], np.zeros(K + 1), two[i])
    np.testing.assert_allclose(one, two, atol=1e-14)
    assert not one[item < 0].any()
    gain = rng.normal(size=(m, K))
    click = np.where(item >= 0, rng.random((m, K)) < 0.5, 0.0)
    first, second = np.zeros((m, K + 1)), np.zeros((m, K + 1))
    again = np.zeros((m, K))
    click_history(attraction, strength, seen, shown, gain, last_click(click), again, first)
    np.testing.assert_array_equal(again, one)
    for i in range(m):
        ahead, state = np.zeros((K + 1, K + 1)), 0
        backward(chances[i], gain[i], lengths[i], ahead)
        for k in range(lengths[i]):
            second[i, k] = ahead[k, state]
            state = k + 1 if click[i, k] else state
    np.testing.assert_allclose(first, second, atol=1e-14)
    # The value at the start is what is expected.
    np.testing.assert_allclose(first[:, 0], (one * gain).sum(axis=1), atol=1e-12)


def test_surprises_have_mean_zero_given_what_was_clicked_above():
    """Martingale property by enumeration: E[delta_k | clicks above] = 0 for every history."""
    K, length = 4, 4
    rng = np.random.default_rng(5)
    chance, gain = rng.random((K, K + 1)), rng.normal(size=K)
    ahead = np.zeros((K + 1, K + 1))
    backward(chance, gain, length, ahead)
    for k in range(K):
        for above in itertools.product((0, 1), repeat=k):
            s = max((j + 1 for j, c in enumerate(above) if c), default=0)
            p = chance[k, s]
            after_click, after_none = (
                gain[k] + ahead[k + 1, k + 1] - ahead[k, s],
                ahead[k + 1, s] - ahead[k, s],
            )
            assert p * after_click + (1 - p) * after_none == pytest.approx(0.0, abs=1e-12)


def test_competition_is_what_its_name_says():
    rng = np.random.default_rng(0)
    strength, lengths = rng.random((30, 5)), rng.integers(1, 6, 30)
    out = rivalry(strength, lengths)
    for i in range(30):
        for k in range(5):
            s = strength[i, : lengths[i]]
            if k >= lengths[i]:
                assert not out[i, k].any()
                continue
            above = s[:k]
            wanted = [
                above.sum(),
                above[-1] if k else 0.0,
                above.max(initial=0.0),
                s[k + 1 :].sum(),
            ]
            np.testing.assert_allclose(out[i, k], wanted, atol=1e-12)


@pytest.mark.parametrize("stays", [1.0, 1e-9])
def test_what_was_skipped_tells_who_has_left(stays):
    """A reader goes on after a skip with probability g, near one, and after a click with `stays`:
    the exact odds of having left, given the clicks above, are in proportion to what is written.
    """
    rng = np.random.default_rng(3)
    g, K, m = 1 - 1e-13, 6, 40
    strength, lengths = rng.uniform(0.0, 0.9, (m, K)), rng.integers(1, K + 1, m)
    click = (rng.random((m, K)) < 0.2).astype(float)
    read = reading(skipped(strength, lengths), click)
    for i in range(m):
        assert read[i, 0] == 0.0
        reads, gone, before, last = 1.0, 0.0, 0.0, -1
        for k in range(1, lengths[i]):
            if click[i, k - 1]:
                reads, gone, last, before = stays, 1 - stays, k - 1, (1 - stays) / stays
                if stays == 1.0:
                    break
            else:
                skips = reads * (1 - strength[i, k - 1])
                reads, gone = g * skips, gone + (1 - g) * skips
            unit = (1 - g) * k if last < 0 else before
            assert read[i, k] == pytest.approx(-np.log(gone / reads / unit), rel=1e-3, abs=1e-4)


FOLDS, SLOTS, ITEMS = 2, 3, 4


def _parameters(rng, d, width):
    """Parameters of two folds and of all rows, and the blocks that they are made of."""
    sizes = {
        "examined": SLOTS, "clicked": 1, "power": 1, "distance": SLOTS - 1, "cells": SLOTS**2, "after": ITEMS + 1,
        "constant": 1, "common": d, "columns": width, "own": ITEMS + 1, "slopes": (ITEMS + 1) * d,
    }  # fmt: skip
    blocks = {name: rng.normal(size=(FOLDS + 1, size)) for name, size in sizes.items()}
    theta = np.concatenate(list(blocks.values()), axis=1)
    return Parameters(theta, SLOTS, ITEMS, d), blocks


def test_parameters_are_read_where_they_stand():
    parameters, block = _parameters(np.random.default_rng(1), d=2, width=3)
    for f in range(FOLDS + 1):
        for k in range(SLOTS):
            t = block["examined"][f, k]
            assert parameters.examination[f, k, 0] == pytest.approx(t, rel=1e-12)
            for last in range(k):
                since = t + block["clicked"][f, 0] + block["distance"][f, k - last - 1]
                since += block["cells"][f, k * SLOTS + last]
                assert parameters.examination[f, k, 1 + last] == pytest.approx(since, rel=1e-12)
        slopes = block["slopes"][f].reshape(ITEMS + 1, 2)
        np.testing.assert_allclose(
            parameters.table[f],
            np.column_stack([block["constant"][f] + block["own"][f], block["common"][f] + slopes]),
            rtol=1e-12,
        )
    np.testing.assert_array_equal(parameters.power, block["power"][:, 0])
    np.testing.assert_array_equal(parameters.after, block["after"])
    np.testing.assert_array_equal(parameters.beta, block["columns"])


def _clicks_of_a_page():
    """A model with competition by hand, and rankings of three requests, one item never seen."""
    rng = np.random.default_rng(2)
    seen = np.array([0, 3, 5, 8])
    item = np.array([[5, 0, 8], [3, 8, -1], [0, 7, 3], [8, 5, 0]])
    rankings = Rankings(item, rng.normal(size=(3, 1)), row=np.array([0, 1, 2, 0]))
    context = Scaling(np.array([0.2]), np.array([1.5]))
    encoding = Encoding(seen, context, None, None, slopes=True)
    first = Predictor(_parameters(rng, 1, 0)[0], encoding, Variant(), {}, np.ones(1))
    rivals = Scaling(np.full(5, 0.1), np.full(5, 0.8))
    variant = Variant(competition=True)
    rich = Predictor(
        _parameters(rng, 1, 5)[0], encoding, variant, {}, np.ones(1), first=first, rivals=rivals
    )
    return ClickModel(rich), rankings, np.array([[2, 0, 3], [1, 3, -1], [0, 4, 1], [3, 2, 0]])


def _by_hand(model, rankings, numbers, fold):
    """Chances of a click (m, K, K + 1) given the last one, slot by slot."""
    rich, first = model.predictor, model.predictor.first
    x = (rankings.x[rankings.row, 0] - 0.2) / 1.5
    strength, attraction = np.zeros((2, *numbers.shape))
    for i, length in enumerate(rankings.lengths):
        strong = np.zeros(length)
        for k in range(length):
            at = first.parameters.table[fold[i], numbers[i, k]]
            strong[k] = 1 / (1 + np.exp(-(at[0] + at[1] * x[i])))
        for k in range(length):
            above = strong[:k]
            others = [above.sum(), above[-1] if k else 0.0, above.max(initial=0.0)]
            known = np.minimum(strong, 1 - SETTINGS.missed)
            rest = known / (1 - known) / np.sqrt(1 + np.arange(length))
            shared = np.log(SETTINGS.rest_floor + rest.sum() - rest[k])
            others = (np.array([*others, strong[k + 1 :].sum(), shared]) - 0.1) / 0.8
            at = rich.parameters.table[fold[i], numbers[i, k]]
            v = at[0] + at[1] * x[i] + others @ rich.parameters.beta[fold[i]]
            attraction[i, k] = 1 / (1 + np.exp(-v))
        strength[i, :length] = strong
    read = model.examination.odds, model.examination.after, strength, model.examination.power, fold
    return np.stack([_table(i, numbers, attraction, *read) for i in range(len(numbers))])


@pytest.mark.parametrize("part", [4_096, 3])
def test_a_fitted_page_is_the_sum_over_all_its_click_sequences(part, monkeypatch):
    monkeypatch.setattr("counterrank.models.rankings.PART", part)
    model, rankings, numbers = _clicks_of_a_page()
    alpha, worth = np.array([1.0, 0.5, 0.25]), np.linspace(0.5, 2.0, 12).reshape(4, 3)
    for asked, fold in ((ALL, np.full(4, 2)), (np.array([0, 1, 1, 0]), np.array([0, 1, 1, 0]))):
        chance = _by_hand(model, rankings, numbers, fold)
        reward = np.where(rankings.item >= 0, np.array([0.0, 3.0, 0.0]), 0.0)
        found = model.history(rankings, reward, asked, alpha, worth)
        plain = model.history(rankings, reward, asked)
        for i, length in enumerate(rankings.lengths):
            expected, later = np.zeros(SLOTS), np.zeros((2, SLOTS + 1))
            for seq, p in _sequences(chance[i], length):
                expected[:length] += p * seq
            weights = np.stack([(alpha * worth[i])[:length], np.ones(length)])
            for k in range(length):
                mass = 0.0
                for seq, p in _sequences(chance[i], length):
                    if (seq[:k] == (reward[i, :k] != 0)).all():
                        mass += p
                        later[:, k] += p * weights[:, k:] @ seq[k:]
                later[:, k] /= mass
            np.testing.assert_allclose(model.expected(rankings, asked)[i], expected, atol=1e-12)
            np.testing.assert_allclose(found.q[i], worth[i] * expected, atol=1e-12)
            np.testing.assert_allclose(plain.q[i], expected, atol=1e-12)
            for history, earned, value in (
                (found, alpha * reward[i], later[0]),
                (plain, reward[i], later[1]),
            ):
                delta = earned + value[1:] - value[:-1]
                np.testing.assert_allclose(history.delta[i], delta, atol=1e-12)


def test_relevance_is_the_attraction_by_itself_and_longer_pages_are_refused():
    model, rankings, numbers = _clicks_of_a_page()
    at = model.predictor.first.parameters.table[-1][numbers]
    x = (rankings.x[rankings.row] - 0.2) / 1.5
    wanted = np.where(rankings.item >= 0, at[:, :, 0] + at[:, :, 1] * x, -np.inf)
    np.testing.assert_allclose(model.relevance(rankings), wanted, rtol=1e-12)
    np.testing.assert_allclose(model.strength(rankings, ALL), 1 / (1 + np.exp(-wanted)), rtol=1e-12)
    longer = Rankings(np.array([[0, 3, 5, 8]]), np.zeros((1, 1)))
    with pytest.raises(EstimatorError, match="rankings have 4 slots, the model was fitted to 3"):
        model.expected(longer, ALL)


def test_likeness_of_features_competes_where_both_have_features():
    model, rankings, _ = _clicks_of_a_page()
    rng = np.random.default_rng(7)
    featured = replace(rankings, features=rng.normal(size=(4, SLOTS, 2)))
    scaling = Scaling(np.array([0.1, -0.2]), np.array([1.0, 2.0]))
    encoding = replace(model.predictor.encoding, features=scaling)
    rich, strength = replace(model.predictor, encoding=encoding), rng.random((4, SLOTS))
    plain = model.predictor.competition(featured, strength)
    assert plain.shape == (4, SLOTS, 5) == rich.competition(rankings, strength).shape
    found = rich.competition(featured, strength)
    np.testing.assert_array_equal(found[:, :, :5], plain)
    z = (featured.features - [0.1, -0.2]) / [1.0, 2.0]
    z /= np.linalg.norm(z, axis=2, keepdims=True)
    for i, length in enumerate(rankings.lengths):
        alike = [z[i, k] @ z[i, :k].sum(axis=0) for k in range(length)]
        np.testing.assert_allclose(found[i, :length, 5], alike, atol=1e-12)
