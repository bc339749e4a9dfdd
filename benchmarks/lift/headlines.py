"""Real readers of headlines: one position, rare clicks, a package given by lot.

A file has columns test, headline, impressions, clicks, a row a package. Tests are dealt to development
and judging once and for all. In every log the readers of each package are dealt anew: a part trains the
target, the others are the population, whose click rates are the truth. A package that won by luck in
the first part falls back in the second.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.csv as csv

import counterrank as cr
from benchmarks.lift.cells import DRAWS, TARGET, Case, Cell, Floats, Ints, Kept, Truth
from counterrank.policies import Candidates, parse_policy

FILE = "headlines.csv.gz"


@dataclass(frozen=True, slots=True)
class Setting:
    """A target, the number of readers in the log, of tests, and the part of the readers that trains."""

    target: str
    n: int
    tests: int
    trained: float = 0.3
    sharp: float = 1.0

    @property
    def name(self) -> str:
        return f"{self.target} n {self.n} tests {self.tests}"


SETTINGS = (
    Setting("winner", 20_000, 30),
    Setting("winner", 5_000, 10),
    Setting("soft", 20_000, 30),
    Setting("soft", 50_000, 60),
    Setting("chance", 20_000, 30),
)


@dataclass(frozen=True, slots=True)
class Packages:
    """The test, the impressions and the clicks of each package (P,)."""

    test: Ints
    impressions: Ints
    clicks: Ints

    @classmethod
    def read(cls, path: Path, draws: str) -> "Packages":
        """Return the packages of the tests of development, or of those of judging."""
        table = csv.read_csv(path)
        test, seen, clicks = (
            table[name].to_numpy().astype(np.int64) for name in ("test", "impressions", "clicks")
        )
        found = np.unique(test)
        deal = np.random.default_rng(20_211).permutation(len(found)) % 2
        mine = np.isin(test, found[deal == sorted(DRAWS).index(draws)])
        return cls(test[mine], seen[mine], clicks[mine])

    def some(self, tests: int, rng: np.random.Generator) -> "Packages":
        """Return the packages of some tests, which are numbered anew."""
        picked = rng.choice(np.unique(self.test), tests, replace=False)
        rows = np.flatnonzero(np.isin(self.test, picked))
        number = np.unique(self.test[rows], return_inverse=True)[1].reshape(-1)
        return Packages(number, self.impressions[rows], self.clicks[rows])


def case(packages: Packages, setting: Setting, seed: tuple[int, ...]) -> Case:
    """Return one log: a uniform choice within a test, and readers of the second part who answer."""
    rng = np.random.default_rng(seed)
    some = packages.some(setting.tests, rng)
    taught = np.floor(setting.trained * some.impressions).astype(np.int64)
    won = rng.hypergeometric(some.clicks, some.impressions - some.clicks, taught)
    rate = (some.clicks - won) / (some.impressions - taught)
    scores = _scores(setting, some.test, (won + 1.0) / (taught + 100.0), rng)
    size = np.bincount(some.test)
    old = 1.0 / size[some.test]
    new = _chances(setting, some.test, scores)
    traffic = np.bincount(some.test, weights=some.impressions)
    traffic = traffic / traffic.sum()
    values = [float((traffic[some.test] * p) @ rate) for p in (old, new)]
    truth = Truth(values[1] - values[0], values[0], *(np.sqrt(v * (1 - v)) for v in values))
    test = rng.choice(setting.tests, setting.n, p=traffic)
    first = np.concatenate([[0], np.cumsum(size)])
    shown = first[test] + np.floor(rng.random(setting.n) * size[test]).astype(np.int64)
    clicked = (rng.random(setting.n) < rate[shown]).astype(float)
    items = np.concatenate([np.arange(first[t], first[t + 1]) for t in test]).astype(np.int32)
    sets = Candidates(np.concatenate([[0], np.cumsum(size[test])]), items, n_items=len(rate))
    spec = parse_policy("top" if setting.target == "winner" else "plackett-luce")
    logger = parse_policy("plackett-luce").bind(candidates=sets, scores=np.zeros(len(items)))
    log = cr.RankingLog(
        action=shown[:, None],
        reward=clicked[:, None],
        propensity=logger,
        targets={TARGET: spec.bind(candidates=sets, scores=scores[items])},
        candidates=sets,
        context=test[:, None].astype(float),
        context_names=("test",),
        categories={"test": tuple(f"t{t}" for t in range(setting.tests))},
    )
    return Case(log, truth)


def _scores(setting: Setting, test: Ints, rate: Floats, rng: np.random.Generator) -> Floats:
    """Return the target's scores (P,), of variance `sharp` squared within a test."""
    raw = rng.normal(size=len(rate)) if setting.target == "chance" else np.log(rate)
    count = np.bincount(test)
    away = raw - (np.bincount(test, weights=raw) / count)[test]
    spread = np.sqrt(np.bincount(test, weights=away**2) / count)[test]
    return setting.sharp * away / np.maximum(spread, 1e-12)


def _chances(setting: Setting, test: Ints, scores: Floats) -> Floats:
    """Return the probability (P,) that the target shows each package of its test."""
    best = np.full(int(test.max()) + 1, -np.inf)
    np.maximum.at(best, test, scores)
    weight = np.exp(scores) if setting.target != "winner" else (scores == best[test]) * 1.0
    shares: Floats = weight / np.bincount(test, weights=weight)[test]
    return shares


def cells(draws: str, data: Path | None, kept: Kept) -> list[Cell]:
    """Return the cells, none where the file is not there."""
    if data is None or not (data / FILE).exists():
        print(f"headlines: no {FILE} under --data, left out")
        return []
    packages = Packages.read(data / FILE, draws)

    def cell(place: int, setting: Setting) -> Cell:
        return Cell(
            "headlines",
            setting.name,
            lambda number: case(packages, setting, (DRAWS[draws], 41, place, number)),
        )

    return [cell(place, setting) for place, setting in enumerate(SETTINGS)]
