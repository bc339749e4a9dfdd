"""Worlds of the text and random ones at the points of the paper's figures: `docs/evidence/claims.toml` names them."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from counterrank.research import simulate
from counterrank.research.bench import World, simulated_trial
from counterrank.research.bench.worlds import FROZEN
from counterrank.research.paper.figures import Setting

#: What varies, one at a time: the ends of the paper's figures, and the middle where the claim is about it.
POINTS: dict[str, tuple[float, ...]] = {
    "n": (1000, 4000, 8000, 16000),
    "K": (4, 8, 12),
    "delta": (0.0, 0.6, 1.0),
    "sigma": (0.0, 0.5, 1.0),
    "epsilon": (0.0, 0.3, 1.0),
    "lam": (0.0, 16.0),
}
#: Reward model and number of actions of each random world; the form alternates, that of the code first.
RANDOM: tuple[tuple[simulate.RewardModel, int], ...] = (
    ("pairwise", 3),
    ("pairwise", 5),
    ("triple", 5),
    ("multiplicative", 3),
)
COUNT = len(RANDOM)


def settings() -> list[Setting]:
    """Return the distinct points."""
    base = Setting()
    varied = (
        replace(base, **{name: type(getattr(base, name) or 0.0)(value)})
        for name, values in POINTS.items()
        for value in values
    )
    return list(dict.fromkeys(varied))


def world_name(kind: str, number: int, setting: Setting) -> str:
    """Return the name of a world at a point.

    >>> world_name("text", 0, Setting(n=1000))
    'text 0 n=1000 K=8 delta=0.6 sigma=0.5 epsilon=0.3 lam=None'
    """
    words = ((name, getattr(setting, name)) for name in POINTS)
    point = " ".join(f"{name}={value}" for name, value in words)
    return f"{kind} {number} {point}"


def environment(kind: str, number: int, **options: Any) -> simulate.Environment:
    """Return a world: its parameters come from its number."""
    if kind == "text":
        return simulate.paper(seed=FROZEN + number, **options)
    reward, actions = RANDOM[number]
    form: simulate.Form = ("published", "paper")[number % 2]
    return simulate.random(FROZEN + number, form=form, reward=reward, actions=actions, **options)


def _worlds(kind: str) -> Iterator[World]:
    for number in range(COUNT):
        for setting in settings():
            world = environment(kind, number, **setting.world)
            draw = partial(simulated_trial, world, setting.n)
            yield World(world_name(kind, number, setting), draw)


text = list(_worlds("text"))
random = list(_worlds("random"))
