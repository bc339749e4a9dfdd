"""Simulated worlds of rankings: contexts, behaviours, rewards and two policies; and the named ones.

The published environment, the one of the paper's text, ones drawn afresh, and the real-world shape.
"""

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cache
from importlib.resources import files
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from counterrank.arrays import Bools, Floats
from counterrank.behavior import mask, published_models
from counterrank.errors import ConfigError
from counterrank.records import Json

if TYPE_CHECKING:
    from counterrank.research.simulate.draw import SimulatedLog

RewardModel = Literal["pairwise", "binary", "triple", "multiplicative"]
BaseContext = Literal["own", "other"]
LoggingKind = Literal["factored", "plackett-luce"]
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
        score: Floats = context @ self.coef.T + self.bias
        return score


@dataclass(frozen=True, slots=True, eq=False)
class Environment:
    """Everything that defines the simulated world (Kiyohara et al., KDD 2023, section 4.1).

    x ~ N(0, I_d); behaviour z ~ softmax(lam_z |behavior_coef_z . x|) with relevance mask masks_z
    (K, K); q_k = base(x, a_k) + sum over l != k with masks_z[k, l] of interaction[a_k, a_l], plus
    `triple` or another link; logging policy: softmax of `logging`; target: epsilon-greedy on the
    least logging score, or softmax of `target`.

    `sigmoid_base`: base = 1 + sigmoid(linear) instead of the linear function itself.
    `base_context`: "own" row's context, or an "other" independent one.
    `noise_shared`: one reward noise draw for all positions of a ranking.
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
    noise_shared: bool = False
    sigmoid_base: bool = False
    base_context: BaseContext = "own"
    reward_model: RewardModel = "pairwise"
    logging_kind: LoggingKind = "factored"
    #: Groups of users: the behaviour is known from the first column of the context, cut into parts
    #: of equal size.
    groups: bool = False
    fingerprint: str = field(init=False, default="")

    def __post_init__(self) -> None:
        """Check the options."""
        _check_options(self)
        object.__setattr__(self, "fingerprint", _fingerprint(self))

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
    def factored(self) -> bool:
        """Whether positions are drawn independently given the context."""
        return self.logging_kind == "factored"

    @property
    def mask_rows(self) -> dict[str, list[list[int]]]:
        """The masks of the behaviours by name, as plain numbers."""
        rows = self.masks.astype(int).tolist()
        return dict(zip(self.behavior_names, rows, strict=True))

    @property
    def propensity_kind(self) -> str:
        """What the numbers of a written log are: one per position, or given the items above."""
        return "factored" if self.factored else "prefix"

    def draw(
        self, n: int, rng: np.random.Generator, *, policy: Which = "logging"
    ) -> "SimulatedLog":
        """Return n rankings shown by the logging policy, or by the target."""
        from counterrank.research.simulate.draw import draw

        return draw(self, n, rng, policy=policy)


def _check_options(env: Environment) -> None:
    for name, value, allowed in (
        ("reward_model", env.reward_model, get_args(RewardModel)),
        ("base_context", env.base_context, get_args(BaseContext)),
        ("logging_kind", env.logging_kind, get_args(LoggingKind)),
    ):
        if value not in allowed:
            raise ConfigError(f"{name} is {value!r}; choose one of {', '.join(allowed)}")
    between("epsilon", env.epsilon, 0.0, 1.0, meaning="a probability, between 0 and 1")
    between("sigma", env.sigma, 0.0, meaning="a noise level, 0 or more")
    if env.reward_model == "triple" and env.triple is None:
        raise ConfigError(
            "reward_model 'triple' needs the three-way effects: pass triple=(A, A, A)"
        )
    if not env.factored and env.A < env.K:
        raise ConfigError(
            f"Plackett-Luce draws without replacement: {env.A} actions cannot fill {env.K} "
            "positions; use at least as many actions as positions"
        )
    if not env.factored and env.target is None:
        raise ConfigError(
            "Plackett-Luce logging needs a target that also draws without replacement: pass "
            "target=Linear"
        )


def _fingerprint(env: Environment) -> str:
    digest = hashlib.sha256()
    for item in fields(env):
        # A name changes no draw: worlds that differ by it alone share their truth.
        if item.name in ("name", "fingerprint"):
            continue
        value = getattr(env, item.name)
        for part in (value.coef, value.bias) if isinstance(value, Linear) else (value,):
            if isinstance(part, np.ndarray):
                digest.update(repr(part.shape).encode() + np.ascontiguousarray(part).tobytes())
            else:
                digest.update(repr(part).encode())
            digest.update(b"|")
    return digest.hexdigest()[:16]


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


@cache
def _constants() -> Json:
    text = (
        files("counterrank.research.simulate")
        .joinpath("data/published.json")
        .read_text(encoding="utf-8")
    )
    loaded: Json = json.loads(text)
    return loaded


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
    c, models = _constants(), published_models(whole("K", K, 1))
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
        noise_shared=True,
        sigmoid_base=True,
        base_context="other",
    )


def paper(
    K: int = 8,
    *,
    delta: float = 0.6,
    epsilon: float = 0.3,
    sigma: float = 0.5,
    lam: float | None = None,
    actions: int = 3,
    seed: int = 0,
) -> Environment:
    """Return one draw of the environment that the paper's text describes; `seed` names the draw.

    Not in the text, chosen here: 3 actions, and standard normal bias terms of the base reward.
    """
    return random(
        seed,
        form="paper",
        K=K,
        actions=actions,
        delta=delta,
        epsilon=epsilon,
        sigma=sigma,
        lam=lam,
        name="paper",
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
    logging: LoggingKind = "factored",
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
    as_published = _is_published(form)
    for option, value, least in (
        ("K", K, 1),
        ("actions", actions, 2),
        ("d", d, 1),
        ("seed", seed, 0),
    ):
        whole(option, value, least)
    rng = np.random.default_rng([seed, 23])
    names, masks = six(K, rng, as_published=as_published)
    contextual = (not as_published) if context_policies is None else context_policies
    old = _policy(rng, actions, d, contextual=contextual)
    base = _sigmoid_base(rng, actions, d) if as_published else _linear_base(rng, actions, d)
    effect, triple = _effects(rng, reward, K, actions, as_published=as_published)
    # Not used: worlds of one seed stay what they were when policies could differ by position.
    rng.standard_normal((K, actions))
    if reward == "binary":  # a base of one logit around -0.5 keeps both outcomes common
        base = _standardised(base, centre=-0.5)
    # Likes what the logger does not, half as strongly: far from it, yet with weights that can be
    # estimated.
    new = Linear(-0.5 * old.coef, -0.5 * old.bias) if logging == "plackett-luce" else None
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
        target=new,
        epsilon=epsilon,
        sigma=sigma,
        noise_shared=as_published,
        sigmoid_base=as_published and reward != "binary",
        base_context="other" if as_published and reward != "binary" else "own",
        reward_model=reward,
        logging_kind=logging,
        groups=groups,
    )


def _is_published(form: str) -> bool:
    if form not in ("published", "paper"):
        raise ConfigError(f"form is {form!r}; choose 'published' or 'paper'")
    return form == "published"


def _policy(rng: np.random.Generator, A: int, d: int, *, contextual: bool) -> Linear:
    # Drawn also where it is not used: the rest of the world is the same with and without context.
    coef = rng.uniform(0, 1, (A, d))
    return Linear(coef if contextual else np.zeros((A, d)), rng.uniform(0, 1, A))


def _linear_base(rng: np.random.Generator, A: int, d: int) -> Linear:
    return Linear(rng.standard_normal((A, d)), rng.standard_normal(A))


def _sigmoid_base(rng: np.random.Generator, A: int, d: int) -> Linear:
    common = rng.uniform(-1, 1, d)
    return _standardised(
        Linear(common + rng.uniform(-1, 1, (A, d)), rng.uniform(-1, 1, A)), centre=0.0
    )


def _standardised(base: Linear, *, centre: float) -> Linear:
    """Return the function scaled to variance 1 over x ~ N(0, I) and uniform actions, with mean `centre`."""
    mean = base.bias.mean()
    # Var = E_a Var(coef_a . x) + Var_a(bias_a), and coef_a . x has variance |coef_a|^2.
    sd = np.sqrt((base.coef**2).sum(axis=1).mean() + base.bias.var())
    return Linear(base.coef / sd, (base.bias - mean) / sd + centre)


def _effects(
    rng: np.random.Generator, reward: RewardModel, K: int, A: int, *, as_published: bool
) -> tuple[Floats, Floats | None]:
    """Return pair effects (A, A) and three-way effects (A, A, A), sized to stay comparable over K."""
    if as_published or reward != "pairwise":
        normal = rng.standard_normal((A, A))
        # Symmetric, and divided by K below: up to K - 1 effects add up in one reward.
        effect = np.tril(normal) + np.tril(normal, -1).T
        effect *= {
            "pairwise": 8.0,
            "triple": 4.0,
            "binary": 4.0,
            "multiplicative": 1.6,
        }.get(reward, 8.0) / K
    else:
        effect = rng.uniform(0, 1, (A, A))
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
    weight: Floats = np.exp((2 * share - 1) * np.array(GAMMA))
    return weight


def scattered(K: int, h: int, rng: np.random.Generator, *, replace: bool) -> Bools:
    """Return k itself and h random others; drawn with replacement, some coincide and fewer remain."""
    if not replace:
        return mask(f"R{h}", K, rng=rng)
    found = np.eye(K, dtype=bool)
    for k in range(K if K > 1 else 0):
        found[k, rng.choice(np.delete(np.arange(K), k), size=h)] = True
    return found


def six(K: int, rng: np.random.Generator, *, as_published: bool) -> tuple[tuple[str, ...], Bools]:
    """Return names and masks (6, K, K): S R6 R3 C2 C1 I1 of the text, or the code's C3 C2 in their place."""
    far = 3 if as_published else 2
    names = ("S", "R6", "R3", f"C{far}", f"C{far - 1}", "I1")
    drawn = {name: scattered(K, int(name[1]), rng, replace=as_published) for name in ("R6", "R3")}
    return names, np.stack([drawn[name] if name in drawn else mask(name, K) for name in names])


PRESETS: dict[str, Callable[..., Environment]] = {
    "published": published,
    "paper": paper,
    "random": random,
    "real-world": real_world,
}


def preset(name: str, **options: Any) -> Environment:
    """Return the environment called `name`; options are those of its function.

    >>> preset("published", K=4, delta=0.2).K
    4
    """
    if name not in PRESETS:
        raise ConfigError(f"no environment is called {name!r}; choose one of {', '.join(PRESETS)}")
    make = PRESETS[name]
    known = make.__code__.co_varnames[: make.__code__.co_argcount + make.__code__.co_kwonlyargcount]
    for option in options:
        if option not in known:
            raise ConfigError(
                f"preset {name!r} has no option {option!r}; it has {', '.join(known)}"
            )
    return make(**options)
