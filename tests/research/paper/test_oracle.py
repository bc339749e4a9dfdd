"""The published oracle-assisted tree: kernels against plain NumPy, trees against the authors',
errors as published.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from counterrank.common.errors import ConfigError
from counterrank.research.bench import methods, published_trial, run_trial, simulated_trial
from counterrank.research.paper.figures import Setting
from counterrank.research.paper.replay import (
    RandomGrowth,
    RandomTree,
    logged_contributions,
    replay_run,
)
from counterrank.research.paper.results import published as value_in_print
from counterrank.research.simulate import preset, published

GOLDEN = Path(__file__).resolve().parents[4] / "shared" / "golden"


def naive_tree(y, context, fresh, fresh_context, value, settings, rng):
    """Algorithm 1 as published, row by row: nodes (model, feature, threshold) and the model of each
    row.

    y (M, n) and fresh (M, N) are contributions; the current assignment is kept as a vector of
    contributions.
    """
    (M, n), N, d = y.shape, fresh.shape[1], context.shape[1]

    def noisy(mean):
        bias = mean - value
        return (bias + np.abs(bias) * settings.noise * rng.standard_normal(np.shape(bias))) ** 2

    variance = y.var(axis=1, ddof=1) / n
    root = int(np.argmin(noisy(fresh.mean(axis=1)) + variance))
    own, new, choice = y[root].copy(), fresh[root].copy(), np.full(n, root)
    nodes, stack = [[root, -1, np.nan]], [(0, np.arange(n), np.arange(N), 0)]
    while stack:
        node, rows, simulated, depth = stack.pop()
        if depth == settings.max_depth or len(rows) < 2 * settings.min_leaf:
            continue
        best, found = noisy(new.mean()) + max(own.var(ddof=1) / n, variance[-1]), None
        least = settings.min_leaf / len(rows)
        features = rng.choice(d, size=settings.partitions)
        shares = rng.uniform(least, 1 - least, size=settings.partitions)
        for s in np.argsort(features, kind="stable"):
            f, ordered = features[s], np.sort(context[rows, features[s]])
            rank = int(shares[s] * len(rows))
            cut = (ordered[rank - 1] + ordered[rank]) / 2
            sides = [
                (r[c[r, f] < cut], r[c[r, f] >= cut])
                for r, c in ((rows, context), (simulated, fresh_context))
            ]
            means, variances = np.empty((M, M)), np.empty((M, M))
            for a in range(M):
                for b in range(M):
                    trial_own, trial_new = own.copy(), new.copy()
                    trial_own[sides[0][0]], trial_own[sides[0][1]] = (
                        y[a, sides[0][0]],
                        y[b, sides[0][1]],
                    )
                    trial_new[sides[1][0]], trial_new[sides[1][1]] = (
                        fresh[a, sides[1][0]],
                        fresh[b, sides[1][1]],
                    )
                    means[a, b], variances[a, b] = trial_new.mean(), trial_own.var(ddof=1) / n
            scores = noisy(means) + np.maximum(variances, variance[-1])
            if scores.min() <= best:
                best, found = (
                    scores.min(),
                    (f, cut, sides, np.unravel_index(scores.argmin(), scores.shape)),
                )
        if found is None:
            continue
        f, cut, sides, models = found
        nodes[node][1:] = int(f), cut
        for side, model in enumerate(models):
            own[sides[0][side]], new[sides[1][side]] = (
                y[model, sides[0][side]],
                fresh[model, sides[1][side]],
            )
            choice[sides[0][side]] = model
            nodes.append([int(model), -1, np.nan])
            stack.append((len(nodes) - 1, sides[0][side], sides[1][side], depth + 1))
    return nodes, choice


@pytest.mark.parametrize("ties", [False, True])
def test_growth_is_the_naive_one(ties):
    rng = np.random.default_rng(5)
    n, N, M, settings = 400, 3000, 3, RandomGrowth(min_leaf=30, max_depth=3, partitions=12)
    context, fresh_context = rng.standard_normal((n, 4)), 1.5 * rng.standard_normal((N, 4))
    if ties:  # fresh rows exactly on cuts, and beyond every logged row
        fresh_context = np.round(fresh_context, 1)
        context = np.round(context, 1) + 1e-3 * rng.permutation(n)[:, None] / n
    y = rng.gamma(1.0, size=(M, n)) * (1 + context[:, 0])
    fresh = rng.gamma(1.0, size=(M, N)).astype(np.float32) * (1 + fresh_context[:, 0]).astype(
        np.float32
    )

    generator = np.random.RandomState
    for seed in range(3):
        tree = RandomTree((context, fresh_context), y, fresh, 1.02, settings, generator(seed))
        nodes, expected = naive_tree(
            y, context, fresh.astype(float), fresh_context, 1.02, settings, generator(seed)
        )
        assert len(nodes) > 5
        np.testing.assert_array_equal(tree.choice, expected)
        np.testing.assert_allclose(tree.nodes, nodes, rtol=1e-15)


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="the authors' data sets are not here")
@pytest.mark.parametrize("name", ["n1000_k8", "n1000_k4"])
def test_the_authors_trees_grow_again(name):
    with np.load(GOLDEN / f"{name}.npz") as gold:
        seed, K = int(gold["seed"]), int(gold["K"])
        run = replay_run(published(K), int(gold["n"]), seed)
        log, view = run.log.to_log(), run.oracle()
        np.testing.assert_allclose(view.values, gold["value_per_position_on_policy"], rtol=1e-14)
        y = logged_contributions(log, run.env.masks)
        rng, contexts = np.random.RandomState(seed), (log.context, view.context)
        grown = [
            RandomTree(contexts, y[k], view.contributions[k], view.values[k], RandomGrowth(), rng)
            for k in range(K)
        ]
        np.testing.assert_array_equal(
            np.stack([tree.choice for tree in grown], axis=1), gold["assignment"]
        )
        model, feature, threshold = np.concatenate([tree.nodes for tree in grown]).T
        table = np.column_stack([model, feature >= 0, feature, threshold])
        np.testing.assert_allclose(table, gold["tree_nodes"][:, 2:], rtol=1e-14)
        chosen = [y[k][tree.choice, np.arange(log.n)].mean() for k, tree in enumerate(grown)]
        assert sum(chosen) == pytest.approx(gold["est"][-1], rel=1e-13)


@pytest.mark.slow
def test_the_published_runs_have_the_published_error():
    """The same runs, so not up to chance: as well as the plot can be read (n = 1000: bias and
    variance to 2 %).
    """
    estimates, truths = [], []
    for seed in range(300):
        drawn = published_trial(Setting(n=1000), seed)
        estimates.append(run_trial(drawn, methods(["aips (oracle)"]))[0]["value"])
        truths.append(drawn.truth)
    errors = np.array(estimates) / np.mean(truths) - 1
    found = {
        "mse": (errors**2).mean(),
        "squared_bias": errors.mean() ** 2,
        "variance": errors.var(),
    }
    for metric, value in found.items():
        assert value == pytest.approx(
            value_in_print("data-size", metric, "aips (oracle)", 1000), rel=0.02
        )


def test_a_run_tells_its_oracle_the_same_at_every_call():
    first, second = (replay_run(published(4), 500, seed) for seed in (0, 1))
    assert (first.oracle().context[0] != second.oracle().context[0]).all()
    np.testing.assert_array_equal(first.oracle().contributions, first.oracle().contributions)


def test_noise_levels_share_one_view():
    drawn = published_trial(Setting(n=400, K=4), 3)
    rows = run_trial(drawn, methods(["aips (oracle)", "aips (oracle .1)", "aips (oracle .3)"]))
    assert rows[0]["value"] == rows[2]["value"] != rows[1]["value"]


def test_only_published_runs_have_an_oracle():
    trial = simulated_trial(preset("random", K=3, seed=3), 200, 0)
    with pytest.raises(ConfigError, match="is told the truth of published runs; this is none"):
        run_trial(trial, methods(["aips (oracle)"]))
    with pytest.raises(ConfigError, match="is told the truth of simulated worlds"):
        run_trial(replace(trial, values=None), methods(["aips (truth)"]))
    (row,) = run_trial(trial, methods(["aips (truth)"]))
    assert np.isfinite(row["value"])
