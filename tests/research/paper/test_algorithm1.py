"""Algorithm 1 as the paper's figures were made: its published error comes out again."""

import numpy as np

from counterrank.estimators.weights.ratios import ratios_of
from counterrank.research.paper.replay import (
    RandomGrowth,
    RandomTree,
    logged_contributions,
    oracle_assignment,
    replay_run,
)
from counterrank.research.simulate import published

RUNS = 40


def one_run(env, n, seed):
    run = replay_run(env, n, seed)
    log = run.log.to_log()
    chosen = oracle_assignment(run, log)
    return float((chosen.weights(log, ratios_of(log, "new")) * log.reward).sum(axis=1).mean())


def test_published_error_of_aips_at_one_thousand_rankings():
    """Published at n=1k, K=8, delta=.6: MSE .0476, squared bias .035, variance .0124 (over V^2,
    read off a plot).
    """
    env = published()
    estimates = np.array([one_run(env, 1000, seed) for seed in range(RUNS)])
    value = np.mean([replay_run(env, 1000, seed).value().sum() for seed in range(RUNS)])
    squared = ((estimates - value) / value) ** 2
    error = squared.std(ddof=1) / np.sqrt(RUNS)
    # Five standard errors of our own mean; the published one, over 300 runs, adds a third of that.
    assert abs(squared.mean() - 0.0476) < 5 * 1.07 * error
    assert squared.mean() < 0.1  # IPS has 1.18 here, RIPS .125
    assert (
        -0.30 < estimates.mean() / value - 1 < -0.08
    )  # optimism: published squared bias .035 is 19 %


def test_nearly_every_node_splits_as_in_the_original():
    run = replay_run(published(), 1000, 0)
    log, view = run.log.to_log(), run.oracle()
    y = logged_contributions(log, run.env.masks)
    tree = RandomTree(
        (log.context, view.context), y[0], view.contributions[0], float(view.values[0]),
        RandomGrowth(), np.random.RandomState(0),
    )  # fmt: skip
    assert len(tree.nodes) > 5
