"""Real search clicks replayed: lists drawn from a known policy, answers from sessions that showed
them.

A file has columns query, region, doc_1..doc_10, click_1..click_10, a row a session. Half of the
sessions score the documents, and so the targets; the other half is the population: its frequency of
each list is the logging policy, a logged row is one of its sessions, and the target's true value is
the target-weighted mean of its sessions' clicks. Scored on the same sessions, noise would look like
interaction.

Logs of one number share their sessions over K and targets, so many numbers say more than many
cells: --first begins at numbers that nobody has looked at.
"""

import csv
import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from real_rankings import Row, estimate, write

import counterrank as cr

CELLS = [(K, n, sharp) for K in (3, 6) for n in (2000, 8000) for sharp in (2.0, 6.0)]
RIVALS = ("ips", "iips", "rips", "snips")


def sessions(path: Path) -> tuple[Any, Any, Any]:
    """Return query (N,), documents (N, 10) and clicks (N, 10), all as small whole numbers."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", newline="") as source:
        rows = list(csv.DictReader(source))
    queries = np.unique([f"{row['query']} {row['region']}" for row in rows], return_inverse=True)[1]
    documents = [[row[f"doc_{k}"] for k in range(1, 11)] for row in rows]
    items = np.unique(documents, return_inverse=True)[1].reshape(len(rows), 10)
    clicks = np.array([[float(row[f"click_{k}"]) for k in range(1, 11)] for row in rows])
    return queries, items, clicks


class Replay:
    """The population of one list length: lists by query with their logging and target
    probabilities.
    """

    def __init__(self, path: Path, K: int, sharp: float) -> None:
        query, items, clicks = sessions(path)
        half = np.random.default_rng(11).permutation(len(query)) % 2 == 0
        score = _scores(items[half], clicks[half])
        self.query, self.items, self.clicks = (
            query[~half],
            items[~half][:, :K],
            clicks[~half][:, :K],
        )
        keys = np.column_stack([self.query, self.items])
        lists, self.member, count = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
        self.member = self.member.reshape(-1)
        self.owner, self.lists = lists[:, 0], lists[:, 1:]
        appeal = (score[self.lists] / np.arange(1, K + 1)).sum(axis=1)
        self.old = count / np.bincount(self.owner, weights=count)[self.owner]
        # Tilted towards lists that start with what was clicked: never far from what was shown at
        # all.
        spread = np.sqrt(np.average((appeal - appeal.mean()) ** 2, weights=count))
        tilt = self.old * np.exp(sharp * (appeal - appeal.mean()) / spread / 2)
        self.new = tilt / np.bincount(self.owner, weights=tilt)[self.owner]
        share = np.bincount(self.owner, weights=count)[self.owner] / count.sum()
        totals = self.clicks.sum(axis=1)
        mean = np.bincount(self.member, weights=totals) / count
        square = np.bincount(self.member, weights=totals**2) / count
        self.value = float((share * self.new * mean).sum())
        self.sd = float(np.sqrt((share * self.new * square).sum() - self.value**2))
        self.n_actions = int(items.max()) + 1

    def policy(self, probability: Any, rows: Any) -> cr.Enumerated:
        groups = [np.flatnonzero(self.owner == q) for q in range(int(self.owner.max()) + 1)]
        listed = [[self.lists[i].tolist() for i in group] for group in groups]
        chances = [[float(probability[i]) for i in group] for group in groups]
        return cr.Enumerated.from_lists(listed, chances, self.query[rows], n_actions=self.n_actions)

    def log(self, n: int, seed: int) -> cr.RankingLog:
        rows = np.random.default_rng([seed, 43]).integers(len(self.query), size=n)
        return cr.RankingLog(
            action=self.items[rows],
            reward=self.clicks[rows],
            propensity=self.policy(self.old, rows),
            targets={"new": self.policy(self.new, rows)},
            context=self.query[rows, None].astype(float),
            context_names=("query",),
            categories={"query": tuple(f"q{q}" for q in range(int(self.owner.max()) + 1))},
        )


def _scores(items: Any, clicks: Any) -> Any:
    """Return clicks of each document relative to what its positions usually get, shrunk to 1."""
    usual = np.broadcast_to(clicks.mean(axis=0), clicks.shape)
    size = int(items.max()) + 1_000
    seen = np.bincount(items.reshape(-1), weights=usual.reshape(-1), minlength=size)
    got = np.bincount(items.reshape(-1), weights=clicks.reshape(-1), minlength=size)
    return (got + 5) / (seen + 5)


def replayed(
    path: Path, indices: range, names: Iterable[str], again: Iterable[str], out: Path
) -> list[Row]:
    """Return one cell for each K, n and target with the estimates on its logs of these numbers;
    resumable.
    """
    out = out / "search"
    out.mkdir(parents=True, exist_ok=True)
    cells = []
    for K, n, sharp in CELLS:
        world = Replay(path, K, sharp)
        family = f"K {K} {'near' if sharp < 4 else 'farther'}"
        cell: Row = {"family": family, "n": n, "world": {}, "logs": []}
        cell["truth"] = {"value": world.value, "sd": world.sd}
        for index in indices:
            file = out / f"K{K}-n{n}-s{sharp:g}-log{index}.json"
            rows: Row = json.loads(file.read_text()) if file.exists() else {}
            wanted = [
                name
                for name in dict.fromkeys([*RIVALS, *names])
                if name not in rows or name in again
            ]
            if wanted:
                log = world.log(n, index)
                rows |= {name: estimate(name, log, judged=False) for name in wanted}
                write(file, rows)
                print(
                    f"search {family} n {n} log {index}: "
                    f"{sum(rows[w]['cpu'] for w in wanted):.1f} s",
                    flush=True,
                )
            cell["logs"].append(rows)
        cells.append(cell)
    return cells
