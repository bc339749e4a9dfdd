"""The protocol of section 5 of the paper on real pages: `python -m benchmarks.real_pages FILE SEEDS`.

Log A is that of the policy that showed them; what policy B earns is known from other pages.

Two kinds of files are known by their columns. Search sessions (query, region, doc_1.., click_1..):
in each query a policy chooses among the lists that were shown often; A chose them as often as they
were shown, B more often those that were clicked. News pages (user, device, age, interest, click,
topic_1..9, pref_1..9), whose order was random: A is uniform, B a Plackett-Luce policy. B is made
from a third of the pages, logged are those of another, and the rest tell what B earns: scored on
the pages it was made from, or judged by those that were logged, noise would look like success.
"""

import sys
from dataclasses import dataclass
from math import perm
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
from numpy.typing import NDArray

from counterrank.common.arrays import Floats, Ints
from counterrank.common.errors import LogError
from counterrank.data.log import RankingLog
from counterrank.policies import Candidates, Enumerated, parse_policy
from counterrank.research.bench import Trial, bootstrapped, run_trial
from counterrank.research.paper import figures
from counterrank.research.paper.results import ab_tables
from counterrank.research.paper.runner import contenders

TARGET = "b"
#: Positions of the paper's log, and those of a news page, of which one article alone is read.
SEARCH_K, NEWS_K, ARTICLES = 6, 4, 9
#: Sessions that a list needs (some for each third), and lists of a query.
SESSIONS, LISTS = 20, 3
#: How much B prefers what did well, a standard deviation at a time.
_SHARP, _NEWS_SHARP = 1.0, 0.5
#: Pages are dealt alike in every run: what varies over seeds is the bootstrap.
_DEAL = 2023


def read_trial(path: str) -> Trial:
    """Return log A and the value of B, with its error, from a file of search sessions or news pages."""
    try:
        table = csv.read_csv(path)
    except (OSError, pa.ArrowException) as error:
        raise LogError(f"{path} cannot be read as CSV: {error}") from None
    names = set(table.column_names)
    if {"query", "region", *_numbered("doc", SEARCH_K), *_numbered("click", SEARCH_K)} <= names:
        return _search(table, path)
    wanted = {"user", "device", "age", "interest", "click"}
    if wanted | {*_numbered("topic", ARTICLES), *_numbered("pref", ARTICLES)} <= names:
        return _news(_News.of(table, path), path)
    raise LogError(
        f"{path} has neither the columns of search sessions (query, region, doc_1 to "
        f"doc_{SEARCH_K}, click_1 to click_{SEARCH_K}) nor those of news pages (user, device, age, "
        f"interest, click, topic_1 to topic_{ARTICLES}, pref_1 to pref_{ARTICLES})"
    )


def _numbered(stem: str, count: int) -> list[str]:
    return [f"{stem}_{k}" for k in range(1, count + 1)]


def _column(table: pa.Table, name: str, path: str) -> NDArray[Any]:
    """Return a column without gaps."""
    if table[name].null_count:
        row = int(np.flatnonzero(table[name].is_null().to_numpy())[0]) + 1
        raise LogError(f"{path}: column {name} has no value in row {row}")
    values: NDArray[Any] = table[name].to_numpy()
    return values


def _numbers(table: pa.Table, name: str, path: str) -> Floats:
    values = _column(table, name, path)
    if not np.issubdtype(values.dtype, np.number):
        raise LogError(f"{path}: column {name} holds text where numbers are expected")
    return values.astype(float)


# --- Search sessions.


def _sessions(table: pa.Table, path: str) -> tuple[Ints, Ints, Floats]:
    """Return queries (N,), documents (N, K) as small numbers, clicks (N, K)."""
    pairs = [_column(table, name, path).astype(str) for name in ("query", "region")]
    docs = [_column(table, name, path).astype(str) for name in _numbered("doc", SEARCH_K)]
    shown = np.stack(docs, axis=1)
    clicks = np.stack(
        [_numbers(table, name, path) for name in _numbered("click", SEARCH_K)], axis=1
    )
    if not np.isin(clicks, (0, 1)).all():
        row = int(np.flatnonzero(~np.isin(clicks, (0, 1)).all(axis=1))[0]) + 1
        raise LogError(f"{path}: a click in row {row} is neither 0 nor 1")
    query = np.unique(np.stack(pairs, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
    items = np.unique(shown, return_inverse=True)[1].reshape(shown.shape)
    return query, items, clicks


def _search(table: pa.Table, path: str) -> Trial:
    asked, items, clicks = _sessions(table, path)
    keys = np.column_stack([asked, items])
    found, member, count = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
    often = count >= SESSIONS
    choice = np.bincount(found[often, 0], minlength=int(found[:, 0].max(initial=-1)) + 1)
    kept = np.flatnonzero(often & (choice[found[:, 0]] >= LISTS))
    if not len(kept):
        raise LogError(
            f"{path} has no query with {LISTS} lists that were shown {SESSIONS} times: there is "
            "nothing for a policy to choose from"
        )
    place = np.full(len(found), -1)
    place[kept] = np.arange(len(kept))
    listed = place[member.reshape(-1)]
    third = _dealt_by(listed)
    owner = np.unique(found[kept, 0], return_inverse=True)[1].reshape(-1)
    lists = np.unique(found[kept, 1:], return_inverse=True)[1].reshape(len(kept), SEARCH_K)
    totals = clicks.sum(axis=1)

    def means(part: int) -> tuple[Floats, Floats, Floats]:
        """Return sessions, mean and variance of their clicks, by list (L,)."""
        mine = (third == part) & (listed >= 0)
        size, first, second = (
            np.bincount(listed[mine], weights=w, minlength=len(kept)).astype(float)
            for w in (np.ones(mine.sum()), totals[mine], totals[mine] ** 2)
        )
        return size, first / size, second / size - (first / size) ** 2

    logged, _, _ = means(1)
    # A's own shares of its lists: known of the policy's own log, as a logger knows its propensities.
    old = _within(logged, owner)
    new = _within(old * np.exp(_SHARP * _standardised_within(means(0)[1], owner)), owner)
    size, mean, variance = means(2)
    share = np.bincount(owner, weights=logged)[owner] / logged.sum() * new
    rows = np.flatnonzero((third == 1) & (listed >= 0))
    query = owner[listed[rows]]
    policies = [_over_lists(lists, owner, p, query) for p in (old, new)]
    log = RankingLog(
        action=lists[listed[rows]],
        reward=clicks[rows],
        propensity=policies[0],
        targets={TARGET: policies[1]},
        context=query[:, None].astype(float),
        context_names=("query",),
        categories={"query": tuple(f"q{q}" for q in range(int(owner.max()) + 1))},
    )
    error = float(np.sqrt(share**2 @ (variance / size)))
    return Trial(log, float(share @ mean), target=TARGET, truth_stderr=error)


def _dealt_by(group: Ints) -> Ints:
    """Return a third (n,) for each row, alike in size within each group."""
    rng = np.random.default_rng(_DEAL)
    shuffled = rng.permutation(len(group))
    by_group = shuffled[np.argsort(group[shuffled], kind="stable")]
    rank = np.empty(len(group), dtype=np.int64)
    ordered = group[by_group]
    first = np.searchsorted(ordered, ordered)
    rank[by_group] = np.arange(len(group)) - first
    return rank % 3


def _within(weight: Floats, owner: Ints) -> Floats:
    shares: Floats = weight / np.bincount(owner, weights=weight)[owner]
    return shares


def _standardised_within(score: Floats, owner: Ints) -> Floats:
    size = np.bincount(owner)
    away = score - (np.bincount(owner, weights=score) / size)[owner]
    spread = np.sqrt(np.bincount(owner, weights=away**2) / size)[owner]
    alike: Floats = away / np.maximum(spread, 1e-12)
    return alike


def _over_lists(lists: Ints, owner: Ints, probability: Floats, query: Ints) -> Enumerated:
    groups = [np.flatnonzero(owner == q) for q in range(int(owner.max()) + 1)]
    return Enumerated.from_lists(
        [lists[group].tolist() for group in groups],
        [probability[group].tolist() for group in groups],
        query,
        n_actions=int(lists.max()) + 1,
    )


# --- News pages.


@dataclass(frozen=True, slots=True)
class _News:
    """Topics and stated interest (N, 9) in the order shown, the place that was read (N,), readers."""

    topic: Ints
    interest: Floats
    read: Ints
    user: Ints
    context: Floats
    devices: tuple[str, ...]

    @classmethod
    def of(cls, table: pa.Table, path: str) -> "_News":
        topics = [_column(table, name, path).astype(str) for name in _numbered("topic", ARTICLES)]
        topic = np.unique(np.stack(topics, axis=1), return_inverse=True)[1].reshape(-1, ARTICLES)
        stated = np.stack(
            [table[name].to_numpy().astype(float) for name in _numbered("pref", ARTICLES)], axis=1
        )
        # Topics without a stated interest stand at the average of those with one.
        stated = np.where(np.isnan(stated), np.nanmean(stated), stated)
        read = _numbers(table, "click", path)
        if not np.isin(read, np.arange(1, ARTICLES + 1)).all():
            row = int(np.flatnonzero(~np.isin(read, np.arange(1, ARTICLES + 1)))[0]) + 1
            raise LogError(f"{path}: click in row {row} is no place from 1 to {ARTICLES}")
        devices, device = np.unique(_column(table, "device", path).astype(str), return_inverse=True)
        other = [table[name].to_numpy().astype(float) for name in ("age", "interest")]
        other = [np.where(np.isnan(v), np.nanmean(v), v) for v in other]
        user = np.unique(_column(table, "user", path).astype(str), return_inverse=True)[1]
        return cls(
            topic,
            stated,
            read.astype(np.int64) - 1,
            user.reshape(-1),
            np.stack([device.reshape(-1).astype(float), *other], axis=1),
            tuple(devices.tolist()),
        )


def _news(pages: _News, path: str) -> Trial:
    readers = np.random.default_rng(_DEAL).permutation(int(pages.user.max(initial=-1)) + 1) % 3
    third = readers[pages.user]
    if len(np.unique(third)) < 3:
        raise LogError(f"{path} has {len(readers)} readers: three are the fewest that can be dealt")
    taught, rows, judged = (np.flatnonzero(third == part) for part in range(3))
    scores = _NEWS_SHARP * _standardised(
        _standardised(pages.interest) + _standardised(_popularity(pages, taught)[pages.topic])
    )
    value, stderr = _judged(scores[judged], pages.read[judged], pages.user[judged])
    return Trial(_news_log(pages, rows, scores[rows]), value, target=TARGET, truth_stderr=stderr)


def _popularity(pages: _News, rows: Ints) -> Floats:
    """Return the log of how often each topic is read, relative to how often it is there."""
    T = int(pages.topic.max()) + 1
    read = np.bincount(pages.topic[rows, pages.read[rows]], minlength=T)
    there = np.bincount(pages.topic[rows].ravel(), minlength=T) / ARTICLES
    # Three pages at even odds for each topic: rare ones stay near zero.
    popular: Floats = np.log((read + 3.0) / (there + 3.0))
    return popular


def _standardised(values: Floats) -> Floats:
    alike: Floats = (values - values.mean()) / max(float(values.std()), 1e-12)
    return alike


def _judged(scores: Floats, read: Ints, user: Ints) -> tuple[float, float]:
    """Return the share of pages read at the first K places under B, from pages in random order.

    A ratio of means, with the standard error of its linear form summed by reader.
    """
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    left = np.cumsum(e[:, ::-1], axis=1)[:, ::-1]
    weight = (e / left)[:, :NEWS_K].prod(axis=1) * perm(ARTICLES, NEWS_K)
    y = (read < NEWS_K).astype(float)
    value = float(weight @ y / weight.sum())
    by_reader = np.bincount(user, weights=weight * (y - value))
    return value, float(np.sqrt((by_reader**2).sum()) / weight.sum())


def _news_log(pages: _News, rows: Ints, scores: Floats) -> RankingLog:
    n = len(rows)
    ids = np.arange(n * ARTICLES).reshape(n, ARTICLES)
    # Candidates in another order than shown: their place in a file must not tell what was shown.
    shuffle = np.argsort(np.random.default_rng([_DEAL, 1]).random((n, ARTICLES)), axis=1)

    def listed(values: NDArray[Any]) -> NDArray[Any]:
        return np.take_along_axis(values, shuffle, axis=1).reshape(-1)

    sets = Candidates(
        np.arange(n + 1) * ARTICLES,
        listed(ids).astype(np.int32),
        {"interest": listed(pages.interest[rows])},
    )
    spec = parse_policy("plackett-luce")
    old, new = (
        spec.bind(candidates=sets, scores=listed(s)) for s in (np.zeros_like(scores), scores)
    )
    return RankingLog(
        action=ids[:, :NEWS_K],
        reward=(pages.read[rows, None] == np.arange(NEWS_K)).astype(float),
        propensity=old,
        targets={TARGET: new},
        candidates=sets,
        context=pages.context[rows],
        context_names=("device", "age", "interest"),
        categories={"device": pages.devices},
        unit=pages.user[rows],
    )


def main() -> None:
    trial, seeds = read_trial(sys.argv[1]), int(sys.argv[2])
    experiment = figures.get("real-world")
    some = contenders(experiment)
    rows = [
        {"x": 0.0, "seed": seed, **row}
        for seed in range(seeds)
        for row in run_trial(bootstrapped(trial, seed), some)
    ]
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    for table in ab_tables(experiment, columns):
        print(table)


if __name__ == "__main__":
    main()
