"""Simulated worlds of rankings: contexts, behaviours, rewards and two policies; and the named ones.

The published environment, the one of the paper's text, ones drawn afresh, and the real-world shape.
"""

import hashlib
import json
import math
from dataclasses import asdict, dataclass
from functools import partial
from itertools import combinations
from numbers import Integral, Real
from typing import Any, Literal, get_args

import numpy as np
from scipy.special import expit, ndtr, softmax

from counterrank.common.arrays import Bools, Floats, Ints
from counterrank.common.errors import ConfigError
from counterrank.common.records import Json
from counterrank.common.texts import packaged
from counterrank.data.log import LOGGING, Propensity, RankingLog
from counterrank.estimators.behavior import mask, published_models
from counterrank.policies import Factored

RewardModel = Literal["pairwise", "binary", "triple", "multiplicative"]
Which = Literal["logging", "target"]

#: The name of the evaluated policy in every simulated log.
TARGET = "new"


@dataclass(frozen=True, slots=True)
class Linear:
    """One linear function of the context per action, f(x, a) = coef_a . x + bias_a.

    `coef` (A, d); `bias` (A,).
    """

    coef: Floats
    bias: Floats

    def __call__(self, context: Floats) -> Floats:
        """Return f(x, a): (n, A).

        >>> Linear(np.ones((2, 1)), np.array([0.0, 1.0]))(np.array([[2.0]]))
        array([[2., 3.]])
        """
        return context @ self.coef.T + self.bias

    def on_items(self, context: Floats, items: Ints) -> Floats:
        """Return f(x, a) of some items of each row (n, C), whatever the size of the catalogue."""
        score: Floats = self.bias[items]
        for coef, values in zip(self.coef.T, context.T, strict=True):
            score += coef[items] * values[:, None]
        return score


def standardised(coef: Floats, bias: Floats, centre: float = 0.0) -> Linear:
    """Return the function scaled to variance 1 over x ~ N(0, I) and uniform actions, with mean `centre`."""
    # Var = E_a Var(coef_a . x) + Var_a(bias_a), and coef_a . x has variance |coef_a|^2.
    sd = np.sqrt((coef**2).sum(axis=1).mean() + bias.var())
    return Linear(coef / sd, (bias - bias.mean()) / sd + centre)


@dataclass(frozen=True, slots=True, eq=False)
class Environment:
    """Everything that defines the simulated world (Kiyohara et al., KDD 2023, section 4.1).

    x ~ N(0, I_d); behaviour z ~ softmax(lam_z |behavior_coef_z . x|) with relevance mask masks_z
    (K, K); q_k = base(x, a_k) + sum over l != k with masks_z[k, l] of interaction[a_k, a_l], plus
    `triple` or another link; positions are drawn independently; logging policy: softmax of
    `logging`; target: epsilon-greedy on the least logging score, or softmax of `target`.

    `as_published`, like the code behind the figures: base = 1 + sigmoid(linear) instead of the
    linear function itself, of another independent context instead of the row's own, and one
    reward noise draw for all positions of a ranking.
    """

    name: str
    masks: Bools  # (M, K, K)
    behavior_names: tuple[str, ...]
    behavior_coef: Floats  # (M, d)
    lam: Floats  # (M,)
    base: Linear
    interaction: Floats  # (A, A)
    logging: Linear
    target: Linear | None = None
    triple: Floats | None = None  # (A, A, A), symmetric in the last two
    epsilon: float = 0.3
    sigma: float = 0.5
    as_published: bool = False
    reward_model: RewardModel = "pairwise"
    #: Groups of users: the behaviour is known from the first column of the context, cut into parts
    #: of equal size.
    groups: bool = False

    def __post_init__(self) -> None:
        """Check the options."""
        one_of("reward_model", self.reward_model, get_args(RewardModel))
        between("epsilon", self.epsilon, 0.0, 1.0, meaning="a probability, between 0 and 1")
        between("sigma", self.sigma, 0.0, meaning="a noise level, 0 or more")
        if self.reward_model == "triple" and self.triple is None:
            raise ConfigError(
                "reward_model 'triple' needs the three-way effects: pass triple=(A, A, A)"
            )

    @property
    def K(self) -> int:  # noqa: N802
        """Positions in a ranking."""
        return int(self.masks.shape[1])

    @property
    def A(self) -> int:  # noqa: N802
        """Actions to choose from at each position."""
        return int(self.interaction.shape[0])

    @property
    def d(self) -> int:
        """Context features."""
        return int(self.base.coef.shape[1])

    @property
    def M(self) -> int:  # noqa: N802
        """Behaviours."""
        return int(self.masks.shape[0])

    @property
    def mask_rows(self) -> dict[str, list[list[int]]]:
        """The masks of the behaviours by name, as plain numbers."""
        rows = self.masks.astype(int).tolist()
        return dict(zip(self.behavior_names, rows, strict=True))

    @property
    def fingerprint(self) -> str:
        """A name of all parameters."""
        return fingerprint_of(asdict(self))

    def draw(
        self, n: int, rng: np.random.Generator, *, policy: Which = "logging"
    ) -> "SimulatedLog":
        """Return n rankings shown by the logging policy, or by the target.

        >>> log = published().draw(4, np.random.default_rng(0))
        >>> log.action.shape, log.p1[0].round(3).tolist()
        ((4, 8), [0.8, 0.1, 0.1])
        """
        whole("n", n, 1)
        context = rng.standard_normal((n, self.d))
        reward_context = rng.standard_normal(context.shape) if self.as_published else context
        base = base_reward(self, reward_context)
        chance = behavior_probability(self, context)  # (n, M)
        # Inverse of the distribution function; the last class needs no comparison and takes what
        # rounding leaves.
        below = chance.cumsum(axis=1)[:, :-1] < rng.random((n, 1))
        behavior = below.sum(axis=1, dtype=np.int64)
        p0, p1 = (distribution(self, context, which) for which in get_args(Which))
        shown = Factored(p0 if policy == "logging" else p1)
        action = shown.sample(self.K, rng)[:, 0]
        q = expected_reward(self, action, behavior, base)
        if self.reward_model == "binary":
            reward = (rng.random(q.shape) < q).astype(np.float64)
        else:
            noise = rng.standard_normal((n, 1 if self.as_published else self.K))
            reward = q + self.sigma * noise
        return SimulatedLog(self, context, action, reward, p0, p1, behavior, q, policy)


@dataclass(frozen=True, slots=True)
class SimulatedLog:
    """n simulated rankings.

    context (n, d), action (n, K), reward (n, K), expected reward q (n, K), behavior (n,) index into
    `masks`; p0 and p1: whole distributions of the logging and target policies (n, A).
    `drawn_by` names the policy that chose the actions.
    """

    env: Environment
    context: Floats
    action: Ints
    reward: Floats
    p0: Floats
    p1: Floats
    behavior: Ints
    q: Floats
    drawn_by: Which = "logging"

    @property
    def masks(self) -> Bools:
        """Relevance masks of the behaviours: (M, K, K)."""
        return self.env.masks

    @property
    def drawn_from(self) -> Floats:
        """The whole distribution of the policy that chose the actions: (n, A)."""
        return self.p0 if self.drawn_by == "logging" else self.p1

    @property
    def propensity(self) -> Floats:
        """Probabilities of the shown actions under the policy that drew them: (n, K)."""
        return np.take_along_axis(self.drawn_from, self.action, axis=1)

    @property
    def target(self) -> Floats:
        """Probabilities of the shown actions under the target policy: (n, K)."""
        return np.take_along_axis(self.p1, self.action, axis=1)

    def to_log(self) -> RankingLog:
        """Return the rankings with target "new", whole distributions and behaviour names."""
        return RankingLog(
            action=self.action,
            reward=self.reward,
            propensity=Propensity("factored", self.propensity),
            context=self.context,
            behavior=np.array(self.env.behavior_names)[self.behavior],
            behavior_masks=self.env.mask_rows,
            targets={TARGET: Propensity("factored", self.target)},
            dists={LOGGING: self.drawn_from, TARGET: self.p1},
        )


def distribution(env: Environment, context: Floats, which: Which) -> Floats:
    """Return each action's probability at a position: (n, A)."""
    if which == "logging":
        return softmax(env.logging(context), axis=1)  # type: ignore[no-any-return]
    if env.target is not None:
        return softmax(env.target(context), axis=1)  # type: ignore[no-any-return]
    return least_greedy(env.logging(context), env.epsilon)


def least_greedy(score: Floats, epsilon: float) -> Floats:
    """Return (1 - epsilon) on the action of least score plus epsilon / A on every action.

    >>> least_greedy(np.array([[0.2, -1.0]]), 0.3)
    array([[0.15, 0.85]])
    """
    A = score.shape[-1]
    out = np.full(score.shape, epsilon / A)
    least = score.argmin(axis=-1)[..., None]
    np.put_along_axis(out, least, 1.0 - epsilon + epsilon / A, axis=-1)
    return out


def behavior_probability(env: Environment, context: Floats) -> Floats:
    """Return p(c_z | x) = softmax_z(lam_z |theta_z . x|): (n, M); zeros and ones where there are groups."""
    if env.groups:
        group = np.minimum((env.M * ndtr(context[:, 0])).astype(np.int64), env.M - 1)
        certain: Floats = np.eye(env.M)[group]
        return certain
    return softmax(env.lam * np.abs(context @ env.behavior_coef.T), axis=1)  # type: ignore[no-any-return]


def base_reward(env: Environment, context: Floats) -> Floats:
    """Return base(x, a) for every action: (n, A)."""
    linear = env.base(context)
    return 1.0 + expit(linear) if env.as_published else linear


def expected_reward(env: Environment, action: Ints, behavior: Ints, base: Floats) -> Floats:
    """Return q_k(x, a, c) of each row: (n, K), for action (n, K), behaviour index (n,), base (n, A).

    pairwise        base + sum_l c_kl W(a_k, a_l)
    triple          pairwise + sum_{l < m} c_kl c_km T(a_k, a_l, a_m)
    multiplicative  base * exp(sum_l c_kl W(a_k, a_l))
    binary          sigmoid(pairwise), the probability of a reward of 1
    """
    pair = effect_of_others(action, behavior, env.masks, env.interaction)  # (n, K)
    base_of_item = np.take_along_axis(base, action, axis=1)  # (n, K)
    if env.reward_model == "multiplicative":
        return base_of_item * np.exp(pair)
    linear: Floats = base_of_item + pair
    if env.triple is not None and env.reward_model == "triple":
        linear += effect_of_others(action, behavior, env.masks, env.triple)
    return expit(linear) if env.reward_model == "binary" else linear


def effect_of_others(action: Ints, behavior: Ints, masks: Bools, effect: Floats) -> Floats:
    """Return sums of effect[a_k, a_l], or of effect[a_k, a_l, a_m] with l < m: (n, K).

    Over the positions, other than k, that matter to it.
    """
    K = action.shape[1]
    matters = (masks & ~np.eye(K, dtype=bool))[behavior]  # (n, K, K)
    out = np.zeros(action.shape)
    for places in combinations(range(K), effect.ndim - 1):
        other_items = (action[:, [place]] for place in places)
        out += matters[:, :, list(places)].all(axis=2) * effect[(action, *other_items)]
    return out


def fingerprint_of(parameters: Json) -> str:
    """Return a short text that names the parameters of a world, whatever the world is called."""
    # A name changes no draw: worlds that differ by it alone share their truth.
    text = json.dumps({**parameters, "name": ""}, default=np.ndarray.tolist)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def one_of(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Raise where an option has none of its words."""
    if value not in allowed:
        raise ConfigError(f"{name} is {value!r}; choose one of {', '.join(allowed)}")


def between(name: str, value: Any, low: float, high: float = math.inf, *, meaning: str) -> float:
    """Return a finite number within [low, high]; `meaning` says in the error what it is.

    >>> between("epsilon", 0.3, 0, 1, meaning="a probability, between 0 and 1")
    0.3
    """
    if not isinstance(value, Real) or not math.isfinite(value) or not low <= float(value) <= high:
        raise ConfigError(f"{name} is {value!r}; it is {meaning}")
    return float(value)


def whole(name: str, value: Any, least: int) -> int:
    """Return a whole number that is `least` or more.

    >>> whole("seed", 7, 0)
    7
    """
    if not isinstance(value, Integral) or value < least:
        raise ConfigError(f"{name} is {value!r}; it is a whole number, {least} or more")
    return int(value)


Form = Literal["published", "paper"]

#: lambda_z = exp((2 delta - 1) gamma_z), from the most to the least complex behaviour (section
#: 4.1).
GAMMA = (1.5, 0.9, 0.3, -0.3, -0.9, -1.5)


def published(
    K: int = 8,
    *,
    delta: float = 0.6,
    epsilon: float = 0.3,
    sigma: float = 0.5,
    lam: float | None = None,
) -> Environment:
    """Return the environment behind the published figures, constants included.

    Policies ignore the context; the base reward sees another context; the noise of a ranking is
    shared by its positions; the interaction shrinks as 8 / K. Rows are independent;
    `counterrank.research.paper` has the original's own draws.

    >>> published(K=4).interaction[1].round(3).tolist()
    [-1.111, 3.932, 0.563]
    """
    models = published_models(whole("K", K, 1))
    c = json.loads(packaged("counterrank.research.simulate", "data/published.json"))
    coef = np.array(c["base_coef"])
    return Environment(
        name="published",
        masks=np.stack([model.mask for model in models]),
        behavior_names=tuple(model.name for model in models),
        behavior_coef=np.array(c["behavior_coef"]),
        lam=behavior_weight(delta, lam),
        base=Linear(
            coef / c["base_sd"],
            (np.array(c["base_intercept"]) - c["base_mean"]) / c["base_sd"],
        ),
        interaction=np.array(c["interaction_at_8"]) * (8 / K),
        # The original shares one coefficient vector over actions, which softmax and argmin cancel.
        logging=Linear(np.zeros_like(coef), np.log(c["logging_probability"])),
        epsilon=epsilon,
        sigma=sigma,
        as_published=True,
    )


def real_world(*, seed: int = 0) -> Environment:
    """Return a world of the shape of section 5: 2 actions, 6 positions, 5 features, 0/1 clicks.

    Two context-dependent softmax policies and the behaviours S, C, I and P2 (the first two and its
    own).
    """
    rng = np.random.default_rng([whole("seed", seed, 0), 5])
    K, A, d = 6, 2, 5
    names = ("S", "C", "I", "P2")
    masks = np.stack([mask(name, K) for name in names])
    old = Linear(rng.uniform(-0.5, 0.5, (A, d)), rng.uniform(-0.5, 0.5, A))
    return Environment(
        name="real-world",
        masks=masks,
        behavior_names=names,
        behavior_coef=rng.uniform(0, 1, (4, d)),
        lam=np.ones(4),
        # Logits of -2.5 to -1, before context and neighbours: clicks are rare, 8 to 27 %.
        base=Linear(rng.uniform(-0.5, 0.5, (A, d)), rng.uniform(-2.5, -1.0, A)),
        interaction=rng.normal(0, 0.25, (A, A)),
        logging=old,
        target=Linear(
            old.coef + rng.uniform(-0.5, 0.5, (A, d)),
            old.bias + rng.uniform(-0.75, 0.75, A),
        ),
        reward_model="binary",
    )


def random(  # noqa: PLR0913
    seed: int = 0,
    *,
    form: Form = "published",
    reward: RewardModel = "pairwise",
    K: int = 8,
    actions: int = 3,
    d: int = 5,
    delta: float | None = 0.6,
    epsilon: float = 0.3,
    sigma: float = 0.5,
    lam: float | None = None,
    context_policies: bool | None = None,
    groups: bool = False,
    name: str = "random",
) -> Environment:
    """Return an environment whose parameters come from `seed` alone.

    `form` "published": base 1 + sigmoid, seen with another context, normal W x 8/K, shared noise,
    policies without context; "paper": linear base, uniform W, independent noise, policies with
    context. `context_policies` overrides the latter; `groups` gives each part of the first context
    column a behaviour of its own.

    >>> random(1, reward="binary", K=4, actions=10).interaction.shape
    (10, 10)
    """
    one_of("form", form, get_args(Form))
    sizes = {"K": (K, 1), "actions": (actions, 2), "d": (d, 1), "seed": (seed, 0)}
    for option, (value, least) in sizes.items():
        whole(option, value, least)
    as_published = form == "published"
    rng = np.random.default_rng([seed, 23])
    names, masks = six(K, rng, as_published=as_published)
    contextual = (not as_published) if context_policies is None else context_policies
    old = Linear(rng.uniform(0, 1, (actions, d)) * contextual, rng.uniform(0, 1, actions))
    base = _base(rng, actions, d, as_published=as_published)
    effect, triple = _effects(rng, reward, K, actions, as_published=as_published)
    # Not used: worlds of one seed stay what they were when policies could differ by position.
    rng.standard_normal((K, actions))
    if reward == "binary":  # a base of one logit around -0.5 keeps both outcomes common
        base = standardised(base.coef, base.bias, -0.5)
    return Environment(
        name=name,
        masks=masks,
        behavior_names=names,
        behavior_coef=rng.uniform(0, 1, (len(names), d)),
        lam=behavior_weight(delta, lam),
        base=base,
        interaction=effect,
        triple=triple,
        logging=old,
        epsilon=epsilon,
        sigma=sigma,
        as_published=as_published and reward != "binary",
        reward_model=reward,
        groups=groups,
    )


def _base(rng: np.random.Generator, actions: int, d: int, *, as_published: bool) -> Linear:
    """Return what each action earns by itself."""
    if not as_published:
        return Linear(rng.standard_normal((actions, d)), rng.standard_normal(actions))
    common = rng.uniform(-1, 1, d)
    return standardised(common + rng.uniform(-1, 1, (actions, d)), rng.uniform(-1, 1, actions))


def _effects(
    rng: np.random.Generator, reward: RewardModel, K: int, A: int, *, as_published: bool
) -> tuple[Floats, Floats | None]:
    """Return pair effects (A, A) and three-way effects (A, A, A), sized to stay comparable over K."""
    if not as_published and reward == "pairwise":
        return rng.uniform(0, 1, (A, A)), None
    normal = rng.standard_normal((A, A))
    # Symmetric, and divided by K: up to K - 1 effects add up in one reward.
    effect = np.tril(normal) + np.tril(normal, -1).T
    effect *= {"triple": 4.0, "binary": 4.0, "multiplicative": 1.6}.get(reward, 8.0) / K
    if reward != "triple":
        return effect, None
    cube = rng.standard_normal((A, A, A)) * (8.0 / (K * max(K - 1, 1)))
    return effect, cube + cube.transpose(0, 2, 1)


def behavior_weight(delta: float | None, lam: float | None) -> Floats:
    """Return lambda_z of the six behaviours: exp((2 delta - 1) gamma_z), or the constant `lam` for all.

    >>> behavior_weight(0.6, None).round(3).tolist()
    [1.35, 1.197, 1.062, 0.942, 0.835, 0.741]
    """
    if lam is not None:
        return np.full(
            len(GAMMA),
            between("lam", lam, 0.0, 1e6, meaning="a sharpness, between 0 and a million"),
        )
    if delta is None:
        raise ConfigError(
            "neither delta nor lam is given; pass one of them, for instance delta=0.6"
        )
    share = between(
        "delta", delta, 0.0, 1.0, meaning="a complexity, between 0 (simple) and 1 (complex)"
    )
    return np.exp((2 * share - 1) * np.array(GAMMA))


def six(K: int, rng: np.random.Generator, *, as_published: bool) -> tuple[tuple[str, ...], Bools]:
    """Return names and masks (6, K, K): S R6 R3 C2 C1 I1 of the text, or the code's C3 C2 in their place.

    Random others of the code are drawn with replacement: some coincide and fewer remain.
    """
    longest = 3 if as_published else 2
    names = ("S", "R6", "R3", f"C{longest}", f"C{longest - 1}", "I1")
    masks = {name: mask(name, K) for name in names if name[0] != "R"}
    for name in ("R6", "R3"):
        masks[name] = np.eye(K, dtype=bool) if as_published else mask(name, K, rng=rng)
        for k in range(K if as_published and K > 1 else 0):
            masks[name][k, rng.choice(np.delete(np.arange(K), k), size=int(name[1]))] = True
    return names, np.stack([masks[name] for name in names])


#: One draw of the environment that the paper's text describes; `seed` names the draw. Not in the text,
#: chosen here: 3 actions, and standard normal bias terms of the base reward.
paper = partial(random, form="paper", name="paper")
