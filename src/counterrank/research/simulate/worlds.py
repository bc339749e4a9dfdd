"""Worlds shaped like real rankings: a catalogue, candidates and features, no repeats, clicks or revenue.

Users click by position, down a cascade, by DBN (Chapelle & Zhang 2009) or UBM (Dupret & Piwowarski
2008), are tired of similar items, share their attention over the page, or are of several hidden
kinds. All parameters come from the world's seed; rows come from the generator given to `draw`.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from inspect import signature
from typing import Any, Literal, get_args

import numpy as np

from counterrank.common.arrays import Floats, Ints
from counterrank.common.errors import ConfigError
from counterrank.common.messages import in_command
from counterrank.data.log import LOGGING, RankingLog
from counterrank.policies import Candidates, ItemFeatures, Policy, PolicySpec, parse_policy
from counterrank.research.simulate import clicks
from counterrank.research.simulate.environment import (
    TARGET,
    Environment,
    Linear,
    Which,
    fingerprint_of,
    one_of,
    paper,
    published,
    random,
    standardised,
    whole,
)

Behavior = Literal["position", "cascade", "dbn", "ubm", "redundancy", "attention", "mixed"]
Logger = Literal["plackett-luce", "epsilon", "swap", "mixture"]
Target = Literal["near", "far", "blind", "top"]
KINDS: tuple[str, ...] = ("position", "cascade", "dbn", "ubm", "redundancy", "attention")

#: Context and item features; places among which a swap exchanges two; hidden categories of items.
CONTEXT, FEATURES, SWAPPED, GROUPS = 5, 4, 20, 6


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """A world of rankings: `items` in the catalogue, `candidates` of them at each request, `K` shown.

    `behavior` of users; `logger`: Plackett-Luce, epsilon at each slot, one random swap, or a
    mixture (most traffic sharp, a fifth shuffled); `target`: near the logger, far (four times as
    sharp), blind (scores that say nothing), top (deterministic); `bend`: relevance that no linear
    model follows; `revenue`: clicks times a lognormal price; `hidden`: the categories of redundancy
    cannot be seen in the item features.

    >>> world = World(seed=1, behavior="cascade", K=3, items=8)
    >>> drawn = world.draw(4, np.random.default_rng(0))
    >>> drawn.action.shape, drawn.reward.sum(axis=1).max() <= 1
    ((4, 3), np.True_)
    """

    seed: int = 0
    behavior: Behavior = "dbn"
    logger: Logger = "plackett-luce"
    target: Target = "near"
    K: int = 10
    items: int = 100
    candidates: int | None = None
    bend: bool = False
    revenue: bool = False
    hidden: bool = True
    name: str = "world"

    def __post_init__(self) -> None:
        words = {"behavior": Behavior, "logger": Logger, "target": Target}
        for name, allowed in words.items():
            one_of(name, getattr(self, name), get_args(allowed))
        whole("seed", self.seed, 0)
        whole("K", self.K, 1)
        whole("items", self.items, self.K)
        if self.candidates is None:
            object.__setattr__(self, "candidates", self.items)
        if not self.K <= whole("candidates", self.candidates, 1) <= self.items:
            raise ConfigError(
                f"candidates is {self.candidates}; it lies between K = {self.K} and {self.items} "
                "items"
            )

    @property
    def C(self) -> int:  # noqa: N802
        """Candidates of a request."""
        return self.candidates or self.items

    @property
    def specs(self) -> dict[str, str]:
        """How scores become the logger and the target."""
        kinds = {
            "plackett-luce": "plackett-luce",
            "epsilon": f"epsilon:epsilon={EPSILON:g}",
            "swap": f"swap:probability={SWAP:g},places={min(self.C, max(SWAPPED, 2 * self.K))}",
            "mixture": f"{1 - SHUFFLED:g}*{SHARP}+{SHUFFLED:g}*shuffle",
        }
        # Near the logger: drawn as it draws; beside swaps, by a sharp Plackett-Luce.
        near = SHARP if self.logger == "swap" else kinds[self.logger]
        targets = {"top": "top", "far": f"plackett-luce:temperature={1 / FAR:g}"}
        return {LOGGING: kinds[self.logger], TARGET: targets.get(self.target, near)}

    def spec(self, which: Which | PolicySpec) -> PolicySpec:
        """Return how scores become the logger, the target, or the policy that was given."""
        if isinstance(which, PolicySpec):
            return which
        return parse_policy(self.specs[LOGGING if which == "logging" else TARGET])

    @property
    def fingerprint(self) -> str:
        """A name of all options."""
        return fingerprint_of(asdict(self))

    def draw(
        self, n: int, rng: np.random.Generator, *, policy: Which | PolicySpec = "logging"
    ) -> "DrawnWorld":
        """Return n rankings shown by the logger, the target, or any policy by the logger's scores."""
        whole("n", n, 1)
        traits = parameters(self)
        context = rng.standard_normal((n, CONTEXT))
        ids = np.broadcast_to(np.arange(self.items), (n, self.items)).copy()
        if self.C < self.items:
            ids = clicks.subsets(rng.random((n, self.C)), self.items)
        old, new = (scorer.on_items(context, ids) for scorer in (traits.old, traits.new))
        shown_by = self.spec(policy).dense(new if policy == "target" else old, self.K)
        choice = shown_by.sample(self.K, rng)[:, 0, :]
        shown = np.take_along_axis(ids, choice, axis=1)
        appeal = traits.appeal.on_items(context, shown)
        if self.bend:
            bent = traits.bend.on_items(context, shown)
            # |bent| less its mean, that of a standard normal: it bends without making clicks more
            # common.
            appeal += 0.8 * np.sin(2.5 * bent) + 0.8 * (np.abs(bent) - np.sqrt(2 / np.pi))
        if self.behavior == "mixed":
            # The largest of scores with Gumbel noise is a draw from their softmax.
            score = context @ traits.mood.T + rng.gumbel(size=(n, len(KINDS)))
            kind = score.argmax(axis=1)
        else:
            kind = np.full(n, KINDS.index(self.behavior))
        users = (
            kind,
            appeal,
            traits.hold[shown],
            traits.group[shown],
            traits.curve,
            traits.gaps,
            traits.pull,
            traits.go,
        )
        q = clicks.expected(*users)
        reward = clicks.draw(*users, rng.random(shown.shape))
        if self.revenue:
            price = traits.price[shown]
            q = q * price
            # Lognormal noise of mean one: exp(s z - s^2 / 2) with s = 0.4.
            reward = reward * price * np.exp(0.4 * rng.standard_normal(shown.shape) - 0.08)
        return DrawnWorld(
            self, context, ids, old, new, choice, reward, q, kind, traits.feature, policy
        )

    def log(self, n: int, seed: int) -> RankingLog:
        """Return n logged rankings with target "new": a function of the world and `seed` alone."""
        return self.draw(n, np.random.default_rng([self.seed, whole("seed", seed, 0), 37])).to_log()


@dataclass(frozen=True, slots=True, eq=False)
class WorldParameters:
    """What a world's seed decides: scorers and traits of the A items, and how users look at K positions."""

    appeal: Linear
    bend: Linear
    old: Linear
    new: Linear
    feature: Floats  # (A, FEATURES)
    group: Ints  # (A,)
    hold: Floats  # (A,) a click on this item ends the visit with this probability
    price: Floats  # (A,)
    curve: Floats  # (K,)
    gaps: Floats  # (K, K + 1)
    pull: Floats
    go: float
    mood: Floats  # (6, CONTEXT) which kind of user, given the context, in a mixed world


def parameters(world: World) -> WorldParameters:
    """Return the parameters of a world: those of its seed, at its size.

    Streams are apart, so that two worlds of one seed that differ in logger or target share their
    items and users.
    """
    A, K = world.items, world.K
    items, users, scorers = (np.random.default_rng([world.seed, 41, stream]) for stream in range(3))
    group = items.integers(GROUPS, size=A)
    feature = items.standard_normal((A, FEATURES))
    centre = items.standard_normal((GROUPS, FEATURES))
    if not world.hidden:
        feature = 0.5 * feature + centre[group]
    # Half of an item's appeal and taste can be seen in its features.
    # A model with features can learn half, ids have to bring the rest: neither wins by
    # construction.
    shared, taste = items.standard_normal(FEATURES), items.standard_normal((FEATURES, CONTEXT))
    appeal = standardised(
        0.35 * (feature @ taste / np.sqrt(FEATURES) + items.standard_normal((A, CONTEXT))),
        feature @ shared / np.sqrt(FEATURES) + items.standard_normal(A),
    )
    bend = standardised(items.standard_normal((A, CONTEXT)), np.zeros(A))
    price = np.exp(3.0 + 0.3 * feature[:, 0] + 0.5 * items.standard_normal(A))
    hold = 1.0 / (1.0 + np.exp(-items.normal(0.3, 0.8, A)))
    decay, near = users.uniform(0.4, 1.0), users.uniform(0.3, 0.8)
    place = np.arange(1.0, K + 1)
    curve: Floats = place**-decay
    # User browsing model: examination by place and by distance from the last click.
    gaps: Floats = (
        0.95
        * (place[:, None] ** -0.2)
        * np.maximum(place[:, None] - np.arange(K + 1)[None, :], 1) ** -near
    )
    pull = np.array([users.uniform(0.7, 1.4), users.uniform(0.5, 1.5), users.uniform(1.0, 2.0)])
    go = users.uniform(0.85, 0.97)
    mood = users.standard_normal((len(KINDS), CONTEXT))
    old = _correlated_scorer(appeal, 0.5, scorers)
    new = _correlated_scorer(appeal, 0.0 if world.target == "blind" else 0.7, scorers)
    if world.target != "blind":
        new = standardised(0.6 * old.coef + 0.8 * new.coef, 0.6 * old.bias + 0.8 * new.bias)
    appeal = Linear(appeal.coef, appeal.bias - users.uniform(0.6, 1.8))
    return WorldParameters(
        appeal, bend, old, new, feature, group, hold, price, curve, gaps, pull, go, mood
    )


def _correlated_scorer(appeal: Linear, share: float, rng: np.random.Generator) -> Linear:
    """Return a scorer correlated with the items' appeal by about `share`."""
    noise = standardised(
        0.4 * rng.standard_normal(appeal.coef.shape), rng.standard_normal(appeal.bias.shape)
    )
    # Shares whose squares add up to one keep the variance, so that `share` is the correlation.
    noise_share = np.sqrt(1 - share**2)
    return standardised(
        share * appeal.coef + noise_share * noise.coef,
        share * appeal.bias + noise_share * noise.bias,
    )


@dataclass(frozen=True, slots=True, eq=False)
class DrawnWorld:
    """n simulated rankings: what a log has, and what only a simulator knows.

    context (n, 5), candidates (n, C) item ids, old_scores and new_scores (n, C), choice (n, K)
    places among the candidates, action (n, K) items, reward (n, K), expected reward q (n, K) of the
    shown ranking, kind (n,) of user.
    """

    world: World
    context: Floats
    candidates: Ints
    old_scores: Floats
    new_scores: Floats
    choice: Ints
    reward: Floats
    q: Floats
    kind: Ints
    feature: Floats  # (A, FEATURES)
    drawn_by: Which | PolicySpec = "logging"

    @property
    def action(self) -> Ints:
        """Shown items: (n, K)."""
        return np.take_along_axis(self.candidates, self.choice, axis=1)

    @property
    def propensity(self) -> Floats:
        """P(a_k | x, a_1..a_k-1) of the shown items under the policy that drew them: (n, K)."""
        return self._conditional(self.drawn_by)

    @property
    def target(self) -> Floats:
        """P(a_k | x, a_1..a_k-1) of the shown items under the target, 0 after an item it would not show: (n, K)."""
        return self._conditional("target")

    def _conditional(self, which: Which | PolicySpec) -> Floats:
        among = self.world.spec(which).dense(self._scores(which), self.world.K)
        total = among.prefix_log_prob(self.choice)
        # Differences of logarithms are conditional probabilities; after an item of probability zero
        # they would be inf - inf.
        before = np.concatenate([np.zeros((len(total), 1)), total[:, :-1]], axis=1)
        possible = before > -np.inf
        return np.where(
            possible, np.exp(np.where(possible, total, 0.0) - np.where(possible, before, 0.0)), 0.0
        )

    def policy(self, which: Which | PolicySpec, sets: Candidates | None = None) -> Policy:
        """Return a policy over the items of the catalogue, bound to these rows."""
        spec, scores, sets = self.world.spec(which), self._scores(which), sets or self._candidates()
        if sets is None:
            return spec.bind(scores=scores)
        return spec.bind(candidates=sets, scores=scores.reshape(-1))

    def _scores(self, which: Which | PolicySpec) -> Floats:
        return self.new_scores if which == "target" else self.old_scores

    def _candidates(self) -> Candidates | None:
        """Return what each row could show, where that is not the whole catalogue."""
        n, C = self.candidates.shape
        if self.world.items == C:
            return None
        flat = self.candidates.reshape(-1).astype(np.int32)
        return Candidates(np.arange(n + 1) * C, flat, n_items=self.world.items)

    def to_log(self) -> RankingLog:
        """Return the rankings as a log with target "new" and both policies as objects."""
        sets = self._candidates()
        return RankingLog(
            action=self.action,
            reward=self.reward,
            propensity=self.policy(self.drawn_by, sets),
            context=self.context,
            targets={TARGET: self.policy("target", sets)},
            candidates=sets,
            item_features=ItemFeatures(self.feature, tuple(f"z_{j}" for j in range(FEATURES))),
        )


#: Settings of the policies: of slot epsilon, of swaps, of the shuffled share of the mixture and its sharp
#: part, and how much sharper a far target is.
EPSILON, SWAP, SHUFFLED, SHARP, FAR = 0.4, 0.7, 0.2, "plackett-luce:temperature=0.5", 4.0


#: Worlds by the name of their preset: those of the paper, a search page, a feed with shared attention and
#: hidden kinds, a shop with revenue.
PRESETS: dict[str, Callable[..., Environment | World]] = {
    "published": published,
    "paper": paper,
    "random": random,
    "search": partial(World, name="search", items=100, candidates=20),
    "feed": partial(
        World, name="feed", behavior="mixed", logger="mixture", items=300, candidates=50, bend=True
    ),
    "shop": partial(
        World,
        name="shop",
        behavior="redundancy",
        logger="epsilon",
        items=60,
        K=5,
        revenue=True,
        hidden=False,
    ),
}
#: Options of a preset on the command line.
_FLAGS = {"K": "--k", "items": "--actions"} | {
    name: f"--{name}"
    for name in ("delta", "epsilon", "sigma", "lam", "actions", "candidates", "behavior")
}


def preset(name: str, **options: Any) -> Environment | World:
    """Return the world called `name`; options are those of its function, or of `World`.

    >>> preset("published", K=4, delta=0.2).K, preset("shop", K=4).behavior
    (4, 'redundancy')
    """
    if name not in PRESETS:
        raise ConfigError(f"no world is called {name!r}; choose one of {', '.join(PRESETS)}")
    make = PRESETS[name]
    accepted = list(signature(make).parameters)
    for option in options:
        if option not in accepted:
            names = (
                [_FLAGS[option_name] for option_name in accepted if option_name in _FLAGS]
                if in_command()
                else accepted
            )
            raise ConfigError(
                f"preset {name!r} has no option {option!r}; it has {', '.join(names)}"
            )
    return make(**options)
