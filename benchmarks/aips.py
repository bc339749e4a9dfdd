"""AIPS from the log alone: pure tree, blend with pairs, pairs without a tree; by what the tree minimises.

    python -m benchmarks.aips published 5000 16      # 16 logs of each point, runs from number 5000
    python -m benchmarks.aips random:40 0 8          # 8 logs of each of 40 worlds
    python -m benchmarks.aips groups:40 0 8
    python -m benchmarks.aips text:8 0 8
    python -m benchmarks.lift --only premise --estimators auto,aips,dr-aips,ips,iips,rips --of auto,aips,dr-aips

The last line judges lifts in worlds of the paper's premise: groups that one column tells apart, policies
that depend on the context. Other worlds are those of `counterrank.research.bench`. For each estimator: MSE
/ published MSE of AIPS with its oracle (worlds `published`) and MSE / best of IPS, IIPS and RIPS on the
same logs, geometric means over worlds (worst world), and how often 95 % intervals contained the truth
(worst world). Worlds of `random` and `groups` are told in two halves, to see how far the numbers move. 5
to 15 minutes each.
"""

import sys

import numpy as np

from benchmarks import show
from benchmarks.accuracy_study import PUBLISHED
from counterrank.research import bench
from counterrank.research.summary import Summary, summarise

CLASSIC = ("ips", "iips", "rips")
TREES = [
    f"{name} ({mse})"
    for name in ("aips", "aips-pairs")
    for mse in ("models", "pairs", "pasif", "truth")
]
NAMES = [*CLASSIC, "order-2", *TREES]


def geometric(ratios: list[float]) -> str:
    return f"{np.exp(np.mean(np.log(ratios))):.2f} ({max(ratios):.3g})"


def lines(found: list[Summary], oracle: dict[str, float]) -> list[tuple[str, ...]]:
    by = {(s["x"], s["estimator"]): s for s in found}
    points = list(dict.fromkeys(s["x"] for s in found))
    mse = {key: s["mse"] for key, s in by.items()}
    best = {x: min(mse[x, name] for name in CLASSIC) for x in points}
    out = []
    for name in NAMES:
        cover = [by[x, name]["coverage"] for x in points]
        theirs = [mse[x, name] / oracle[x] for x in points if x in oracle]
        out.append(
            (
                name,
                geometric(theirs) if theirs else "",
                geometric([mse[x, name] / best[x] for x in points]),
                f"{np.mean(cover):.2f} ({min(cover):.2f})",
            )
        )
    return out


def main() -> None:
    where, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    worlds = bench.worlds(where)
    oracle = {f"published n={n} K={K} delta={d:g}": value for (n, K, d), value in PUBLISHED.items()}
    found = bench.run(worlds, NAMES, seeds=range(first, first + count))
    every = summarise(found.rows, common_truth=where.startswith("published"))
    names = [world.name for world in worlds]
    half = len(names) // 2
    parts = [names] if len(names) < 20 else [names, names[:half], names[half:]]
    for part in parts:
        head = ("estimator", "MSE / published oracle", "MSE / best of three", "contained")
        some = [s for s in every if s["x"] in part]
        show(
            f"{where}, {len(part)} worlds, {count} logs each from seed {first}",
            head,
            lines(some, oracle),
        )


if __name__ == "__main__":
    main()
