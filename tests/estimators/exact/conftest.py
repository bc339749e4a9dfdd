"""A tiny world in which every expectation is a finite sum, and a log that *is* its distribution.

Probabilities of the logger, of contexts, behaviours and rewards are ratios of small integers, so
each event can be written down as often as it is likely: the plain mean over such a log is the
expectation, to rounding.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

import counterrank as cr
from counterrank.estimators.behavior import mask

K, A = 3, 2
NOISE = 0.75  # a reward is q + NOISE or q - NOISE, each half of the time


@dataclass
class World:
    """Two contexts; logger and target independent over positions; behaviour drawn given the
    context.
    """

    counts: np.ndarray  # (X, K, A): the logger's probabilities times `unit`
    unit: int
    target: np.ndarray  # (X, K, A)
    context_counts: tuple[int, ...]
    behaviors: list[list[tuple[np.ndarray, int]]]  # per context: masks with counts of equal sum
    reward: Callable[[int, int, tuple[int, ...], tuple[int, ...]], float]
    events: list[tuple[int, np.ndarray, tuple[int, ...], int]] = field(init=False)

    def __post_init__(self) -> None:
        self.events = []
        for x, times_x in enumerate(self.context_counts):
            for c, times_c in self.behaviors[x]:
                for a in itertools.product(range(A), repeat=K):
                    times_a = int(np.prod([self.counts[x, k, a[k]] for k in range(K)]))
                    self.events.append((x, c, a, times_x * times_c * times_a))

    @property
    def total(self) -> int:
        return sum(times for *_, times in self.events)

    def p0(self, x: int, a: tuple[int, ...], positions: tuple[int, ...]) -> float:
        return float(np.prod([self.counts[x, k, a[k]] / self.unit for k in positions]))

    def p1(self, x: int, a: tuple[int, ...], positions: tuple[int, ...]) -> float:
        return float(np.prod([self.target[x, k, a[k]] for k in positions]))

    def q(self, x: int, c: np.ndarray, a: tuple[int, ...], k: int) -> float:
        relevant = tuple(np.flatnonzero(c[k]).tolist())
        return self.reward(x, k, relevant, tuple(a[m] for m in relevant))

    def expectation(self, f: Callable[[int, np.ndarray, tuple[int, ...]], float]) -> float:
        """Return E over contexts, behaviours and the logger's rankings of f(x, c, a)."""
        return sum(times * f(x, c, a) for x, c, a, times in self.events) / self.total

    def value(self, k: int) -> float:
        """Return V_k of the target by definition: contexts and behaviours as they come, rankings of
        the target.
        """
        everything = tuple(range(K))
        return self.expectation(
            lambda x, c, a: (
                self.p1(x, a, everything) / self.p0(x, a, everything) * self.q(x, c, a, k)
            )
        )

    def log(self) -> tuple[cr.RankingLog, np.ndarray, np.ndarray]:
        """Return the log of all events, the target's probabilities (n, K) and the behaviour of each
        row (n, K, K).
        """
        action, reward, p0, p1, masks = [], [], [], [], []
        for x, c, a, times in self.events:
            mean = np.array([self.q(x, c, a, k) for k in range(K)])
            for sign in (-NOISE, NOISE):
                action += [a] * times
                reward += [mean + sign] * times
                p0 += [[self.p0(x, a, (k,)) for k in range(K)]] * times
                p1 += [[self.p1(x, a, (k,)) for k in range(K)]] * times
                masks += [c] * times
        log = cr.RankingLog(action=action, reward=reward, propensity=p0)
        return log, np.array(p1), np.array(masks)


def table_of_rewards(seed: int) -> Callable[[int, int, tuple[int, ...], tuple[int, ...]], float]:
    """Return an arbitrary q_k(x, Phi): one normal number for each context, position and relevant
    items.
    """
    known: dict[tuple[object, ...], float] = {}
    rng = np.random.default_rng(seed)

    def reward(x: int, k: int, relevant: tuple[int, ...], items: tuple[int, ...]) -> float:
        key = (x, k, relevant, items)
        if key not in known:
            known[key] = float(rng.normal(1.0, 1.0))
        return known[key]

    return reward


def make_world(
    behaviors: list[list[tuple[np.ndarray, int]]], *, seed: int = 0, reward: object = None
) -> World:
    rng = np.random.default_rng(seed)
    first = rng.integers(1, 4, (2, K))  # of four
    counts = np.stack([first, 4 - first], axis=-1)
    chance = rng.uniform(0.1, 0.9, (2, K))
    target = np.stack([chance, 1 - chance], axis=-1)
    return World(counts, 4, target, (1, 2), behaviors, reward or table_of_rewards(seed + 1))  # type: ignore[arg-type]


@pytest.fixture
def world_of() -> Callable[..., World]:
    """Return a maker of worlds: a behaviour name for everyone, or a list of (mask, count) per
    context.
    """

    def make(behaviors: object, *, seed: int = 0, reward: object = None) -> World:
        if isinstance(behaviors, str):
            behaviors = [[(mask(behaviors, K), 1)]] * 2
        return make_world(behaviors, seed=seed, reward=reward)  # type: ignore[arg-type]

    return make


@pytest.fixture
def mixed(world_of: Callable[..., World]) -> World:
    """Behaviour that differs within and between contexts: C or N1 at 1:3 in one, I or a random mask
    at 2:2.
    """
    odd = np.array([[1, 0, 1], [1, 1, 0], [0, 1, 1]], dtype=bool)
    return world_of([[(mask("C", K), 1), (mask("N1", K), 3)], [(mask("I", K), 2), (odd, 2)]])
