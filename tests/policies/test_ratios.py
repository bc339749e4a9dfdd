"""Ratios of two policies: zero weights, refusals, sampled denominators."""

import numpy as np
import pytest
from tests.policies.conftest import limited

from counterrank.common.errors import PolicyError, PropensityError
from counterrank.policies import (
    Deterministic,
    PlackettLuce,
    Softmax,
    Uniform,
    UniformPermutation,
    subset_log_ratio,
)

ITEMS = np.array([[2, 0, 1], [0, 1, 2]])
EYE = np.eye(3, dtype=bool)


def test_zero_under_the_target_is_a_weight_of_zero():
    log_w, rel_var = subset_log_ratio(UniformPermutation(3), Deterministic([[0, 1, 2]]), ITEMS, EYE)
    np.testing.assert_allclose(np.exp(log_w), [[0, 0, 0], [3, 3, 3]])
    assert (rel_var == 0).all()


def test_zero_under_logging_names_the_row():
    with pytest.raises(PropensityError, match=r"row 0: .* items \[2\] at positions \[1\]"):
        subset_log_ratio(Deterministic([[0, 1, 2]]), UniformPermutation(3), ITEMS, EYE)


def test_factored_ratios_are_products():
    rng = np.random.default_rng(0)
    logging, target = Softmax(rng.normal(size=(2, 3))), Uniform(3)
    masks = np.array([[True, False, True]])
    log_w, _ = subset_log_ratio(logging, target, ITEMS, masks)
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
    log_w, rel_var = subset_log_ratio(policy, policy, items, masks)
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
    log_w, rel_var = subset_log_ratio(logging, target, items, masks)
    exact = np.exp(subset_log_ratio(PlackettLuce(base), target, items[:1], masks)[0][0, 0])
    raw = np.exp(log_w - np.log1p(-np.minimum(rel_var, 0.5)))[:, 0] / exact
    corrected = np.exp(log_w)[:, 0] / exact
    error = raw.std() / np.sqrt(n)
    assert (raw.mean() - 1) / error > 5
    assert abs(corrected.mean() - 1) < 0.001 + 5 * error
    assert abs(corrected.mean() - 1) < 0.4 * (raw.mean() - 1)


def test_policies_without_the_capability_are_refused():
    class PrefixOnly(UniformPermutation):
        capabilities = frozenset({"prefix", "joint"})

    with pytest.raises(PolicyError, match="PrefixOnly cannot give 'subset'"):
        subset_log_ratio(UniformPermutation(3), PrefixOnly(3), ITEMS, EYE)
