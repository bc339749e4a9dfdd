"""Splits of behaviour trees in logs and in the same logs with shuffled contexts, which tell nothing.

    python -m benchmarks.shuffled_context groups:10 2      # 2 logs of each of 10 worlds

Worlds are those of `counterrank.research.bench`. For each tree (one per position): its splits, and those whose
sides differ beyond chance (`Node.chance` at most 5 %).
"""

import sys
from dataclasses import replace

import numpy as np

from benchmarks import show
from counterrank.estimators.behavior import BehaviorTree
from counterrank.research import bench


def main() -> None:
    where, count = sys.argv[1], int(sys.argv[2])
    found: dict[str, list[float]] = {"as logged": [], "shuffled": []}
    trees = 0
    for world in bench.worlds(where):
        for seed in range(count):
            log = world.draw(seed).log
            trees += log.K
            order = np.random.default_rng([seed, 1]).permutation(log.n)
            for name, context in zip(found, (log.context, log.context[order]), strict=True):
                tree = BehaviorTree().fit(replace(log, context=context), "new", seed=seed)
                found[name] += [node.chance for node in tree.fitted.nodes if not node.leaf]
    rows = [
        (name, f"{len(some) / trees:.2f}", f"{np.sum(np.array(some) <= 0.05) / trees:.3f}")
        for name, some in found.items()
    ]
    show(f"{where}, {trees} trees", ("context", "splits a tree", "beyond chance"), rows)


if __name__ == "__main__":
    main()
