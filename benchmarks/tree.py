"""CPU time of the behaviour tree as multiples of a plain NumPy IPS: python benchmarks/tree.py [rows
...].

8 positions, 6 candidates, 5 features, depth 5, grown on at most 200,000 rows, one thread. "fit"
grows the trees, "apply" turns them into the estimate on all rows; both are compared with IPS on the
same arrays.
"""

import sys
import time
from collections.abc import Callable

import numpy as np

from counterrank.data.log import RankingLog
from counterrank.data.source import MemorySource
from counterrank.estimators.base import Workspace
from counterrank.estimators.behavior import BehaviorTree, Candidate, TreeLimits, fit_source
from counterrank.estimators.masked import AIPS
from counterrank.research.simulate import published


def best_of(work: Callable[[], object], times: int) -> float:
    """Return the least CPU seconds of several runs."""
    spent = []
    for _ in range(times):
        start = time.process_time()
        work()
        spent.append(time.process_time() - start)
    return min(spent)


def numpy_ips(target: np.ndarray, logging: np.ndarray, reward: np.ndarray) -> float:
    weight = np.prod(target / logging, axis=1)
    return float((weight[:, None] * reward).sum(axis=1).mean())


def apply(model: object, log: RankingLog) -> float:
    source = MemorySource(log, threads=1)
    fitted = AIPS(behavior=model).fit(Workspace(source, "new"))
    return fitted.estimate(source.reduce(fitted.sums)).value


def measure(n: int, tree: BehaviorTree) -> None:
    drawn = published().draw(n, np.random.default_rng(0))
    log = drawn.to_log()
    source = MemorySource(log, threads=1)
    target, logging = drawn.target, drawn.propensity
    times = 9 if n <= 100_000 else 3
    base = best_of(lambda: numpy_ips(target, logging, log.reward), 3 * times)
    model = fit_source(source, "new", seed=0, tree=tree)  # compiles
    fit = best_of(lambda: fit_source(source, "new", seed=0, tree=tree), times)
    apply(model, log)
    use = best_of(lambda: apply(model, log), times)
    limit = 60 if n <= 10_000 else 10
    print(
        f"{n:10,} {base * 1e3:9.2f} ms {fit / base:9.1f}x {use / base:9.1f}x "
        f"{(fit + use) / base:9.1f}x {limit:5}x"
    )


def main() -> None:
    env = published()
    candidates = [Candidate(n, m) for n, m in zip(env.behavior_names, env.masks, strict=True)]
    tree = BehaviorTree(candidates=candidates, limits=TreeLimits(max_depth=5))
    print(f"{'rows':>10} {'NumPy IPS':>12} {'fit':>10} {'apply':>10} {'together':>10} {'limit':>6}")
    for n in [int(a) for a in sys.argv[1:]] or [8_000, 1_000_000]:
        measure(n, tree)


if __name__ == "__main__":
    main()
