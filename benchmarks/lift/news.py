"""Real readers of news pages whose order was random, so that any logger of the first K places is
real.

A page is nine articles (topic, the reader's stated interest in it) in uniformly random order, and
the one that was read. Rejection turns such pages into a log of any within-page logger with exact
propensities; the truth comes from other pages by exact weights, and has an error of its own.
Readers are dealt to development and judging once and for all; within each, every log number deals
the pages anew: some tell which topics are read, some are the truth, some are logged.
"""

from dataclasses import dataclass
from math import perm
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.csv as csv
from numpy.typing import NDArray

import counterrank as cr
from benchmarks.lift.cells import (
    DRAWS,
    PAGE_REWARDS,
    TARGET,
    Case,
    Cell,
    Floats,
    Ints,
    Kept,
    Truth,
    at_last,
)
from counterrank.policies import Candidates, parse_policy

FILE = "news_pages.csv.gz"
ARTICLES = 9
#: Of the pages: those that tell what is popular, those of the truth; the rest may be logged.
LEARNT, TRUE = 0.12, 0.42


@dataclass(frozen=True, slots=True)
class Setting:
    """The first K places, scores of logger and target, how sharp each is, and the reward."""

    K: int
    logger: str
    target: str
    old: float
    new: float
    reward: str = "clicks"
    sweep: bool = True

    @property
    def name(self) -> str:
        page = "" if self.reward == "clicks" else f" {self.reward}"
        return f"K {self.K} {self.logger} {self.old:g} to {self.target} {self.new:g}{page}"


SETTINGS = (
    Setting(3, "uniform", "interest", 0, 0.5),
    Setting(3, "chance", "interest", 0.3, 0.6),
    Setting(3, "interest", "popular", 0.3, 0.6),
    Setting(5, "uniform", "both", 0, 0.3),
    Setting(5, "popular", "both", 0.2, 0.4),
    Setting(4, "uniform", "chance", 0, 0.5),
    Setting(3, "interest", "interest", 0.3, 0.3),
    Setting(4, "interest", "retrained", 0.2, 0.5),
    Setting(5, "uniform", "both", 0, 0.3, "any click"),
    Setting(4, "chance", "interest", 0.2, 0.5, "reciprocal rank"),
    Setting(2, "uniform", "popular", 0, 0.8, sweep=False),
    Setting(6, "uniform", "interest", 0, 0.3, sweep=False),
    Setting(4, "both", "chance", 0.3, 0.3, sweep=False),
    Setting(3, "popular", "interest", 0.4, 0.4, sweep=False),
)

#: Rankers that were trained on other pages by boosting.
TRAINED = (
    Setting(5, "uniform", "trained", 0, 0.5),
    Setting(3, "uniform", "trained", 0, 1.0),
    Setting(4, "interest", "trained", 0.3, 0.6),
    Setting(3, "popular", "trained", 0.3, 0.8),
    Setting(2, "uniform", "trained", 0, 2.0),
)


@dataclass(frozen=True, slots=True)
class Pages:
    """topic and pref (N, 9) in the order shown, the place that was read (N,), and the readers."""

    topic: Ints
    pref: Floats
    read: Ints
    user: Ints
    context: Floats  # device, age, interest in politics, hour
    topics: tuple[str, ...]
    devices: tuple[str, ...]

    @classmethod
    def load(cls, path: Path) -> "Pages":
        """Return the pages of a file; an unknown interest is the scale's lower middle."""
        table = csv.read_csv(path)

        def side(stem: str) -> NDArray[Any]:
            columns = [table[f"{stem}_{k}"].to_numpy() for k in range(1, ARTICLES + 1)]
            return np.stack(columns, axis=1)

        names = side("topic").astype(str)
        topics, topic = np.unique(names, return_inverse=True)
        devices, device = np.unique(table["device"].to_numpy().astype(str), return_inverse=True)
        pref = side("pref").astype(float)
        other = [table[name].to_numpy().astype(float) for name in ("age", "interest")]
        hour = pc.hour(table["time"]).to_numpy().astype(float)
        return cls(
            topic.reshape(names.shape),
            np.where(np.isnan(pref), 3.0, pref),
            table["click"].to_numpy() - 1,
            table["user"].to_numpy(),
            np.stack([device.reshape(-1).astype(float), *other, hour], axis=1),
            tuple(topics.tolist()),
            tuple(devices.tolist()),
        )

    def take(self, rows: NDArray[Any]) -> "Pages":
        """Return some of the pages."""
        parts = (self.topic, self.pref, self.read, self.user, self.context)
        return Pages(*(part[rows] for part in parts), self.topics, self.devices)

    def part(self, draws: str) -> "Pages":
        """Return the pages of the readers of development, or of those of judging."""
        users = np.unique(self.user)
        deal = np.random.default_rng(20_191).permutation(len(users)) % 2
        mine = users[deal == sorted(DRAWS).index(draws)]
        return self.take(np.isin(self.user, mine))

    def popularity(self) -> Floats:
        """Return the log of how often each topic is read, relative to how often it is there."""
        T = len(self.topics)
        read = np.bincount(self.topic[np.arange(len(self.read)), self.read], minlength=T)
        there = np.bincount(self.topic.ravel(), minlength=T) / ARTICLES
        return np.log((read + 3.0) / (there + 3.0))


def clicks(read: Ints, K: int) -> Floats:
    """Return clicks (n, K) of pages whose article at place `read` was read, perhaps beyond K."""
    return (read[:, None] == np.arange(K)).astype(float)


def weights(scores: Floats, K: int) -> Floats:
    """Return P(first K places as they stand) under Plackett-Luce relative to a uniform order (n,)."""
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    left = np.cumsum(e[:, ::-1], axis=1)[:, ::-1]
    out: Floats = (e[:, :K] / left[:, :K]).prod(axis=1) * perm(ARTICLES, K)
    return out


def standardised(values: Floats) -> Floats:
    """Return values with mean 0 and variance 1; alike values become zeros."""
    return (values - values.mean()) / max(float(values.std()), 1e-12)


class Readers:
    """Pages dealt into those that teach, those of the truth and those that are logged."""

    def __init__(self, pages: Pages, setting: Setting, rng: np.random.Generator) -> None:
        self.pages, self.setting = pages, setting
        place = rng.permutation(len(pages.read)) / len(pages.read)
        self.taught = np.flatnonzero(place < LEARNT)
        self.true = np.flatnonzero((place >= LEARNT) & (place < LEARNT + TRUE))
        self.pool = np.flatnonzero(place >= LEARNT + TRUE)
        # By topic, since articles have no ids.
        self.luck = rng.normal(size=len(pages.topics))
        self.old = setting.old * self.scores(setting.logger, self.taught)
        self.new = self.old

    def scores(self, kind: str, rows: Ints) -> Floats:
        """Return scores of all pages (N, 9); popularity is that of the pages `rows`."""
        pages = self.pages
        interest = standardised(pages.pref)
        if kind == "uniform":
            return np.zeros(pages.pref.shape)
        if kind == "interest":
            return interest
        if kind == "chance":
            return standardised(self.luck[pages.topic])
        if kind == "trained":
            return standardised(boosted(pages.take(rows), pages))
        popular = standardised(pages.take(rows).popularity()[pages.topic])
        return popular if kind == "popular" else standardised(interest + popular)

    def logged(self, rng: np.random.Generator) -> Ints:
        """Return the pages that the logger would have shown as they are: rejection is exact."""
        w = weights(self.old[self.pool], self.setting.K)
        return self.pool[rng.random(len(w)) < w / w.max()]

    def aim(self, rows: Ints) -> None:
        """Make the target; `rows` are the logged pages, on which a retrained one is trained."""
        trained = self.setting.target == "retrained"
        kind = "both" if trained else self.setting.target
        self.new = self.setting.new * self.scores(kind, rows if trained else self.taught)

    def reward(self, rows: Ints) -> Floats:
        """Return the rewards of pages (n, K)."""
        found = clicks(self.pages.read[rows], self.setting.K)
        page = PAGE_REWARDS.get(self.setting.reward)
        return found if page is None else at_last(page(found), self.setting.K)

    def truth(self) -> Truth:
        """Return the lift on the pages of the truth by exact weights, and its standard error."""
        K, y = self.setting.K, self.reward(self.true).sum(axis=1)
        old, new = (weights(s[self.true], K) for s in (self.old, self.new))
        values = [float(w @ y / w.sum()) for w in (old, new)]
        squares = [float(w @ y**2 / w.sum()) for w in (old, new)]
        # Influence of a page on each ratio; the lift's is their difference.
        away = new * (y - values[1]) / new.mean() - old * (y - values[0]) / old.mean()
        return Truth(
            values[1] - values[0],
            values[0],
            *(float(np.sqrt(s - v**2)) for s, v in zip(squares, values, strict=True)),
            stderr=float(np.sqrt((away**2).mean() / len(y))),
        )

    def log(self, rows: Ints, rng: np.random.Generator) -> cr.RankingLog:
        """Return the log of these pages; candidates stand in random order, articles have ids."""
        pages, (K, n) = self.pages, (self.setting.K, len(rows))
        shuffle = np.argsort(rng.random((n, ARTICLES)), axis=1)
        ids = np.arange(n * ARTICLES).reshape(n, ARTICLES)

        def listed(values: NDArray[Any]) -> NDArray[Any]:
            return np.take_along_axis(values, shuffle, axis=1).reshape(-1)

        sets = Candidates(
            np.arange(n + 1) * ARTICLES,
            listed(ids).astype(np.int32),
            {"topic": listed(pages.topic[rows]), "pref": listed(pages.pref[rows])},
            {"topic": pages.topics},
        )
        spec = parse_policy("plackett-luce")
        old, new = (
            spec.bind(candidates=sets, scores=listed(s[rows])) for s in (self.old, self.new)
        )
        return cr.RankingLog(
            action=ids[:, :K],
            reward=self.reward(rows),
            propensity=old,
            targets={TARGET: new},
            candidates=sets,
            context=pages.context[rows],
            context_names=("device", "age", "interest", "hour"),
            categories={"device": pages.devices},
            unit=pages.user[rows],
            page_reward=self.setting.reward in PAGE_REWARDS,
        )


def case(pages: Pages, setting: Setting, seed: tuple[int, ...]) -> Case:
    """Return one log: how pages are dealt, the target and the rows all follow the seed."""
    deal, rows = (np.random.default_rng([*seed, part]) for part in range(2))
    readers = Readers(pages, setting, deal)
    kept = readers.logged(rows)
    readers.aim(kept)
    return Case(readers.log(kept, rows), readers.truth(), fresh=setting.target != "retrained")


def boosted(taught: Pages, pages: Pages) -> Floats:
    """Return scores (N, 9) of all articles by boosting, trained on which article of a page was read."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    def columns(some: Pages) -> Floats:
        own = np.stack(
            [some.topic, some.pref, some.pref - some.pref.mean(axis=1, keepdims=True)], axis=2
        )
        reader = np.repeat(some.context[:, None], ARTICLES, axis=1)
        return np.concatenate([own, reader], axis=2).reshape(len(some.read) * ARTICLES, -1)

    model = HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=8, categorical_features=[0])
    model.fit(columns(taught), clicks(taught.read, ARTICLES).ravel())
    chance = model.predict_proba(columns(pages))[:, 1].reshape(pages.pref.shape)
    return np.log(chance / (1 - chance))


def cells(draws: str, data: Path | None, kept: Kept) -> list[Cell]:
    """Return the cells, none where the file is not there."""
    return _cells("news", SETTINGS, 37, draws, data)


def trained(draws: str, data: Path | None, kept: Kept) -> list[Cell]:
    """Return the cells whose targets were trained on other pages."""
    return _cells("readers", TRAINED, 47, draws, data)


def _cells(
    population: str, settings: tuple[Setting, ...], stream: int, draws: str, data: Path | None
) -> list[Cell]:
    if data is None or not (data / FILE).exists():
        print(f"{population}: no {FILE} under --data, left out")
        return []
    pages = Pages.load(data / FILE).part(draws)

    def cell(place: int, setting: Setting) -> Cell:
        return Cell(
            population,
            setting.name,
            lambda number: case(pages, setting, (DRAWS[draws], stream, place, number)),
            setting.sweep,
        )

    return [cell(place, setting) for place, setting in enumerate(settings)]
