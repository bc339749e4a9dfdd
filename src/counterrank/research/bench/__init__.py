"""The bench: any estimator on logs whose truth is known, world by world, on the same seeds.

    from counterrank.research import bench

    result = bench.run(["groups:3", "random:3"], {"ips": "ips", "mine": MyEstimator()}, seeds=20)
    result.table           # MSE, squared bias, variance, coverage, width, time, refusals
    result.paired("ips")   # differences and ratios of squared errors on the same seeds

A world is a name and a function from a seed to a `Trial`. Worlds of the populations are frozen: the
number of a world says which it is, in every version.
"""

from counterrank.research.bench.methods import Method, methods, run_trial
from counterrank.research.bench.protocol import Protocol
from counterrank.research.bench.result import BenchResult
from counterrank.research.bench.study import in_processes, repeat, run
from counterrank.research.bench.worlds import (
    POPULATIONS,
    Trial,
    World,
    bootstrapped,
    published_trial,
    simulated_trial,
    worlds,
)

__all__ = [
    "POPULATIONS",
    "BenchResult",
    "Method",
    "Protocol",
    "Trial",
    "World",
    "bootstrapped",
    "in_processes",
    "methods",
    "published_trial",
    "repeat",
    "run",
    "run_trial",
    "simulated_trial",
    "worlds",
]
