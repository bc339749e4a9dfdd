"""Algorithm 1: as the paper's figures were made, its published error comes out again; as printed, it
follows the listing line by line.
"""

import numpy as np

from counterrank.research.bench import methods, run_trial
from counterrank.research.paper import figures
from counterrank.research.paper.algorithm1 import (
    PublishedOracle,
    RandomGrowth,
    RandomTree,
    logged_contributions,
)
from counterrank.research.paper.figures import OracleForm
from counterrank.research.paper.replay import replay_run
from counterrank.research.paper.results import published as value_in_print
from counterrank.research.paper.runner import draw_trial
from counterrank.research.simulate import published
from counterrank.weights.ratios import ratios_of

RUNS = 40


def one_run(env, n, seed):
    run = replay_run(env, n, seed)
    log = run.log.to_log()
    chosen = PublishedOracle(env, seed, (), run).assignment(log, OracleForm())
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


def naive_text_tree(y, context, fresh, fresh_context, value, settings, rng):
    """Algorithm 1 as printed, row by row: nodes (model, feature, threshold), the model of each row.

    y (M, n) and fresh (M, N) are contributions; every loss is that of the whole assignment.
    """
    (M, n), N, d = y.shape, fresh.shape[1], context.shape[1]
    choice, simulated_choice = np.zeros(n, dtype=int), np.zeros(N, dtype=int)

    def loss(own, new, normal):
        bias = fresh[new, np.arange(N)].mean() - value
        variance = y[own, np.arange(n)].var(ddof=1) / n
        return (bias + abs(bias) * settings.noise * normal) ** 2 + variance

    def given(rows, simulated, models):
        own, new = choice.copy(), simulated_choice.copy()
        for r, s, model in zip(rows, simulated, models, strict=True):
            own[r], new[s] = model, model
        return own, new

    nodes, stack = [[0, -1, np.nan]], [(0, np.arange(n), np.arange(N), 0)]
    while stack:
        node, rows, simulated, depth = stack.pop()
        normal = rng.standard_normal(M)  # line 5
        losses = [loss(*given([rows], [simulated], [m]), normal[m]) for m in range(M)]
        best, model, found = min(losses), int(np.argmin(losses)), None
        nodes[node][0] = choice[rows] = simulated_choice[simulated] = model
        if depth == settings.max_depth or len(rows) < 2 * settings.min_leaf:
            continue
        least = settings.min_leaf / len(rows)
        features = rng.integers(0, d, size=settings.partitions)
        shares = rng.uniform(least, 1 - least, size=settings.partitions)
        order = np.argsort(features, kind="stable")
        normals = rng.standard_normal((settings.partitions, M, M))
        for s, at in enumerate(order):  # lines 7 to 13
            f, ordered = features[at], np.sort(context[rows, features[at]])
            rank = int(shares[at] * len(rows))
            cut = (ordered[rank - 1] + ordered[rank]) / 2
            left, right = (context[rows, f] < cut), (fresh_context[simulated, f] < cut)
            sides = [(rows[left], rows[~left]), (simulated[right], simulated[~right])]
            for pair in np.ndindex(M, M):
                now = loss(*given(*sides, pair), normals[s][pair])
                if now < best:  # line 10, strictly
                    best, found = now, (int(f), cut, sides, pair)
        if found is not None:
            nodes[node][1:], (mine, theirs), models = found[:2], found[2], found[3]
            choice, simulated_choice = given(mine, theirs, models)
            nodes += [[model, -1, np.nan] for model in models]
            places = (len(nodes) - 2, len(nodes) - 1)
            stack += list(zip(places, mine, theirs, [depth + 1] * 2, strict=True))
    return nodes, choice


def test_the_listing_is_followed_line_by_line():
    rng = np.random.default_rng(8)
    n, N, M = 240, 700, 3
    settings = RandomGrowth(min_leaf=20, max_depth=3, partitions=6, algorithm="text")
    context, fresh_context = rng.standard_normal((n, 2)), rng.standard_normal((N, 2))
    y = rng.gamma(1.0, size=(M, n)) * (1 + context[:, 0])
    fresh = (rng.gamma(1.0, size=(M, N)) * (1 + fresh_context[:, 0])).astype(np.float32)
    anew = 0
    for seed in range(4):
        tree = RandomTree(
            (context, fresh_context), y, fresh, 1.02, settings, np.random.default_rng(seed)
        )
        nodes, expected = naive_text_tree(
            y, context, fresh.astype(float), fresh_context, 1.02, settings,
            np.random.default_rng(seed),
        )  # fmt: skip
        np.testing.assert_array_equal(tree.choice, expected)
        np.testing.assert_allclose(tree.nodes, nodes, rtol=1e-15)
        anew += len(nodes)
    assert anew > 12  # there is something to compare


def test_text_and_code_stand_side_by_side():
    assert OracleForm.of("aips (oracle .5, text)") == OracleForm(0.5, "text")
    assert OracleForm.of("aips (true)") is None
    assert value_in_print("data-size", "mse", "aips (oracle, text)", 1000) == 0.0476
    trial = draw_trial("published", figures.Setting(n=400, K=4), 3)
    names = ("aips (oracle)", "aips (oracle, text)")
    values = [row["value"] for row in run_trial(trial, methods(names))]
    assert len(set(values)) == 2 and np.isfinite(values).all()
