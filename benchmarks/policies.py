"""What a row costs: policies against plain NumPy, enumeration, and a copy of the same bytes.

Run: python benchmarks/policies.py [--quick] [--only NAME]. One core; processor time, best of five
after a warm-up. `candidates` reads ragged lists from Parquet and asks Plackett-Luce over them;
`examination` measures how far the estimators for deterministic loggers are off in worlds where they
are right and where they are wrong.
"""

import argparse
import itertools
import math
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np

import counterrank as cr
from counterrank import policies as cp
from counterrank.estimators import ClickHistory, PositionBased

SIZES = [(5, 4), (10, 8), (20, 10), (20, 20), (100, 10), (100, 20), (1000, 20), (10_000, 20)]


def best_time(repeats: int, work: Callable[..., object], *inputs: object) -> float:
    """Return processor seconds of the best repeat, compiled and warm: a busy machine only adds to
    it.
    """
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
    joint = np.exp(
        numpy_prefix(np.broadcast_to(scores, (len(every), scores.size)).copy(), every)[:, -1]
    )
    return (every == items).T @ joint


def rows_for(A: int, K: int, quick: bool) -> int:
    return max(2, min(2000, 200_000 // (A * K)) // (10 if quick else 1))


def plackett_luce(quick: bool) -> None:
    print(
        "\nPlackett-Luce, microseconds a row (x = times as long; copy = copying the row's scores)"
    )
    print(f"{'A':>6} {'K':>3} | {'prefix':>8} {'x NumPy':>8} {'x copy':>7} | {'singles':>9} "
          f"{'x enum.':>9} | {'256 draws':>9} {'+ a mask':>8} | {'sample':>7}")  # fmt: skip
    rng = np.random.default_rng(0)
    for A, K in SIZES:
        n = rows_for(A, K, quick)
        scores = rng.normal(size=(n, A))
        policy = cp.PlackettLuce(scores)
        drawn = cp.PlackettLuce(scores)
        drawn.max_states, drawn.rtol, drawn.max_samples = 1, 1e-9, 256
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
            slower = (
                f"{best_time(1, enumerated_positions, scores[0], items[0]) * 1e6 / singles:.0f}"
            )
        print(f"{A:>6} {K:>3} | {prefix:>8.2f} {plain / prefix:>8.1f} {prefix / copy:>7.0f} | "
              f"{singles:>9.1f} "
              f"{slower:>9} | {once:>9.0f} {each:>8.0f} | {sampled:>7.1f}", flush=True)  # fmt: skip


def programme(quick: bool) -> None:
    print("\nSubset programme: a set of two positions, the last and the middle one")
    print(f"{'A':>6} {'K':>3} {'states':>9} {'us a row':>10} {'ns a state':>11}")
    rng = np.random.default_rng(1)
    for A, K in [(8, 6), (12, 8), (16, 10), (20, 10), (20, 20), (100, 5)]:
        n = 3 if quick else 10
        scores = rng.normal(size=(n, A))
        policy = cp.PlackettLuce(scores)
        policy.max_states = 10**8
        items = policy.sample(K, rng)[:, 0]
        mask = np.zeros((1, K), bool)
        mask[0, [K // 2, K - 1]] = True
        states = sum(math.comb(A - 2, j) for j in range(K - 1))
        spent = best_time(3, policy.subset_log_prob, items, mask) / n
        print(
            f"{A:>6} {K:>3} {states:>9.0f} {spent * 1e6:>10.1f} {spent / states * 1e9:>11.1f}",
            flush=True,
        )


def others(quick: bool) -> None:
    print(
        "\nOther policies, A = 50, K = 10: all K neighbour sets of a row, microseconds a row (x "
        "copy of its items)"
    )
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
        "Enumerated": cp.Enumerated(
            listed, np.full((50, 20), 0.05), rng.integers(0, 50, n), n_actions=A
        ),
        "SlotEpsilonGreedy": cp.SlotEpsilonGreedy(scores, 0.3),
        "epsilon mixture": cp.epsilon_mixture(cp.Deterministic(rankings, A), 0.1),
    }
    for name, policy in every.items():
        items = np.broadcast_to(policy.sample(K, rng), (n, 1, K))[:, 0].copy()
        spent = best_time(5, policy.subset_log_prob, items, near) / n * 1e6
        copy = best_time(5, items.copy) / n * 1e6
        print(f"{name:>20} {spent:>9.2f} {spent / copy:>9.0f}", flush=True)


SCORES = ("propensity_scores", "new_scores")
CANDIDATES, SHOWN, CATALOGUE = 50, 10, 200


def write_scored_log(path: str, n: int, rng: np.random.Generator) -> None:
    """Write n rows of candidates, two lists of scores and what Plackett-Luce showed by the first."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def lists(values: np.ndarray) -> pa.ListArray:
        ends = pa.array(np.arange(len(values) + 1) * values.shape[1], pa.int32())
        return pa.ListArray.from_arrays(ends, values.reshape(-1))

    step, writer = 50_000, None
    for _ in range(n // step):
        items = np.argsort(rng.random((step, CATALOGUE)), axis=1)[:, :CANDIDATES].astype(np.int32)
        tables = [rng.normal(size=(step, CANDIDATES)) for _ in SCORES]
        sets = cp.Candidates(np.arange(step + 1) * CANDIDATES, items.reshape(-1), n_items=CATALOGUE)
        logger = cp.parse_policy("plackett-luce").bind(
            candidates=sets, scores=tables[0].reshape(-1)
        )
        columns = {"action": logger.sample(SHOWN, rng)[:, 0], "candidates": items}
        columns |= dict(zip(SCORES, tables, strict=True))
        table = pa.table({name: lists(values) for name, values in columns.items()})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def candidates(quick: bool) -> None:
    """Ask Plackett-Luce over 50 candidates a row, batch by batch from Parquet, as shares of the
    time to read.
    """
    import pyarrow.parquet as pq

    n = 100_000 if quick else 1_000_000
    rng = np.random.default_rng(3)
    spec = cp.parse_policy("plackett-luce")

    def columns(path: str) -> Iterator[dict[str, np.ndarray]]:
        for batch in pq.ParquetFile(path).iter_batches(32_768, use_threads=False):
            found = {name: batch.column(name).flatten().to_numpy() for name in batch.schema.names}
            found["offsets"] = batch.column("candidates").offsets.to_numpy().astype(np.int64)
            yield found

    def asked(
        path: str, question: Callable[[cp.Policy, np.ndarray], object], batches: int | None = None
    ) -> None:
        for found in itertools.islice(columns(path), batches):
            offsets = found["offsets"]
            sets = cp.Candidates(offsets - offsets[0], found["candidates"], n_items=CATALOGUE)
            for name in SCORES:
                question(
                    spec.bind(candidates=sets, scores=found[name]),
                    found["action"].reshape(-1, SHOWN),
                )

    questions: dict[str, Callable[[cp.Policy, np.ndarray], object]] = {
        "prefixes": lambda policy, shown: policy.prefix_log_prob(shown),
        "4 draws": lambda policy, shown: policy.sample(SHOWN, rng, size=4),
        "marginals of shown items": lambda policy, shown: policy.position_log_prob(shown),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "log.parquet")
        write_scored_log(path, n, rng)
        alone = best_time(2, lambda: list(map(len, columns(path))))
        print(
            f"\n{n:,} rows x {CANDIDATES} candidates, two policies: reading takes {alone:.2f} s "
            "of processor time"
        )
        for what, question in questions.items():
            asked(path, question, batches=1)  # compiles
            start = time.process_time()
            asked(path, question)
            spent = time.process_time() - start
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(
                f"{what:>26}: {spent:7.1f} s, {spent / alone:6.1f} x reading; peak memory "
                f"{peak:,.0f} MB",
                flush=True,
            )


def clicks(relevance: np.ndarray, behavior: str, rng: np.random.Generator) -> np.ndarray:
    """Clicks on items of given relevance (n, K): by position, down a cascade, or DBN."""
    n, K = relevance.shape
    if behavior == "position":
        return (rng.random((n, K)) < np.arange(1, K + 1) ** -0.8 * relevance).astype(float)
    out, looking = np.zeros((n, K)), np.ones(n, bool)
    for k in range(K):
        out[:, k] = looking & (rng.random(n) < relevance[:, k])
        clicked = out[:, k] > 0
        looking &= (
            ~clicked if behavior == "cascade" else rng.random(n) < np.where(clicked, 0.4, 0.85)
        )
    return out


def deterministic_world(seed: int, behavior: str, n: int) -> tuple[cr.RankingLog, float]:
    """A log of the top 5 of 15 candidates by one noisy scorer, the top by another as target, and
    its true value.
    """
    rng = np.random.default_rng(seed)
    A, C, K, d = 40, 15, 5, 3
    x, level, slope = rng.normal(size=(n, d)), rng.normal(-1.0, 0.7, A), rng.normal(0, 0.5, (A, d))
    items = np.argsort(rng.random((n, A)), axis=1)[:, :C].astype(np.int32)
    sets = cp.Candidates(np.arange(n + 1) * C, items.reshape(-1), n_items=A)

    def score(noise: float) -> np.ndarray:
        own = level + noise * rng.normal(size=A), slope + 0.7 * noise * rng.normal(size=(A, d))
        return own[0][items] + np.einsum("nd,ncd->nc", x, own[1][items])

    logger, target = (
        cp.parse_policy("top").bind(candidates=sets, scores=score(0.5).reshape(-1))
        for _ in range(2)
    )
    truth = 1 / (1 + np.exp(-score(0.0)))
    shown, wanted = (policy.sample(K, rng)[:, 0] for policy in (logger, target))
    relevance = np.take_along_axis(truth, sets.locate(wanted), axis=1)
    value = float(np.mean([clicks(relevance, behavior, rng).sum(axis=1).mean() for _ in range(50)]))
    reward = clicks(np.take_along_axis(truth, sets.locate(shown), axis=1), behavior, rng)
    log = cr.RankingLog(
        action=shown,
        reward=reward,
        propensity=logger,
        targets={"new": target},
        candidates=sets,
        context=x,
    )
    return log, value


def examination(quick: bool) -> None:
    runs, n = (4 if quick else 20), 8000
    print(
        f"\nDeterministic logger and target, n = {n:,}, K = 5, 40 items, {runs} logs: relative to "
        "the true value"
    )
    print(f"{'clicks':>10} {'estimator':>12} {'bias':>7} {'RMSE':>7} {'coverage':>9} {'width':>6}")
    for behavior in ("position", "cascade", "dbn"):
        for estimator in (PositionBased(), ClickHistory()):
            rows = []
            for seed in range(runs):
                log, value = deterministic_world(seed, behavior, n)
                found = estimator.estimate(log, "new")
                inside = found.low <= value <= found.high
                rows.append((found.value / value - 1, inside, (found.high - found.low) / value))
            error, covered, width = np.array(rows, dtype=float).T
            print(f"{behavior:>10} {estimator.name:>12} {error.mean():>+7.1%} "
                  f"{np.sqrt((error**2).mean()):>7.1%} "
                  f"{covered.mean():>9.2f} {width.mean():>6.1%}", flush=True)  # fmt: skip


PARTS = {
    "plackett-luce": plackett_luce, "programme": programme, "others": others, "candidates": candidates,
    "examination": examination,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--only", choices=PARTS, help="one part alone")
    options = parser.parse_args()
    for name, part in PARTS.items():
        if options.only in (None, name):
            part(options.quick)


if __name__ == "__main__":
    main()
