"""Every registered policy keeps the contract, a new one by being registered; a well-known wrong
marginal is caught.
"""

import inspect

import numpy as np
import pytest

from counterrank import policies
from counterrank.policies.base import SubsetResult
from counterrank.policies.storage import kinds, policy_class
from counterrank.testing import check_policy

SCORES = np.array([[0.3, -1.0, 0.8, 0.1], [2.0, 0.0, 0.0, -1.0]])
RANKINGS = np.array([[2, 0, 1, 3], [1, 3, 0, 2]])
TABLE = np.array([[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1]])

#: What a constructor's arguments are given, by their names.
ARGUMENTS = {
    "scores": SCORES,
    "ranking": RANKINGS,
    "probs": TABLE,
    "n_actions": 4,
    "after": 1,
    "n_items": 4,
    "top": 3,
    "weights": 0.7,
    "first": RANKINGS,
    "second": RANKINGS[:, ::-1],
    "components": [policies.PlackettLuce(SCORES), policies.PlackettLuce(-SCORES)],
}
#: Kinds whose arguments mean something else than these names say.
OWN = {
    "Mixture": lambda: policies.Mixture(ARGUMENTS["components"], [0.7, 0.3]),
    "Enumerated": lambda: policies.Enumerated.from_lists(
        [[[0, 1, 2], [3, 2, 1]], [[1, 0, 3]]], [[0.25, 0.75], [1.0]], np.array([0, 1]), n_actions=4
    ),
}


def example(kind):
    """Return a small policy of a kind, made from the names of its arguments."""
    if kind in OWN:
        return OWN[kind]()
    given = {}
    for name, parameter in inspect.signature(policy_class(kind)).parameters.items():
        if name in ARGUMENTS and parameter.kind != inspect.Parameter.KEYWORD_ONLY:
            given[name] = ARGUMENTS[name]
        elif parameter.default is inspect.Parameter.empty:
            pytest.fail(
                f"the registered policy {kind} has no example here: add its argument '{name}'"
            )
    return policy_class(kind)(**given)


@pytest.mark.parametrize("kind", kinds())
def test_registered_policy_keeps_the_contract(kind):
    check_policy(example(kind), length=3, rng=np.random.default_rng(11))


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


class Forgetful(policies.Softmax):
    """Draws what it does not say."""

    def sample(self, length, rng, *, size=1):
        return rng.integers(0, self.n_actions, (self.n_rows, size, length))


def test_wrong_draws_are_caught():
    with pytest.raises(AssertionError, match="draws do not follow"):
        check_policy(Forgetful(SCORES), length=2, rng=np.random.default_rng(1))


class Boastful(policies.Softmax):
    """Offers what nobody asks for."""

    capabilities = policies.Softmax.capabilities | {"subsets"}


def test_unknown_capabilities_are_caught():
    with pytest.raises(
        AssertionError, match="Boastful has unknown capabilities: subsets; known: dist, joint"
    ):
        check_policy(Boastful(SCORES), length=2, rng=np.random.default_rng(1))


def test_many_rows_and_too_many_rankings():
    from counterrank.common.errors import PolicyError

    check_policy(
        policies.PlackettLuce(np.tile(SCORES[:1], (100_000, 1))),
        length=2,
        rng=np.random.default_rng(1),
    )
    with pytest.raises(
        PolicyError, match="30 actions at 4 positions make 657,720 rankings, too many to list"
    ):
        check_policy(
            policies.PlackettLuce(np.zeros((1, 30))), length=4, rng=np.random.default_rng(1)
        )
