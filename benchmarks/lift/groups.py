"""Groups of users who read a page differently, with effects of two and three items, positions drawn
independently.

The context tells the group of a user, but no linear function of it does. In each group an item's reward
depends on other items of the page, by pairs, by triples or as a product. Models of pairs that are the
same for all users are wrong together, and whole rankings are too rare to show it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

import counterrank as cr
from benchmarks.lift.cells import DRAWS, TARGET, Case, Cell, Floats, Ints, Kept, Truth
from counterrank.data.log import Propensity

GROUPS, FEATURES = 3, 3
#: Of a standard normal column.
TERCILES = (-0.43, 0.43)
TRUE_ROWS = 2**18
LOGS_OF_A_WORLD = 12


@dataclass(frozen=True, slots=True)
class Groups:
    """A world of groups; everything follows from the seed.

    `hidden`: the log has no context. `column`: one column of the context tells the groups apart, as the
    premise of behaviour trees is; otherwise it is the nearest of three centres.
    """

    seed: int
    effect: Literal["pair", "triple", "product"]
    K: int = 5
    items: int = 4
    n: int = 4_000
    epsilon: float = 0.3
    binary: bool = False
    hidden: bool = False
    column: bool = False


class World:
    """Rewards and policies of `Groups`."""

    def __init__(self, groups: Groups) -> None:
        self.groups, K, A = groups, groups.K, groups.items
        rng = np.random.default_rng([groups.seed, 83])
        self.centre = rng.normal(size=(GROUPS, FEATURES))
        self.own = rng.normal(size=(GROUPS, K, A)) * 0.3
        self.pair = rng.normal(size=(GROUPS, A, A)) * 0.2
        self.triple = rng.normal(size=(GROUPS, A, A, A)) * 0.2
        self.near = rng.random((GROUPS, K, K)) < 0.5
        self.score = rng.normal(size=(FEATURES, A)) * 0.5
        self.level = rng.normal(size=A) * 0.5

    def distributions(self, x: Floats) -> tuple[Floats, Floats]:
        """Return the logger's and the target's distributions at every position (n, A)."""
        score = x @ self.score + self.level
        weight = np.exp(score - score.max(axis=1, keepdims=True))
        old = weight / weight.sum(axis=1, keepdims=True)
        A, epsilon = self.groups.items, self.groups.epsilon
        new = np.full(old.shape, epsilon / A)
        new[np.arange(len(x)), old.argmin(axis=1)] += 1 - epsilon
        return old, new

    def expected(self, x: Floats, action: Ints) -> Floats:
        """Return the expected rewards of pages (n, K)."""
        group = ((x[:, None] - self.centre) ** 2).sum(axis=2).argmin(axis=1)
        if self.groups.column:
            group = np.digitize(x[:, 0], TERCILES)
        K, kind = self.groups.K, self.groups.effect
        q = 1.0 + self.own[group[:, None], np.arange(K), action]
        for k in range(K):
            for other in range(K):
                if other == k:
                    continue
                near = self.near[group, k, other]
                pair = self.pair[group, action[:, k], action[:, other]]
                if kind == "product":
                    q[:, k] *= np.where(near, 1 + 0.5 * np.tanh(pair), 1.0)
                elif kind == "pair":
                    q[:, k] += near * pair
                else:
                    third = action[:, (other + 1) % K]
                    q[:, k] += near * self.triple[group, action[:, k], action[:, other], third]
        return 1 / (1 + np.exp(-q + 1)) if self.groups.binary else q

    def draw(self, n: int, rng: np.random.Generator, new: bool) -> tuple[Floats, Ints, Floats]:
        """Return context, items and expected rewards of n pages of the logger or the target."""
        x = rng.normal(size=(n, FEATURES))
        chance = self.distributions(x)[int(new)]
        edge = chance.cumsum(axis=1)[:, None, :-1]
        action = (edge < rng.random((n, self.groups.K, 1))).sum(axis=2)
        return x, action, self.expected(x, action)

    def rewards(self, q: Floats, rng: np.random.Generator) -> Floats:
        """Return rewards of this mean: 0/1, or with normal noise."""
        if self.groups.binary:
            return (rng.random(q.shape) < q).astype(float)
        noisy: Floats = q + 0.5 * rng.normal(size=q.shape)
        return noisy

    def truth(self) -> Truth:
        """Return the lift from pages of both policies."""
        rng = np.random.default_rng([self.groups.seed, 89])
        means, errors, spreads = [], [], []
        for new in (False, True):
            q = self.draw(TRUE_ROWS, rng, new)[2]
            total, paid = q.sum(axis=1), self.rewards(q, rng).sum(axis=1)
            means.append(float(total.mean()))
            errors.append(float(total.std() / np.sqrt(len(total))))
            spreads.append(float(paid.std()))
        return Truth(means[1] - means[0], means[0], *spreads, stderr=float(np.hypot(*errors)))

    def log(self, rng: np.random.Generator) -> cr.RankingLog:
        """Return a log with both whole distributions."""
        x, action, q = self.draw(self.groups.n, rng, new=False)
        whole = self.distributions(x)
        old, new = (np.take_along_axis(p, action, axis=1) for p in whole)
        return cr.RankingLog(
            action=action,
            reward=self.rewards(q, rng),
            propensity=Propensity("factored", old),
            targets={TARGET: Propensity("factored", new)},
            dists={"propensity": whole[0], TARGET: whole[1]},
            context=None if self.groups.hidden else x,
        )


SETTINGS = (
    {"effect": "pair"},
    {"effect": "triple"},
    {"effect": "product"},
    {"effect": "triple", "K": 7, "n": 8_000},
    {"effect": "pair", "K": 7, "items": 6},
    {"effect": "triple", "items": 3, "hidden": True},
    {"effect": "triple", "binary": True},
    {"effect": "pair", "binary": True, "K": 6},
    {"effect": "product", "K": 6, "items": 5, "n": 16_000},
    {"effect": "triple", "epsilon": 0.6},
)


#: The premise of behaviour trees: light and heavy weights, pairs and triples, short and long logs.
PREMISE = tuple(
    {"effect": effect, "K": 6, "epsilon": epsilon, "n": n, "column": True}
    for effect in ("pair", "triple")
    for epsilon in (0.7, 0.3)
    for n in (2_000, 8_000)
)


def cells(draws: str, data: Path | None, kept: Kept) -> list[Cell]:
    """Return the cells whose groups are the nearest of three centres."""
    return cells_of("groups", SETTINGS, draws, kept, 79)


def premise(draws: str, data: Path | None, kept: Kept) -> list[Cell]:
    """Return the cells whose groups one column of the context tells apart."""
    return cells_of("premise", PREMISE, draws, kept, 97)


def cells_of(
    population: str, settings: Sequence[Mapping[str, object]], draws: str, kept: Kept, stream: int
) -> list[Cell]:
    """Return a cell for each of the settings; every dozen of its logs has a world of its own."""

    def cell(place: int, options: Mapping[str, object]) -> Cell:
        words = [
            f"{name} {value}" if name != "effect" else str(value) for name, value in options.items()
        ]

        def make(number: int) -> Case:
            entropy = [DRAWS[draws], stream, place, number // LOGS_OF_A_WORLD]
            seed = int(np.random.default_rng(entropy).integers(10**9))
            world = Groups(seed, **options)  # type: ignore[arg-type]
            truth = kept.truth(f"{population}-{seed}-{place}", lambda: World(world).truth())
            return Case(World(world).log(np.random.default_rng([seed, number])), truth)

        return Cell(population, f"{place} {', '.join(words)}", make)

    return [cell(place, options) for place, options in enumerate(settings)]
