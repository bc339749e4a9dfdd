"""What an evaluation in memory costs, as multiples of a plain NumPy IPS in the same run.

Run: python -m benchmarks.ratios [n] [K]. Both columns are the best of several rounds in turns; the
first counts the processor time of all threads, the second what a clock shows.
"""

import sys
import time
from collections.abc import Callable

import numpy as np

import counterrank as cr
from benchmarks import show

FIXED = ["ips", "iips", "rips", "snips"]
METRICS = ["clicks", "orders", "revenue", "time", "likes"]


def measured(
    runs: dict[str, Callable[[], object]], rounds: int = 7
) -> dict[str, tuple[float, float]]:
    """Return the least processor and clock seconds of each, in turns so that all meet the same neighbours."""
    best = dict.fromkeys(runs, (np.inf, np.inf))
    for _ in range(rounds + 1):  # the first round compiles
        for name, run in runs.items():
            begun, clock = time.process_time(), time.perf_counter()
            run()
            used, passed = time.process_time() - begun, time.perf_counter() - clock
            best[name] = min(best[name][0], used), min(best[name][1], passed)
    return best


def main(n: int = 1_000_000, length: int = 8) -> None:
    rng = np.random.default_rng(0)
    p0, p1 = rng.uniform(0.2, 1, (n, length)), rng.uniform(0.2, 1, (n, length))
    action = rng.integers(0, 3, (n, length))
    rewards = {name: (rng.random((n, length)) < 0.2).astype(float) for name in METRICS}
    reward = rewards["clicks"]
    log = cr.RankingLog(action=action, reward=reward, propensity=p0, targets={"new": p1})
    several = cr.RankingLog(
        action=action, reward=reward, propensity=p0, targets={"new": p1}, rewards=rewards
    )

    def plain() -> tuple[float, float]:
        values = (p1 / p0).prod(1) * reward.sum(1)
        return float(values.mean()), float(values.std())

    def evaluating(some: cr.RankingLog, *names: str, **more: object) -> Callable[[], object]:
        return lambda: cr.evaluate(some, ["new"], estimators=list(names), **more)  # type: ignore[arg-type]

    dists = {
        name: rng.dirichlet(np.full(3, 3.0), n).repeat(length, axis=0).reshape(n, length, 3)
        for name in ("propensity", "new")
    }
    shown = {
        name: np.take_along_axis(one, action[:, :, None], axis=2)[:, :, 0]
        for name, one in dists.items()
    }
    factored = cr.RankingLog(
        action=action, reward=reward, propensity=shown["propensity"], context=rng.normal(size=(n, 2)),
        targets={"new": cr.Propensity("factored", shown["new"])}, dists=dists,
    )  # fmt: skip
    runs = {
        "plain NumPy IPS": plain,
        "evaluate: four fixed estimators": evaluating(log, *FIXED),
        "the same, five metrics": evaluating(several, *FIXED, rewards=METRICS),
        "evaluate: auto": evaluating(log, "auto"),
        "the same, five metrics ": evaluating(several, "auto", rewards=METRICS),
        "auto alone, factored": lambda: cr.Auto().estimate(factored, "new"),
    }
    found = measured(runs)
    base = found["plain NumPy IPS"]
    rows = [
        (name.strip(), *(f"{one / other:.2f}" for one, other in zip(used, base, strict=True)))
        for name, used in found.items()
    ]
    show(f"{n:,} rankings of {length}", ["", "x NumPy IPS, processor", "x NumPy IPS, clock"], rows)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
