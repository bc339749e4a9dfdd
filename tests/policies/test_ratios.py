"""Ratios of two policies: zero weights, refusals, sampled denominators, work done once."""

import numpy as np
import pytest
from tests.policies.conftest import limited

from counterrank.errors import PolicyError, PropensityError
from counterrank.policies import (
    Deterministic,
    PlackettLuce,
    Softmax,
    SubsetRatios,
    Uniform,
    UniformPermutation,
)

ITEMS = np.array([[2, 0, 1], [0, 1, 2]])
EYE = np.eye(3, dtype=bool)


def test_zero_under_the_target_is_a_weight_of_zero():
    log_w, rel_var = SubsetRatios(
        UniformPermutation(3), Deterministic([[0, 1, 2]]), ITEMS
    ).log_ratio(EYE)
    np.testing.assert_allclose(np.exp(log_w), [[0, 0, 0], [3, 3, 3]])
    assert (rel_var == 0).all()


def test_zero_under_logging_names_the_row():
    with pytest.raises(PropensityError, match=r"row 0: .* items \[2\] at positions \[1\]"):
        SubsetRatios(Deterministic([[0, 1, 2]]), UniformPermutation(3), ITEMS).log_ratio(EYE)


def test_factored_ratios_are_products():
    rng = np.random.default_rng(0)
    logging, target = Softmax(rng.normal(size=(2, 3))), Uniform(3)
    masks = np.array([[True, False, True]])
    log_w, _ = SubsetRatios(logging, target, ITEMS).log_ratio(masks)
    expected = (target.position_log_prob(ITEMS) - logging.position_log_prob(ITEMS))[:, [0, 2]].sum(
        axis=1
    )
    np.testing.assert_allclose(log_w[:, 0], expected)


def test_a_policy_against_itself_weighs_one_even_when_sampled():
    rng = np.random.default_rng(1)
    policy = limited(PlackettLuce(rng.normal(size=(5, 40))), max_states=1)
    items = policy.sample(8, rng)[:, 0]
    masks = np.zeros((1, 8), bool)
    masks[0, [3, 6]] = True
    log_w, rel_var = SubsetRatios(policy, policy, items).log_ratio(masks)
    assert (log_w == 0).all()
    assert (rel_var == 0).all()


def test_sampled_denominators_are_corrected():
    """Mean weight over 20,000 independent draws of the same event against its exact value.

    M = 32: the raw ratio is high by its squared relative error (must be detected at z > 5);
    the corrected one must stay within 0.1 % plus 5 standard errors (false alarms below 1e-6).
    """
    n = 20_000
    rng = np.random.default_rng(2)
    base = rng.normal(size=(1, 7)) * 1.2
    items = np.tile(PlackettLuce(base).sample(5, rng)[0, 0], (n, 1))
    masks = np.zeros((1, 5), bool)
    masks[0, [2, 4]] = True
    # Rows that differ by a hair draw independently; rows that are equal draw alike.
    scores = base + 1e-11 * np.arange(n)[:, None] * np.arange(7)
    logging = limited(PlackettLuce(scores), max_states=1, max_samples=32, rtol=1e-9)
    target = UniformPermutation(7)
    log_w, rel_var = SubsetRatios(logging, target, items).log_ratio(masks)
    exact = np.exp(SubsetRatios(PlackettLuce(base), target, items[:1]).log_ratio(masks)[0][0, 0])
    raw = np.exp(log_w - np.log1p(-np.minimum(rel_var, 0.5)))[:, 0] / exact
    corrected = np.exp(log_w)[:, 0] / exact
    error = raw.std() / np.sqrt(n)
    assert (raw.mean() - 1) / error > 5
    assert abs(corrected.mean() - 1) < 0.001 + 5 * error
    assert abs(corrected.mean() - 1) < 0.4 * (raw.mean() - 1)


def test_shared_masks_are_worked_on_once(monkeypatch):
    asked = []
    original = UniformPermutation.subset_log_prob

    def counting(self, actions, masks):
        asked.append(len(masks))
        return original(self, actions, masks)

    monkeypatch.setattr(UniformPermutation, "subset_log_prob", counting)
    ratios = SubsetRatios(UniformPermutation(3), Deterministic([[0, 1, 2]]), ITEMS)
    first, _ = ratios.log_ratio(EYE)
    again, _ = ratios.log_ratio(np.concatenate([EYE, EYE[:1], np.ones((1, 3), bool)]))
    assert asked == [3, 1]
    np.testing.assert_array_equal(again[:, :3], first)
    np.testing.assert_array_equal(again[:, 3], first[:, 0])
    per_row, _ = ratios.log_ratio(np.stack([EYE, EYE]))
    np.testing.assert_array_equal(per_row, first)


def test_masks_by_row_are_worked_on_once_a_row(monkeypatch):
    rng = np.random.default_rng(3)
    logging, target = (
        PlackettLuce(rng.normal(size=(6, 9))),
        limited(PlackettLuce(rng.normal(size=(6, 9))), max_states=1),
    )
    items = logging.sample(4, rng)[:, 0]
    sets = rng.random((6, 5, 4)) < 0.5
    fresh, errors = SubsetRatios(logging, target, items).log_ratio(sets)
    ratios = SubsetRatios(logging, target, items)
    ratios.log_ratio(sets[:, :3])
    ratios.log_ratio(sets[0, :2])
    again, same_errors = ratios.log_ratio(sets)
    # Singles asked for together share their nodes, so the last digit may differ.
    np.testing.assert_allclose(again, fresh, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(same_errors, errors, rtol=1e-12)
    for j in range(5):  # one set for all rows, asked after some rows are known
        shared, _ = ratios.log_ratio(sets[2, j][None])
        np.testing.assert_allclose(shared[2, 0], fresh[2, j], rtol=1e-12, atol=1e-13)

    def refuse(self, actions, masks):
        raise AssertionError("asked again")

    monkeypatch.setattr(PlackettLuce, "subset_log_prob", refuse)
    np.testing.assert_allclose(ratios.log_ratio(sets)[0], fresh, rtol=1e-12, atol=1e-13)


def test_policies_without_the_capability_are_refused():
    class PrefixOnly(UniformPermutation):
        capabilities = frozenset({"prefix", "joint"})

    with pytest.raises(PolicyError, match="PrefixOnly cannot give 'subset'"):
        SubsetRatios(UniformPermutation(3), PrefixOnly(3), ITEMS).log_ratio(EYE)
