"""Algorithm 1 as printed and the search of the authors' code, against searches written out on rows."""

import numpy as np
import pytest

import counterrank as cr
from counterrank.common.errors import ConfigError
from counterrank.estimators.behavior import BehaviorTree, TreeLimits
from counterrank.estimators.behavior.estimates import mse_estimate
from counterrank.estimators.behavior.growing import Grower, TreeRows
from counterrank.estimators.behavior.random_growing import PrintedGrower, PublishedGrower
from counterrank.estimators.behavior.training import Position
from counterrank.research.simulate import random

NAMES = ["S", "C", "I"]


@pytest.fixture(scope="module")
def log():
    return random(3, K=4, form="paper").draw(1500, np.random.default_rng(0)).to_log()


def position_of(log, k=2):
    tree = BehaviorTree(candidates=cr.candidates(log.K, NAMES))
    data = tree.training_set(log, "new", seed=0)
    return Position(data, k, log.n)


def drawn_splits(log, codes, bins, least, rng, count):
    """Return the random partitions of all rows as masks of the left side, drawn in the grower's order."""
    sides = {}
    for f in range(len(codes)):
        left = [codes[f] <= b for b in range(1, bins)]
        sides[f] = [s for s in left if s.sum() >= least and (~s).sum() >= least]
        sides[f] = [s for i, s in enumerate(sides[f]) if not i or (s != sides[f][i - 1]).any()]
    features = np.array([f for f in sides if sides[f]])
    return [sides[f][rng.integers(len(sides[f]))] for f in rng.choice(features, size=count)]


def mse(position, objective, choice):
    """Return Var(V) + (V - value)^2 of an assignment (n,), written out on rows."""
    y = position.y[np.arange(position.n_grow), choice]
    second = (y**2 * position.tails[choice]).mean()
    return max(second - y.mean() ** 2, 0.0) / position.n_apply + (y.mean() - objective.value) ** 2


@pytest.mark.parametrize("seed", range(6))
def test_the_printed_split_of_the_root_is_the_best_of_the_drawn_partitions(log, seed):
    """One level of Algorithm 1 by brute force: the same partitions, every pair of models, strictly lower."""
    position = position_of(log)
    data, objective = position.data, mse_estimate("pairs").objective(position)
    limits = TreeLimits(max_depth=1)
    grower = PrintedGrower(
        objective, limits, data.bins.most, data.bins.categorical, rng=np.random.default_rng(seed)
    )
    root = grower.grow(TreeRows.from_objective(objective, position.y, data.codes))
    M, n = position.models, log.n
    whole = [mse(position, objective, np.full(n, m)) for m in range(M)]
    best, split = min(whole), None
    # `choice` of an array draws an index by `integers`, so that the same partitions are drawn here.
    splits = drawn_splits(
        log, data.codes, data.bins.most, limits.leaf_rows(n), np.random.default_rng(seed), 10
    )
    for left in splits:
        for a in range(M):
            for b in range(M):
                value = mse(position, objective, np.where(left, a, b))
                if value < best * (1 - 1e-9):
                    best, split = value, (left, a, b)
    if split is None:
        assert not root.sides
        return
    assert root.score == pytest.approx(best, rel=1e-8)
    assert (root.sides[0].model, root.sides[1].model) == split[1:]
    assert root.sides[0].sums[0] == split[0].sum()


def test_a_random_search_is_never_better_than_the_exhaustive_one_at_the_root(log):
    position = position_of(log)
    data, objective = position.data, mse_estimate("pairs").objective(position)
    limits = TreeLimits(max_depth=1, min_gain=0.0)
    rows = TreeRows.from_objective(objective, position.y, data.codes)
    options = objective, limits, data.bins.most, data.bins.categorical
    best = Grower(*options).grow(rows).score
    for seed in range(5):
        printed = PrintedGrower(*options, rng=np.random.default_rng(seed)).grow(rows).score
        assert printed >= best * (1 - 1e-9)


def test_only_the_authors_code_splits_at_an_equal_score(log):
    """Without rewards every assignment has the score zero."""
    empty = log.changed(reward=np.zeros_like(log.reward))
    position = position_of(empty)
    data, objective = position.data, mse_estimate("pairs").objective(position)
    rows = TreeRows.from_objective(objective, position.y, data.codes)
    options = objective, TreeLimits(), data.bins.most, data.bins.categorical
    printed = PrintedGrower(*options, rng=np.random.default_rng(0)).grow(rows)
    published = PublishedGrower(*options, rng=np.random.default_rng(0)).grow(rows)
    assert not printed.sides and published.sides


def test_the_variance_of_the_authors_code_has_a_floor(log):
    """Below the variance of the last model on all rows no score falls, beside the squared bias."""
    position = position_of(log)
    data, objective = position.data, mse_estimate("pairs").objective(position)
    y = position.y[:, -1]
    floor = ((y**2).mean() * position.tails[-1] - y.mean() ** 2) / log.n
    grower = PublishedGrower(
        objective, TreeLimits(), data.bins.most, data.bins.categorical, rng=np.random.default_rng(1)
    )
    grower.grow(TreeRows.from_objective(objective, position.y, data.codes))
    assert grower.floor == pytest.approx(floor, rel=1e-9)
    assert grower.objective.score(grower.totals) >= floor * (1 - 1e-9)


@pytest.mark.parametrize("growth", ["printed", "published"])
def test_trees_are_selected_by_name_and_follow_the_seed(log, growth):
    tree = BehaviorTree(candidates=NAMES, growth=growth)
    first, second = (tree.fit(log, "new", seed=seed).assign(log.context) for seed in (0, 0))
    np.testing.assert_array_equal(first, second)
    assert np.isfinite(cr.AIPS(behavior=tree).estimate(log, "new").value)
    with pytest.raises(ConfigError, match="growth is one of exhaustive, printed, published"):
        BehaviorTree(growth="random")
