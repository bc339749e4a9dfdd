"""The probability of a set is a marginal; walking over its items and skipping the rest is something
else.
"""

import itertools

import numpy as np
import pytest

from counterrank.policies import PlackettLuce, subset_log_ratio

A, K = 6, 4
EVERY = np.array(list(itertools.permutations(range(A), K)))
BEHAVIORS = {
    "independent": np.eye(K, dtype=bool),
    "cascade": np.tri(K, dtype=bool),
    "inverse cascade": np.tri(K, dtype=bool).T,
    "neighbour": np.abs(np.subtract.outer(np.arange(K), np.arange(K))) <= 1,
}


def skip_log_prob(policy, items, masks):
    """The masked items as if they filled places 1..m: what must not be used."""
    out = np.empty((len(items), len(masks)))
    for j, mask in enumerate(masks):
        out[:, j] = policy.prefix_log_prob(items[:, mask])[:, -1]
    return out


def expected_bias(masks, log_weights, logging, target, reward):
    """Largest relative error over positions of E[w_k r_k] under logging, exactly, where r_k depends
    on mask k only.
    """
    p0 = np.exp(logging.prefix_log_prob(EVERY)[:, -1])
    p1 = np.exp(target.prefix_log_prob(EVERY)[:, -1])
    truth = p1 @ reward
    return np.abs(p0 @ (np.exp(log_weights) * reward) / truth - 1).max()


@pytest.mark.parametrize("behavior", BEHAVIORS)
def test_marginals_are_unbiased_and_skipping_is_not(behavior):
    masks = BEHAVIORS[behavior]
    rng = np.random.default_rng(17)
    skipped = []
    for _ in range(5):
        logging, target = (
            PlackettLuce(rng.normal(size=(1, A))),
            PlackettLuce(rng.normal(size=(1, A)) * 1.5),
        )
        reward = np.empty((len(EVERY), K))
        for k, mask in enumerate(masks):
            _, group = np.unique(EVERY[:, mask], axis=0, return_inverse=True)
            reward[:, k] = rng.exponential(size=group.max() + 1)[group.reshape(-1)]
        ours, _ = subset_log_ratio(logging, target, EVERY, masks)
        assert expected_bias(masks, ours, logging, target, reward) < 1e-12
        naive = skip_log_prob(target, EVERY, masks) - skip_log_prob(logging, EVERY, masks)
        skipped.append(expected_bias(masks, naive, logging, target, reward))
    if behavior == "cascade":
        assert max(skipped) < 1e-12  # prefixes skip nothing
    else:
        assert max(skipped) > 0.5
