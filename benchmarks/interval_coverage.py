"""How often do the intervals hold the true value? Prints tables.

Run: OMP_NUM_THREADS=1 python benchmarks/interval_coverage.py [repetitions]      (1000 take a few
minutes)
"""

import itertools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import counterrank as cr
from counterrank.estimators import registry

Floats = NDArray[np.float64]
X, K, A = 3, 3, 3
LEVEL = 0.95


@dataclass(frozen=True)
class World:
    """Three contexts, three items, rankings of three; a click depends on the item and those above
    it (cascade).
    """

    seed: int = 1
    exploration: float = 0.4

    @cached_property
    def tables(self) -> tuple[Floats, Floats, Floats]:
        rng = np.random.default_rng(self.seed)
        logger = rng.dirichlet(np.full(A, 3.0), (X, K))  # (X, K, A)
        best = logger.argmin(axis=-1)  # the target prefers what the logger shows least
        target = self.exploration / A + (1 - self.exploration) * np.eye(A)[best]
        chance = rng.uniform(0.05, 0.95, (X, K, A, A, A))
        for k in range(K):  # q_k may not depend on items below k
            chance[:, k] = chance[:, k].mean(axis=tuple(range(k + 2, K + 1)), keepdims=True)
        return logger, target, chance

    @property
    def truth(self) -> float:
        _, target, chance = self.tables
        value = 0.0
        for x, *a in itertools.product(range(X), *(range(A),) * K):
            shown = np.prod([target[x, k, a[k]] for k in range(K)])
            value += float(shown * chance[(x, slice(None), *a)].sum()) / X
        return value

    def draw(self, n: int, rng: np.random.Generator, *, rows_per_unit: int = 1) -> cr.RankingLog:
        """Return a log; rows of one unit share the context and a random shift of all rewards."""
        logger, target, chance = self.tables
        unit = np.arange(n) // rows_per_unit
        x = rng.integers(0, X, unit[-1] + 1)[unit]
        places = np.arange(K)
        steps = logger.cumsum(axis=-1)[x]  # (n, K, A)
        action = (rng.random((n, K, 1)) > steps).sum(axis=-1).clip(max=A - 1)
        q = np.stack(
            [chance[x, k, action[:, 0], action[:, 1], action[:, 2]] for k in range(K)], axis=1
        )
        reward = (rng.random((n, K)) < q).astype(float)
        if rows_per_unit > 1:
            reward += rng.normal(0, 1, unit[-1] + 1)[unit][:, None]
        p0, p1 = (table[x[:, None], places, action] for table in (logger, target))
        return cr.RankingLog(
            action=action,
            reward=reward,
            propensity=p0,
            targets={"new": p1},
            unit=unit if rows_per_unit > 1 else None,
        )


def fixed_normaliser(log: cr.RankingLog) -> tuple[float, float]:
    """The wrong way: a self-normalised value with the error of a mean, as if the normaliser were a
    constant.
    """
    rho = log.targets["new"].values / log.propensity.values  # type: ignore[union-attr]
    w = rho.prod(axis=1)
    totals = w * log.reward.sum(axis=1) / w.mean()
    half = stats.norm.ppf(0.5 + LEVEL / 2) * totals.std(ddof=1) / np.sqrt(log.n)
    return totals.mean() - half, totals.mean() + half


def by(name: str) -> Callable[[cr.RankingLog], tuple[float, float]]:
    def run(log: cr.RankingLog) -> tuple[float, float]:
        return registry.get(name).estimate(log, "new").interval(LEVEL)

    return run


def without_units(log: cr.RankingLog) -> tuple[float, float]:
    return cr.IPS().estimate(log, "new", by_unit=False).interval(LEVEL)


def table(title: str, rows: dict[str, Callable[[cr.RankingLog], tuple[float, float]]], sizes: tuple[int, ...], *,
          repetitions: int, world: World, rows_per_unit: int = 1) -> None:  # fmt: skip
    print(f"\n{title}\n\n| interval | " + " | ".join(f"n={n}: cover, width" for n in sizes) + " |")
    print("|---|" + "---|" * len(sizes))
    cells: dict[str, list[str]] = {name: [] for name in rows}
    for n in sizes:
        ends = {name: np.empty((repetitions, 2)) for name in rows}
        for i in range(repetitions):
            log = world.draw(n, np.random.default_rng([n, i]), rows_per_unit=rows_per_unit)
            for name, run in rows.items():
                ends[name][i] = run(log)
        for name, found in ends.items():
            covered = (found[:, 0] <= world.truth) & (world.truth <= found[:, 1])
            cells[name].append(f"{covered.mean():.3f}, {np.diff(found, axis=1).mean():.3f}")
    for name, row in cells.items():
        print(f"| {name} | " + " | ".join(row) + " |")


def main(repetitions: int = 1000) -> None:
    error = 1.96 * np.sqrt(0.95 * 0.05 / repetitions)
    print(f"{repetitions} logs a cell; a true 95 % shows as 0.950 +- {error:.3f}")
    independent = {
        **{f"{name} t": by(name) for name in ("ips", "rips", "snips")},
        "snips, fixed normaliser (wrong)": fixed_normaliser,
        "iips t (biased here)": by("iips"),
    }
    table(
        "Independent rows", independent, (200, 1000, 5000), repetitions=repetitions, world=World()
    )
    clustered = {
        "ips t, by unit": by("ips"),
        # fmt: skip
        "snips t, by unit": by("snips", "t"),
        "ips t, units ignored (wrong)": without_units,
    }
    similar = World(
        exploration=0.9
    )  # near the logger, so that the units and not the weights make the error
    table(
        "Ten rows per unit",
        clustered,
        (1000, 5000),
        repetitions=repetitions,
        world=similar,
        rows_per_unit=10,
    )


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
