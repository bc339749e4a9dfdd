"""Seconds to draw, value and write simulated rankings: python benchmarks/simulate.py [rows]."""

import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from counterrank import simulate


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    rng = np.random.default_rng(0)
    worlds = {
        "published K=8 A=3": simulate.published(),
        "paper K=8 A=3": simulate.paper(),
        "triple K=8 A=3": simulate.random(0, reward="triple"),
        "binary K=12 A=20": simulate.random(0, reward="binary", K=12, actions=20, context_policies=True),
        "Plackett-Luce K=5 A=10": simulate.random(0, K=5, actions=10, logging="plackett-luce"),
    }
    print(f"{'environment':24} {'draw ' + format(n, ','):>16} {'true value':>12} {'relative error':>15}")
    for name, env in worlds.items():
        env.draw(100, rng)
        drawn = seconds(partial(env.draw, n, rng))
        valued = seconds(partial(simulate.true_value, env))
        truth = simulate.true_value(env)
        print(f"{name:24} {drawn:14.2f} s {valued:10.2f} s {truth.stderr / abs(truth.value):15.1e}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        written = seconds(lambda: simulate.write_log(worlds["published K=8 A=3"], n, path, seed=0))
        print(f"Parquet: {n:,} rankings in {written:.2f} s, {path.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
