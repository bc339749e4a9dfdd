"""Speed against plain NumPy and a copy of the data; how cost grows with n, K, candidates and
actions.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

import counterrank as cr
from benchmarks import cpu_seconds, show
from counterrank.data.source import MemorySource
from counterrank.estimators import registry
from counterrank.research import simulate

FIXED = ("ips", "iips", "rips", "snips", "order-2")
SETS: dict[str, tuple[str, ...]] = {
    "ips": ("ips",),
    ", ".join(FIXED): FIXED,
    "aips (tree)": ("aips",),
    "dr-order-2 (regression)": ("dr-order-2",),
    "auto": ("auto",),
}


def make_log(n: int, *, K: int = 8, actions: int = 3, seed: int = 0) -> cr.RankingLog:
    env = simulate.random(seed, K=K, actions=actions)
    return env.draw(n, np.random.default_rng(seed)).to_log()


def evaluation(log: cr.RankingLog, names: Sequence[str]) -> Callable[[], object]:
    """Return a run of `evaluate` on one thread: values, errors, lifts, diagnostics and all."""
    return partial(cr.evaluate, MemorySource(log, threads=1), ["new"], estimators=list(names))


def plain_ips(log: cr.RankingLog) -> Callable[[], object]:
    p0, p1, reward = log.propensity.values, log.target("new").values, log.reward  # type: ignore[union-attr]

    def run() -> tuple[float, float]:
        values = (p1 / p0).prod(1) * reward.sum(1)
        return float(values.mean()), float(values.std())

    return run


def copying(log: cr.RankingLog) -> Callable[[], object]:
    whole = np.stack([log.propensity.values, log.target("new").values, log.reward])  # type: ignore[union-attr]
    room = np.empty_like(whole)
    return lambda: np.copyto(room, whole)


def speed(sizes: Sequence[int]) -> None:
    """Print `evaluate` against NumPy's IPS (one value and its spread) and against copying the three
    arrays.
    """
    rows = []
    for n in sizes:
        log = make_log(n)
        plain, copy = cpu_seconds(plain_ips(log)), cpu_seconds(copying(log))
        for label, names in SETS.items():
            if all(name in registry.names() for name in names):
                repeats = 2 if n > 200_000 and label not in ("ips",) else 5
                spent = cpu_seconds(evaluation(log, names), repeats)
                rows.append(
                    (
                        f"{n:,}",
                        label,
                        f"{spent / plain:.1f}",
                        f"{spent / copy:.1f}",
                        f"{spent / n * 1e6:.2f}",
                    )
                )
    show("Speed, K = 8", ["n", "evaluate()", "x NumPy IPS", "x copy", "CPU s per million"], rows)


def exponents(*, quick: bool = False) -> None:
    """Print the slopes of log cost over log size."""
    n = 20_000 if quick else 50_000
    lengths, actions = (4, 8, 16), (3, 10, 30)
    rows = []
    for label, names in SETS.items():
        if not all(name in registry.names() for name in names):
            continue
        by_n = [(m, make_log(m)) for m in (n, 2 * n, 4 * n)]
        by_k = [(k, make_log(n, K=k)) for k in lengths]
        by_a = [(a, make_log(n, actions=a)) for a in actions]
        slopes = [
            _slope([(x, cpu_seconds(evaluation(log, names), 2)) for x, log in way])
            for way in (by_n, by_k, by_a)
        ]
        rows.append((label, *(f"{value:.2f}" for value in slopes), _by_candidates(label, n)))
    header = ["", f"n, {n:,} to {4 * n:,}", "K, 4 to 16", "actions, 3 to 30", "candidates, 3 to 12"]
    show("Growth: fitted exponents of CPU time", header, rows)


def _by_candidates(label: str, n: int) -> str:
    """Return the exponent of growing a tree in the number of candidate models."""
    if "tree" not in label:
        return ""
    log = make_log(n)
    rng = np.random.default_rng(0)
    masks = [
        np.tril(rng.random((log.K, log.K)) < 0.5) | np.eye(log.K, dtype=bool) for _ in range(12)
    ]

    def grow(count: int) -> Callable[[], object]:
        return lambda: cr.BehaviorTree(candidates=cr.candidates(log.K, masks[:count])).fit(
            log, "new"
        )

    return f"{_slope([(m, cpu_seconds(grow(m), 2)) for m in (3, 6, 12)]):.2f}"


def _slope(points: Sequence[tuple[int, float]]) -> float:
    x, y = np.log(np.array(points, dtype=float)).T
    return float(np.polyfit(x, y, 1)[0])


if __name__ == "__main__":
    speed([8_000, 100_000])
    exponents(quick=True)
