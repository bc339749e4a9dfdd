"""What a row costs: policies against plain NumPy, enumeration, and a copy of the same bytes.

Run: python benchmarks/policies.py [--quick]. One core; processor time, best of five after a warm-up.
"""

import argparse
import itertools
import time
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from counterrank import policies as cp
from counterrank.policies.plackett_luce import _states

SIZES = [(5, 4), (10, 8), (20, 10), (20, 20), (100, 10), (100, 20), (1000, 20), (10_000, 20)]


def best_time(repeats: int, work: Callable[..., object], *inputs: object) -> float:
    """Return processor seconds of the best repeat, compiled and warm: a busy machine only adds to it."""
    work(*inputs)
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work(*inputs)
        times.append(time.process_time() - start)
    return min(times)


def numpy_prefix(scores: np.ndarray, items: np.ndarray) -> np.ndarray:
    """Prefix probabilities by masking used items in plain NumPy: O(K A) a row."""
    rest = scores - scores.max(axis=1, keepdims=True)
    rows = np.arange(len(items))
    total = np.zeros(items.shape)
    for k in range(items.shape[1]):
        own = rest[rows, items[:, k]]
        total[:, k] = own - np.log(np.exp(rest).sum(axis=1))
        rest[rows, items[:, k]] = -np.inf
    return np.cumsum(total, axis=1)


@lru_cache
def all_rankings(A: int, K: int) -> np.ndarray:
    return np.array(list(itertools.permutations(range(A), K)))


def enumerated_positions(scores: np.ndarray, items: np.ndarray) -> np.ndarray:
    """Marginals of one row by adding up every ranking, probabilities vectorised."""
    every = all_rankings(scores.size, items.size)
    joint = np.exp(numpy_prefix(np.broadcast_to(scores, (len(every), scores.size)).copy(), every)[:, -1])
    return (every == items).T @ joint


def rows_for(A: int, K: int, quick: bool) -> int:
    return max(2, min(2000, 200_000 // (A * K)) // (10 if quick else 1))


def plackett_luce(quick: bool) -> None:
    print("\nPlackett-Luce, microseconds a row (x = times as long; copy = copying the row's scores)")
    print(f"{'A':>6} {'K':>3} | {'prefix':>8} {'x NumPy':>8} {'x copy':>7} | {'singles':>9} {'x enum.':>9} "
          f"| {'256 draws':>9} {'+ a mask':>8} | {'sample':>7}")  # fmt: skip
    rng = np.random.default_rng(0)
    for A, K in SIZES:
        n = rows_for(A, K, quick)
        scores = rng.normal(size=(n, A))
        policy = cp.PlackettLuce(scores)
        drawn = cp.PlackettLuce(scores, max_states=1, rtol=1e-9, max_samples=256)
        items = policy.sample(K, rng)[:, 0]
        one = np.zeros((1, K), bool)
        one[0, [K // 2, K - 1]] = True
        two = np.zeros((5, K), bool)
        for j in range(5):
            two[j, [1 + j % (K - 2), K - 1]] = True
            two[j, 1 + (j * 3) % (K - 2)] = True
        prefix = best_time(5, policy.prefix_log_prob, items) / n * 1e6
        plain = best_time(5, numpy_prefix, scores, items) / n * 1e6
        copy = best_time(5, scores.copy) / n * 1e6
        singles = best_time(5, policy.position_log_prob, items) / n * 1e6
        once = best_time(5, drawn.subset_log_prob, items, one) / n * 1e6
        more = best_time(5, drawn.subset_log_prob, items, np.unique(two, axis=0)) / n * 1e6
        each = max(more - once, 0.0) / max(len(np.unique(two, axis=0)) - 1, 1)
        sampled = best_time(5, policy.sample, K, rng) / n * 1e6
        slower = "-"
        if A <= 10:
            slower = f"{best_time(1, enumerated_positions, scores[0], items[0]) * 1e6 / singles:.0f}"
        print(f"{A:>6} {K:>3} | {prefix:>8.2f} {plain / prefix:>8.1f} {prefix / copy:>7.0f} | {singles:>9.1f} "
              f"{slower:>9} | {once:>9.0f} {each:>8.0f} | {sampled:>7.1f}", flush=True)  # fmt: skip


def programme(quick: bool) -> None:
    print("\nSubset programme: a set of two positions, the last and the middle one")
    print(f"{'A':>6} {'K':>3} {'states':>9} {'us a row':>10} {'ns a state':>11}")
    rng = np.random.default_rng(1)
    for A, K in [(8, 6), (12, 8), (16, 10), (20, 10), (20, 20), (100, 5)]:
        n = 3 if quick else 10
        scores = rng.normal(size=(n, A))
        policy = cp.PlackettLuce(scores, max_states=10**8)
        items = policy.sample(K, rng)[:, 0]
        mask = np.zeros((1, K), bool)
        mask[0, [K // 2, K - 1]] = True
        states = _states(np.array([A - 2]), np.array([K - 2]))[0]
        spent = best_time(3, policy.subset_log_prob, items, mask) / n
        print(f"{A:>6} {K:>3} {states:>9.0f} {spent * 1e6:>10.1f} {spent / states * 1e9:>11.1f}", flush=True)


def others(quick: bool) -> None:
    print("\nOther policies, A = 50, K = 10: all K neighbour sets of a row, microseconds a row (x copy of its items)")
    rng = np.random.default_rng(2)
    n, A, K = (500 if quick else 5000), 50, 10
    scores = rng.normal(size=(n, A))
    rankings = np.argsort(-scores, axis=1)[:, :20]
    listed = np.array([[rng.permutation(A)[:K] for _ in range(20)] for _ in range(50)])
    near = np.abs(np.subtract.outer(np.arange(K), np.arange(K))) <= 1
    every = {
        "Softmax": cp.Softmax(scores),
        "UniformPermutation": cp.UniformPermutation(A),
        "Deterministic": cp.Deterministic(rankings, A),
        "RandTopN": cp.RandTopN(rankings, 15, A),
        "RandomSwap": cp.RandomSwap(rankings, 0.5, A),
        "FairPairs": cp.FairPairs(rankings, A),
        "Enumerated": cp.Enumerated(listed, np.full((50, 20), 0.05), rng.integers(0, 50, n), n_actions=A),
        "SlotEpsilonGreedy": cp.SlotEpsilonGreedy(scores, 0.3),
        "epsilon mixture": cp.epsilon_mixture(cp.Deterministic(rankings, A), 0.1),
    }
    for name, policy in every.items():
        items = np.broadcast_to(policy.sample(K, rng), (n, 1, K))[:, 0].copy()
        spent = best_time(5, policy.subset_log_prob, items, near) / n * 1e6
        copy = best_time(5, items.copy) / n * 1e6
        print(f"{name:>20} {spent:>9.2f} {spent / copy:>9.0f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    quick = parser.parse_args().quick
    plackett_luce(quick)
    programme(quick)
    others(quick)


if __name__ == "__main__":
    main()
