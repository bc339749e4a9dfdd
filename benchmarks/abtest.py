"""Is `counterrank abtest` sharper than a difference in means, and as honest? Tests whose lift is known.

Run: python -m benchmarks.abtest [--tests 200] [--rows 2000] [--cells TEXT] [--data FOLDER] [--out FILE]

Simulated tests of two arms: `alike` rankers differ in a fifth of what tells the old scorer from a new
one, `far` ones in all of it. At `no lift` a coin of each request, unseen, says which scorer is
called which: both arms earn the same, though their pages differ. `wrong models` puts noise in the
place of what reward models say of a page. News pages (--data, the folder with news_pages.csv.gz) were
shown in random order, so that rejection makes a test of any two rankers of them, with real readers,
and arms by reader; their lift is known from other pages, with an error that is counted.

Width is that of the reported interval over that of the difference in means, as a median over tests;
false winners are intervals that leave out 0 where there is no lift, by side.
"""

import argparse
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

import counterrank as cr
from benchmarks.lift.news import ARTICLES, FILE, Pages
from counterrank.estimators.crossfit import ModelAverage
from counterrank.policies import Candidates, Policy, parse_policy
from counterrank.research.simulate import clicks
from counterrank.research.simulate.worlds import KINDS, World, parameters

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ALIKE, FAR = 0.2, 1.0
#: Contexts on which the true lift is averaged, both arms on the same ones.
TRUTH_ROWS = 200_000


@dataclass(frozen=True, slots=True)
class Setting:
    """Users, how scores become pages, how far the new scorer is from the old, and what goes wrong."""

    behavior: str
    kind: str
    far: float = ALIKE
    K: int = 5
    revenue: bool = False
    #: Requests of a user, who stays in one arm; 1: rows are independent.
    visits: int = 1
    no_lift: bool = False
    wrong: bool = False

    @property
    def name(self) -> str:
        """The cell's name."""
        words = [self.behavior, self.kind, "alike" if self.far == ALIKE else "far", f"K {self.K}"]
        words += ["revenue"] * self.revenue + [f"{self.visits} visits"] * (self.visits > 1)
        return ", ".join(words + ["no lift"] * self.no_lift + ["wrong models"] * self.wrong)

    @property
    def world(self) -> World:
        """Its items and users."""
        return World(seed=3, behavior=self.behavior, K=self.K, items=30, candidates=15, revenue=self.revenue)  # type: ignore[arg-type] # fmt: skip


LIKE = [
    Setting("dbn", "plackett-luce"),
    Setting("mixed", "plackett-luce", K=10),
    Setting("redundancy", "epsilon:epsilon=0.2", revenue=True),
    Setting("ubm", "swap:probability=0.5"),
    Setting("attention", "top"),
    Setting("cascade", "plackett-luce", visits=5),
]
SETTINGS = [
    *LIKE,
    *(replace(one, no_lift=True) for one in LIKE),
    *(replace(one, wrong=True) for one in LIKE[:2]),
    replace(LIKE[0], no_lift=True, wrong=True),
    Setting("dbn", "plackett-luce", FAR),
    Setting("attention", "top", FAR),
    Setting("dbn", "plackett-luce", FAR, no_lift=True),
]


def requests(setting: Setting, n: int, rng: np.random.Generator) -> dict[str, Any]:
    """Return contexts, candidates and both arms' scores of n requests."""
    world, made = setting.world, parameters(setting.world)
    context = rng.standard_normal((n, made.old.coef.shape[1]))
    ids = clicks.subsets(rng.random((n, world.C)), world.items)
    old, new = (s.on_items(context, ids) for s in (made.old, made.new))
    new = old + setting.far * (new - old)
    if setting.no_lift:
        swap = rng.random((n, 1)) < 0.5
        old, new = np.where(swap, new, old), np.where(swap, old, new)
    kind = (
        rng.integers(len(KINDS), size=n)
        if setting.behavior == "mixed"
        else np.full(n, KINDS.index(setting.behavior))
    )
    return {"context": context, "ids": ids, "old": old, "new": new, "kind": kind}


def users(setting: Setting, asked: dict[str, Any], choice: Ints) -> tuple[Any, ...]:
    """Return what the click kernels ask of users and pages."""
    made = parameters(setting.world)
    shown = np.take_along_axis(asked["ids"], choice, axis=1)
    appeal = made.appeal.on_items(asked["context"], shown)
    return (
        asked["kind"],
        appeal,
        made.hold[shown],
        made.group[shown],
        made.curve,
        made.gaps,
        made.pull,
        made.go,
    )


def prices(setting: Setting, asked: dict[str, Any], choice: Ints) -> Floats | float:
    """Return what a click on each shown item earns."""
    if not setting.revenue:
        return 1.0
    return parameters(setting.world).price[np.take_along_axis(asked["ids"], choice, axis=1)]


@cache
def true_lift(setting: Setting) -> float:
    """Return what the new arm earns more, over requests that no test holds."""
    if setting.no_lift:
        return 0.0
    total, rng = 0.0, np.random.default_rng([setting.K, 991])
    for _ in range(10):
        asked = requests(setting, TRUTH_ROWS // 10, rng)
        earned = []
        for side in ("new", "old"):
            choice = (
                parse_policy(setting.kind)
                .dense(asked[side], setting.K)
                .sample(setting.K, np.random.default_rng(5))[:, 0]
            )
            q = clicks.expected(*users(setting, asked, choice)) * prices(setting, asked, choice)
            earned.append(q.sum(axis=1).mean())
        total += (earned[0] - earned[1]) / 10
    return float(total)


def simulated(setting: Setting, n: int, seed: int) -> cr.RankingLog:
    """Return the log of a test with n requests in two arms of about one size."""
    rng = np.random.default_rng([seed, crc32(setting.name.encode())])
    asked = requests(setting, n, rng)
    unit = np.arange(n) // setting.visits
    arm = rng.integers(2, size=n)[unit]
    if setting.visits > 1:  # visits of a user are alike
        level = rng.standard_normal((n, asked["context"].shape[1]))[unit]
        asked = requests(setting, n, rng)
        shift = 0.7 * level + math.sqrt(1 - 0.49) * asked["context"]
        asked = again(setting, asked, shift)
    sets = Candidates(
        np.arange(n + 1) * setting.world.C,
        asked["ids"].reshape(-1).astype(np.int32),
        n_items=setting.world.items,
    )
    spec = parse_policy(setting.kind)
    drawn = [spec.dense(asked[s], setting.K).sample(setting.K, rng)[:, 0] for s in ("old", "new")]
    choice = np.where(arm[:, None] == 1, drawn[1], drawn[0])
    reward = clicks.draw(*users(setting, asked, choice), rng.random(choice.shape)) * prices(
        setting, asked, choice
    )
    bound: dict[str, Policy] = {
        name: spec.bind(candidates=sets, scores=asked[side].reshape(-1))
        for name, side in (("a", "old"), ("b", "new"))
    }
    return cr.RankingLog(
        action=np.take_along_axis(asked["ids"], choice, axis=1),
        reward=reward,
        propensity=bound["a"],
        candidates=sets,
        context=asked["context"],
        targets=bound,
        columns={"arm": np.array(["a", "b"])[arm]},
        unit=unit if setting.visits > 1 else None,
    )


def again(setting: Setting, asked: dict[str, Any], context: Floats) -> dict[str, Any]:
    """Return the requests with another context, scored anew."""
    made = parameters(setting.world)
    old, new = (s.on_items(context, asked["ids"]) for s in (made.old, made.new))
    new = old + setting.far * (new - old)
    if setting.no_lift:
        swap = np.random.default_rng(len(context)).random((len(context), 1)) < 0.5
        old, new = np.where(swap, new, old), np.where(swap, old, new)
    return {**asked, "context": context, "old": old, "new": new}


def noise(self: ModelAverage, rankings: Any, fold: Ints) -> Floats:
    """Stand for a model that knows nothing: numbers of each page, as large as rewards are."""
    code = (rankings.item * np.arange(1, rankings.K + 1)).sum(axis=1) + 7 * rankings.row
    return np.asarray(np.sin(code[:, None] + np.arange(rankings.K)).astype(float))


# ------------------------------------------------------------------ news pages


@dataclass(frozen=True, slots=True)
class News:
    """Two rankers of news pages: how much the second follows stated interest beside the first's topics."""

    K: int
    sharp: float
    far: float
    no_lift: bool = False

    @property
    def name(self) -> str:
        """The cell's name."""
        like = "alike" if self.far <= 0.5 else "far"
        return f"news pages, {like}, K {self.K}" + (", no lift" if self.no_lift else "")


NEWS = [
    News(3, 0.3, 0.5),
    News(3, 0.3, 0.5, no_lift=True),
    News(3, 0.2, 1.5),
    News(3, 0.2, 1.5, no_lift=True),
]


def news_scores(setting: News, pages: Pages, seed: int) -> tuple[Floats, Floats]:
    """Return both arms' scores (N, 9) of the articles in the order shown; coins are the test's own."""
    taste = np.random.default_rng(7).standard_normal(len(pages.topics))[pages.topic]
    taste = (taste - taste.mean()) / taste.std()
    pref = (pages.pref - pages.pref.mean()) / pages.pref.std()
    old, new = setting.sharp * taste, setting.sharp * (taste + setting.far * pref)
    if setting.no_lift:
        swap = np.random.default_rng([seed, 11]).random((len(old), 1)) < 0.5
        old, new = np.where(swap, new, old), np.where(swap, old, new)
    return old, new


def top_chance(scores: Floats, K: int) -> Floats:
    """Return P(first K places as shown) under Plackett-Luce, relative to a uniform order's."""
    places = np.broadcast_to(np.arange(K), (len(scores), K))
    log_prob = cr.PlackettLuce(scores).prefix_log_prob(np.ascontiguousarray(places))[:, -1]
    return np.asarray(np.exp(log_prob) * math.perm(ARTICLES, K))


def news_tests(
    setting: News, pages: Pages, tests: int
) -> Iterator[tuple[cr.RankingLog, float, float]]:
    """Yield tests with their true lift and its error; half of the readers are the truth's."""
    K = setting.K
    for seed in range(tests):
        rng = np.random.default_rng([seed, 23])
        coin = rng.random(int(pages.user.max()) + 1)
        scores = news_scores(setting, pages, seed)
        chances = [top_chance(one, K) for one in scores]
        hit = (pages.read < K).astype(float)
        true = coin[pages.user] < 0.5
        change = (chances[1] - chances[0])[true] * (hit[true] - hit[true].mean())
        by_reader = np.bincount(pages.user[true], weights=change - change.mean())
        lift, error = float(change.mean()), math.sqrt(float(by_reader @ by_reader)) / true.sum()
        if setting.no_lift:
            lift = error = 0.0
        arm = (rng.random(len(coin)) < 0.5)[pages.user].astype(int)
        own = np.where(arm == 1, chances[1], chances[0])
        kept = np.flatnonzero(~true & (rng.random(len(own)) < own / own.max()))
        yield news_log(setting, pages, kept, arm[kept], scores), lift, error


def news_log(
    setting: News, pages: Pages, kept: Ints, arm: Ints, given: tuple[Floats, Floats]
) -> cr.RankingLog:
    """Return the log of some pages, whose articles are known by their topic and interest alone."""
    some, n, K = pages.take(kept), len(kept), setting.K
    scores = [one[kept] for one in given]
    ids = np.arange(n * ARTICLES, dtype=np.int32)
    sets = Candidates(
        np.arange(n + 1) * ARTICLES,
        ids,
        n_items=n * ARTICLES,
        features={"z_topic": some.topic.reshape(-1).astype(float), "z_pref": some.pref.reshape(-1)},
        categories={"z_topic": pages.topics},
    )
    reward = (some.read[:, None] == np.arange(K)).astype(float)
    targets: dict[str, Policy] = {
        name: parse_policy("plackett-luce").bind(candidates=sets, scores=one.reshape(-1))
        for name, one in zip("ab", scores, strict=True)
    }
    return cr.RankingLog(
        action=ids.reshape(n, ARTICLES)[:, :K],
        reward=reward,
        propensity=targets["a"],
        candidates=sets,
        context=some.context,
        targets=targets,
        columns={"arm": np.array(["a", "b"])[arm]},
        unit=some.user,
    )


# ------------------------------------------------------------------ judging


def judged(
    log: cr.RankingLog,
    cell: str,
    seed: int,
    truth: float,
    error: float = 0.0,
) -> dict[str, Any]:
    """Return what the test says, beside the truth."""
    found = cr.abtest(log, "arm").lifts[0]
    shown = found.lift
    reach = math.hypot((shown.high - shown.low) / 2, 1.96 * error)
    wide = math.hypot((found.plain.high - found.plain.low) / 2, 1.96 * error)
    return {
        "cell": cell,
        "seed": seed,
        "truth": truth,
        "rows": log.n,
        "headline": found.headline,
        "width": shown.width / found.plain.width,
        "pooled_width": found.pooled.width / found.plain.width,
        "covered": abs(shown.value - truth) <= reach,
        "plain_covered": abs(found.plain.value - truth) <= wide,
        "above": shown.low > 0,
        "below": shown.high < 0,
        "z": (found.pooled.value - truth) / math.hypot(found.pooled.stderr, error),
    }


def tests_of(given: argparse.Namespace) -> Iterator[tuple[str, int, Callable[[], dict[str, Any]]]]:
    """Yield the cell, the number and the work of every test."""
    for seed in range(given.tests):
        for one in (one for one in SETTINGS if given.cells in one.name):

            def work(one: Setting = one, seed: int = seed) -> dict[str, Any]:
                log = simulated(one, given.rows, seed)
                with mock.patch.object(
                    ModelAverage, "mean", noise if one.wrong else ModelAverage.mean
                ):
                    return judged(log, one.name, seed, true_lift(replace(one, wrong=False)))

            yield one.name, seed, work
    if given.data is None or not (given.data / FILE).exists():
        print(f"no {FILE} under --data: news pages are left out")
        return
    pages = Pages.load(given.data / FILE)
    for setting in (one for one in NEWS if given.cells in one.name):
        for seed, (log, lift, error) in enumerate(news_tests(setting, pages, given.tests)):

            def read(
                log: cr.RankingLog = log,
                seed: int = seed,
                name: str = setting.name,
                lift: float = lift,
                error: float = error,
            ) -> dict[str, Any]:
                return judged(log, name, seed, lift, error)

            yield setting.name, seed, read


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Return a line for each cell."""
    lines = [
        "| test | tests | lift | width / difference in means | interval held | that of the difference "
        "in means | false winners + / - | mean, sd of z | plain was the headline |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for cell in dict.fromkeys(row["cell"] for row in rows):
        some = [row for row in rows if row["cell"] == cell]

        def mean(key: str, some: list[dict[str, Any]] = some) -> float:
            return float(np.mean([row[key] for row in some]))

        z = [row["z"] for row in some]
        zero = some[0]["truth"] == 0
        winners = f"{mean('above'):.1%} / {mean('below'):.1%}" if zero else "-"
        plain = np.mean([row["headline"] == "plain" for row in some])
        width = np.median([row["width"] for row in some])
        held = f"{mean('covered'):.3f} | {mean('plain_covered'):.3f}"
        lines.append(
            f"| {cell} | {len(some)} | {mean('truth'):+.4f} | {width:.2f} | {held} | {winners} | "
            f"{np.mean(z):+.2f}, {np.std(z):.2f} | {plain:.1%} |"
        )
    return lines


def main() -> None:
    """Run what is not yet in the file, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tests", type=int, default=200)
    parser.add_argument("--rows", type=int, default=2000, help="requests of both arms together")
    parser.add_argument("--cells", default="", help="only cells with this text in their name")
    parser.add_argument("--data", type=Path, help=f"folder with {FILE}")
    parser.add_argument("--out", default="out/abtest.jsonl")
    given = parser.parse_args()
    path = Path(given.out)
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(row["cell"], row["seed"]) for row in rows}
    for cell, seed, work in tests_of(given):
        if (cell, seed) not in done:
            rows.append(work())
            with path.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
    print("\n".join(table(rows)))


if __name__ == "__main__":
    main()
