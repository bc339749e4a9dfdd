"""Algorithm 1 as printed and the search of the authors' code, against searches written out on rows."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import counterrank as cr
from counterrank.common.errors import ConfigError
from counterrank.estimators.behavior import BehaviorTree, TreeLimits
from counterrank.estimators.behavior.estimates import mse_estimate
from counterrank.estimators.behavior.growth import Grower, TreeRows
from counterrank.estimators.behavior.random_growth import PrintedGrower, PublishedGrower
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


def mse(position, objective, choice):
    """Return Var(V) + (V - value)^2 of an assignment (n,), written out on rows."""
    y = position.y[np.arange(position.n_grow), choice]
    second = (y**2 * position.tails[choice]).mean()
    return max(second - y.mean() ** 2, 0.0) / position.n_apply + (y.mean() - objective.value) ** 2


def random_partitions(codes, rows, least, rng):
    """Return ten random divisions of a node (n,): a uniformly drawn feature, then a cut of it."""
    cuts = []
    for f in range(len(codes)):
        sides = [rows & (codes[f] <= b) for b in np.unique(codes[f][rows])[:-1]]
        cuts.append([s for s in sides if s.sum() >= least and (rows & ~s).sum() >= least])
    features = np.array([f for f in range(len(codes)) if cuts[f]])
    # `choice` of an array draws an index by `integers`, so that the same partitions are drawn here.
    drawn = rng.choice(features, size=10) if len(features) else []
    return [cuts[f][rng.integers(len(cuts[f]))] for f in drawn]


def algorithm_1(position, objective, limits, rng):
    """Return the model of each row (n,) and the number of splits: the listing, line by line, on rows.

    MSE(c; l) is the MSE of the whole assignment, whatever the other nodes have by then.
    """
    codes, n, models = position.data.codes, position.n_grow, range(position.models)
    least, splits = limits.leaf_rows(n), 0
    choice = np.zeros(n, dtype=int)  # C, as the model of each row
    waiting = [(np.ones(n, dtype=bool), 1)]  # L, with the depth of each node
    while waiting:
        rows, depth = waiting.pop(0)
        # Line 5: the best model of the node, and its MSE; a tie leaves the model as it is.
        minimum, subsets = mse(position, objective, choice), None
        for m in models:
            value = mse(position, objective, np.where(rows, m, choice))
            if strictly_lower(value, minimum):
                minimum, choice = value, np.where(rows, m, choice)
        if depth > limits.max_depth or rows.sum() < 2 * least:
            continue
        # Lines 7 to 13: S random partitions, the best pair of models for each.
        for left in random_partitions(codes, rows, least, rng):
            right = rows & ~left
            for a, b in itertools.product(models, models):
                assigned = np.where(left, a, np.where(right, b, choice))
                value = mse(position, objective, assigned)
                if strictly_lower(value, minimum):
                    minimum, subsets = value, (left, right, assigned)
        # Lines 14 to 20: the node stays whole, or its sides are visited in turn.
        if subsets is not None:
            left, right, choice = subsets
            splits += 1
            waiting += [(left, depth + 1), (right, depth + 1)]
    return choice, splits


def strictly_lower(value, minimum):
    """Return whether a score is lower by more than rounding."""
    return value < minimum * (1 - 1e-10)


@pytest.mark.parametrize("half", [False, True], ids=["rewards", "half without rewards"])
@pytest.mark.parametrize("seed", range(4))
def test_the_printed_tree_is_that_of_the_listing(log, seed, half):
    """Where half of the contexts have no reward, splits among them leave the MSE equal: none is strictly lower."""
    if half:
        log = log.changed(reward=log.reward * (log.context[:, :1] < 0))
    position = position_of(log)
    # A value between the estimates of the models: mixtures come nearer to it, so that trees are deep.
    means, data = position.y.mean(axis=0), position.data
    value = 0.7 * means.min() + 0.3 * means.max()
    objective = replace(mse_estimate("pairs").objective(position), value=value)
    limits = TreeLimits(max_depth=4)
    choice, splits = algorithm_1(position, objective, limits, np.random.default_rng(seed))
    grower = PrintedGrower(
        objective, limits, data.bins.most, data.bins.categorical, rng=np.random.default_rng(seed)
    )
    root = grower.grow(TreeRows.from_objective(objective, position.y, data.codes))
    assert splits >= 1
    assert grower.leaves == splits + 1
    np.testing.assert_array_equal(models_of_rows(root, data.codes), choice)
    assert grower.objective.score(grower.totals) == pytest.approx(
        mse(position, objective, choice), rel=1e-8
    )


def models_of_rows(group, codes):
    """Return the model of each row (n,) by the splits of a tree."""
    if not group.sides:
        return np.full(codes.shape[1], group.model)
    left, right = (models_of_rows(side, codes) for side in group.sides)
    return np.where(group.goes_left[codes[group.feature]], left, right)


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
