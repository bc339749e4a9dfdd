"""Exact values: formulas against enumeration, integration against sampling."""

import numpy as np
import pytest

from counterrank.common.errors import ConfigError
from counterrank.research.simulate import published, random, real_world, true_value
from counterrank.research.simulate.environment import (
    base_reward,
    behavior_probability,
    distribution,
    expected_reward,
)
from counterrank.research.simulate.truth import closed_form, enumeration

MODELS = ("pairwise", "triple", "multiplicative", "binary")


@pytest.mark.parametrize("policy", ["target", "logging"])
@pytest.mark.parametrize("form", ["published", "paper"])
@pytest.mark.parametrize("reward", MODELS[:3])
def test_closed_form_equals_enumeration(reward, form, policy, rng):
    env = random(3, form=form, reward=reward, K=3, actions=3, context_policies=True)
    context, seen = rng.standard_normal((2, 5, env.d))
    given = distribution(env, context, policy), base_reward(env, seen)
    given = (*given, behavior_probability(env, context))
    exact = enumeration(env, *given)
    np.testing.assert_allclose(closed_form(env, *given), exact, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("reward", MODELS)
def test_enumeration_equals_a_slow_sum(reward, rng):
    """A second enumeration, one ranking and one position at a time, straight from the formulas."""
    env = random(5, reward=reward, K=3, actions=2, context_policies=True)
    context, seen = rng.standard_normal((2, 1, env.d))
    p = distribution(env, context, "target")[0]
    base, chance = base_reward(env, seen)[0], behavior_probability(env, context)[0]
    expected = np.zeros(3)
    for a in np.ndindex(2, 2, 2):
        for z, k in np.ndindex(env.M, 3):
            near = [j for j in range(3) if j != k and env.masks[z, k, j]]
            pair = sum(env.interaction[a[k], a[j]] for j in near)
            q = base[a[k]] * np.exp(pair) if reward == "multiplicative" else base[a[k]] + pair
            if reward == "triple":
                q += sum(env.triple[a[k], a[i], a[j]] for i in near for j in near if i < j)
            if reward == "binary":
                q = 1 / (1 + np.exp(-q))
            expected[k] += p[list(a)].prod() * chance[z] * q
    found = enumeration(env, p[None], base[None], chance[None])[0]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "method"),
    [
        (random(1, reward="triple", K=5, actions=10, context_policies=True), "closed form"),
        (random(2, reward="multiplicative", K=4, actions=3), "closed form"),
        (random(3, reward="binary", K=6, actions=4, context_policies=True), "on-policy sample"),
        (random(4, form="paper", K=4), "closed form"),
        (real_world(), "enumeration"),
    ],
    ids=lambda item: item if isinstance(item, str) else f"{item.name}-{item.reward_model}",
)
@pytest.mark.parametrize("policy", ["target", "logging"])
def test_truth_agrees_with_simulated_rewards(env, method, policy, rng):
    truth = true_value(env, policy)
    assert truth.method == method
    assert truth.stderr <= 2e-3 * abs(truth.value)
    n = 40_000
    log = env.draw(n, rng, policy=policy)
    z = (log.reward.mean(axis=0) - truth.by_position) / np.hypot(
        log.reward.std(axis=0) / np.sqrt(n), truth.by_position_stderr
    )
    # 10 cases of at most 6 positions: |z| < 5 gives a false alarm with probability below 1e-4
    assert np.abs(z).max() < 5


def test_truth_depends_on_what_was_asked():
    env = random(2, reward="multiplicative", K=4, actions=3)
    coarse, fine = true_value(env, relative_error=0.05), true_value(env, relative_error=1e-4)
    assert fine.stderr <= coarse.stderr
    assert abs(coarse.value - fine.value) < 8 * np.hypot(coarse.stderr, fine.stderr)
    with pytest.raises(ConfigError, match="choose 'target' or 'logging'"):
        true_value(env, "both")  # type: ignore[arg-type]


def test_environments_that_differ_have_different_fingerprints():
    prints = {
        published().fingerprint,
        published(delta=0.5).fingerprint,
        published(sigma=0.4).fingerprint,
        random(0).fingerprint,
        random(1).fingerprint,
    }
    assert len(prints) == 5
    assert published().fingerprint == published().fingerprint


def order_two_mean(env, context, seen):
    """Return E_pi0[w_k r_k | x] for weights rho_k (1 + sum_{l != k} (rho_l - 1)), by enumeration:
    (K,).
    """
    p0, p1 = (distribution(env, context, which) for which in ("logging", "target"))
    base, chance = base_reward(env, seen), behavior_probability(env, context)[0]
    total = np.zeros(env.K)
    for ranking in np.ndindex((env.A,) * env.K):
        action = np.array([ranking])
        rho = p1[0, list(ranking)] / p0[0, list(ranking)]
        weight = rho * (1 + (rho - 1).sum() - (rho - 1))
        chance_of_ranking = p0[0, list(ranking)].prod()
        for z in range(env.M):
            q = expected_reward(env, action, np.array([z]), base)[0]
            total += chance_of_ranking * chance[z] * weight * q
    return total


@pytest.mark.parametrize("reward", MODELS)
def test_order_two_weights_are_exact_for_pairs_only(reward, rng):
    """The harder reward models must be harder: order 2 is exact for pairs and must fail for the
    rest.
    """
    env = random(7, reward=reward, K=4, actions=2, context_policies=True, delta=0.9)
    context, seen = rng.standard_normal((2, 1, env.d))
    given = distribution(env, context, "target"), base_reward(env, seen)
    exact = enumeration(env, *given, behavior_probability(env, context))[0]
    gap = np.abs(order_two_mean(env, context, seen) - exact)
    if reward == "pairwise":
        assert gap.max() < 1e-12
    else:
        assert gap.max() > 1e-3
