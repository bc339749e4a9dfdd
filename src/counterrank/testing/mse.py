"""Laws every MSE estimate keeps."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.data.log import RankingLog
from counterrank.estimators.behavior import (
    BehaviorTree,
    MSEEstimate,
    Objective,
    Position,
    candidates,
)
from counterrank.testing.spaces import drawn_log, space


def check_mse_estimate(
    estimate: MSEEstimate,
    *,
    seed: int = 0,
    doubled: MSEEstimate | None = None,
    detects: bool = True,
) -> None:
    """Raise AssertionError unless `estimate` keeps the contract.

    It has a name; its objective is well-formed and does not touch what it is given; trees grown with
    it are the same for the same seed and for doubled rewards (`doubled` is the estimate to use then,
    where it holds values). `detects` adds: where interaction is strong and rows are many, the model
    without it is never chosen.
    """
    assert estimate.name and isinstance(estimate.name, str), "an MSE estimate needs a name"
    log, models = interacting_log(np.random.default_rng(seed)), candidates(3, ["S", "I"])

    def watched(position: Position) -> Objective:
        """Return the estimate's objective, given arrays that cannot be written to."""
        for array in (position.tails, position.y):
            array.setflags(write=False)
        objective = estimate.objective(position)
        assert objective.position is position, "models or rows were lost"
        assert np.isfinite(objective.rule).all() and np.isfinite(objective.targets).all(), (
            "the scoring rule is not finite"
        )
        return objective

    def assigned(mse: Any, log: RankingLog) -> NDArray[np.int64]:
        tree = BehaviorTree(candidates=models, mse=mse).fit(log, "new", seed=seed)
        return tree.assign(log.context, log.n)

    first = assigned(SimpleNamespace(name=estimate.name, objective=watched), log)
    assert np.array_equal(assigned(estimate, log), first), "two trees with one seed differ"
    # An MSE has the unit of rewards squared: a tree that changes with the unit has a threshold in
    # it.
    twice = assigned(doubled or estimate, replace(log, reward=2.0 * log.reward))
    assert np.array_equal(twice, first), "the tree for doubled rewards is another"
    alone = [m.name for m in models].index("I")
    assert not detects or not (first == alone).any(), (
        "strong interaction, 4000 rows, and the model without it was chosen"
    )


def interacting_log(rng: np.random.Generator) -> RankingLog:
    """Return 4000 rankings in which every reward depends strongly on all items: 6 more when no two are the same.

    All rows share one context, so that the biases of two groups cannot cancel.
    """
    world = space(rng, contexts=1)
    distinct = np.array([len(set(ranking)) == len(ranking) for ranking in world.rankings.tolist()])
    strong = replace(world, quality=world.quality + 6.0 * distinct[None, :, None])
    return drawn_log(strong, 4000, rng)
