"""Cost of `auto` against a plain NumPy IPS over the same arrays.

    python benchmarks/auto.py --n 1000000

Prints seconds of CPU (best of a few, compiled code warm), one thread, and their ratio, also to a copy of the arrays.
OMP_NUM_THREADS=1 keeps the idle threads of the linear algebra out of the count.
"""

import argparse
import time

import numpy as np

from counterrank import simulate
from counterrank.estimators.auto.auto import Auto
from counterrank.estimators.base import View, Workspace
from counterrank.log import RankingLog
from counterrank.sources import MemorySource


def plain_ips(log: RankingLog) -> tuple[float, float]:
    """Return value and standard error of IPS as anyone would write it."""
    weight = (log.targets["new"].values / log.propensity.values).prod(axis=1)
    total = weight * log.reward.sum(axis=1)
    return float(total.mean()), float(total.std(ddof=1) / np.sqrt(len(total)))


def arrays(log: RankingLog) -> list[np.ndarray]:
    """Return what IPS reads: probabilities, rewards and actions."""
    return [log.targets["new"].values, log.propensity.values, log.reward, log.action]


def seconds(action, repeat: int = 1) -> float:  # type: ignore[no-untyped-def]
    best = np.inf
    for _ in range(repeat):
        began = time.process_time()
        action()
        best = min(best, time.process_time() - began)
    return best


def run_auto(log: RankingLog) -> dict[str, float]:
    """Return CPU seconds of the fit and of the pass."""
    workspace = Workspace(MemorySource(log, threads=1), "new")
    began = time.process_time()
    plan = Auto().plan(workspace)
    fitted = time.process_time()
    state = workspace.source.reduce(lambda batch: plan.partial(View(batch, "new")).state)
    plan.finish(state)
    return {"fit": fitted - began, "pass": time.process_time() - fitted}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--k", type=int, default=8)
    parser.add_argument("--actions", type=int, default=3)
    parser.add_argument("--binary", action="store_true")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    reward = "binary" if options.binary else "pairwise"
    env = simulate.random(1, K=options.k, actions=options.actions, reward=reward)
    run_auto(env.draw(3000, np.random.default_rng(0)).to_log())
    log = env.draw(options.n, np.random.default_rng(1)).to_log()
    base, copy, runs = np.inf, np.inf, []
    for _ in range(options.repeat):  # in turn, so that all three see the machine in the same states
        base = min(base, seconds(lambda: plain_ips(log), repeat=3))
        copy = min(copy, seconds(lambda: [a.copy() for a in arrays(log)], repeat=3))
        runs.append(run_auto(log))
    parts = min(runs, key=lambda run: sum(run.values()))
    whole = sum(parts.values())
    print(f"n={options.n} K={options.k} A={options.actions} {reward}: plain IPS {base:.3f} s, auto {whole:.2f} s "
          f"(fit {parts['fit']:.2f}, pass {parts['pass']:.2f}) = {whole / base:.1f} x, "
          f"{whole / copy:.0f} x copying the arrays")  # fmt: skip


if __name__ == "__main__":
    main()
