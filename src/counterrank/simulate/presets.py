"""Named environments: the published one, the paper's text, random ones, and the real-world shape."""

import json
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import numpy as np

from counterrank.behavior import mask
from counterrank.errors import ConfigError
from counterrank.policies import Bools
from counterrank.simulate.bounds import whole
from counterrank.simulate.environment import BaseContext, Environment, Linear
from counterrank.simulate.fresh import random
from counterrank.simulate.structures import behavior_weight


@cache
def _constants() -> dict[str, Any]:
    text = files("counterrank.simulate").joinpath("data/published.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def published_masks(K: int) -> tuple[tuple[str, ...], Bools]:
    """Return names and masks (6, K, K) behind the published figures; K is one of 4, 6, ..., 14.

    >>> names, masks = published_masks(8)
    >>> names, masks.sum(axis=(1, 2)).tolist()
    (('S', 'R6', 'R3', 'C3', 'C2', 'I1'), [64, 46, 29, 54, 49, 22])
    """
    table = _constants()["masks"]
    if str(K) not in table:
        raise ConfigError(f"the published environment has no K={K}; choose {', '.join(table)} or preset 'random'")
    rows = table[str(K)]
    masks = [[[bit == "1" for bit in row] for row in grid] for grid in rows.values()]
    return tuple(rows), np.array(masks)


def published(
    K: int = 8,
    *,
    delta: float = 0.6,
    epsilon: float = 0.3,
    sigma: float = 0.5,
    lam: float | None = None,
    base_context: BaseContext = "other",
) -> Environment:
    """Return the environment behind the published figures, constants included.

    Policies ignore the context; the base reward sees another context; the noise of a ranking is shared by its
    positions; the interaction shrinks as 8 / K. Rows are independent; `replay` has the original's own draws.

    >>> published(K=4).interaction[1].round(3).tolist()
    [-1.111, 3.932, 0.563]
    """
    c = _constants()
    names, masks = published_masks(K)
    coef = np.array(c["base_coef"])
    return Environment(
        name="published",
        masks=masks,
        behavior_names=names,
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
        base_context=base_context,
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


#: Rankings of the logging and of the other policy in the paper's A/B test.
REAL_WORLD_ROWS = (1979, 1954)


def real_world(*, seed: int = 0) -> Environment:
    """Return a world of the shape of section 5: 2 actions, 6 positions, 5 features, 0/1 clicks.

    Two context-dependent softmax policies and the behaviours S, C, I and P2 (the first two and its own).
    The original has `REAL_WORLD_ROWS` rankings of the two policies.
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
        base=Linear(rng.uniform(-0.5, 0.5, (A, d)), rng.uniform(-2.5, -1.0, A)),
        interaction=rng.normal(0, 0.25, (A, A)),
        logging=old,
        target=Linear(
            old.coef + rng.uniform(-0.5, 0.5, (A, d)),
            old.bias + rng.uniform(-0.75, 0.75, A),
        ),
        reward_model="binary",
    )


PRESETS: dict[str, Callable[..., Environment]] = {
    "published": published,
    "paper": paper,
    "random": random,
    "real-world": real_world,
}
Preset = Literal["published", "paper", "random", "real-world"]


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
            raise ConfigError(f"preset {name!r} has no option {option!r}; it has {', '.join(known)}")
    return make(**options)
