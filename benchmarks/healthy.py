"""Odd but honest services with exact propensities: whom does the audit accuse?

    python -m benchmarks.healthy [--rows 6000] [--seeds 4] [--first 0] [--only NAME,NAME] [--half fitted|held]

Each kind is a service in which something is unusual and nothing is wrong: seconds of watching, cents, packs of
ten, phones whose first screen ends after four items, a promotion, a new release, a long tail, sold-out items,
quiet nights. The table says in how many logs something is refuted (the headline is lost), in how many a
question is asked, and which codes speak. Thresholds were set on the kinds of `FITTED`
and `MENDED`; `HELD` are the others. `benchmarks.audit_power` answers the questions.
"""

import argparse
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from benchmarks.pipeline_errors import COUNTRIES, DAYS, DEVICES, Columns, World, audited, drawn
from counterrank.common.findings import FAILED


@dataclass
class Service:
    """A service before anybody has clicked: who sees what, and how likely each click is."""

    rng: np.random.Generator
    n: int
    K: int = 6
    items: int = 150
    candidates: int = 18
    users: int = 2000
    #: Clicks of an item on the first position, in logits, and how they fall.
    base: float = -1.2
    decay: float = 0.8
    scale: float = 0.8
    #: Days are as busy as these shares say; None: alike.
    busy: np.ndarray | None = None
    #: The exponent of Zipf's law of how often users come, and of how often items are candidates.
    heavy: float = 0.0
    tail: float = 0.5
    context: list[str] = field(default_factory=lambda: ["x_device", "x_country", "x_age"])

    def __post_init__(self) -> None:
        rng, n, A, C = self.rng, self.n, self.items, self.candidates
        self.category = rng.integers(6, size=A)
        self.price = np.round(np.exp(rng.normal(3.0, 0.7, A)), 2)
        shares = 1.0 / np.arange(1, self.users + 1) ** self.heavy
        self.user = rng.choice(self.users, size=n, p=shares / shares.sum())
        self.device = rng.integers(3, size=self.users)[self.user]
        self.country = rng.choice(4, size=self.users, p=[0.4, 0.3, 0.2, 0.1])[self.user]
        self.age = rng.normal(size=self.users)[self.user]
        self.taste = rng.normal(0, 0.5, (self.users, 6))
        days = np.ones(len(DAYS)) if self.busy is None else self.busy
        self.day = np.sort(rng.choice(len(DAYS), size=n, p=days / days.sum()))
        busy_hours = 1.0 + np.sin((np.arange(24) - 9) / 24 * 2 * np.pi)
        self.hour = rng.choice(24, size=n, p=(0.15 + busy_hours) / (0.15 + busy_hours).sum())
        known = np.exp(self.tail * rng.normal(size=A))
        self.cands = np.argsort(-(rng.random((n, A)) ** (1 / known)), axis=1)[:, :C]
        quality = rng.normal(0, 0.5, A)
        self.worth = quality[self.cands] + np.take_along_axis(
            self.taste[self.user], self.category[self.cands], axis=1
        )
        self.scores = self.scale * (self.worth + 0.7 * rng.normal(size=(n, C)))
        self.new = 1.3 * self.scale * (self.worth + 0.5 * rng.normal(size=(n, C)))
        self.order = drawn("plackett-luce", self.scores, self.K, rng)
        self.action = np.take_along_axis(self.cands, self.order, axis=1)
        self.logit = self.base + np.take_along_axis(self.worth, self.order, axis=1)
        #: How often each position of each page is looked at.
        self.seen = np.broadcast_to(self.decay ** np.arange(self.K), (n, self.K)).copy()
        self.length = np.full(n, self.K)
        self.extra: Columns = {}

    def add(self, where: np.ndarray, logit: float) -> None:
        """Make clicks more likely on some pages, or cells."""
        self.logit = self.logit + logit * (where[:, None] if where.ndim == 1 else where)

    def clicks(self) -> np.ndarray:
        """Draw the clicks of all pages."""
        chance = self.seen / (1 + np.exp(-self.logit))
        return (self.rng.random((self.n, self.K)) < chance).astype(float)

    def world(self, reward: np.ndarray, **features: np.ndarray) -> World:
        """Return the log, with scores of all candidates."""
        columns: Columns = {
            "request": np.arange(self.n), "user": self.user, "day": DAYS[self.day],
            "x_device": DEVICES[self.device], "x_country": COUNTRIES[self.country], "x_age": self.age,
            "action": self.action, "reward": reward, **self.extra,
        }  # fmt: skip
        context = tuple([*self.context, *(name for name in self.extra if name.startswith("x_"))])
        return World(
            self, columns, self.cands, self.scores, self.new, self.category, features, {}, context=context
        )  # fmt: skip


Kind = Callable[[np.random.Generator, int], World]


def amounts(
    service: Service, sizes: np.ndarray, bought: float = 0.5, **features: np.ndarray
) -> World:
    """Return a log whose rewards are the sizes (n, K) of what was bought."""
    some = service.clicks() * (service.rng.random((service.n, service.K)) < bought)
    return service.world(some * sizes, **features)


def ordinary(rng: np.random.Generator, n: int) -> World:
    service = Service(rng, n)
    return service.world(service.clicks())


def seconds(rng: np.random.Generator, n: int) -> World:
    """Seconds of watching: many leave after a few, some see all of a clip of a round length."""
    service = Service(rng, n, base=-0.5)
    length = rng.choice([15, 30, 60, 90, 150, 300, 600], size=service.items)[service.action]
    left = np.ceil(length * rng.beta(0.6, 1.2, service.action.shape))
    return amounts(service, np.where(rng.random(left.shape) < 0.3, length, left), 1.0)


def cents(rng: np.random.Generator, n: int) -> World:
    """Prices in cents, mostly 99 and 990 and the like, with offers of one tenth."""
    service = Service(rng, n, base=-0.7)
    price = rng.choice([49, 99, 149, 199, 490, 499, 990, 999, 1490, 1990], size=service.items)
    part = np.where(rng.random(service.items) < 0.1, 0.1, 1.0)[service.action]
    offer = np.where(rng.random(service.action.shape) < 0.3, part, 1.0)
    return amounts(service, price[service.action] * offer, price=price.astype(float))


def packs(sizes: tuple[int, ...]) -> Kind:
    def world(rng: np.random.Generator, n: int) -> World:
        """Some items are also sold in packs."""
        service = Service(rng, n, base=-0.7)
        sold = rng.random(service.items) < 0.25
        pack = rng.choice(
            [1, *sizes], size=service.action.shape, p=[0.7, *([0.3 / len(sizes)] * len(sizes))]
        )
        times = np.where(sold[service.action], pack, 1)
        return amounts(service, service.price[service.action] * times, price=service.price)

    return world


def tips(rng: np.random.Generator, n: int) -> World:
    """People give 1, 2, 5, 10, 20, 50 or 100."""
    service = Service(rng, n, base=-0.5)
    given = rng.choice(
        [1, 2, 5, 10, 20, 50, 100],
        size=service.action.shape,
        p=[0.2, 0.2, 0.25, 0.2, 0.1, 0.04, 0.01],
    )
    return amounts(service, given.astype(float), 0.8)


def heavy_amounts(rng: np.random.Generator, n: int) -> World:
    """Baskets whose sizes have a heavy tail."""
    service = Service(rng, n, base=-0.7)
    return amounts(service, np.round(np.exp(rng.normal(2.5, 1.4, service.action.shape)), 2))


def first_screen(rng: np.random.Generator, n: int) -> World:
    """Pages of eight, of which phones show four until somebody scrolls, which nobody does."""
    service = Service(rng, n, K=8)
    service.seen[(service.device == 1)[:, None] & (np.arange(8) >= 4)] = 0.0
    return service.world(service.clicks())


def seldom_scrolled(rng: np.random.Generator, n: int) -> World:
    """Pages of eight, whose lower half few phones ever scroll to."""
    service = Service(rng, n, K=8)
    service.seen[(service.device == 1)[:, None] & (np.arange(8) >= 4)] *= 0.06
    return service.world(service.clicks())


def other_screen(rng: np.random.Generator, n: int) -> World:
    """A television: items in the middle are looked at first, and twice as often."""
    service = Service(rng, n)
    tv = service.device == 2
    service.seen[tv] = np.roll(service.seen[tv], service.K // 2, axis=1)
    service.add(tv, 0.8)
    return service.world(service.clicks())


def short_and_long(rng: np.random.Generator, n: int) -> World:
    """A kind of page that holds one item beside one that holds eight."""
    service = Service(rng, n, K=8)
    short = rng.random(n) < 0.3
    service.length = np.where(short, 1, 8)
    service.extra["x_screen"] = np.where(short, "banner", "list")
    service.add(short, 0.5)
    clicks = service.clicks()
    inside = np.arange(8) < service.length[:, None]
    world = service.world(np.where(inside, clicks, 0.0))
    return world.changed(length=service.length)


def promotion(rng: np.random.Generator, n: int) -> World:
    """On one day everything is cheap."""
    service = Service(rng, n, base=-2.0)
    service.add(service.day == int(rng.integers(3, 12)), 1.3)
    return service.world(service.clicks())


def promotion_of_a_country(rng: np.random.Generator, n: int) -> World:
    service = Service(rng, n, base=-1.6)
    service.add((service.day == int(rng.integers(3, 12))) & (service.country == 1), 1.0)
    return service.world(service.clicks())


def weekends(rng: np.random.Generator, n: int) -> World:
    service = Service(rng, n, busy=np.where(np.arange(14) % 7 >= 5, 1.8, 1.0))
    service.add(service.day % 7 >= 5, 0.6)
    return service.world(service.clicks())


def release(rng: np.random.Generator, n: int) -> World:
    """From a day on a new app shows more of the page on one device."""
    service = Service(rng, n)
    late = (service.day >= 8) & (service.device == 1)
    service.seen[late] = np.sqrt(service.seen[late])
    service.add(late, 0.25)
    return service.world(service.clicks())


def worse_release(rng: np.random.Generator, n: int) -> World:
    """From a day on a new app of one device needs a tap more: fewer clicks, and all of them are logged."""
    service = Service(rng, n)
    service.add((service.day >= 8) & (service.device == 1), -0.5)
    return service.world(service.clicks())


def long_tail(rng: np.random.Generator, n: int) -> World:
    service = Service(rng, n, items=3000, tail=1.8, base=-1.5)
    return service.world(service.clicks())


def unloved(rng: np.random.Generator, n: int) -> World:
    """A third of the items is wanted by hardly anyone, and shown all the same."""
    service = Service(rng, n, items=600, base=-1.5)
    service.add(rng.random(600)[service.action] < 0.33, -3.5)
    return service.world(service.clicks())


def sold_out(rng: np.random.Generator, n: int) -> World:
    """The most popular items are gone by the evening, and nobody can take them."""
    service = Service(rng, n)
    shown = np.bincount(service.action.ravel(), minlength=service.items)
    popular = np.isin(service.action, np.argsort(-shown)[:15])
    service.add(popular & (service.hour[:, None] >= 18), -4.0)
    service.extra["x_hour"] = service.hour.astype(float)
    return service.world(service.clicks())


def growth(rng: np.random.Generator, n: int) -> World:
    """Three times as many requests at the end, of newer users, who click less."""
    service = Service(rng, n, busy=np.linspace(1, 3, 14))
    newer = rng.random(n) < 0.6 * service.day / 13
    service.user = np.where(newer, service.users + rng.integers(4000, size=n), service.user)
    service.add(newer, -0.5)
    return service.world(service.clicks())


def new_users(rng: np.random.Generator, n: int) -> World:
    """A campaign brings other people on the last day."""
    service = Service(rng, n)
    late = service.day == 13
    service.user = np.where(late, service.users + rng.integers(500, size=n), service.user)
    service.age = np.where(late, service.age - 1.0, service.age)
    service.add(late, -0.6)
    return service.world(service.clicks())


def night(rng: np.random.Generator, n: int) -> World:
    """At night hardly anybody clicks on anything."""
    service = Service(rng, n)
    part = np.select(
        [service.hour < 6, service.hour < 12, service.hour < 18],
        ["night", "morning", "day"],
        "evening",
    )
    service.add(part == "night", -1.5)
    service.extra["x_part"] = part
    return service.world(service.clicks())


def nights_in_order(rng: np.random.Generator, n: int) -> World:
    """The same, with rows in the order of time, and fewer of them at night."""
    service = Service(rng, n)
    moment = service.day * 24 + service.hour + rng.random(n)
    order = np.argsort(moment)
    service.add(service.hour < 6, -1.5)
    stamp = np.datetime64("2026-11-01T00:00:00") + (moment * 3600).astype("timedelta64[s]")
    world = replace(service.world(service.clicks()).changed(moment=stamp), time="moment")
    return world.rows(order)


def country(rng: np.random.Generator, n: int) -> World:
    """One country clicks 1.7 times as often."""
    service = Service(rng, n, base=-1.8)
    service.add(service.country == int(rng.integers(4)), 0.62)
    return service.world(service.clicks())


def richer_country(rng: np.random.Generator, n: int) -> World:
    """Revenue, and one country buys the dearer things."""
    service = Service(rng, n, base=-0.7)
    dear = np.where(service.country == 1, 1.6, 1.0)[:, None] * service.price[service.action]
    return amounts(service, np.round(dear, 2), price=service.price)


def repeat_users(rng: np.random.Generator, n: int) -> World:
    """A few users come all the time."""
    service = Service(rng, n, users=900, heavy=0.8)
    service.add(rng.normal(0, 0.8, service.users)[service.user] > 0.6, 0.8)
    return service.world(service.clicks())


def fans(rng: np.random.Generator, n: int) -> World:
    """People who come more often click more."""
    service = Service(rng, n, users=1200, heavy=0.6)
    often = np.bincount(service.user, minlength=service.users)[service.user]
    service.add(often > np.quantile(often, 0.8), 0.7)
    return service.world(service.clicks())


def season(rng: np.random.Generator, n: int) -> World:
    """Interest fades steadily."""
    service = Service(rng, n)
    service.logit = service.logit - 0.06 * service.day[:, None]
    return service.world(service.clicks())


def other_category(rng: np.random.Generator, n: int) -> World:
    """A kind of items of which people read a teaser only."""
    service = Service(rng, n)
    service.add(service.category[service.action] == 2, -1.1)
    return service.world(service.clicks())


def one_click(rng: np.random.Generator, n: int) -> World:
    """Search: people leave the page with the first click."""
    service = Service(rng, n, base=-0.6)
    clicks = service.clicks()
    return service.world(clicks * (np.cumsum(clicks, axis=1) == 1))


def browsers(rng: np.random.Generator, n: int) -> World:
    """Most pages are left at once, and on the others people open many items."""
    service = Service(rng, n, base=-0.3)
    service.add(rng.random(n) < 0.6, -4.0)
    return service.world(service.clicks())


def stars(rng: np.random.Generator, n: int) -> World:
    """Ratings of one to five."""
    service = Service(rng, n, base=-0.5)
    return service.world(
        service.clicks()
        * rng.choice([1, 2, 3, 4, 5], size=service.action.shape, p=[0.1, 0.1, 0.2, 0.3, 0.3])
    )


def kiosks(rng: np.random.Generator, n: int) -> World:
    """Screens in shops: one in ten devices, where people open half of what they see."""
    service = Service(rng, n, base=-2.0)
    kiosk = rng.random(service.users)[service.user] < 0.1
    service.extra["x_place"] = np.where(kiosk, "kiosk", "home")
    service.add(kiosk, 2.2)
    return service.world(service.clicks())


def slow_start(rng: np.random.Generator, n: int) -> World:
    """The first day was a soft launch for a few guests, who hardly clicked."""
    service = Service(rng, n, busy=np.where(np.arange(14) == 0, 0.4, 1.0))
    service.add(service.day == 0, -1.2)
    return service.world(service.clicks())


def long_list(rng: np.random.Generator, n: int) -> World:
    """Pages of eighteen items: weights of all items down to a position are very skewed."""
    service = Service(rng, n, K=18, candidates=40, decay=0.93)
    return service.world(service.clicks())


def televisions(rng: np.random.Generator, n: int) -> World:
    """One in ten watches on a television, and opens seven where others open ten."""
    service = Service(rng, n, base=-1.0, context=["x_country"])
    television = (rng.random(service.users) < 0.1)[service.user]
    service.extra["x_screen"] = np.where(television, "tv", "web")
    service.add(television, -0.5)
    return service.world(service.clicks())


#: Thresholds were set on these ...
FITTED: dict[str, Kind] = {
    "ordinary": ordinary, "seconds of watching": seconds, "packs of ten": packs((10,)), "first screen": first_screen,
    "other screen": other_screen, "promotion": promotion, "weekends": weekends, "release": release,
    "long tail": long_tail, "sold out": sold_out, "night": night, "nights in order": nights_in_order,
    "country": country, "repeat users": repeat_users, "season": season, "browsers": browsers,
}  # fmt: skip
#: ... and not on these.
HELD: dict[str, Kind] = {
    "cents": cents, "packs of 10 and 100": packs((10, 100)), "tips": tips, "heavy amounts": heavy_amounts,
    "seldom scrolled": seldom_scrolled, "one place and eight": short_and_long,
    "promotion of a country": promotion_of_a_country,
    "worse release": worse_release, "unloved items": unloved, "growth": growth, "new users": new_users,
    "richer country": richer_country, "fans": fans, "other category": other_category, "one click": one_click,
    "stars": stars, "kiosks": kiosks, "slow start": slow_start,
}  # fmt: skip
#: ... and faults of checks were found on these.
MENDED: dict[str, Kind] = {"long list": long_list, "televisions": televisions}
KINDS = {**FITTED, **HELD, **MENDED}


def as_numbers(world: World) -> World:
    """Return the world with the probabilities of what was shown instead of scores of all candidates."""
    action = world.columns["action"]
    place = (world.items[:, :, None] == action[:, None, :]).argmax(axis=1)
    found = {}
    for name, scores in (("propensity", world.scores), ("new", world.new)):
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        chance = np.zeros(action.shape)
        for k in range(action.shape[1]):
            own = np.take_along_axis(odds, place[:, [k]], axis=1)[:, 0]
            chance[:, k] = own / odds.sum(axis=1)
            np.put_along_axis(odds, place[:, [k]], 0.0, axis=1)
        found[name] = chance
    return replace(world.changed(**found), kind="prefix")


def shortened(world: World) -> World:
    """Return the world with lists that end where the page does."""
    length = world.columns.get("length")
    if length is None:
        return world
    rest = {name: values for name, values in world.columns.items() if name != "length"}
    cut = {
        name: np.array([list(row[:k]) for row, k in zip(values, length, strict=True)], dtype=object)
        for name, values in rest.items()
        if values.ndim == 2
    }
    return replace(world, columns={**rest, **cut})


def healthy_world(kind: str, seed: int, rows: int = 6000) -> World:
    """Return a healthy log of a kind; odd seeds have probabilities, even ones scores of all candidates."""
    rng = np.random.default_rng([seed, [*KINDS].index(kind)])
    world = KINDS[kind](rng, rows)
    return shortened(as_numbers(world) if seed % 2 else world)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--half", choices=["fitted", "held", "all"], default="all")
    parser.add_argument("--texts", action="store_true", help="print what the findings say")
    given = parser.parse_args()
    halves = {"fitted": FITTED, "held": HELD, "all": KINDS}
    names = [one for one in given.only.split(",") if one]
    totals: Counter[str] = Counter()
    for kind in halves[given.half]:
        if names and not any(one in kind for one in names):
            continue
        counts: Counter[str] = Counter()
        codes: Counter[str] = Counter()
        for seed in range(given.first, given.first + given.seeds):
            audit = audited(healthy_world(kind, seed, given.rows))
            stands = [one for one in audit if one.stands]
            kinds = {one.kind for one in stands} | {
                "refuted" for one in stands if one.status is FAILED
            }
            counts.update(["logs", *kinds])
            codes.update(
                {
                    f"{one.code}{'!' if one.status is FAILED else ''}"
                    for one in stands
                    if one.kind != "note"
                }
            )
            if given.texts:
                for one in stands:
                    if one.kind != "note":
                        print(f"    {seed} {one.code} {one.status.value}: {one.text}")
        totals += counts
        told = ", ".join(f"{code} {times}" for code, times in codes.most_common(6))
        print(
            f"{kind:26} {counts['logs']:3} logs {counts['refuted']:3} refuted {counts['question']:3} asked  {told}",
            flush=True,
        )
    logs = max(totals["logs"], 1)
    print(
        f"{totals['logs']} logs: refuted {100 * totals['refuted'] / logs:.1f} %, "
        f"asked {100 * totals['question'] / logs:.1f} %"
    )


if __name__ == "__main__":
    main()
