"""The sums of an evaluation over 10,000 partitions, as a cluster with faults would add them.

Every partition's state is made by the pass of a real evaluation. Tasks end in any order; some are
lost and done again, some arrive twice. The driver adds in the order of the partitions, so nothing
of that may show in a digit; a tree that adds whatever is there next may differ by rounding alone.

python -m benchmarks.reduce_tree --partitions 10000
"""

import argparse
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import counterrank as cr
from benchmarks import peak_mb, show
from counterrank.data.source import MemorySource
from counterrank.research import simulate

ESTIMATORS = ["ips", "iips", "rips", "snips", "order-2"]
#: States that a driver holds at a time: neighbours beyond are added on the workers.
HELD = 256
#: Partial sums of the random tree that wait at a time.
WAITING = 50


class Captured(MemorySource):
    """A log that keeps the pass which an evaluation makes over it."""

    partial: Callable[[Any], Any]

    def reduce(self, partial: Callable[[Any], Any], *, label: str = "") -> Any:
        self.partial = partial
        return super().reduce(partial, label=label)


def captured(rows: int, k: int, seed: int) -> tuple[Any, Captured]:
    """Return a log of its own and the pass of its evaluation."""
    world = simulate.random(seed, K=k)
    source = Captured(world.draw(rows, np.random.default_rng(seed)).to_log())
    cr.evaluate(source, ["new"], estimators=ESTIMATORS, audit=False)
    return source.log, source


class Cluster:
    """Partitions whose states come in any order: some lost and done again, some twice."""

    def __init__(self, log: Any, partial: Callable[[Any], Any], partitions: int, seed: int) -> None:
        self.log, self.partial, self.partitions = log, partial, partitions
        self.rng = np.random.default_rng(seed)
        self.size = log.n // partitions
        self.redone = self.twice = 0

    def state(self, index: int) -> Any:
        """Do the work of a partition."""
        return self.partial(self.log.take(slice(index * self.size, (index + 1) * self.size)))

    def arrivals(self, first: int, last: int) -> Iterator[tuple[int, Any]]:
        """Yield the states of a stretch of partitions as they come in."""
        for index in self.rng.permutation(np.arange(first, last)).tolist():
            if self.rng.random() < 0.05:
                self.state(index)  # the worker dies with what it had
                self.redone += 1
            yield index, self.state(index)
            if self.rng.random() < 0.02:
                self.twice += 1
                yield index, self.state(index)


def in_order(cluster: Cluster) -> tuple[Any, int]:
    """Return the sum as the engines make it, and the bytes of the states held at most."""
    width = -(-cluster.partitions // HELD)
    total, held = None, 0
    for first in range(0, cluster.partitions, width):
        # A stretch is added on a worker, by number; what comes twice replaces itself.
        here = dict(cluster.arrivals(first, min(first + width, cluster.partitions)))
        stretch = None
        for index in sorted(here):
            stretch = here[index] if stretch is None else stretch + here[index]
        held += len(pickle.dumps(stretch))
        total = stretch if total is None else total + stretch
    return total, held


def at_random(cluster: Cluster) -> Any:
    """Return the sum by a random tree: each state joins another that is there, or waits."""
    waiting: list[Any] = []
    seen: set[int] = set()
    for index, state in cluster.arrivals(0, cluster.partitions):
        if index in seen:
            continue
        seen.add(index)
        if waiting and (len(waiting) >= WAITING or cluster.rng.random() < 0.8):
            place = int(cluster.rng.integers(len(waiting)))
            state = waiting.pop(place) + state
        waiting.append(state)
    while len(waiting) > 1:
        one, other = (waiting.pop(int(cluster.rng.integers(len(waiting)))) for _ in range(2))
        waiting.append(one + other)
    return waiting[0]


def digits(state: Any) -> np.ndarray:
    """Return every number of the estimators' sums."""
    return np.concatenate(
        [np.atleast_1d(a).ravel() for a in _arrays([state.all_rows, state.groups])]
    )


def _arrays(part: Any) -> Iterator[np.ndarray]:
    if isinstance(part, np.ndarray) and part.dtype.kind == "f":
        yield part
    elif isinstance(part, float):
        yield np.array(part)
    elif isinstance(part, (tuple, list)):
        for one in part:
            yield from _arrays(one)
    elif isinstance(part, dict):
        for key in sorted(part, key=str):
            yield from _arrays(part[key])
    elif hasattr(part, "__dataclass_fields__"):
        for name in part.__dataclass_fields__:
            yield from _arrays(getattr(part, name))


def compared(partitions: int, rows: int, k: int, seed: int = 0) -> dict[str, Any]:
    """Return how sums over faulty clusters compare with the sum over one without faults."""
    log, source = captured(partitions * rows, k, seed)
    plain = None
    quiet = Cluster(log, source.partial, partitions, seed)
    width = -(-partitions // HELD)
    for first in range(0, partitions, width):
        stretch = None
        for index in range(first, min(first + width, partitions)):
            state = quiet.state(index)
            stretch = state if stretch is None else stretch + state
        plain = stretch if plain is None else plain + stretch
    one, other = (Cluster(log, source.partial, partitions, seed + i) for i in (1, 2))
    ordered, held = in_order(one)
    random = at_random(other)
    base = digits(plain)
    scale = np.maximum(np.abs(base), 1e-300)
    return {
        "numbers": len(base),
        "redone": one.redone + other.redone,
        "twice": one.twice + other.twice,
        "same": bool(np.array_equal(base, digits(ordered), equal_nan=True)),
        "random": float(np.nanmax(np.abs(digits(random) - base) / scale)),
        "held_mb": held / 1e6,
        "state_kb": len(pickle.dumps(source.partial(log.take(slice(0, rows))))) / 1e3,
    }


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=50)
    parser.add_argument("--k", type=int, default=10)
    given = parser.parse_args()
    found = compared(given.partitions, given.rows, given.k)
    show(
        f"{given.partitions:,} partitions",
        ["what", "figure"],
        [(name, f"{value}") for name, value in {**found, "peak MB": round(peak_mb())}.items()],
    )


if __name__ == "__main__":
    main()
