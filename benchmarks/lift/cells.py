"""What every population gives: cells, each a way to make numbered logs whose lift is known."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import counterrank as cr
from counterrank.common.atomic import write_text

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Two sets of draws that share no session, no user, no world and no seed. Set methods on the first,
#: look at the second once.
DRAWS = {"dev": 11, "fresh": 87}
TARGET = "new"
#: Half of a 95 % interval, in standard errors.
Z = 1.959964


@dataclass(frozen=True, slots=True)
class Truth:
    """The true lift with its own standard error, what the logger earns, and how much pages vary.

    `sd_old` and `sd_new` are those of a page's reward under logger and target: an A/B test with n
    pages in each arm knows the lift up to Z sqrt((sd_old^2 + sd_new^2) / n).
    """

    lift: float
    base: float
    sd_old: float
    sd_new: float
    stderr: float = 0.0

    def test_half_width(self, n: int) -> float:
        """Return the half-width of an A/B test with n pages in each arm."""
        return float(Z * np.sqrt((self.sd_old**2 + self.sd_new**2) / n))


@dataclass(frozen=True, slots=True)
class Case:
    """One log with its target "new" and the truth; `fresh` unless the target was made from it."""

    log: cr.RankingLog
    truth: Truth
    fresh: bool = True


@dataclass(frozen=True, slots=True)
class Cell:
    """A population, a name, and how its log of a number is made.

    `sweep`: whether it is part of the short sweep of development.
    """

    population: str
    name: str
    make: Callable[[int], Case]
    sweep: bool = True


@dataclass(frozen=True, slots=True)
class Kept:
    """True lifts that cost seconds, found once and kept as JSON in a folder; None keeps nothing."""

    folder: Path | None = None

    def truth(self, key: str, make: Callable[[], Truth]) -> Truth:
        """Return the truth of this key, made where it is not kept yet."""
        if self.folder is None:
            return make()
        path = self.folder / f"{key}.json"
        if not path.exists():
            write_text(path, json.dumps(asdict(make())))
        return Truth(**json.loads(path.read_text()))


def any_click(clicks: Floats) -> Floats:
    """Return 1 for a page with a click (n,)."""
    found: Floats = (clicks > 0).any(axis=1).astype(float)
    return found


def reciprocal_rank(clicks: Floats) -> Floats:
    """Return 1 / place of the first click of a page (n,), 0 without one.

    >>> reciprocal_rank(np.array([[0, 0, 1, 1], [0, 0, 0, 0], [1, 0, 0, 0]])).round(2).tolist()
    [0.33, 0.0, 1.0]
    """
    hit = clicks > 0
    return np.where(hit.any(axis=1), 1.0 / (1.0 + hit.argmax(axis=1)), 0.0)


#: Rewards of a page as a whole, from its clicks.
PAGE_REWARDS: dict[str, Callable[[Floats], Floats]] = {
    "any click": any_click,
    "reciprocal rank": reciprocal_rank,
}


def at_last(page: Floats, K: int) -> Floats:
    """Return one reward per page (n,) as readers put it: (n, K), at the last item, which sees all."""
    out = np.zeros((len(page), K))
    out[:, -1] = page
    return out
