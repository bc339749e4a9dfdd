"""Environments with parameters drawn afresh, so that no claim rests on one lucky draw."""

from typing import Literal

import numpy as np

from counterrank.errors import ConfigError
from counterrank.policies import Floats
from counterrank.simulate.bounds import whole
from counterrank.simulate.environment import Environment, Linear, LoggingKind, RewardModel
from counterrank.simulate.structures import behavior_weight, six

Form = Literal["published", "paper"]


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
    positional: bool = False,
    name: str = "random",
) -> Environment:
    """Return an environment whose parameters come from `seed` alone.

    `form` "published": base 1 + sigmoid, seen with another context, normal W x 8/K, shared noise, policies
    without context; "paper": linear base, uniform W, independent noise, policies with context.
    `context_policies` overrides the latter; `positional` adds position effects to both policies.

    >>> random(1, reward="binary", K=4, actions=10).interaction.shape
    (10, 10)
    """
    if form not in ("published", "paper"):
        raise ConfigError(f"form is {form!r}; choose 'published' or 'paper'")
    for option, value, least in (("K", K, 1), ("actions", actions, 2), ("d", d, 1), ("seed", seed, 0)):
        whole(option, value, least)
    as_published = form == "published"
    rng = np.random.default_rng([seed, 23])
    names, masks = six(K, rng, as_published=as_published)
    contextual = (not as_published) if context_policies is None else context_policies
    old = _policy(rng, actions, d, contextual=contextual)
    base = _sigmoid_base(rng, actions, d) if as_published else _linear_base(rng, actions, d)
    effect, triple = _effects(rng, reward, K, actions, as_published=as_published)
    shift = 0.5 * rng.standard_normal((K, actions))
    if reward == "binary":  # a base of one logit around -0.5 keeps both outcomes common
        base = _standardised(base, centre=-0.5)
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
        logging=Linear(old.coef, old.bias + shift) if positional else old,
        target=new,
        epsilon=epsilon,
        sigma=sigma,
        noise_shared=as_published,
        sigmoid_base=as_published and reward != "binary",
        base_context="other" if as_published and reward != "binary" else "own",
        reward_model=reward,
        logging_kind=logging,
    )


def _policy(rng: np.random.Generator, A: int, d: int, *, contextual: bool) -> Linear:
    coef = rng.uniform(0, 1, (A, d))
    return Linear(coef if contextual else np.zeros((A, d)), rng.uniform(0, 1, A))


def _linear_base(rng: np.random.Generator, A: int, d: int) -> Linear:
    return Linear(rng.standard_normal((A, d)), rng.standard_normal(A))


def _sigmoid_base(rng: np.random.Generator, A: int, d: int) -> Linear:
    common = rng.uniform(-1, 1, d)
    return _standardised(Linear(common + rng.uniform(-1, 1, (A, d)), rng.uniform(-1, 1, A)), centre=0.0)


def _standardised(base: Linear, *, centre: float) -> Linear:
    """Return the function scaled to variance 1 over x ~ N(0, I) and uniform actions, with mean `centre`."""
    mean = base.bias.mean()
    sd = np.sqrt((base.coef**2).sum(axis=1).mean() + base.bias.var())
    return Linear(base.coef / sd, (base.bias - mean) / sd + centre)


def _effects(
    rng: np.random.Generator, reward: RewardModel, K: int, A: int, *, as_published: bool
) -> tuple[Floats, Floats | None]:
    """Return pair effects (A, A) and three-way effects (A, A, A), sized to stay comparable over K."""
    if as_published or reward != "pairwise":
        normal = rng.standard_normal((A, A))
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
