"""The front page of a news site with a known truth, and errors of its pipeline.

Unlike the shop of `pipeline_errors`, articles come and go, readers read downwards and may stop after a
click, and the logger is one of five: Plackett-Luce, softmax or epsilon-greedy by scores, or numbers
that were logged with each item (of a Plackett-Luce or a softmax policy).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from benchmarks.pipeline_errors import (
    Columns,
    World,
    copies,
    doubled,
    drawn,
    fewer_clicks,
    fewer_pages,
    filled,
    other_request,
    previous_request,
    true_lifts,
)

START = np.datetime64("2026-03-02T00:00:00")
SURFACES = np.array(["app", "web", "tablet", "amp"])
REGIONS = np.array(["north", "south", "east", "west", "abroad"])
#: Every logger: how it ranks, and what the log has of it.
LOGGERS = {
    "scores": ("plackett-luce", ""),
    "softmax": ("softmax", ""),
    "epsilon": ("epsilon:epsilon=0.6", ""),
    "prefix": ("plackett-luce", "prefix"),
    "factored": ("softmax", "factored"),
}


@dataclass(frozen=True)
class FrontPage:
    """What a front page is like; the defaults are the ordinary one."""

    rows: int = 9000
    K: int = 5
    items: int = 140
    candidates: int = 12
    readers: int = 2500
    sections: int = 7
    days: int = 10
    #: Standard deviations in logits or scores.
    quality: float = 0.9
    taste: float = 0.5
    surface: float = 0.2
    reader: float = 0.4
    logger_noise: float = 1.1
    target_noise: float = 0.25
    scale: float = 0.55
    target_scale: float = 1.0
    #: Logits that an article loses in a day, of a click on a fresh one, and by hour of the day.
    fading: float = 0.12
    base: float = -0.2
    hours: float = 0.15
    #: A reader goes on to the next article, without and with a click on this one.
    goes_on: float = 0.88
    goes_on_after_click: float = 0.7
    logger: str = "scores"
    #: How much tastes change in the course of the log, towards what the target likes.
    trend: float = 0.0


def page_world(page: FrontPage, seed: int) -> World:
    """Return a healthy log of a front page."""
    rng = np.random.default_rng([seed, 7])
    n, C, K, A = page.rows, page.candidates, page.K, page.items
    moment = np.sort(rng.random(n)) * page.days
    hour = (moment % 1) * 24
    section = rng.integers(page.sections, size=A)
    # Articles appear in the course of the log, and some days before it.
    published = np.sort(rng.uniform(-3, page.days - 0.5, A))
    quality = rng.normal(0, page.quality, A) + rng.normal(0, 0.2, page.sections)[section]
    length = np.round(np.exp(rng.normal(6.0, 0.5, A)))
    reader = (page.readers * rng.beta(0.8, 1.6, n)).astype(np.int64)
    taste = rng.normal(0, page.taste, (page.readers, page.sections))
    eager = rng.normal(0, page.reader, page.readers)
    surface = rng.choice(4, page.readers, p=[0.45, 0.3, 0.15, 0.1])
    region = rng.choice(5, page.readers, p=[0.3, 0.25, 0.2, 0.15, 0.1])
    by_surface, by_region = rng.normal(0, page.surface, 4), rng.normal(0, page.surface / 2, 5)
    # Candidates are drawn from the articles of the last days.
    age = moment[:, None] - published[None, :]
    alive = (age > 0) & (age < 4.5)
    keys = np.where(alive, rng.random((n, A)), -age * (age > 0) - 1e6 * (age <= 0))
    items = np.argsort(-keys, axis=1)[:, :C]
    old = np.clip(np.take_along_axis(age, items, axis=1), 0, 6)
    liked = quality[items] + np.take_along_axis(taste[reader], section[items], axis=1)
    rising = rng.normal(size=page.sections)[section[items]]
    relevance = liked - page.fading * old
    logit = relevance + page.base + page.trend * (2 * moment / page.days - 1)[:, None] * rising
    logit = (
        logit + (eager[reader] + by_surface[surface[reader]] + by_region[region[reader]])[:, None]
    )
    logit = logit + page.hours * np.sin(hour / 24 * 2 * np.pi)[:, None]
    scores = page.scale * (relevance + page.logger_noise * rng.normal(size=(n, C)))
    new = page.target_scale * (relevance + page.target_noise * rng.normal(size=(n, C)))
    new = new + page.trend * rising
    attract = 1 / (1 + np.exp(-logit))

    def looked(order: np.ndarray, click: np.ndarray | None = None) -> np.ndarray:
        """Return the chance that each article is looked at, given clicks above it or on average."""
        rate = np.take_along_axis(attract, order, axis=1) if click is None else click
        on = page.goes_on - (page.goes_on - page.goes_on_after_click) * rate
        return np.cumprod(np.column_stack([np.ones(n), on[:, :-1]]), axis=1)

    def worth(order: np.ndarray) -> Columns:
        click = looked(order) * np.take_along_axis(attract, order, axis=1)
        seconds = click * np.sqrt(length[np.take_along_axis(items, order, axis=1)])
        last = slice(4 * n // 5, None) if page.trend else slice(None)
        return {"reward": click[last].sum(axis=1), "revenue": seconds[last].sum(axis=1)}

    policy, kind = LOGGERS[page.logger]
    order = drawn(policy, scores, K, rng)
    # The reader's way down the page, article by article.
    click, still = np.zeros((n, K)), np.ones(n, bool)
    for k in range(K):
        hit = still & (rng.random(n) < attract[np.arange(n), order[:, k]])
        click[:, k] = hit
        still &= rng.random(n) < np.where(hit, page.goes_on_after_click, page.goes_on)
    action = np.take_along_axis(items, order, axis=1)
    seconds = np.round(click * np.sqrt(length[action]) * np.exp(rng.normal(-0.08, 0.4, (n, K))), 2)
    columns: Columns = {
        "page": np.arange(n), "user": reader, "time": START + (moment * 86_400).astype("m8[s]"),
        "visit": reader * 100 + moment.astype(np.int64),
        "x_surface": SURFACES[surface[reader]], "x_region": REGIONS[region[reader]],
        "x_hour": np.floor(hour), "action": action, "reward": click, "revenue": seconds,
    }  # fmt: skip
    world = World(
        page, columns, items, scores, new, section, {"length": length, "published": published}, {},
        logger=policy, policy=policy, kind=kind, context=("x_surface", "x_region", "x_hour"), time="time",
    )  # fmt: skip
    if kind:
        world = world.changed(
            propensity=chances(kind, scores, order), new=chances(kind, new, order)
        )
    return replace(world, truths=true_lifts(world, worth, np.random.default_rng(seed)))


def chances(kind: str, scores: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return the probability of each shown item, given those above it or by itself."""
    odds = np.exp(scores)
    shown = np.take_along_axis(odds, order, axis=1)
    total = odds.sum(axis=1, keepdims=True)
    if kind == "prefix":
        total = total - (np.cumsum(shown, axis=1) - shown)
    return shown / total


Error = Callable[[World, np.random.Generator], World]


def _day(world: World) -> np.ndarray:
    return (world.columns["time"] - START).astype("m8[D]").astype(int)


def _is(world: World, column: str, label: str) -> np.ndarray:
    return world.columns[f"x_{column}"] == label


def _cells(world: World, rows: np.ndarray) -> np.ndarray:
    return np.broadcast_to(rows[:, None], world.columns["reward"].shape)


def _section(world: World) -> np.ndarray:
    """Return the cells of the section that is shown most."""
    of_items = world.category[world.columns["action"]]
    return of_items == np.bincount(of_items.ravel()).argmax()


def _popular(world: World) -> np.ndarray:
    action = world.columns["action"]
    shown = np.bincount(action.ravel(), minlength=world.shop.items)
    return np.isin(action, np.argsort(-shown)[: world.shop.items // 8])


def lost(cells: Callable[[World], np.ndarray], kept: float) -> Error:
    """Return the error that loses clicks of some rows or cells."""
    return lambda world, rng: fewer_clicks(world, rng, cells(world), kept)


def one_slot_lower(world: World, rng: np.random.Generator) -> World:
    reward = world.columns["reward"]
    moved = np.zeros_like(reward)
    moved[:, 1:] = reward[:, :-1]
    return world.changed(reward=moved)


def next_row(world: World, rng: np.random.Generator) -> World:
    return world.changed(reward=np.roll(world.columns["reward"], 1, axis=0))


def other_rows(world: World, rng: np.random.Generator) -> World:
    """Rewards in the order of another export."""
    return world.changed(reward=world.columns["reward"][rng.permutation(len(world.items))])


def robots(world: World, rng: np.random.Generator, places: slice, share: float) -> World:
    """Some readers click whatever stands at some positions."""
    user, reward = world.columns["user"], world.columns["reward"].copy()
    rows = np.isin(user, rng.permutation(np.unique(user))[: int(share * len(np.unique(user)))])
    reward[np.flatnonzero(rows), places] = 1.0
    return world.changed(reward=reward)


def test_accounts(world: World, rng: np.random.Generator) -> World:
    """Six accounts with an eighth of the pages click on a random half of what they see."""
    rows = rng.random(len(world.items)) < 0.12
    reward, user = world.columns["reward"].copy(), world.columns["user"].copy()
    user[rows] = 10**7 + rng.integers(6, size=int(rows.sum()))
    reward[rows] = rng.random((int(rows.sum()), reward.shape[1])) < 0.5
    return world.changed(reward=reward, user=user)


def twice_in_app(world: World, rng: np.random.Generator) -> World:
    return doubled(world, _cells(world, _is(world, "surface", "app")))


def some_twice(world: World, rng: np.random.Generator) -> World:
    """Events of articles that open in a new window come twice."""
    return doubled(world, (np.arange(world.shop.items) % 3 == 0)[world.columns["action"]])


def boosted(world: World, rng: np.random.Generator) -> World:
    """The log has scores after a boost of two sections that the ranking did not have."""
    boost = np.where(np.isin(world.category[world.items], (0, 1)), 0.5, 0.0)
    return replace(world, scores=world.scores + boost)


def reranked(world: World, rng: np.random.Generator) -> World:
    """A page shows the freshest of its articles first; the scores know nothing of it."""
    action = world.columns["action"]
    order = np.argsort(-world.features["published"][action], axis=1)
    sort = partial(np.take_along_axis, indices=order, axis=1)
    names = ("action", "reward", "revenue")
    return world.changed(**{name: sort(world.columns[name]) for name in names})


def former_version(world: World, rng: np.random.Generator) -> World:
    """In the first half of the log another version ran than the one whose scores were logged."""
    half = _day(world) < world.shop.days // 2
    noise = rng.normal(0, 0.6, world.scores.shape)
    if not world.kind:
        return replace(world, scores=world.scores + noise * half[:, None])
    wrong = world.columns["propensity"] * np.exp(rng.normal(0, 0.4, world.columns["action"].shape))
    kept = np.where(half[:, None], np.minimum(wrong, 1.0), world.columns["propensity"])
    return world.changed(propensity=kept)


def mixed_policies(world: World, rng: np.random.Generator) -> World:
    """A quarter of the pages was served by a policy that shows the freshest articles more often."""
    rows = rng.random(len(world.items)) < 0.25
    scores = world.scores.copy()
    scores[rows] -= 0.5 * rng.normal(size=(int(rows.sum()), scores.shape[1]))
    return replace(world, scores=scores)


def temperature(world: World, rng: np.random.Generator) -> World:
    return replace(world, scores=world.scores / 1.5)


def truncated(world: World, rng: np.random.Generator) -> World:
    """The export has the candidates with the highest scores only, and what was shown."""
    shown = (world.items[:, :, None] == world.columns["action"][:, None, :]).any(axis=2)
    keys = np.where(shown, np.inf, world.scores)
    kept = np.sort(np.argsort(-keys, axis=1)[:, : world.shop.K + 2], axis=1)
    names = ("items", "scores", "new")
    return replace(world, **{n: np.take_along_axis(getattr(world, n), kept, axis=1) for n in names})


def other_order(world: World, rng: np.random.Generator) -> World:
    """The target's scores are those of the candidates by id, the candidates are not."""
    order = np.argsort(world.items, axis=1)
    return replace(world, new=np.take_along_axis(world.new, order, axis=1))


def stale_scores(world: World, rng: np.random.Generator) -> World:
    """In the last three days the target's scores are those of a fallback, the same for all."""
    late = _day(world) >= world.shop.days - 3
    return replace(world, new=np.where(late[:, None], 0.0, world.new))


def rounded(world: World, rng: np.random.Generator) -> World:
    found = np.maximum(np.round(world.columns["propensity"], 1), 0.1)
    return world.changed(propensity=found)


def not_renormalised(world: World, rng: np.random.Generator) -> World:
    """Numbers of the logger by position as if nothing stood above."""
    found = world.columns["propensity"].copy()
    first = 1 - 0.08 * np.arange(found.shape[1])
    return world.changed(propensity=found * first)


def other_candidates(world: World, rng: np.random.Generator) -> World:
    """The target was normalised over fewer candidates than were there on one surface."""
    rows = _is(world, "surface", "app")
    new = np.where(
        rows[:, None], np.minimum(1.25 * world.columns["new"], 1.0), world.columns["new"]
    )
    return world.changed(new=new)


def by_visit(world: World, rng: np.random.Generator) -> World:
    """The unit is a visit: a reader's visits of different days count as independent."""
    return replace(world, options={"unit": "visit"})


def capped_seconds(world: World, rng: np.random.Generator) -> World:
    seconds = world.columns["revenue"]
    top = np.quantile(seconds[seconds > 0], 0.6)
    return replace(world, measured="revenue").changed(reward=np.minimum(seconds, top))


def milliseconds(world: World, rng: np.random.Generator) -> World:
    """One surface counts milliseconds."""
    rows = _is(world, "surface", "web")
    seconds = np.where(rows[:, None], 1000.0, 1.0) * world.columns["revenue"]
    return replace(world, measured="revenue").changed(reward=seconds)


def rows_again(world: World, rng: np.random.Generator) -> World:
    """A third of the rows was delivered again under new ids."""
    n = len(world.items)
    some = copies(world, rng, 2, 1e-7 if not world.kind else 0.0)
    return some.rows(np.concatenate([np.arange(n), n + rng.permutation(n)[: n // 3]]))


def lost_candidates(world: World, rng: np.random.Generator) -> World:
    shown = (world.items[:, :, None] == world.columns["action"][:, None, :]).any(axis=2)
    keys = np.where(shown, -1.0, rng.random(world.items.shape))
    C, K = world.items.shape[1], world.shop.K
    kept = np.sort(np.argsort(keys, axis=1)[:, : K + (C - K) // 2], axis=1)
    names = ("items", "scores", "new")
    return replace(world, **{n: np.take_along_axis(getattr(world, n), kept, axis=1) for n in names})


def _new_articles(world: World) -> np.ndarray:
    moment = (world.columns["time"] - START) / np.timedelta64(1, "D")
    return moment[:, None] - world.features["published"][world.columns["action"]] < 0.5


def _second_half_of_catalogue(world: World) -> np.ndarray:
    """Return cells of every fifth article in the second half of the log."""
    late = _day(world) >= world.shop.days // 2
    return (world.columns["action"] % 5 == 0) & late[:, None]


def _lower(world: World) -> np.ndarray:
    return np.broadcast_to(np.arange(world.shop.K) > 0, world.columns["reward"].shape)


def _below_the_fold(world: World) -> np.ndarray:
    return _is(world, "surface", "app")[:, None] & (np.arange(world.shop.K) >= 2)


_SCORED, _NUMBERS, _ANY = ("scores", "softmax", "epsilon"), ("prefix", "factored"), tuple(LOGGERS)
_DRAWN = ("scores", "softmax")
#: Errors that issues told of, and others; each with the loggers of which a log can have it.
KNOWN: dict[str, tuple[tuple[str, ...], Error]] = {
    "clicks of the previous request, all": (_ANY, lambda w, r: previous_request(w, r)),
    "clicks of the previous request, 30 %": (_ANY, lambda w, r: previous_request(w, r, 0.3)),
    "no clicks from the web": (_ANY, lost(lambda w: _is(w, "surface", "web"), 0.0)),
    "half of the clicks from the app": (_ANY, lost(lambda w: _is(w, "surface", "app"), 0.5)),
    "half from the south, from a day on": (
        _ANY, lost(lambda w: _is(w, "region", "south") & (_day(w) >= 6), 0.5)),
    "a section without half of its clicks": (_ANY, lost(_section, 0.5)),
    "popular articles without half of theirs": (_ANY, lost(_popular, 0.5)),
    "a section counted twice": (_ANY, lambda w, r: doubled(w, _section(w))),
    "rows twice, new ids": (_ANY, lambda w, r: copies(w, r, 2)),
    "a third of the rows again": (_ANY, rows_again),
    "false independent rows": (_ANY, lambda w, r: replace(w, options={"independent_rows": True})),
    "a visit as the unit": (_ANY, by_visit),
    "new scores of another request, 30 %": (_SCORED, lambda w, r: other_request(w, r)),
    "missing new scores as 0": (_SCORED, lambda w, r: filled(w, r)),
    "seconds capped": (_ANY, capped_seconds),
    "milliseconds on one surface": (_ANY, milliseconds),
    "half of the clickless pages lost": (_ANY, lambda w, r: fewer_pages(w, r)),
    "half of the other candidates lost": (_DRAWN, lost_candidates),
}  # fmt: skip
OTHERS: dict[str, tuple[tuple[str, ...], Error]] = {
    "clicks one slot too low": (_ANY, one_slot_lower),
    "clicks of the row before": (_ANY, next_row),
    "clicks in another order of rows": (_ANY, other_rows),
    "robots that click everything, 4 %": (_ANY, lambda w, r: robots(w, r, slice(None), 0.04)),
    "robots that click the first, 10 %": (_ANY, lambda w, r: robots(w, r, slice(0, 1), 0.1)),
    "test accounts, 12 % of the pages": (_ANY, test_accounts),
    "app clicks counted twice": (_ANY, twice_in_app),
    "a third of the articles counted twice": (_ANY, some_twice),
    "last day without 80 % of its clicks": (_ANY, lost(lambda w: _day(w) == w.shop.days - 1, 0.2)),
    "nights without clicks": (_ANY, lost(lambda w: w.columns["x_hour"] < 5, 0.0)),
    "new articles without clicks": (_ANY, lost(_new_articles, 0.0)),
    "new articles with half of their clicks": (_ANY, lost(_new_articles, 0.5)),
    "every fifth article lost from a day on": (_ANY, lost(_second_half_of_catalogue, 0.1)),
    "below the fold of the app lost": (_ANY, lost(_below_the_fold, 0.0)),
    "only the first position tracked": (_ANY, lost(_lower, 0.0)),
    "a shard of readers without clicks": (_ANY, lost(lambda w: w.columns["user"] % 4 == 0, 0.0)),
    "scores after a boost": (_SCORED, boosted),
    "freshest first, after the scores": (_SCORED, reranked),
    "a former version in the first half": (("scores", "softmax", *_NUMBERS), former_version),
    "two policies without a column": (_DRAWN, mixed_policies),
    "another temperature": (_DRAWN, temperature),
    "candidates cut at the best": (_DRAWN, truncated),
    "new scores in another order": (_SCORED, other_order),
    "a fallback for new scores, three days": (_SCORED, stale_scores),
    "propensities of one digit": (_NUMBERS, rounded),
    "propensities not renormalised": (_NUMBERS, not_renormalised),
    "target normalised otherwise in the app": (_NUMBERS, other_candidates),
}  # fmt: skip
ERRORS = {**KNOWN, **OTHERS}
#: Errors of the world, not of its table.
PAGES = {"tastes drift towards the target": FrontPage(trend=0.8)}
HEALTHY: dict[str, FrontPage] = {
    "Plackett-Luce": FrontPage(),
    "softmax": FrontPage(logger="softmax"),
    "epsilon": FrontPage(logger="epsilon", K=4, candidates=8),
    "logged numbers, given those above": FrontPage(logger="prefix"),
    "logged numbers, by position": FrontPage(logger="factored", K=4),
    "six positions, few articles": FrontPage(K=6, items=60, candidates=10),
    "surfaces that differ much": FrontPage(surface=0.4),
    "busy evenings": FrontPage(hours=0.4, reader=0.7),
    "readers who stop after a click": FrontPage(goes_on=0.95, goes_on_after_click=0.3),
    "articles that fade fast": FrontPage(fading=0.4),
}


def pages(name: str, rows: int, seeds: Iterable[int]) -> Iterator[World]:
    """Yield logs with an error, of the loggers that can have it in turn, or healthy ones of a kind."""
    for seed in seeds:
        if name in HEALTHY:
            # Kinds share no draws.
            yield page_world(
                replace(HEALTHY[name], rows=rows), seed + 10_000 * [*HEALTHY].index(name)
            )
            continue
        loggers, error = ERRORS.get(name, (("scores", "softmax", "prefix"), None))
        kind = loggers[seed % len(loggers)]
        page = replace(PAGES.get(name, FrontPage(K=4 + seed % 3)), rows=rows, logger=kind)
        if kind == "epsilon":
            page = replace(page, candidates=8, K=4)
        world = page_world(page, seed)
        yield world if error is None else error(world, np.random.default_rng([seed, 1]))
