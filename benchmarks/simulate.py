"""Seconds to draw, value and write simulated rankings: python benchmarks/simulate.py [rows]."""

import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from counterrank.research import bench, simulate


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def show_published_run(n: int) -> None:
    """Print CPU seconds of one published run: the log, what the oracle is told, and its trees."""
    from counterrank.research.paper.figures import Setting

    oracle = bench.methods(["aips (oracle)"])
    bench.run_trial(bench.published_trial(Setting(n=n), 0), oracle)  # compiled after this
    best = []
    for seed in range(5):
        started = time.process_time()
        drawn = bench.published_trial(Setting(n=n), seed)
        shown = time.process_time()
        drawn.run.oracle()
        told = time.process_time()
        bench.run_trial(drawn, oracle)
        done = time.process_time()
        best.append((shown - started, told - shown, done - told))
    log, view, whole = (min(times) for times in zip(*best, strict=True))
    print(
        f"published run, n={n:,}, CPU: log {log:.4f} s, fresh data sets {view:.3f} s, with AIPS "
        f"(oracle) {whole:.3f} s"
    )


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    rng = np.random.default_rng(0)
    worlds = {
        "published K=8 A=3": simulate.published(),
        "paper K=8 A=3": simulate.paper(),
        "triple K=8 A=3": simulate.random(0, reward="triple"),
        "binary K=12 A=20": simulate.random(
            0, reward="binary", K=12, actions=20, context_policies=True
        ),
        "search K=10, 20 of 100": simulate.preset("search"),
        "feed K=10, 50 of 300": simulate.preset("feed"),
        "shop K=5, 60 items": simulate.preset("shop"),
    }
    print(
        f"{'environment':24} {'draw ' + format(n, ','):>16} {'true value':>12} "
        f"{'relative error':>15}"
    )
    for name, env in worlds.items():
        env.draw(100, rng)
        drawn = seconds(lambda env=env: [None for _ in simulate.batches(env, n, 0)])
        valued = seconds(partial(simulate.true_value, env))
        truth = simulate.true_value(env)
        print(f"{name:24} {drawn:14.2f} s {valued:10.2f} s {truth.stderr / abs(truth.value):15.1e}")
    print()
    for size in (1000, 8000, 32_000):
        show_published_run(size)
    print()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        written = seconds(lambda: simulate.write_log(worlds["published K=8 A=3"], n, path, seed=0))
        print(f"Parquet: {n:,} rankings in {written:.2f} s, {path.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
