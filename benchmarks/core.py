"""IPS, IIPS and RIPS with variances and effective sample sizes, against plain NumPy IPS, a copy and
a read of the data.

The estimators read three (n, K) arrays once (24 n K bytes) and write three row totals. The copy
reads and writes those 24 n K bytes; the read takes the largest of them, which a core does about as
fast as memory delivers.

Process CPU time, best of several runs, one thread, all in one process, so that the ratios mean
something on a busy machine. Run: OMP_NUM_THREADS=1 python benchmarks/core.py [n] [K]
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import counterrank as cr
from counterrank.data.source import MemorySource
from counterrank.estimators.base import Estimator, Workspace, sums_of_fits

PLAIN = (cr.IPS(), cr.IIPS(), cr.RIPS())
NORMALISED = (cr.IPS(aggregate="ratio"), cr.IIPS(aggregate="ratio"), cr.RIPS(aggregate="ratio"))


def best_cpu_seconds(runs: dict[str, Callable[[], object]], rounds: int = 15) -> dict[str, float]:
    """Return the least CPU seconds of each, measured in turns so that all meet the same neighbours."""
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds + 1):  # the first round compiles
        for name, run in runs.items():
            start = time.process_time()
            run()
            best[name] = min(best[name], time.process_time() - start)
    return best


def main(n: int = 1_000_000, length: int = 8) -> None:
    rng = np.random.default_rng(0)
    p0, p1 = rng.uniform(0.1, 1, (n, length)), rng.uniform(0.1, 1, (n, length))
    reward, action = rng.random((n, length)), rng.integers(0, 3, (n, length))

    def plain() -> tuple[float, float]:
        values = (p1 / p0).prod(1) * reward.sum(1)
        return float(values.mean()), float(values.std())

    def construct() -> cr.RankingLog:
        return cr.RankingLog(action=action, reward=reward, propensity=p0, targets={"new": p1})

    source = MemorySource(construct(), threads=1)

    def estimates(estimators: tuple[Estimator, ...]) -> Callable[[], list[Any]]:
        def run() -> list[Any]:
            workspace = Workspace(source, "new")
            fits = [estimator.fit(workspace) for estimator in estimators]
            sums = source.reduce(lambda batch: sums_of_fits(batch, fits))
            return [fit.estimate(sums) for fit in fits]

        return run

    whole = np.stack([p0, p1, reward])
    room = np.empty_like(whole)
    rows = {
        "plain NumPy IPS": plain,
        "copy of the three arrays": lambda: np.copyto(room, whole),
        "read of the three arrays": lambda: whole.max(),
        "ips+iips+rips": estimates(PLAIN),
        "ips alone": estimates(PLAIN[:1]),
        "snips+sniips+snrips (with Gram)": estimates(NORMALISED),
        "construct and validate the log": construct,
    }
    seconds = best_cpu_seconds(rows)
    print(f"n={n} K={length}  {'CPU ms':>9} {'x plain':>8} {'x copy':>8} {'x read':>8}")
    for name, value in seconds.items():
        against = [value / seconds[other] for other in list(rows)[:3]]
        print(f"{name:34} {value * 1e3:9.1f}", *(f"{ratio:8.2f}" for ratio in against))


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
