"""MSE estimates compared over simulated environments: python benchmarks/mse_study.py [runs [name
...]] > table.

Each row is a way to choose the behaviour; each number is its MSE over V^2, or relative to the best
of IPS, IIPS and RIPS in the same environment. The choice sees the log alone, except "oracle". The
summary is the geometric mean over environments. Names (pairs, pasif, ...) leave out all other
estimates but the oracle. About 5 CPU minutes with 20 runs.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from counterrank.data.log import RankingLog
from counterrank.estimators.behavior import (
    BehaviorTree,
    Candidate,
    Oracle,
    TreeLimits,
    candidates,
)
from counterrank.estimators.behavior.estimates import FEASIBLE
from counterrank.estimators.masked import AIPS
from counterrank.estimators.weights.ratios import Ratios, ratios_of
from counterrank.research.simulate import (
    Environment,
    SimulatedLog,
    paper,
    published,
    random,
    true_value,
)

Estimates = dict[str, float]
CLASSIC = ("IPS", "IIPS", "RIPS")


def environments() -> dict[str, tuple[Environment, int]]:
    """Return environments and log sizes: published, the paper's text, and fresh parameters of
    several reward models.
    """
    return {
        "published 2k": (published(), 2_000),
        "published 8k": (published(), 8_000),
        "published K=4": (published(4), 8_000),
        "published delta=.2": (published(delta=0.2), 8_000),
        "paper": (paper(seed=1), 8_000),
        "paper delta=1": (paper(seed=2, delta=1.0), 8_000),
        "random": (random(11), 8_000),
        "random binary": (random(12, reward="binary"), 8_000),
        "random triple": (random(13, reward="triple", form="paper"), 8_000),
        "random product K=6": (random(14, reward="multiplicative", K=6), 8_000),
    }


def mean_value(log: RankingLog, weight: np.ndarray) -> float:
    return float((weight * log.reward).sum(axis=1).mean())


def classic(drawn: SimulatedLog, log: RankingLog, ratios: Ratios) -> Estimates:
    own = np.repeat(drawn.behavior[:, None], log.K, axis=1)
    weights = {
        "IPS": ratios.full(),
        "IIPS": ratios.position(),
        "RIPS": ratios.prefix(),
        "AIPS (true)": ratios.by_choice(drawn.masks, own),
        "order 2": ratios.ordered(np.ones((log.K, log.K), dtype=bool), 2),
    }
    return {name: mean_value(log, weight) for name, weight in weights.items()}


def trees(env: Environment) -> dict[str, BehaviorTree]:
    six = [Candidate(n, m) for n, m in zip(env.behavior_names, env.masks, strict=True)]
    some = candidates(env.K)
    out = {"oracle, six": BehaviorTree(candidates=six, mse=Oracle(true_value(env).by_position))}
    for label, models in (("six", six), ("default", some)):
        for name in FEASIBLE:
            out[f"{name}, {label}"] = BehaviorTree(candidates=models, mse=name)
        plain = BehaviorTree(candidates=models)
        out[f"pairs, {label}, no tree"] = replace(plain, limits=TreeLimits(max_depth=0))
    return out


def one_run(
    env: Environment, n: int, seed: int, spent: dict[str, float], only: list[str]
) -> Estimates:
    drawn = env.draw(n, np.random.default_rng([seed, 7]))
    log = drawn.to_log()
    ratios = ratios_of(log, "new")
    out = classic(drawn, log, ratios)
    for name, tree in trees(env).items():
        if only and name.split(",")[0] not in (*only, "oracle"):
            continue
        start = time.process_time()
        fitted = tree.fit(log, "new", seed=seed)
        out[name] = AIPS(behavior=fitted).estimate(log, "new").value
        spent[name] = spent.get(name, 0.0) + time.process_time() - start
        if name in ("pairs, six", "pairs, default"):
            out[f"{name}, models alone"] = mean_value(log, fitted.weights(log, ratios))
    return out


def relative(
    table: dict[str, dict[str, float]], base: Callable[[dict[str, float]], float]
) -> dict[str, list[float]]:
    names = list(next(iter(table.values())))
    return {name: [row[name] / base(row) for row in table.values()] for name in names}


def main() -> None:
    runs, only = (int(sys.argv[1]) if len(sys.argv) > 1 else 20), sys.argv[2:]
    table: dict[str, dict[str, float]] = {}
    spent: dict[str, float] = {}
    for label, (env, n) in environments().items():
        value = true_value(env).value
        rows = [one_run(env, n, seed, spent, only) for seed in range(runs)]
        table[label] = {
            k: float(np.mean([(r[k] - value) ** 2 for r in rows])) / value**2 for k in rows[0]
        }
        print(f"{label} done, {time.process_time():.0f} CPU s", file=sys.stderr)
    versus = relative(table, lambda row: min(row[name] for name in CLASSIC))
    oracle = relative(table, lambda row: row["oracle, six"])
    print(
        "| choice | "
        + " | ".join(table)
        + " | vs best of three (worst) | vs oracle tree | CPU ms |"
    )
    print("|---" * (len(table) + 4) + "|")
    for name in versus:
        cells = " | ".join(f"{row[name]:.2g}" for row in table.values())
        geo, worst = np.exp(np.mean(np.log(versus[name]))), max(versus[name])
        against = np.exp(np.mean(np.log(oracle[name])))
        cost = f"{1e3 * spent[name] / runs / len(table):.0f}" if name in spent else ""
        print(f"| {name} | {cells} | {geo:.2f} ({worst:.1f}) | {against:.2f} | {cost} |")


if __name__ == "__main__":
    main()
