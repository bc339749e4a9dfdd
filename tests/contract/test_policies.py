"""Every registered policy keeps the contract; a policy with the well-known wrong marginal is caught."""

import numpy as np
import pytest

from counterrank import policies
from counterrank.policies.base import SubsetResult
from counterrank.testing import check_policy

SCORES = np.array([[0.3, -1.0, 0.8, 0.1], [2.0, 0.0, 0.0, -1.0]])


def small_policies():
    rng = np.random.default_rng(3)
    yield "softmax", policies.Softmax(SCORES, temperature=0.7)
    yield "epsilon-greedy", policies.EpsilonGreedy(SCORES, epsilon=0.3)
    yield "uniform", policies.Uniform(3)
    yield "plackett-luce", policies.PlackettLuce(SCORES)
    yield "uniform-permutation", policies.UniformPermutation(4)
    yield "slot-epsilon-greedy", policies.SlotEpsilonGreedy(SCORES, epsilon=0.2)
    yield "mixture", policies.Mixture([policies.PlackettLuce(SCORES), policies.PlackettLuce(-SCORES)], [0.7, 0.3])
    yield "deterministic", policies.Deterministic(rng.permutation(4)[None, :3], n_actions=4)


@pytest.mark.parametrize("policy", [pytest.param(policy, id=name) for name, policy in small_policies()])
def test_policy_keeps_the_contract(policy):
    check_policy(policy, length=3, rng=np.random.default_rng(11))


class Skipping(policies.PlackettLuce):
    """Takes the unmasked positions out of the race: the wrong marginal of published code."""

    def subset_log_prob(self, actions, masks, **options):
        columns = []
        for mask in np.asarray(masks):
            columns.append(self.prefix_log_prob(actions[:, mask])[:, -1])
        log_prob = np.stack(columns, axis=1)
        return SubsetResult(log_prob, np.zeros_like(log_prob))


def test_the_skip_probability_is_caught():
    with pytest.raises(AssertionError, match="P\\["):
        check_policy(Skipping(SCORES), length=3, rng=np.random.default_rng(1))
