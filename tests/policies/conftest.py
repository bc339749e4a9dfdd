"""Naive twins: every ranking of a small policy with its probability, straight from the definition."""

import itertools
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import pytest

from counterrank import policies as cp


def limited(policy, **limits):
    """The policy with other limits of states, draws and errors."""
    vars(policy).update(limits)
    return policy


def best_of_probs(probs, scores, m):
    """The probability (E,) that each of E rankings is the best of m draws; equals win in proportion.

    Rankings of one score are served with (F + p)^m - F^m, F the mass below and p theirs.
    """
    levels, group = np.unique(scores, return_inverse=True)
    mass = np.bincount(group, weights=probs, minlength=len(levels))
    up_to = np.cumsum(mass)
    won = up_to**m - np.concatenate([[0.0], up_to[:-1]]) ** m
    share = np.divide(won, mass, out=np.zeros_like(won), where=mass > 0)
    served = probs * share[group]
    # A sum that misses 1 by a rounding misses it m times as far once it is raised to m.
    return served / served.sum()


def listed_best_of(policy, length):
    """A best-of policy as a list of all its rankings, which answers every question."""
    rankings = np.array(list(itertools.permutations(range(policy.n_actions), length)))
    probs = np.empty((policy.n_rows, len(rankings)))
    for row in range(policy.n_rows):
        rows = np.full(len(rankings), row if policy.logger.n_rows > 1 else 0)
        base = np.exp(policy.logger.take(rows).prefix_log_prob(rankings)[:, -1])
        scores = policy.score(np.array([row]), rankings[None])[0]
        probs[row] = best_of_probs(base, scores, policy.m)
    every = np.broadcast_to(rankings, (policy.n_rows, *rankings.shape))
    return cp.Enumerated(every, probs, n_actions=policy.n_actions)


def by_steps(step, A, K, replacement=False):
    """All rankings of a policy given by step(prefix) -> probabilities of the next item."""
    table = {(): 1.0}
    for _ in range(K):
        longer = {}
        for prefix, p in table.items():
            for a, q in enumerate(step(prefix)):
                if q > 0 and (replacement or a not in prefix):
                    longer[(*prefix, a)] = p * q
        table = longer
    return table


def luce(scores):
    def step(prefix):
        mass = np.exp(scores - scores.max())
        mass[list(prefix)] = 0
        return mass / mass.sum()

    return step


def below_fold(scores, after):
    order = [int(a) for a in np.argsort(-scores, kind="stable") if scores[a] > -np.inf]

    def step(prefix):
        if len(prefix) < after:
            return np.eye(len(scores))[order[len(prefix)]]
        return luce(scores)(prefix)

    return step


def slot_epsilon(scores, epsilon):
    def step(prefix):
        left = [
            a for a in np.argsort(-scores, kind="stable") if a not in prefix and scores[a] > -np.inf
        ]
        probs = np.zeros(len(scores))
        probs[left] = epsilon / len(left)
        probs[left[0]] += 1 - epsilon
        return probs

    return step


def floored(scores, epsilon):
    """Softmax plus a uniform floor at each slot: no longer Plackett-Luce."""

    def step(prefix):
        left = np.ones(len(scores), bool)
        left[list(prefix)] = False
        return (1 - epsilon) * luce(scores)(prefix) + epsilon * left / left.sum()

    return step


def collect(pairs, K):
    table = defaultdict(float)
    for ranking, p in pairs:
        table[tuple(int(a) for a in ranking[:K])] += p
    return dict(table)


def swaps(base, weights, K, places=None):
    R = places or len(base)
    yield base, 1 - np.triu(weights, 1).sum()
    for i, j in itertools.combinations(range(R), 2):
        swapped = list(base)
        swapped[i], swapped[j] = swapped[j], swapped[i]
        yield swapped, weights[i, j]


def team_draft(first, second, K):
    """All coin paths, each team's pick in words."""
    for coins in itertools.product((0, 1), repeat=(K + 1) // 2):
        shown = []
        for coin in coins:
            for team in (coin, 1 - coin):
                pick = next((a for a in (first, second)[team] if a not in shown), None)
                if pick is not None:
                    shown.append(pick)
        yield shown, 0.5 ** len(coins)


def top_shuffled(base, n):
    orders = list(itertools.permutations(base[:n]))
    for order in orders:
        yield (*order, *base[n:]), 1 / len(orders)


def mixed(tables, weights):
    out = defaultdict(float)
    for table, weight in zip(tables, weights, strict=True):
        for ranking, p in table.items():
            out[ranking] += weight * p
    return dict(out)


def independent(probs, K):
    return by_steps(
        lambda prefix: probs if probs.ndim == 1 else probs[len(prefix)], probs.shape[-1], K, True
    )


def scored(spec, lists, scores):
    """The policy over candidates in a shuffled order, with scores taken from a table (n, A)."""
    sets = cp.Candidates.from_lists(lists, n_items=A)
    flat = np.concatenate([scores[i, row] for i, row in enumerate(lists)])
    return cp.parse_policy(spec).bind(candidates=sets, scores=flat)


def scored_cases(scores):
    """Every kind of spec over ragged candidates; a candidate of score -inf is one more way to be
    left out.
    """
    lists = [[4, 0, 2, 1, 3], [3, 1, 0, 2], [1, 4, 2, 0, 3]]
    table = np.full((N, A), -np.inf)
    for i, row in enumerate(lists):
        table[i, row] = scores[i, row]
    table[2, 4] = -np.inf
    orders = [[int(a) for a in np.argsort(-s, kind="stable") if s[a] > -np.inf] for s in table]
    even = np.triu(np.ones((K, K)), 1) / (K * (K - 1) / 2)
    soft = [np.exp(s - s.max()) / np.exp(s - s.max()).sum() for s in table]
    twins = {
        "plackett-luce:temperature=2": [by_steps(luce(s / 2), A, K) for s in table],
        "top": [{tuple(r[:K]): 1.0} for r in orders],
        "softmax": [independent(p, K) for p in soft],
        "epsilon:epsilon=0.3": [by_steps(slot_epsilon(s, 0.3), A, K) for s in table],
        "rand-top-n:n=3": [collect(top_shuffled(r, 3), K) for r in orders],
        "swap:probability=0.4": [collect(swaps(r[:K], 0.4 * even, K), K) for r in orders],
        "swap:probability=0.4,places=3": [
            collect(swaps(r[:K], 0.4 * np.triu(np.ones((3, 3)), 1) / 3, K, places=3), K)
            for r in orders
        ],
        "swap:probability=0.4,places=4,first=3": [
            collect([(r, 0.6), ([*r[:2], r[3], r[2]], 0.4)], K) for r in orders
        ],
        "shuffle": [by_steps(luce(np.where(s > -np.inf, 0.0, s)), A, K) for s in table],
        "below:after=2,temperature=2": [by_steps(below_fold(s / 2, 2), A, K) for s in table],
        "0.7*top+0.3*plackett-luce:temperature=2": [
            mixed([{tuple(r[:K]): 1.0}, by_steps(luce(s / 2), A, K)], [0.7, 0.3])
            for r, s in zip(orders, table, strict=True)
        ],
    }
    return [
        Case(f"scored-{spec}", scored(spec, lists, table), tables, storable=False)
        for spec, tables in twins.items()
    ]


@dataclass
class Case:
    """A policy of 3 rows over 5 items, and per row all rankings of 4 positions with probabilities."""

    name: str
    policy: object
    tables: list
    storable: bool = True
    sampled: bool = False


N, A, K = 3, 5, 4


def build_cases():
    rng = np.random.default_rng(20240501)
    scores = rng.normal(size=(N, A))
    scores[1, 2] = scores[1].max() + 1  # a favourite
    rankings = np.array([rng.permutation(A) for _ in range(N)])
    weights = np.triu(rng.random((A, A)), 1)
    weights *= 0.8 / weights.sum()
    table3 = rng.dirichlet(np.ones(A), size=(N, K))
    luces = [by_steps(luce(s), A, K) for s in scores]
    uniforms = [by_steps(luce(np.zeros(A)), A, K)] * N
    soft = [np.exp(s - s.max()) / np.exp(s - s.max()).sum() for s in scores]
    shares = rng.dirichlet([1, 1], size=N)
    listed = [[list(rng.permutation(A)[:K]) for _ in range(4)] for _ in range(2)]
    chances = [list(rng.dirichlet(np.ones(4))) for _ in range(2)]
    group = np.array([1, 0, 1])

    def step(rows, prefixes):
        return np.array(
            [floored(scores[i], 0.3)(tuple(p)) for i, p in zip(rows, prefixes, strict=True)]
        )

    steps = [by_steps(floored(s, 0.3), A, K) for s in scores]
    fixed = [{tuple(r[:K]): 1.0} for r in rankings.tolist()]
    return [
        Case("factored", cp.Factored(np.array(soft)), [independent(p, K) for p in soft]),
        Case("factored-by-position", cp.Factored(table3), [independent(p, K) for p in table3]),
        Case("softmax", cp.Softmax(2 * scores, 2.0), [independent(p, K) for p in soft]),
        Case("uniform", cp.Uniform(A), [independent(np.full(A, 1 / A), K)] * N),
        Case(
            "epsilon-greedy",
            cp.EpsilonGreedy(scores, 0.4),
            [independent(0.4 / A + 0.6 * (s == s.max()), K) for s in scores],
        ),
        Case("plackett-luce", cp.PlackettLuce(scores), luces),
        Case(
            "plackett-luce-sampled",
            limited(cp.PlackettLuce(scores), max_states=1, rtol=4e-3, max_samples=20_000),
            luces,
            sampled=True,
        ),
        Case(
            "below-fold",
            cp.BelowFold(scores, after=2),
            [by_steps(below_fold(s, 2), A, K) for s in scores],
        ),
        Case("uniform-permutation", cp.UniformPermutation(A), uniforms),
        Case(
            "slot-epsilon-greedy",
            cp.SlotEpsilonGreedy(scores, 0.35),
            [by_steps(slot_epsilon(s, 0.35), A, K) for s in scores],
        ),
        Case("deterministic", cp.Deterministic(rankings, A), fixed),
        Case(
            "rand-top-n",
            cp.RandTopN(rankings, 3),
            [collect(top_shuffled(r, 3), K) for r in rankings.tolist()],
        ),
        Case(
            "random-swap",
            cp.RandomSwap(rankings, weights),
            [collect(swaps(r, weights, K), K) for r in rankings.tolist()],
        ),
        Case(
            "team-draft",
            cp.TeamDraft(rankings, rankings[:, ::-1]),
            [collect(team_draft(r, r[::-1], K), K) for r in rankings.tolist()],
        ),
        Case(
            "mixture",
            cp.Mixture([cp.PlackettLuce(scores), cp.UniformPermutation(A)], shares),
            [mixed(pair, w) for *pair, w in zip(luces, uniforms, shares, strict=True)],
        ),
        Case(
            "epsilon-mixture",
            cp.epsilon_mixture(cp.Deterministic(rankings, A), 0.2),
            [mixed(pair, [0.8, 0.2]) for pair in zip(fixed, uniforms, strict=True)],
        ),
        Case(
            "pooled",
            cp.pooled([cp.PlackettLuce(scores), cp.UniformPermutation(A)], [300, 100]),
            [mixed(pair, [0.75, 0.25]) for pair in zip(luces, uniforms, strict=True)],
        ),
        Case(
            "enumerated",
            cp.Enumerated.from_lists(listed, chances, group, n_actions=A),
            [collect(zip(listed[g], chances[g], strict=True), K) for g in group],
        ),
        Case("autoregressive", cp.Autoregressive(step, N, A), steps, storable=False),
        Case(
            "autoregressive-sampled",
            limited(cp.Autoregressive(step, N, A), max_states=1, rtol=2e-2, max_samples=2_000),
            steps,
            storable=False,
            sampled=True,
        ),
        *scored_cases(scores),
    ]


_CASES = {case.name: case for case in build_cases()}


@pytest.fixture(params=list(_CASES))
def case(request):
    return _CASES[request.param]


@pytest.fixture(scope="session")
def all_masks():
    return lambda K: np.array(list(itertools.product((False, True), repeat=K)))


@pytest.fixture(scope="session")
def twin():
    """Probability of items at the masked positions, by adding up all rankings."""

    def subset(table, items, mask):
        return sum(
            p
            for ranking, p in table.items()
            if all(not m or a < 0 or a == r for r, a, m in zip(ranking, items, mask, strict=True))
        )

    return subset


@pytest.fixture(scope="session")
def luce_table():
    return lambda scores, K: by_steps(luce(scores), len(scores), K)
