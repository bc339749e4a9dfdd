"""AIPS from the log alone against its oracle, and against the best of IPS, IIPS and RIPS.

    python -m benchmarks.aips published 100          # the 16 distinct points of the published figures
    python -m benchmarks.aips worlds 771931 60 30    # 60 worlds of a seed, up to 30 logs each
    python -m benchmarks.aips small 901 2 8          # 3 items, K = 8: 8 kinds, 2 seeds each, 8 logs

Published: the paper's own logs (run 0, 1, ...), candidates its six behaviours; the oracle's MSE is the
published one. Worlds: the population of `accuracy_study`; candidates its behaviours, S, C and I. Of
large worlds fewer logs are drawn, at least ten: as many as take the time of the others.
Coverage is that of the 95 % interval, in brackets without what it allows for the choice. About 4 CPU
minutes each.
"""

import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np

import counterrank as cr
from benchmarks import accuracy_study
from counterrank.behavior import BehaviorTree, Candidate
from counterrank.data.log import RankingLog
from counterrank.research.paper.replay import replay_run
from counterrank.research.simulate import Environment, published, random, true_value

CLASSIC = (cr.IPS(), cr.IIPS(), cr.RIPS())


def behaviors(env: Environment, *more: str) -> list[Candidate]:
    own = [Candidate(name, mask) for name, mask in zip(env.behavior_names, env.masks, strict=True)]
    return cr.candidates(env.K, [*own, *more])


def row(log: RankingLog, value: float, models: list[Candidate], seed: int) -> list[float]:
    """Return the errors of AIPS and the classic three, and whether AIPS's intervals hold."""
    tree = BehaviorTree(candidates=models).fit(log, "new", seed=seed)
    found = cr.AIPS(behavior=tree).estimate(log, "new")
    bare = cr.AIPS(behavior=replace(tree, forest=replace(tree.fitted, doubt=None)))
    holds = [
        low <= value <= high
        for low, high in (found.interval(0.95), bare.estimate(log, "new").interval(0.95))
    ]
    errors = [found.value - value] + [e.estimate(log, "new").value - value for e in CLASSIC]
    return [*errors, *holds]


def report(label: str, rows: list[list[float]], oracle: float | None = None) -> tuple[float, ...]:
    table = np.array(rows)
    mse = (table[:, :4] ** 2).mean(axis=0)
    ratios = [mse[0] / mse[1:].min(), table[:, 4].mean()]
    told = f"/ best of three {ratios[0]:.2f}   covers {table[:, 4].mean():.2f} ({table[:, 5].mean():.2f})"
    if oracle is not None:
        ratios.append(mse[0] / oracle)
        told = f"/ oracle {ratios[-1]:.2f}   {told}"
    print(f"{label:55} {told}", flush=True)
    return tuple(ratios)


def of_published(runs: int) -> Iterator[tuple[float, ...]]:
    for (n, K, delta), oracle in accuracy_study.PUBLISHED.items():
        env = published(K, delta=delta)
        found = [replay_run(env, n, seed) for seed in range(runs)]
        values = [float(sum(one.value())) for one in found]
        rows = [
            row(one.log.to_log(), value, behaviors(env), seed)
            for seed, (one, value) in enumerate(zip(found, values, strict=True))
        ]
        yield report(f"n {n}, K {K}, delta {delta}", rows, oracle * float(np.mean(values)) ** 2)


def of_worlds(seed: int, count: int, runs: int) -> Iterator[tuple[float, ...]]:
    accuracy_study.SEEDS["given"] = seed
    for cell in accuracy_study.population("given", count):
        env = accuracy_study.environment(cell)
        value, models = true_value(env).value, behaviors(env, "C", "I")
        rows = [
            row(
                env.draw(cell["n"], np.random.default_rng([cell["id"], r, 77])).to_log(),
                value,
                models,
                r,
            )
            for r in range(max(10, min(runs, int(runs * 64_000 / cell["n"] / env.K))))
        ]
        yield report(
            f"{cell['family']}, n {cell['n']}, {cell['options']['K']} of {cell['options']['actions']}",
            rows,
        )


def of_small(first: int, count: int, runs: int) -> Iterator[tuple[float, ...]]:
    every = product(("pairwise", "binary", "triple", "multiplicative"), ("published", "paper"))
    for (reward, form), seed in product(every, range(first, first + count)):
        env = random(seed, form=form, reward=reward, K=8, actions=3)
        value, models = true_value(env).value, behaviors(env, "C", "I")
        draws = (np.random.default_rng([seed, r, 77]) for r in range(runs))
        rows = [row(env.draw(8000, rng).to_log(), value, models, r) for r, rng in enumerate(draws)]
        yield report(f"{reward}, {form}, seed {seed}", rows)


KINDS = {"published": of_published, "worlds": of_worlds, "small": of_small}


def main() -> None:
    kind, *numbers = sys.argv[1:]
    table = np.array(list(KINDS[kind](*map(int, numbers))))
    for name, column in zip(("best of three", "coverage", "oracle"), table.T, strict=False):
        middle = column.mean() if name == "coverage" else np.exp(np.log(column).mean())
        print(f"{name}: mean {middle:.2f}, from {column.min():.2f} to {column.max():.2f}")


if __name__ == "__main__":
    main()
