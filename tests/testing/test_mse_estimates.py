"""Every registered MSE estimate keeps the contract, and trees survive a round trip to disk; broken
ones are caught.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import counterrank as cr
from counterrank.estimators.behavior import Oracle
from counterrank.estimators.behavior.estimates import FEASIBLE, mse_estimate
from counterrank.testing import check_mse_estimate, random_log
from counterrank.testing.estimators import interacting_log

#: SLOPE tolerates a difference of 2 CNF of both estimates, four standard errors each: about 1.13 in
#: 4,000 rows at the last position, where the bias is 1.11.
ROWS = {"slope": 16_000}


@pytest.mark.parametrize("name", FEASIBLE)
def test_registered_estimate_keeps_the_contract(name):
    check_mse_estimate(mse_estimate(name), rows=ROWS.get(name, 4000))


def test_the_oracle_keeps_the_contract():
    log = interacting_log(np.random.default_rng(0))
    values = np.array([p.value for p in cr.IPS().estimate(log, "new").by_position])
    check_mse_estimate(Oracle(values=values), doubled=Oracle(values=2 * values))


@dataclass(frozen=True)
class Hopeful:
    """Believes that no model is biased: must be caught."""

    name: str = "hopeful"

    def objective(self, position):
        return replace(mse_estimate("pairs").objective(position), kappa=1e9)


def test_a_broken_estimate_is_caught():
    with pytest.raises(AssertionError, match="without it was chosen"):
        check_mse_estimate(Hopeful())


def test_a_tree_survives_a_round_trip(tmp_path):
    log = random_log(np.random.default_rng(4), n=600)
    tree = cr.BehaviorTree(candidates=cr.candidates(3, "generated")).fit(log, "new")
    tree.save(tmp_path / "tree.json")
    again = cr.BehaviorTree.load(tmp_path / "tree.json")
    assert np.array_equal(again.assign(log.context, log.n), tree.assign(log.context, log.n))
    assert again.describe() == tree.describe()
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "tree.json").read_bytes()
