"""Real search clicks: lists drawn from a known logger, answered by sessions that showed them.

A file has columns query, region, doc_1.., click_1.., a row a session. Its sessions are dealt to
development and judging once and for all; within each, every log number deals each list's sessions
anew: half of them say how well the list and its documents did, from which targets are made, and
half are the population, whose mean clicks are the truth. Scored on the same sessions, noise would
look like success.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.csv as csv

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

FILE = "search_log_a.csv.gz"
#: Sessions that a list needs to be among those the policies choose from, and lists of a query.
SESSIONS, LISTS = 20, 3
#: Loggers show a list in proportion to this power of how often it was shown.
LOGGERS = {"rooted": 0.5, "as it was": 1.0, "even": 0.2}


@dataclass(frozen=True, slots=True)
class Setting:
    """K positions, n rankings, a kind of target and its sharpness, a logger, and the reward."""

    K: int
    n: int
    target: str
    sharp: float = 1.5
    logger: str = "rooted"
    reward: str = "clicks"
    sweep: bool = True

    @property
    def name(self) -> str:
        extra = [f"sharp {self.sharp:g}"] if self.sharp != 1.5 else []
        extra += [self.logger] if self.logger != "rooted" else []
        extra += [self.reward] if self.reward != "clicks" else []
        return " ".join([f"K {self.K} n {self.n} {self.target}", *extra])


SETTINGS = (
    Setting(3, 4_000, "lists"),
    Setting(3, 4_000, "documents"),
    Setting(3, 4_000, "chance"),
    Setting(3, 4_000, "none"),
    Setting(3, 4_000, "retrained"),
    Setting(3, 4_000, "best list"),
    Setting(6, 8_000, "lists"),
    Setting(6, 8_000, "documents"),
    Setting(6, 8_000, "chance"),
    Setting(6, 8_000, "retrained"),
    Setting(4, 20_000, "lists", 0.7, "as it was"),
    Setting(8, 4_000, "documents", 1.0, "even"),
    Setting(4, 8_000, "lists", reward="any click"),
    Setting(4, 8_000, "lists", reward="reciprocal rank"),
    Setting(2, 2_000, "lists", 1.0, sweep=False),
    Setting(3, 8_000, "lists", 2.5, sweep=False),
    Setting(6, 4_000, "chance", 0.7, "as it was", sweep=False),
    Setting(6, 20_000, "documents", sweep=False),
    Setting(8, 8_000, "lists", 1.0, sweep=False),
    Setting(5, 4_000, "best list", logger="even", sweep=False),
    Setting(5, 8_000, "documents", reward="any click", sweep=False),
    Setting(5, 8_000, "retrained", 1.0, "even", sweep=False),
)

#: Rankers that were trained on other sessions and never saw this log.
RANKERS = (
    Setting(3, 1_000, "soft ranker"),
    Setting(5, 5_000, "soft ranker"),
    Setting(3, 4_000, "soft ranker", 0.5),
    Setting(5, 5_000, "close ranker"),
    Setting(3, 4_000, "top ranker"),
    Setting(5, 8_000, "top ranker", logger="even"),
    Setting(6, 4_000, "soft ranker", 1.0, "even"),
    Setting(4, 2_000, "close ranker"),
)


@dataclass(frozen=True, slots=True)
class Sessions:
    """Queries (N,), documents (N, 10) as small numbers and clicks (N, 10)."""

    query: Ints
    items: Ints
    clicks: Floats

    @classmethod
    def read(cls, path: Path) -> "Sessions":
        """Return the sessions of a file."""
        table = csv.read_csv(path)
        pairs = np.stack([table[c].to_numpy() for c in ("query", "region")], axis=1)
        shown = np.stack([table[f"doc_{k}"].to_numpy() for k in range(1, 11)], axis=1)
        clicks = np.stack([table[f"click_{k}"].to_numpy() for k in range(1, 11)], axis=1)
        query = np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)
        items = np.unique(shown, return_inverse=True)[1].reshape(shown.shape)
        return cls(query, items, clicks.astype(float))

    def part(self, draws: str) -> "Sessions":
        """Return the sessions of development, or those of judging."""
        deal = np.random.default_rng(20_231).permutation(len(self.query)) % 2
        mine = deal == sorted(DRAWS).index(draws)
        return Sessions(self.query[mine], self.items[mine], self.clicks[mine])


class Replay:
    """Lists by query, the logger's and a target's probabilities, and real answers.

    `lists` (L, K), `owner` (L,) the query of each, `old` and `new` (L,) probabilities within it,
    `traffic` (Q,) shares of the queries, `answers` (L) clicks of the sessions that showed it.
    """

    def __init__(self, sessions: Sessions, setting: Setting, rng: np.random.Generator) -> None:
        self.setting, K = setting, setting.K
        keys = np.column_stack([sessions.query, sessions.items[:, :K]])
        found, member, count = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
        often = count >= SESSIONS
        choice = np.bincount(found[often, 0], minlength=int(found[:, 0].max()) + 1)
        kept = np.flatnonzero(often & (choice[found[:, 0]] >= LISTS))
        by_list = np.split(np.argsort(member.reshape(-1), kind="stable"), np.cumsum(count)[:-1])
        halves = [np.array_split(rng.permutation(by_list[at]), 2) for at in kept]
        clicks = sessions.clicks[:, :K]
        self.owner = np.unique(found[kept, 0], return_inverse=True)[1].reshape(-1)
        # Items are numbered anew, so that the catalogue is what these lists hold.
        self.lists = np.unique(found[kept, 1:], return_inverse=True)[1].reshape(len(kept), K)
        self.scored = [clicks[half[0]] for half in halves]
        self.answers = [clicks[half[1]] for half in halves]
        size = count[kept].astype(float)
        self.traffic = np.sqrt(np.bincount(self.owner, weights=size))
        self.traffic /= self.traffic.sum()
        self.old = self._within(size ** LOGGERS[setting.logger])
        self.new = self.old

    def aim(self, rng: np.random.Generator, seen: tuple[Ints, Floats] | None = None) -> None:
        """Make the target; `seen` are lists (n,) and clicks (n, K) of the log it is trained on."""
        kind = self.setting.target
        if kind == "none":
            self.new = self.old
            return
        if kind in ("lists", "best list"):
            score = np.array([clicks.sum(axis=1).mean() for clicks in self.scored])
        elif kind == "documents":
            score = self._by_document(
                np.repeat(np.arange(len(self.lists)), [len(c) for c in self.scored]),
                np.concatenate(self.scored),
            )
        elif kind.endswith("ranker"):
            score = self._ranked()
        elif kind == "retrained":
            assert seen is not None
            score = self._by_document(*seen)
        else:
            score = rng.normal(size=len(self.lists))
        best = kind in ("best list", "top ranker")
        self.new = self._tilted(score, np.inf if best else self.setting.sharp)
        if kind == "close ranker":
            self.new = 0.7 * self.old + 0.3 * self.new

    def _ranked(self) -> Floats:
        """Return the clicks of each list (L,) that a logistic model of documents and places expects."""
        from scipy.sparse import csr_matrix
        from sklearn.linear_model import LogisticRegression

        listed = np.repeat(np.arange(len(self.lists)), [len(c) for c in self.scored])
        A, K = int(self.lists.max()) + 1, self.lists.shape[1]

        def columns(lists: Ints) -> csr_matrix:
            places = np.broadcast_to(A + np.arange(K), lists.shape)
            ones = np.stack([lists, places], axis=-1).reshape(-1)
            starts = np.arange(0, len(ones) + 1, 2)
            return csr_matrix((np.ones(len(ones)), ones, starts), shape=(lists.size, A + K))

        model = LogisticRegression(max_iter=200)
        model.fit(columns(self.lists[listed]), np.concatenate(self.scored).ravel())
        chance = model.predict_proba(columns(self.lists))[:, 1]
        score: Floats = chance.reshape(self.lists.shape).sum(axis=1)
        return score

    def _by_document(self, listed: Ints, clicks: Floats) -> Floats:
        """Return how the documents of each list did (L,), places higher up counting more.

        Clicks of a document are taken relative to what its places usually get.
        """
        shown = self.lists[listed]
        usual = np.broadcast_to(clicks.mean(axis=0), clicks.shape)
        A = int(self.lists.max()) + 1
        got, expected = (
            5 + np.bincount(shown.ravel(), weights=part.ravel(), minlength=A)
            for part in (clicks, usual)
        )
        place = 1.0 / np.arange(1, self.lists.shape[1] + 1)
        score: Floats = ((got / expected)[self.lists] * place).sum(axis=1)
        return score

    def _tilted(self, score: Floats, sharp: float) -> Floats:
        """Return exp(sharp z) within each query, z its standardised scores; the best at infinity."""
        out = np.empty(len(score))
        for q in range(int(self.owner.max()) + 1):
            mine = np.flatnonzero(self.owner == q)
            z = score[mine] - score[mine].mean()
            if np.isinf(sharp):
                out[mine] = np.arange(len(mine)) == z.argmax()
            else:
                out[mine] = np.exp(sharp * z / max(z.std(), 1e-12))
        return self._within(out)

    def _within(self, weight: Floats) -> Floats:
        shares: Floats = weight / np.bincount(self.owner, weights=weight)[self.owner]
        return shares

    def reward(self, clicks: Floats) -> Floats:
        """Return the rewards of pages (n, K) with these clicks."""
        page = PAGE_REWARDS.get(self.setting.reward)
        return clicks if page is None else at_last(page(clicks), clicks.shape[1])

    def truth(self) -> Truth:
        """Return the exact lift: probabilities times the mean reward of each list's sessions."""
        totals = [self.reward(clicks).sum(axis=1) for clicks in self.answers]
        mean, square = (np.array([(t**power).mean() for t in totals]) for power in (1, 2))
        share = self.traffic[self.owner]
        values = [float((share * p) @ mean) for p in (self.old, self.new)]
        sds = [
            float(np.sqrt(max((share * p) @ square - value**2, 0.0)))
            for p, value in zip((self.old, self.new), values, strict=True)
        ]
        return Truth(values[1] - values[0], values[0], *sds)

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Ints, Floats]:
        """Return n lists (n,) that the logger shows, and clicks (n, K) of sessions that showed
        them.
        """
        chance = self.traffic[self.owner] * self.old
        listed = rng.choice(len(self.lists), n, p=chance / chance.sum())
        clicks = np.empty((n, self.lists.shape[1]))
        for one in np.unique(listed):
            rows = np.flatnonzero(listed == one)
            clicks[rows] = self.answers[one][rng.integers(len(self.answers[one]), size=len(rows))]
        return listed, clicks

    def policy(self, probability: Floats, query: Ints) -> cr.Enumerated:
        """Return a policy over the lists of each row's query."""
        groups = [np.flatnonzero(self.owner == q) for q in range(len(self.traffic))]
        return cr.Enumerated.from_lists(
            [self.lists[group].tolist() for group in groups],
            [probability[group].tolist() for group in groups],
            query,
            n_actions=int(self.lists.max()) + 1,
        )

    def log(self, listed: Ints, clicks: Floats) -> cr.RankingLog:
        """Return the log of these lists and clicks."""
        query = self.owner[listed]
        return cr.RankingLog(
            action=self.lists[listed],
            reward=self.reward(clicks),
            propensity=self.policy(self.old, query),
            targets={TARGET: self.policy(self.new, query)},
            context=query[:, None].astype(float),
            context_names=("query",),
            categories={"query": tuple(f"q{q}" for q in range(len(self.traffic)))},
            page_reward=self.setting.reward in PAGE_REWARDS,
        )


def case(sessions: Sessions, setting: Setting, seed: tuple[int, ...]) -> Case:
    """Return one log: how sessions are dealt, the target and the rows all follow the seed."""
    deal, rows = (np.random.default_rng([*seed, part]) for part in range(2))
    replay = Replay(sessions, setting, deal)
    seen = replay.draw(setting.n, rows)
    replay.aim(deal, seen)
    return Case(replay.log(*seen), replay.truth(), fresh=setting.target != "retrained")


def cells(draws: str, data: Path | None, kept: Kept) -> list[Cell]:
    """Return the cells, none where the file is not there."""
    return _cells("search", SETTINGS, 31, draws, data)


def rankers(draws: str, data: Path | None, kept: Kept) -> list[Cell]:
    """Return the cells whose targets were trained on other sessions."""
    return _cells("rankers", RANKERS, 43, draws, data)


def _cells(
    population: str, settings: tuple[Setting, ...], stream: int, draws: str, data: Path | None
) -> list[Cell]:
    if data is None or not (data / FILE).exists():
        print(f"{population}: no {FILE} under --data, left out")
        return []
    sessions = Sessions.read(data / FILE).part(draws)

    def cell(place: int, setting: Setting) -> Cell:
        return Cell(
            population,
            setting.name,
            lambda number: case(sessions, setting, (DRAWS[draws], stream, place, number)),
            setting.sweep,
        )

    return [cell(place, setting) for place, setting in enumerate(settings)]
