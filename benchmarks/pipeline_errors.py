"""Errors of pipelines with a known truth: which of them the audit and the verdict see.

    python -m benchmarks.pipeline_errors [--rows 6000] [--seeds 2] [--healthy 2] [--only NAME,NAME]

A simulated shop: users with a device, a country and tastes; items with a category, a price and a
popularity; days; a Plackett-Luce logger on candidates with scores. Each error changes the table that a
healthy pipeline would have written. The table shows, for each error, in how many logs a check that limits
the verdict speaks, and for healthy logs of several kinds how often one does so in vain.
"""

import argparse
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

import counterrank as cr
from counterrank.checks import Audit
from counterrank.evaluation.verdict import level_of, of_audit

Columns = dict[str, np.ndarray]
DAYS = np.datetime64("2026-11-01") + np.arange(14)
DEVICES, COUNTRIES = np.array(["desktop", "mobile", "tablet"]), np.array(["DE", "FR", "IT", "PL"])


@dataclass(frozen=True)
class Shop:
    """What a shop is like; the defaults are the ordinary one."""

    rows: int = 6000
    K: int = 5
    items: int = 120
    candidates: int = 16
    users: int = 1500
    categories: int = 6
    #: Standard deviations, in logits or scores.
    quality: float = 0.6
    taste: float = 0.5
    category: float = 0.2
    device: float = 0.15
    logger_noise: float = 0.7
    target_noise: float = 0.5
    sharpness: float = 1.2
    weekend: float = 0.1
    #: Clicks of an item on the first position, and how they fall.
    base: float = -1.6
    decay: float = 0.75
    scale: float = 0.8
    #: A target that sorts by its scores.
    sharp: bool = False
    #: How much tastes change in the course of the log, towards what the target likes.
    trend: float = 0.0


@dataclass(frozen=True)
class World:
    """A log as columns of arrays, and what made it."""

    #: A `Shop`, or what another world is like: rows, K, items and candidates.
    shop: Any
    columns: Columns
    #: (n, C) candidates and both scores.
    items: np.ndarray
    scores: np.ndarray
    new: np.ndarray
    category: np.ndarray
    #: Numbers of each item that the log has as features of candidates.
    features: Columns
    #: The true relative lift of each reward, and the one that is measured.
    truths: dict[str, float]
    measured: str = "reward"
    logger: str = "plackett-luce"
    policy: str = "plackett-luce"
    #: What the logged numbers are, in a log without candidates and scores.
    kind: str = ""
    context: tuple[str, ...] = ("x_device", "x_country", "x_age")
    time: str = "day"
    #: Options that the error makes the user give.
    options: dict[str, object] = field(default_factory=dict)

    def table(self) -> pa.Table:
        """Return the log as a table with list columns."""
        lists: Columns = {}
        if not self.kind:
            lists = {
                "candidates": self.items,
                "propensity_scores": self.scores,
                "new_scores": self.new,
            }
            lists |= {f"z_{name}": values[self.items] for name, values in self.features.items()}
            lists["z_category"] = self.category[self.items].astype(str)
        found: dict[str, pa.Array] = {}
        for name, values in {**self.columns, **lists}.items():
            found[name] = pa.array(values.tolist() if values.ndim == 2 else values)
        return pa.table(found)

    def log(self) -> cr.RankingLog:
        """Return the log as a user would read it."""
        given: dict[str, Any] = {"propensity_kind": self.kind}
        if not self.kind:
            given = {"logger": self.logger, "policies": {"new": self.policy}}
        if "independent_rows" not in self.options:
            given["columns"] = {"unit": self.options.get("unit", "user")}
        return cr.RankingLog.from_frame(self.table(), context=[*self.context], **given)

    def changed(self, **columns: np.ndarray) -> "World":
        return replace(self, columns={**self.columns, **columns})

    def rows(self, kept: np.ndarray) -> "World":
        """Return the world of some rows, in this order."""
        return replace(
            self, columns={name: values[kept] for name, values in self.columns.items()},
            items=self.items[kept], scores=self.scores[kept], new=self.new[kept],
        )  # fmt: skip


def drawn(policy: str, scores: np.ndarray, K: int, rng: np.random.Generator) -> np.ndarray:
    """Return the places (n, K) among the candidates that a policy of the scores shows."""
    kind, _, option = policy.partition(":")
    n, C = scores.shape
    if kind == "softmax":
        keys = scores[:, None, :] + rng.gumbel(size=(n, K, C))
        return keys.argmax(axis=2)
    if kind == "top":
        keys = scores
    elif kind == "plackett-luce":
        keys = scores + rng.gumbel(size=(n, C))
    else:
        return _slot_by_slot(scores, K, float(option.partition("=")[2]), rng)
    return np.argsort(-keys, axis=1)[:, :K]


def _slot_by_slot(
    scores: np.ndarray, K: int, epsilon: float, rng: np.random.Generator
) -> np.ndarray:
    """Return draws of the best place left, or of any place left with probability epsilon."""
    n, C = scores.shape
    left = scores.copy()
    found = np.zeros((n, K), np.int64)
    for k in range(K):
        any_left = np.where(np.isfinite(left), rng.random((n, C)), -1.0).argmax(axis=1)
        found[:, k] = np.where(rng.random(n) < epsilon, any_left, left.argmax(axis=1))
        left[np.arange(n), found[:, k]] = -np.inf
    return found


Worth = Callable[[np.ndarray], dict[str, np.ndarray]]


def true_lifts(
    world: World, worth: Worth, rng: np.random.Generator, draws: int = 12
) -> dict[str, float]:
    """Return the relative lift of each reward, from draws of both policies for every row."""
    policies = (world.policy, world.new), (world.logger, world.scores)
    totals: list[dict[str, float]] = [{}, {}]
    for total, (policy, scores) in zip(totals, policies, strict=True):
        for _ in range(draws):
            for name, values in worth(drawn(policy, scores, world.shop.K, rng)).items():
                total[name] = total.get(name, 0.0) + float(values.sum())
    return {name: totals[0][name] / totals[1][name] - 1 for name in totals[0]}


def shop_world(shop: Shop, seed: int, *, with_truth: bool = False) -> World:
    """Return a healthy log of a shop."""
    rng = np.random.default_rng(seed)
    n, C, K, A = shop.rows, shop.candidates, shop.K, shop.items
    category = rng.integers(shop.categories, size=A)
    price = np.round(np.exp(rng.normal(3.0, 0.7, A)), 2)
    quality = (
        rng.normal(0, shop.quality, A) + rng.normal(0, shop.category, shop.categories)[category]
    )
    user = rng.integers(shop.users, size=n)
    taste = rng.normal(0, shop.taste, (shop.users, shop.categories))
    device, country = rng.integers(3, size=shop.users), rng.integers(4, size=shop.users)
    age = rng.normal(size=shop.users)
    by_device, by_country = rng.normal(0, shop.device, 3), rng.normal(0, shop.device, 4)
    day = np.sort(rng.integers(len(DAYS), size=n))
    # The better known, the more often a candidate.
    shares = np.exp(0.5 * rng.normal(size=A))
    keys = rng.random((n, A)) ** (1 / shares)
    items = np.argsort(-keys, axis=1)[:, :C]
    relevance = quality[items] + np.take_along_axis(taste[user], category[items], axis=1)
    rising = rng.normal(size=A)
    moment = np.linspace(-1, 1, n)[:, None]
    logit = relevance + shop.trend * moment * rising[items]
    logit = logit + (shop.base + by_device[device[user]] + by_country[country[user]])[:, None]
    logit = logit + (shop.weekend * (day % 7 >= 5))[:, None]
    scores = shop.scale * (relevance + shop.logger_noise * rng.normal(size=(n, C)))
    new = shop.sharpness * shop.scale * (relevance + shop.target_noise * rng.normal(size=(n, C)))
    new = new + shop.trend * rising[items]
    seen = shop.decay ** np.arange(K)
    order = drawn("plackett-luce", scores, K, rng)

    def worth(order: np.ndarray) -> Columns:
        chance = seen / (1 + np.exp(-np.take_along_axis(logit, order, axis=1)))
        paid = 0.4 * price[np.take_along_axis(items, order, axis=1)]
        last = slice(4 * n // 5, None) if shop.trend else slice(None)
        return {"reward": chance[last].sum(axis=1), "revenue": (chance * paid)[last].sum(axis=1)}

    chance = seen / (1 + np.exp(-np.take_along_axis(logit, order, axis=1)))
    click = (rng.random((n, K)) < chance).astype(float)
    bought = click * (rng.random((n, K)) < 0.4)
    action = np.take_along_axis(items, order, axis=1)
    columns: Columns = {
        "request": np.arange(n), "user": user, "session": user * 1000 + day // 2, "day": DAYS[day],
        "x_device": DEVICES[device[user]], "x_country": COUNTRIES[country[user]], "x_age": age[user],
        "action": action, "reward": click, "revenue": bought * price[action],
    }  # fmt: skip
    policy = "top" if shop.sharp else "plackett-luce"
    world = World(shop, columns, items, scores, new, category, {"price": price}, {}, policy=policy)
    if not with_truth:
        return world
    return replace(world, truths=true_lifts(world, worth, np.random.default_rng(seed)))


def previous_request(world: World, rng: np.random.Generator, share: float = 1.0) -> World:
    """Write a user's clicks to the request before."""
    user, reward = world.columns["user"], world.columns["reward"]
    order = np.lexsort((np.arange(len(user)), user))
    same = user[order[1:]] == user[order[:-1]]
    before, after = order[:-1][same], order[1:][same]
    moved = rng.random(len(before)) < share
    found = reward.copy()
    found[after[moved]] = 0.0
    found[before[moved]] = reward[after[moved]]
    return world.changed(reward=found)


def fewer_clicks(world: World, rng: np.random.Generator, rows: np.ndarray, kept: float) -> World:
    """Lose a part of the clicks in some rows, or cells."""
    reward = world.columns["reward"]
    rows = np.broadcast_to(rows[:, None] if rows.ndim == 1 else rows, reward.shape)
    lost = rows & (rng.random(reward.shape) >= kept)
    return world.changed(reward=np.where(lost, 0.0, reward))


def copies(world: World, rng: np.random.Generator, times: int, noise: float = 0.0) -> World:
    """Repeat every row with new ids."""
    n = len(world.items)
    found = world.rows(np.tile(np.arange(n), times))
    user = found.columns["user"] + np.repeat(np.arange(times), n) * 10_000_000
    found = found.changed(user=user, request=np.arange(times * n))
    if not noise:
        return found
    return replace(
        found,
        scores=found.scores + noise * rng.normal(size=found.scores.shape),
        new=found.new + noise * rng.normal(size=found.new.shape),
    )


def _mobile(world: World) -> np.ndarray:
    return world.columns["x_device"] == "mobile"


def _late(world: World) -> np.ndarray:
    return world.columns["day"] >= np.datetime64("2026-11-10")


def _popular(world: World) -> np.ndarray:
    action = world.columns["action"]
    shown = np.bincount(action.ravel(), minlength=world.shop.items)
    return np.isin(action, np.argsort(-shown)[: world.shop.items // 10])


def _of_category(world: World) -> np.ndarray:
    return world.category[world.columns["action"]] == 0


def other_request(world: World, rng: np.random.Generator, share: float = 0.3) -> World:
    n = len(world.new)
    wrong = np.flatnonzero(rng.random(n) < share)
    new = world.new.copy()
    new[wrong] = world.new[rng.permutation(wrong)]
    return replace(world, new=new)


def filled(world: World, rng: np.random.Generator, share: float = 0.2) -> World:
    return replace(world, new=np.where(rng.random(world.new.shape) < share, 0.0, world.new))


def as_revenue(world: World) -> World:
    return replace(world, measured="revenue").changed(reward=world.columns["revenue"])


def capped(world: World, rng: np.random.Generator) -> World:
    reward = world.columns["revenue"]
    return replace(world, measured="revenue").changed(
        reward=np.minimum(reward, np.quantile(reward[reward > 0], 0.8))
    )


def other_units(world: World, rng: np.random.Generator, cells: np.ndarray, factor: float) -> World:
    reward = world.columns["revenue"]
    return replace(world, measured="revenue").changed(reward=np.where(cells, factor, 1.0) * reward)


def fewer_pages(world: World, rng: np.random.Generator) -> World:
    kept = world.columns["reward"].any(axis=1) | (rng.random(len(world.items)) < 0.5)
    return world.rows(np.flatnonzero(kept))


def fewer_candidates(world: World, rng: np.random.Generator) -> World:
    """Leave out half of the candidates that were not shown."""
    C, K = world.shop.candidates, world.shop.K
    shown = (world.items[:, :, None] == world.columns["action"][:, None, :]).any(axis=2)
    keys = np.where(shown, -1.0, rng.random(world.items.shape))
    kept = np.sort(np.argsort(keys, axis=1)[:, : K + (C - K) // 2], axis=1)
    names = ("items", "scores", "new")
    parts = {name: np.take_along_axis(getattr(world, name), kept, axis=1) for name in names}
    return replace(world, **parts)


def bad_day(world: World, rng: np.random.Generator) -> World:
    """On one day the logger ran with other scores than those that were logged."""
    on = world.columns["day"] == np.datetime64("2026-11-06")
    scores = world.scores.copy()
    scores[on] = scores[on][:, ::-1]
    return replace(world, scores=scores)


def _some(world: World, rng: np.random.Generator, share: float) -> np.ndarray:
    return np.broadcast_to((rng.random(len(world.items)) < share)[:, None], world.columns["action"].shape)  # fmt: skip


def _some_items(world: World, rng: np.random.Generator, share: float) -> np.ndarray:
    return (rng.random(world.shop.items) < share)[world.columns["action"]]


def doubled(world: World, cells: np.ndarray) -> World:
    return world.changed(reward=np.where(cells, 2.0, 1.0) * world.columns["reward"])


def leaking(world: World, rng: np.random.Generator) -> World:
    """Features of the target were computed after the clicks, and count them."""
    clicked = np.where(world.columns["reward"] > 0, world.columns["action"], -1)
    return replace(
        world,
        new=world.new + 0.25 * (world.items[:, :, None] == clicked[:, None, :]).any(axis=2),
    )


def slot_lower(world: World, rng: np.random.Generator, share: float = 0.3) -> World:
    """Clicks stand one slot too low in some rows."""
    rows = rng.random(len(world.items)) < share
    reward = world.columns["reward"].copy()
    reward[rows] = np.roll(reward[rows], 1, axis=1)
    reward[rows, 0] = 0.0
    return world.changed(reward=reward)


def autoplay(world: World, rng: np.random.Generator) -> World:
    """The first item of mobile pages counts as clicked."""
    reward = world.columns["reward"].copy()
    reward[_mobile(world), 0] = 1.0
    return world.changed(reward=reward)


def two_scales(world: World, rng: np.random.Generator) -> World:
    """A third of the target's scores are probabilities, the others logits."""
    rows = rng.random((len(world.items), 1)) < 0.35
    return replace(world, new=np.where(rows, 1 / (1 + np.exp(-world.new)), world.new))


def cut_counts(world: World, kept: int) -> World:
    """Pages with three clicks and more lose all of them, or those after the first ones."""
    reward = world.columns["reward"]
    many = (reward > 0).sum(axis=1, keepdims=True) >= 3
    after = np.cumsum(reward > 0, axis=1) > kept
    return world.changed(reward=np.where(many & after, 0.0, reward))


def outage(world: World, rows: int) -> World:
    """A stretch of rows without any click."""
    reward = world.columns["reward"].copy()
    first = len(reward) // 3
    reward[first : first + rows] = 0.0
    return world.changed(reward=reward)


def other_currency(world: World, factor: float) -> World:
    """Amounts of one country in another currency."""
    italy = (world.columns["x_country"] == "IT")[:, None]
    return other_units(world, np.random.default_rng(0), italy, factor)


def scores_by_item(world: World, rng: np.random.Generator) -> World:
    """The target's scores of an item are those of another request in which it was a candidate."""
    flat, order = world.items.ravel(), rng.permutation(world.items.size)
    new = world.new.ravel().copy()
    by_item = order[np.argsort(flat[order], kind="stable")]
    # Within each item, those of the next place in a random order.
    starts = np.flatnonzero(np.append(True, np.diff(flat[by_item]) != 0))
    follows = np.append(by_item[1:], by_item[:1])
    follows[np.append(starts[1:], len(by_item)) - 1] = by_item[starts]
    new[by_item] = world.new.ravel()[follows]
    return replace(world, new=new.reshape(world.new.shape))


def few_robots(world: World, rng: np.random.Generator, robots: int = 5) -> World:
    """A few users come very often and click on most of what they see."""
    n = len(world.items)
    rows = rng.choice(n, int(0.045 * n), replace=False)
    user, reward = world.columns["user"].copy(), world.columns["reward"].copy()
    user[rows] = 77_000_000 + rng.integers(robots, size=len(rows))
    chance = min(8 * float((reward > 0).mean()), 0.8)
    reward[rows] = rng.random((len(rows), reward.shape[1])) < chance
    return world.changed(user=user, reward=reward)


Error = Callable[[World, np.random.Generator], World]
ERRORS: dict[str, Error] = {
    "clicks of the previous request, all": lambda w, r: previous_request(w, r),
    "clicks of the previous request, 30 %": lambda w, r: previous_request(w, r, 0.3),
    "no clicks from mobile": lambda w, r: fewer_clicks(w, r, _mobile(w), 0.0),
    "no clicks from mobile, from a day on": lambda w, r: fewer_clicks(w, r, _mobile(w) & _late(w), 0.0),
    "half of the clicks from mobile": lambda w, r: fewer_clicks(w, r, _mobile(w), 0.5),
    "half from mobile, from a day on": lambda w, r: fewer_clicks(w, r, _mobile(w) & _late(w), 0.5),
    "a category without half of its clicks": lambda w, r: fewer_clicks(w, r, _of_category(w), 0.5),
    "popular items without half of theirs": lambda w, r: fewer_clicks(w, r, _popular(w), 0.5),
    "a category counted twice": lambda w, r: doubled(w, _of_category(w)),
    "popular items counted twice": lambda w, r: doubled(w, _popular(w)),
    "all rows twice, new ids": lambda w, r: copies(w, r, 2),
    "all rows three times, scores + 1e-7": lambda w, r: copies(w, r, 3, 1e-7),
    "all rows twice, independent rows": lambda w, r: replace(copies(w, r, 2), options={"independent_rows": True}),
    "false independent rows": lambda w, r: replace(w, options={"independent_rows": True}),
    "new scores of another request, 30 %": lambda w, r: other_request(w, r),
    "missing new scores as 0": lambda w, r: filled(w, r),
    "revenue capped": lambda w, r: capped(w, r),
    "cents in 20 % of the rows": lambda w, r: other_units(w, r, _some(w, r, 0.2), 100.0),
    "cents for 20 % of the items": lambda w, r: other_units(w, r, _some_items(w, r, 0.2), 100.0),
    "tenfold in 20 % of the rows": lambda w, r: other_units(w, r, _some(w, r, 0.2), 10.0),
    "half of the clickless pages lost": lambda w, r: fewer_pages(w, r),
    "half of the other candidates lost": lambda w, r: fewer_candidates(w, r),
    "scores logged times 1.3": lambda w, r: replace(w, scores=1.3 * w.scores),
    "other scores on one day": lambda w, r: bad_day(w, r),
    "new scores know the clicks": leaking,
    "clicks one slot too low, 30 %": slot_lower,
    "first item of mobile pages always clicked": autoplay,
    "new scores on two scales": two_scales,
    "pages with three clicks lose all": lambda w, r: cut_counts(w, 0),
    "pages keep two clicks": lambda w, r: cut_counts(w, 2),
    "200 rows in a row without a click": lambda w, r: outage(w, 200),
    "amounts of a country times 12": lambda w, r: other_currency(w, 12.0),
    "new scores of the item in another request": scores_by_item,
    "five robots": few_robots,
    "new scores cut at both ends": lambda w, r: replace(w, new=np.clip(w.new, -0.8, 0.8)),
}  # fmt: skip
#: Errors that need a shop of their own.
SHOPS: dict[str, Shop] = {"tastes drift towards the target": Shop(trend=0.8)}
HEALTHY: dict[str, Shop] = {
    "ordinary": Shop(),
    "few items": Shop(items=30, candidates=12, users=3000),
    "large differences between devices": Shop(device=0.25, category=0.3),
    "homogeneous items": Shop(quality=0.05, taste=0.1, category=0.0),
    "strong personalisation": Shop(taste=1.2, logger_noise=0.3),
    "sorted target": Shop(sharp=True, K=3, scale=1.2),
    "many visits each": Shop(users=300),
    "rare clicks": Shop(base=-3.2),
    "weekends": Shop(weekend=0.4),
    "weak target": Shop(target_noise=2.0),
}


def audited(world: World) -> Audit:
    """Return the audit of a world's log."""
    return cr.audit_log(world.log(), ["new"], time=world.time)


def limiting(audit: Audit) -> list[str]:
    """Return the codes of findings with which no verdict is reliable."""
    return sorted({one.code for one in of_audit(audit, "new")})


@dataclass(frozen=True)
class Judged:
    """What the whole product says of one log."""

    level: str
    #: The level without the findings of the audit.
    otherwise: str
    contains: bool
    codes: tuple[str, ...]
    #: Distance of the estimate from the truth, relative to the logger's value.
    off: float


def judged(world: World) -> Judged:
    """Evaluate the target of a world's log, as users do, and compare it with the truth."""
    options = {"independent_rows": True} if "independent_rows" in world.options else {}
    found = cr.evaluate(
        world.log(), ["new"], time=world.time, target_is_fresh=True, **options
    )  # fmt: skip
    blamed = {(one.code, one.text) for one in of_audit(found.audit, "new")}
    own = [one for one in found.verdict.reasons if (one.code, one.text) not in blamed]
    lift, truth = found.estimate("new").lift, world.truths[world.measured]
    return Judged(
        found.verdict.level, level_of(own), lift.relative_low <= truth <= lift.relative_high,
        tuple(sorted({code for code, _ in blamed})), lift.relative - truth,
    )  # fmt: skip


def _table(
    title: str, names: Iterable[str], logs: Callable[[str], Iterator[World]]
) -> list[Judged]:
    """Print a line for each name and return all that was judged."""
    print(f"{title:42} logs limited reliable missed   bias  checks")
    every = []
    for name in names:
        found = [judged(world) for world in logs(name)]
        every += found
        codes = Counter(code for one in found for code in one.codes)
        print(
            f"{name:42} {len(found):4} {sum(bool(one.codes) for one in found):7} "
            f"{sum(one.level == RELIABLE for one in found):8} {sum(map(_missed, found)):6} "
            f"{100 * float(np.mean([one.off for one in found])):+6.1f}  "
            + ", ".join(f"{code} {times}" for code, times in codes.most_common(4)),
            flush=True,
        )
    return every


RELIABLE = "reliable"


def _missed(one: Judged) -> bool:
    return one.level == RELIABLE and not one.contains


def _shops(name: str, rows: int, seeds: Iterable[int]) -> Iterator[World]:
    """Yield shops with an error, or healthy ones of a kind."""
    for seed in seeds:
        shop = replace(SHOPS.get(name) or HEALTHY.get(name) or Shop(), rows=rows, **PRECISE)
        # Healthy kinds share no draws.
        seed += 10_000 * [*HEALTHY].index(name) if name in HEALTHY else 0
        world = shop_world(shop, seed, with_truth=True)
        yield ERRORS[name](world, np.random.default_rng(seed + 1)) if name in ERRORS else world


def judge(given: argparse.Namespace, names: list[str]) -> None:
    """Print how the whole product judges broken and healthy logs of one or both worlds."""
    from benchmarks import front_page

    def chosen(every: Iterable[str]) -> list[str]:
        return [one for one in every if not names or any(name in one for name in names)]

    seeds = range(given.first, given.first + given.seeds)
    fresh = range(5000 + given.first, 5000 + given.first + given.healthy)
    broken: list[Judged] = []
    healthy: list[Judged] = []
    for world in given.judge.split(","):
        if world == "shop":
            errors, kinds, logs = [*ERRORS, *SHOPS], HEALTHY, _shops
        else:
            errors, kinds = [*front_page.ERRORS, *front_page.PAGES], front_page.HEALTHY
            logs = front_page.pages
        if given.seeds:
            broken += _table(world, chosen(errors), lambda name: logs(name, given.rows, seeds))  # noqa: B023
        if given.healthy:
            of_kind = lambda name: logs(name, given.rows, fresh)  # noqa: B023, E731
            healthy += _table(f"{world}, healthy", chosen(kinds), of_kind)
    if broken:
        reliable, missed = sum(one.level == RELIABLE for one in broken), sum(map(_missed, broken))
        print(f"\n{len(broken)} broken logs: {reliable} reliable, {missed} of these missed "
              f"({100 * missed / len(broken):.1f} % of broken logs)")  # fmt: skip
    could = [one for one in healthy if one.otherwise == RELIABLE]
    if could:
        lost = sum(one.level != RELIABLE for one in could)
        print(f"{len(healthy)} healthy logs: {len(could)} would be reliable without the audit, {lost} of these lose it "
              f"({100 * lost / len(could):.1f} %); {sum(bool(one.codes) for one in healthy)} have a finding that "
              f"limits; {sum(map(_missed, healthy))} reliable intervals missed")  # fmt: skip


#: Shops in which a healthy log of some thousand rows is reliable: more clicks, and a target that knows more.
PRECISE = {"base": -0.3, "logger_noise": 1.0, "sharpness": 1.6}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--healthy", type=int, default=2)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument(
        "--judge", default="", help="page, shop or page,shop: evaluate, with known truth"
    )
    given = parser.parse_args()
    names = [one for one in given.only.split(",") if one]
    if given.judge:
        judge(given, names)
        return
    print(f"{'error':45} seen  checks")
    for name in [*ERRORS, *SHOPS]:
        if names and not any(one in name for one in names):
            continue
        found = []
        for seed in range(given.first, given.first + given.seeds):
            world = shop_world(replace(SHOPS.get(name, Shop()), rows=given.rows), seed)
            if name in ERRORS:
                world = ERRORS[name](world, np.random.default_rng(seed + 1))
            found.append(limiting(audited(world)))
        codes = sorted({code for one in found for code in one})
        print(f"{name:45} {sum(map(bool, found))}/{len(found)}  {', '.join(codes)}", flush=True)
    print()
    lost = total = 0
    for name, shop in HEALTHY.items():
        if names and not any(one in name for one in names):
            continue
        found = [limiting(audited(shop_world(replace(shop, rows=given.rows), 100 + seed)))
                 for seed in range(given.first, given.first + given.healthy)]  # fmt: skip
        lost, total = lost + sum(map(bool, found)), total + len(found)
        codes = sorted({code for one in found for code in one})
        print(
            f"healthy, {name:36} {sum(map(bool, found))}/{len(found)}  {', '.join(codes)}",
            flush=True,
        )
    if total:
        print(f"\nhealthy logs with a finding that limits the verdict: {lost} of {total}")


if __name__ == "__main__":
    main()
