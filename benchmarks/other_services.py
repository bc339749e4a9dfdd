"""Services and errors that set no threshold: music, jobs, news and video, honest ones and broken ones.

`SERVICES` are healthy kinds as in `benchmarks.healthy`; `FAULTS` are errors of pipelines for the worlds of
`WORLDS`, each with a known true lift. They are judged by `python -m benchmarks.audit_power`; whoever sets a
threshold by one of them moves it to the kinds that set thresholds.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks.front_page import FrontPage, page_world
from benchmarks.healthy import Kind, Service, amounts
from benchmarks.pipeline_errors import DEVICES, Error, Shop, World, shop_world


def songs(rng: np.random.Generator, n: int) -> World:
    """Music: seconds heard; many skip within thirty, others hear all of a song, and fans come daily."""
    service = Service(rng, n, K=8, items=400, users=1500, heavy=0.9, base=0.3, decay=0.93)
    length = rng.integers(120, 420, service.items)[service.action]
    skipped = rng.integers(1, 31, service.action.shape)
    heard = np.where(rng.random(service.action.shape) < 0.45, length, skipped)
    return amounts(service, heard.astype(float), 1.0)


def radio(rng: np.random.Generator, n: int) -> World:
    """Music: one song at a time, and few thumbs."""
    service = Service(rng, n, K=1, items=80, candidates=10, base=-3.0)
    return service.world(service.clicks())


def commuters(rng: np.random.Generator, n: int) -> World:
    """Music on the way to work: the hours of work are quiet, and the way home is not."""
    service = Service(rng, n, base=-1.0)
    way = np.isin(service.hour, (7, 8, 17, 18))
    service.extra["x_hour"] = service.hour.astype(float)
    service.add(~way, -0.7)
    return service.world(service.clicks())


def applications(rng: np.random.Generator, n: int) -> World:
    """Jobs: hardly anybody applies, and to more than one hardly ever."""
    service = Service(rng, n, K=8, base=-4.2, decay=0.9)
    return service.world(service.clicks())


def agencies(rng: np.random.Generator, n: int) -> World:
    """Jobs: agencies come all day and open more than others do."""
    service = Service(rng, n, users=1200, heavy=1.0)
    pages = np.bincount(service.user, minlength=service.users)
    service.add((pages > np.quantile(pages, 0.98))[service.user], 0.6)
    return service.world(service.clicks())


def filled_jobs(rng: np.random.Generator, n: int) -> World:
    """Jobs: every sixth is filled after some days, says so, and is opened by few."""
    service = Service(rng, n)
    until = np.where(rng.random(service.items) < 0.17, rng.integers(4, 14, service.items), 99)
    service.add(service.day[:, None] >= until[service.action], -2.5)
    return service.world(service.clicks())


def working_days(rng: np.random.Generator, n: int) -> World:
    """Jobs: on weekends a fifth of the people come, and open half as much."""
    service = Service(rng, n, busy=np.where(np.arange(14) % 7 >= 5, 0.2, 1.0))
    service.add(service.day % 7 >= 5, -0.8)
    return service.world(service.clicks())


def breaking(rng: np.random.Generator, n: int) -> World:
    """News: on one day everybody wants to read about one section."""
    service = Service(rng, n, busy=np.where(np.arange(14) == 9, 2.5, 1.0))
    late = (service.day == 9)[:, None] & (service.category[service.action] == 1)
    service.add(late, 2.2)
    return service.world(service.clicks())


def locked(rng: np.random.Generator, n: int) -> World:
    """News: one section is for subscribers, and others see a lock on it."""
    service = Service(rng, n)
    guest = rng.random(service.users)[service.user] < 0.7
    service.extra["x_plan"] = np.where(guest, "guest", "subscriber")
    service.add(guest[:, None] & (service.category[service.action] == 3), -1.5)
    return service.world(service.clicks())


def widget(rng: np.random.Generator, n: int) -> World:
    """News: a widget on the telephone has three places, the page has six."""
    service = Service(rng, n)
    small = (service.device == 1) & (rng.random(n) < 0.6)
    service.length = np.where(small, 3, service.K)
    service.extra["x_view"] = np.where(small, "widget", "page")
    service.add(small, -0.4)
    inside = np.arange(service.K) < service.length[:, None]
    return service.world(np.where(inside, service.clicks(), 0.0)).changed(length=service.length)


def children(rng: np.random.Generator, n: int) -> World:
    """Video: on profiles of children nearly everything is watched."""
    service = Service(rng, n, K=5, base=-0.6)
    child = rng.random(service.users)[service.user] < 0.2
    service.extra["x_profile"] = np.where(child, "child", "adult")
    service.add(child, 1.3)
    return service.world(service.clicks())


def grid(rng: np.random.Generator, n: int) -> World:
    """Video on a television: two rows of four, of which the left ends are looked at first."""
    service = Service(rng, n, K=8)
    service.seen = np.broadcast_to(
        np.tile(0.75 ** np.arange(4), 2) * np.repeat([1, 0.7], 4), (n, 8)
    )
    return service.world(service.clicks())


def episodes(rng: np.random.Generator, n: int) -> World:
    """Video: minutes, mostly of episodes of 22 or 45, some of two or three."""
    service = Service(rng, n, base=-0.6)
    episode = rng.choice([22.0, 45.0], size=service.items)[service.action]
    times = rng.choice([1.0, 2.0, 3.0], size=episode.shape, p=[0.7, 0.2, 0.1])
    left = np.ceil(episode * rng.random(episode.shape))
    return amounts(service, np.where(rng.random(episode.shape) < 0.6, times * episode, left), 1.0)


def match(rng: np.random.Generator, n: int) -> World:
    """Video: while a match is on, few look for anything else."""
    service = Service(rng, n)
    on = (service.day == 6) & (service.hour >= 20) & (service.hour < 22)
    service.add(on, -2.0)
    return service.world(service.clicks())


SERVICES: dict[str, Kind] = {
    "music, seconds heard": songs, "music, one song": radio, "music, commuters": commuters,
    "jobs, applications": applications, "jobs, agencies": agencies, "jobs, filled ones": filled_jobs,
    "jobs, working days": working_days, "news, breaking": breaking, "news, locked section": locked,
    "news, widget": widget, "video, children": children, "video, a grid": grid, "video, episodes": episodes,
    "video, a match": match,
}  # fmt: skip

MUSIC = Shop(K=6, items=200, candidates=14, categories=10, users=900, taste=0.8, base=0.0, decay=0.92,
             logger_noise=1.0, sharpness=1.5)  # fmt: skip
JOBS = Shop(K=7, items=160, candidates=18, categories=8, users=2200, quality=0.8, base=-0.5, decay=0.85,
            device=0.05, logger_noise=1.1, sharpness=1.6)  # fmt: skip
VIDEO = Shop(K=4, items=90, candidates=12, users=1200, quality=0.9, taste=0.3, base=-0.2, decay=0.7,
             weekend=0.3, logger_noise=0.9, sharpness=1.5)  # fmt: skip


def _clicks(world: World) -> np.ndarray:
    return world.columns["reward"].copy()


def once_for_all(world: World, rng: np.random.Generator) -> World:
    """A second click of a user on the same item is dropped as a copy."""
    reward, action = _clicks(world), world.columns["action"]
    pair = world.columns["user"][:, None] * 10_000 + action
    clicked = np.flatnonzero(reward.ravel() > 0)
    _, first = np.unique(pair.ravel()[clicked], return_index=True)
    kept = np.zeros(reward.size)
    kept[clicked[first]] = reward.ravel()[clicked[first]]
    return world.changed(reward=kept.reshape(reward.shape))


def midnight(world: World, rng: np.random.Generator) -> World:
    """Clicks are joined by the day in another zone: those of the last three hours find no page."""
    late = world.columns["x_hour"] >= 21
    return world.changed(reward=np.where(late[:, None], 0.0, _clicks(world)))


def sponsored(world: World, rng: np.random.Generator) -> World:
    """After the ranking the dearest candidate is put at the second position of a quarter of the pages."""
    action, n = world.columns["action"].copy(), len(world.items)
    dear = world.items[np.arange(n), world.features["price"][world.items].argmax(axis=1)]
    rows = (rng.random(n) < 0.25) & ~(action == dear[:, None]).any(axis=1)
    action[rows, 1] = dear[rows]
    return world.changed(action=action)


def sharper_on_mobile(world: World, rng: np.random.Generator) -> World:
    """Telephones were served at another temperature than the one that was logged."""
    mobile = (world.columns["x_device"] == DEVICES[1])[:, None]
    return replace(world, scores=np.where(mobile, 0.7, 1.0) * world.scores)


def at_the_top(world: World, rng: np.random.Generator) -> World:
    """A client says of a click only that there was one; it is written to the first position."""
    reward, rows = _clicks(world), world.columns["x_device"] == DEVICES[2]
    pages = reward[rows].any(axis=1)
    reward[rows] = 0.0
    reward[rows, 0] = pages
    return world.changed(reward=reward)


def refunds(world: World, rng: np.random.Generator) -> World:
    """Refunds of a tenth of all amounts are subtracted from whatever row stands there a day later."""
    reward = world.columns["revenue"].copy()
    paid = np.flatnonzero(reward.ravel() > 0)
    back = rng.permutation(paid)[: len(paid) // 10]
    reward.ravel()[(back + rng.integers(500, 3000, len(back))) % reward.size] -= reward.ravel()[
        back
    ]
    return replace(world, measured="revenue").changed(reward=reward)


def weaker_leak(world: World, rng: np.random.Generator) -> World:
    """The target's features count the clicks of the log, by an eighth."""
    clicked = np.where(world.columns["reward"] > 0, world.columns["action"], -1)
    seen = (world.items[:, :, None] == clicked[:, None, :]).any(axis=2)
    return replace(world, new=world.new + 0.125 * seen)


def fallback(world: World, rng: np.random.Generator) -> World:
    """When the ranker was slow, in a twelfth of the pages, the most popular came first; nothing says so."""
    popular = np.bincount(world.columns["action"].ravel(), minlength=world.shop.items)
    rows = rng.random(len(world.items)) < 0.08
    order = np.argsort(-popular[world.items], axis=1, kind="stable")[:, : world.shop.K]
    best = np.take_along_axis(world.items, order, axis=1)
    return world.changed(action=np.where(rows[:, None], best, world.columns["action"]))


def by_examination(world: World, rng: np.random.Generator) -> World:
    """Clicks of one client are divided by how often their position is seen."""
    seen = world.shop.decay ** np.arange(world.shop.K)
    mobile = (world.columns["x_device"] == DEVICES[1])[:, None]
    return world.changed(reward=_clicks(world) / np.where(mobile, seen, 1.0))


def prefetched(world: World, rng: np.random.Generator) -> World:
    """A crawler under ever new ids opens nearly everything on one page in thirty."""
    n, reward, user = len(world.items), _clicks(world), world.columns["user"].copy()
    rows = np.flatnonzero(rng.random(n) < 0.033)
    reward[rows] = rng.random((len(rows), reward.shape[1])) < 0.9
    user[rows] = 50_000_000 + np.arange(len(rows))
    return world.changed(reward=reward, user=user)


def guests_as_one(world: World, rng: np.random.Generator) -> World:
    """Everybody who is not known has the id 0: an eighth of the pages."""
    rows = rng.random(len(world.items)) < 0.125
    return world.changed(user=np.where(rows, 0, world.columns["user"]))


def right_to_left(world: World, rng: np.random.Generator) -> World:
    """In one country positions are counted from the other end."""
    rows = world.columns["x_country"] == "FR"
    reward = _clicks(world)
    reward[rows] = reward[rows, ::-1]
    return world.changed(reward=reward)


def sampled_events(world: World, rng: np.random.Generator) -> World:
    """Events are sampled where there are many: pages with two clicks or more keep half of them."""
    reward = _clicks(world)
    many = (reward > 0).sum(axis=1, keepdims=True) >= 2
    return world.changed(reward=np.where(many & (rng.random(reward.shape) < 0.5), 0.0, reward))


def last_week(world: World, rng: np.random.Generator) -> World:
    """On three days the scores of the target are those of the same requests in another order of candidates."""
    rows = np.isin(world.columns["day"], np.unique(world.columns["day"])[5:8])
    new = world.new.copy()
    new[rows] = np.roll(new[rows], 1, axis=1)
    return replace(world, new=new)


Made = Callable[[int, int], World]


def _of(shop: Shop) -> Made:
    return lambda seed, rows: shop_world(replace(shop, rows=rows), seed, with_truth=True)


def _news(seed: int, rows: int) -> World:
    return page_world(FrontPage(rows=rows, K=5), seed)


#: Where each error happens, and what it does.
FAULTS: dict[str, tuple[Made, Error]] = {
    "music, a second click on a song dropped": (_of(MUSIC), once_for_all),
    "music, one id for all guests": (_of(MUSIC), guests_as_one),
    "music, half of the events of busy pages": (_of(MUSIC), sampled_events),
    "music, a leak of an eighth": (_of(MUSIC), weaker_leak),
    "jobs, a sponsored second position": (_of(JOBS), sponsored),
    "jobs, another temperature on mobile": (_of(JOBS), sharper_on_mobile),
    "jobs, popular ones when it was slow": (_of(JOBS), fallback),
    "jobs, a crawler under new ids": (_of(JOBS), prefetched),
    "jobs, positions from the other end": (_of(JOBS), right_to_left),
    "news, clicks after nine in the evening": (_news, midnight),
    "news, a second click dropped": (_news, once_for_all),
    "video, clicks of tablets at the top": (_of(VIDEO), at_the_top),
    "video, refunds in other rows": (_of(VIDEO), refunds),
    "video, clicks by examination on mobile": (_of(VIDEO), by_examination),
    "video, scores in another order, three days": (_of(VIDEO), last_week),
}  # fmt: skip


def broken(name: str, seed: int, rows: int) -> World:
    """Return a log with an error, and its truth."""
    service, error = FAULTS[name]
    return error(service(seed, rows), np.random.default_rng([seed, 1]))
