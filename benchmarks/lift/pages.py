"""Simulated pages: users who come again, items with features and prices, clicks of several kinds.

Logger and target are Plackett-Luce over scores. Both are drawn with the same random numbers, so
that the difference of what they earn is known far better than either.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

import counterrank as cr
from benchmarks.lift.cells import PAGE_REWARDS, TARGET, Case, Floats, Ints, Truth, at_last
from counterrank.policies import Candidates, ItemFeatures, parse_policy
from counterrank.research.simulate import Linear
from counterrank.research.simulate.clicks import subsets

Behavior = Literal["position", "reading", "redundancy", "trust", "one click", "carousel"]
Reward = Literal["clicks", "revenue", "any click", "reciprocal rank"]
Target = Literal["tilted", "cheaper", "kind", "top", "none", "retrained", "equal"]

#: Context that the log shows and context that it does not; item features; categories.
SEEN, HIDDEN, FEATURES, CATEGORIES = 4, 2, 4, 12
#: Visits of a user, on average.
VISITS = 4
_CHUNK = 2**14


@dataclass(frozen=True, slots=True)
class Pages:
    """A world of pages; everything follows from the seed.

    `rate` is the logit of an average item at the first place; `leave` the chance that a click ends
    the visit; `known_price` puts the price among the item features. `apart` says how far the
    target's scores turn away from the logger's, `better` how much of that turn follows what users
    like (the rest is chance, below zero is worse). A "cheaper" target turns to what is liked and
    cheap, one by "kind" to items whose clicks fall least with the place where trust is at
    work. An "equal" one knows as much of what users like as the logger does and errs by itself;
    `better` is how much more or less. `known`: the features show some of what users like.
    """

    seed: int
    behavior: Behavior = "position"
    reward: Reward = "clicks"
    target: Target = "tilted"
    n: int = 10_000
    items: int = 300
    candidates: int = 30
    K: int = 8
    rate: float = -1.0
    leave: float = 0.0
    outside: float = 4.0
    known_price: bool = True
    known: bool = True
    sharp: float = 0.7
    apart: float = 0.5
    better: float = 0.7


@dataclass(frozen=True, slots=True)
class Scorer:
    """bias_a + coef_a . x of item a for context x; (A,) and (A, d)."""

    bias: Floats
    coef: Floats

    def of(self, x: Floats, items: Ints) -> Floats:
        """Return scores (n, C) of items (n, C)."""
        return Linear(self.coef, self.bias).on_items(x, items)

    def plus(self, other: "Scorer", own: float, its: float) -> "Scorer":
        """Return own times this and its times the other, of variance one."""
        bias, coef = own * self.bias + its * other.bias, own * self.coef + its * other.coef
        return scaled(bias, coef)


def scaled(bias: Floats, coef: Floats) -> Scorer:
    """Return the scorer of mean 0 and variance 1 over x ~ N(0, I) and items."""
    sd = max(float(np.sqrt(bias.var() + (coef**2).sum(axis=1).mean())), 1e-12)
    return Scorer((bias - bias.mean()) / sd, coef / sd)


@dataclass(frozen=True, slots=True)
class Visits:
    """Requests: user (n,), context x (n, SEEN), what the log hides (n, HIDDEN), their candidates."""

    user: Ints
    x: Floats
    hidden: Floats
    mood: Floats
    candidates: Ints


class World:
    """The items, users and policies of `Pages`."""

    def __init__(self, pages: Pages) -> None:
        self.pages, A = pages, pages.items
        rng = np.random.default_rng([pages.seed, 53])
        self.feature = rng.standard_normal((A, FEATURES))
        self.category = rng.integers(CATEGORIES, size=A)
        self.price = np.exp(3 + 0.3 * self.feature[:, 0] + 0.5 * rng.standard_normal(A))
        self.slope = np.clip(-0.6 + 0.5 * self.feature[:, 1], -1.6, 0.2)
        dear = standardised(np.log(self.price))
        # Half of what users like can be seen in the features; dear items are clicked less.
        seen = self.feature if pages.known else rng.standard_normal((A, FEATURES))
        shared = seen @ rng.standard_normal(FEATURES) / np.sqrt(FEATURES)
        taste = seen @ rng.standard_normal((FEATURES, SEEN)) / np.sqrt(FEATURES)
        self.liking = scaled(
            shared + rng.standard_normal(A) - 0.6 * dear,
            0.35 * (taste + rng.standard_normal((A, SEEN))),
        )
        self.unseen = 0.4 * rng.standard_normal((A, HIDDEN)) / np.sqrt(HIDDEN)
        first, second, chance = (
            scaled(rng.standard_normal(A), 0.4 * rng.standard_normal((A, SEEN))) for _ in range(3)
        )
        self.old = self.liking.plus(first, 0.5, np.sqrt(0.75))
        good = self.liking.plus(second, 0.8, 0.6)
        d, b = pages.apart, pages.better
        flat = np.zeros((A, SEEN))
        if pages.target == "cheaper":
            turn = good.plus(scaled(-dear, flat), 0.6, 0.8)
        elif pages.target == "kind":
            turn = scaled(self.feature[:, 1], flat)
        else:
            turn = good.plus(chance, b, np.sqrt(1 - b**2))
        if pages.target == "equal":
            same = 0.5 + b
            self.new = self.liking.plus(second, same, np.sqrt(1 - same**2))
            return
        self.new = self.old.plus(turn, np.sqrt(1 - d**2), d)

    def visits(self, n: int, rng: np.random.Generator) -> Visits:
        """Return n requests of about n / VISITS users, who keep their context."""
        users = max(n // VISITS, 1)
        x, hidden = rng.standard_normal((users, SEEN)), rng.standard_normal((users, HIDDEN))
        mood, user = 0.4 * rng.standard_normal(users), rng.integers(users, size=n)
        listed = subsets(rng.random((n, self.pages.candidates)), self.pages.items)
        return Visits(user, x[user], hidden[user], mood[user], listed)

    def shown(self, scores: Floats, gumbel: Floats | None) -> Ints:
        """Return places (n, K) among the candidates: drawn, or by score alone without noise."""
        key = self.pages.sharp * scores + (0.0 if gumbel is None else gumbel)
        top = np.argpartition(-key, self.pages.K - 1, axis=1)[:, : self.pages.K]
        order = np.argsort(-np.take_along_axis(key, top, axis=1), axis=1)
        return np.take_along_axis(top, order, axis=1)

    def chances(self, visits: Visits, items: Ints) -> Floats:
        """Return P(click at k | the user is still there) of pages (n, K)."""
        kind, place = self.pages.behavior, np.arange(1.0, self.pages.K + 1)
        logit = self.pages.rate + visits.mood[:, None] + self.liking.of(visits.x, items)
        logit += Linear(self.unseen, np.zeros(len(self.unseen))).on_items(visits.hidden, items)
        if kind == "trust":
            return 1 / (1 + np.exp(-logit - self.slope[items] * np.log(place)))
        if kind in ("one click", "carousel"):
            # One choice, or a budget of attention, that all items of a page share.
            pull = place**-0.5 * np.exp(logit)
            share = pull / (self.pages.outside + pull.sum(axis=1, keepdims=True))
            return share if kind == "one click" else 1 - np.exp(-2.0 * share)
        if kind in ("redundancy", "reading"):
            taken = 1.0 if kind == "redundancy" else 0.5
            group = self.category[items]
            for k in range(1, len(place)):
                logit[:, k] -= taken * (group[:, :k] == group[:, k, None]).sum(axis=1)
        chance: Floats = place**-0.5 / (1 + np.exp(-logit))
        return chance

    def expected(self, visits: Visits, items: Ints) -> Floats:
        """Return the expected reward of pages (n,), exactly, given what they show."""
        pages, c = self.pages, self.chances(visits, items)
        one = pages.behavior == "one click"
        if pages.reward in ("clicks", "revenue"):
            stays = np.ones_like(c)
            if not one:
                stays[:, 1:] = np.cumprod(1 - pages.leave * c, axis=1)[:, :-1]
            worth = self.price[items] if pages.reward == "revenue" else 1.0
            total: Floats = (stays * c * worth).sum(axis=1)
            return total
        before = np.ones_like(c)
        if not one:
            before[:, 1:] = np.cumprod(1 - c, axis=1)[:, :-1]
        places = np.arange(1, pages.K + 1) if pages.reward == "reciprocal rank" else 1
        first: Floats = (before * c / places).sum(axis=1)
        return first

    def clicks(self, visits: Visits, items: Ints, rng: np.random.Generator) -> Floats:
        """Return clicks (n, K)."""
        c = self.chances(visits, items)
        if self.pages.behavior == "one click":
            chosen = (rng.random((len(c), 1)) > np.cumsum(c, axis=1)).sum(axis=1)
            return (chosen[:, None] == np.arange(c.shape[1])).astype(float)
        out = (rng.random(c.shape) < c).astype(float)
        gone = np.cumsum(out * (rng.random(c.shape) < self.pages.leave), axis=1)
        out[:, 1:] *= gone[:, :-1] == 0
        return out

    def rewards(self, items: Ints, clicks: Floats, rng: np.random.Generator) -> Floats:
        """Return what a log has (n, K): by place, or one of the page at the last."""
        if self.pages.reward == "revenue":
            # Lognormal noise of mean one: nobody pays exactly the price of the catalogue.
            noise = np.exp(0.4 * rng.standard_normal(clicks.shape) - 0.08)
            paid: Floats = clicks * self.price[items] * noise
            return paid
        page = PAGE_REWARDS.get(self.pages.reward)
        return clicks if page is None else at_last(page(clicks), clicks.shape[1])

    def target(self, visits: Visits) -> Floats:
        """Return the target's scores of the candidates (n, C)."""
        scorer = self.old if self.pages.target == "none" else self.new
        return scorer.of(visits.x, visits.candidates)

    def log(self, visits: Visits, places: Ints, reward: Floats) -> cr.RankingLog:
        """Return the log of these requests with both policies."""
        pages, n = self.pages, len(visits.user)
        flat = visits.candidates.reshape(-1).astype(np.int32)
        sets = Candidates(np.arange(n + 1) * pages.candidates, flat, n_items=pages.items)
        drawn = parse_policy(f"plackett-luce:temperature={1 / pages.sharp!r}")
        spec = parse_policy("top") if pages.target == "top" else drawn
        old = self.old.of(visits.x, visits.candidates).reshape(-1)
        names = tuple(f"z_{j}" for j in range(FEATURES))
        table = self.feature
        if pages.known_price:
            names, table = (*names, "price"), np.column_stack([table, self.price])
        return cr.RankingLog(
            action=np.take_along_axis(visits.candidates, places, axis=1),
            reward=reward,
            propensity=drawn.bind(candidates=sets, scores=old),
            targets={TARGET: spec.bind(candidates=sets, scores=self.target(visits).reshape(-1))},
            candidates=sets,
            item_features=ItemFeatures(table, names),
            context=visits.x,
            unit=visits.user,
            page_reward=pages.reward in PAGE_REWARDS,
        )

    def retrain(self, visits: Visits, items: Ints, clicks: Floats) -> None:
        """Turn the target towards items that were clicked more than their places usually are."""
        A = self.pages.items
        usual = np.broadcast_to(clicks.mean(axis=0), clicks.shape)
        got, expected = (
            1 + np.bincount(items.ravel(), weights=part.ravel(), minlength=A)
            for part in (clicks, usual)
        )
        liked = scaled(np.log(got / expected), np.zeros((A, SEEN)))
        d = self.pages.apart
        self.new = self.old.plus(liked, np.sqrt(1 - d**2), d)

    def truth(self, draws: int, seed: int = 0) -> Truth:
        """Return the lift from pages drawn by both policies with the same random numbers."""
        rng = np.random.default_rng([self.pages.seed, 59, seed])
        values: list[Floats] = []
        paid: list[Floats] = []
        for chunk in range(max(draws // _CHUNK, 1)):
            visits = self.visits(_CHUNK, rng)
            gumbel = rng.gumbel(size=visits.candidates.shape)
            both = []
            for new in (False, True):
                scores = self.target(visits) if new else self.old.of(visits.x, visits.candidates)
                noise = None if new and self.pages.target == "top" else gumbel
                items = np.take_along_axis(visits.candidates, self.shown(scores, noise), axis=1)
                both.append(self.expected(visits, items))
                if chunk == 0:  # a standard deviation needs fewer pages than a small lift
                    clicks = self.clicks(visits, items, rng)
                    paid.append(self.rewards(items, clicks, rng).sum(axis=1))
            values.append(np.stack(both))
        found = np.concatenate(values, axis=1)
        lift = found[1] - found[0]
        # Visits of one user are alike: chunks are independent, and their means tell the error.
        means = lift.reshape(-1, _CHUNK).mean(axis=1)
        spread = means.std(ddof=1) if len(means) > 1 else lift.std() / np.sqrt(_CHUNK)
        return Truth(
            float(lift.mean()),
            float(found[0].mean()),
            *(float(total.std()) for total in paid),
            stderr=float(spread / np.sqrt(len(means))),
        )


def standardised(values: Floats) -> Floats:
    """Return values with mean 0 and variance 1."""
    return (values - values.mean()) / max(float(values.std()), 1e-12)


def case(pages: Pages, number: int, truth: Truth | None, draws: int = 2**16) -> Case:
    """Return the log of a number; the truth of a retrained target is found for the log itself."""
    rng = np.random.default_rng([pages.seed, 61, number])
    world = World(pages)
    visits = world.visits(pages.n, rng)
    scores = world.old.of(visits.x, visits.candidates)
    places = world.shown(scores, rng.gumbel(size=scores.shape))
    items = np.take_along_axis(visits.candidates, places, axis=1)
    clicks = world.clicks(visits, items, rng)
    reward = world.rewards(items, clicks, rng)
    if pages.target == "retrained":
        world.retrain(visits, items, clicks)
        truth = world.truth(draws, 1 + number)
    assert truth is not None
    return Case(world.log(visits, places, reward), truth, fresh=pages.target != "retrained")


def aimed(pages: Pages, goal: float, draws: int = 2**16) -> Pages:
    """Return the world with `better` set so that the relative lift is about the goal.

    Bisection on one set of random numbers: lift grows with how much of the turn follows what users
    like.
    """
    low, high = -0.9, 0.9
    for _ in range(12):
        middle = (low + high) / 2
        found = World(replace(pages, better=middle)).truth(draws)
        low, high = (middle, high) if found.lift < goal * found.base else (low, middle)
    return replace(pages, better=(low + high) / 2)
