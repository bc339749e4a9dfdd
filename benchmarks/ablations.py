"""What each part of a model is worth: `auto` with it and without it on the same logs of known truth.

    python -m benchmarks.ablations --part visibility --logs 2
    python -m benchmarks.ablations --part lists --worlds clicks --rows 2000

Factored worlds are those of `accuracy_study`, click worlds those of `real_rankings` and pages of one
click. A part is switched off by replacing one function; a part that leaves the package leaves `PARTS`
too, and its figures stay in docs/evidence/appendix.md.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import numpy as np

import counterrank as cr
from benchmarks import accuracy_study, real_rankings
from counterrank.estimators.crossfit import logged_rankings
from counterrank.models import Rankings, Training, Variant, train, variants_for
from counterrank.research.simulate import World, true_value
from counterrank.research.simulate.worlds import parameters

_IN = "counterrank.models."


def _plain(source: Any, *, seed: int, rich: bool, shared: Any) -> Training | None:
    """Return the sums of a ridge without products of counts and context."""
    return train(source, seed=seed, rich=False, shared=shared)


def _alone(rankings: Rankings) -> tuple[Variant, ...]:
    """Return the variants of click models without competition."""
    return tuple(one for one in variants_for(rankings) if not one.competition)


def _linear(batch: cr.RankingLog, target: str) -> Rankings:
    """Return logged rankings of which models make no squares and no products with the place."""
    return replace(logged_rankings(batch, target), nonlinear=False)


#: What replaces what, by part.
PARTS: dict[str, tuple[tuple[str, Any], ...]] = {
    "visibility": ((_IN + "settings.VISIBILITY_LONGEST", 1),),
    "rich": (("counterrank.estimators.crossfit.train", _plain),),
    "logistic": ((_IN + "linear.with_logistic", lambda model, ridge, training: model),),
    "competition": (("counterrank.estimators.crossfit.variants_for", _alone),),
    "nonlinear": (("counterrank.estimators.crossfit.logged_rankings", _linear),),
    "scores": (("counterrank.estimators.crossfit.scores", lambda *given: None),),
    "lists": (("counterrank.estimators.crossfit.fit_lists", lambda *given: None),),
}
#: Draws of the populations, apart from those that methods were set on.
FACTORED, CLICKS = "eighth", "fourth"


@dataclass(frozen=True)
class Setting:
    """A world: its logs by number, its truth, and its name in the table."""

    name: str
    log: Callable[[int], cr.RankingLog]
    truth: Callable[[], float]


def factored(count: int, rows: int) -> Iterator[Setting]:
    """Return environments in which every slot is drawn by itself, with at most so many rows."""
    for cell in accuracy_study.population(FACTORED, count):
        env, n = accuracy_study.environment(cell), min(cell["n"], rows)
        options = cell["options"]
        yield Setting(
            f"{cell['family']} K {options['K']} A {options['actions']} n {n}",
            lambda log, env=env, n=n, e=cell["id"]: env.draw(
                n, np.random.default_rng([77, e, log])
            ).to_log(),
            lambda env=env: accuracy_study.simulate.true_value(env).value,
        )


def clicked(rows: int) -> Iterator[Setting]:
    """Return one world of each behaviour, revenue, a far target, repeated lists and pages of one click."""
    cells = real_rankings.quick(real_rankings.population(CLICKS))
    # Of targets that the logger never shows, the best of three has no value.
    for cell in (one for one in cells if one["family"] not in ("top", "blind")):
        world = World(**cell["world"])
        yield Setting(
            f"{cell['family']} K {world.K} items {world.items} n {rows}",
            lambda log, world=world: world.log(rows, log),
            lambda world=world: true_value(world, relative_error=2e-3).value,
        )
    for seed in (1, 2):
        few = World(seed=800 + seed, behavior="attention", K=3, items=5)
        yield Setting(
            f"repeated lists n {rows}",
            lambda log, world=few: world.log(rows, log),
            lambda world=few: true_value(world, relative_error=2e-3).value,
        )
    for seed, K in ((1, 5), (2, 10), (3, 5)):
        page = World(seed=900 + seed, behavior="position", K=K, items=40, candidates=20)
        yield Setting(
            f"one click K {K} n {rows}",
            lambda log, page=page: one_click(page, rows, log),
            lambda page=page: one_click(page, 200_000, 0, "target").reward.sum(axis=1).mean(),
        )


def one_click(world: World, n: int, seed: int, policy: str = "logging") -> cr.RankingLog:
    """Return pages on which a reader chooses one item or none, by attraction and place."""
    rng = np.random.default_rng([world.seed, seed, n])
    drawn = world.draw(n, rng, policy=policy)
    made, action = parameters(world), drawn.action
    attraction = made.appeal.bias[action] + np.einsum(
        "nd,nkd->nk", drawn.context, made.appeal.coef[action]
    )
    rate = np.exp(attraction + np.log(made.curve))
    below = np.cumsum(rate, axis=1) / (1.0 + rate.sum(axis=1, keepdims=True))
    chosen = (rng.random(n)[:, None] > below).sum(axis=1)
    reward = (np.arange(world.K) == chosen[:, None]).astype(float)
    return drawn.to_log().changed(reward=reward)


@contextmanager
def without(parts: str) -> Iterator[None]:
    """Switch parts off, named with commas between them."""
    with ExitStack() as stack:
        for part in filter(None, parts.split(",")):
            for name, value in PARTS[part]:
                stack.enter_context(mock.patch(name, value))
        yield


def judged(log: cr.RankingLog, truth: float) -> np.ndarray:
    """Return squared error, whether the interval contains the truth, its width, CPU seconds."""
    began = time.process_time()
    found = cr.Auto().estimate(log, "new")
    low, high = found.interval(0.95)
    spent = time.process_time() - began
    return np.array([(found.value - truth) ** 2, low <= truth <= high, high - low, spent])


def best_of_three(log: cr.RankingLog, truth: float) -> np.ndarray:
    """Return the squared errors of IPS, IIPS and RIPS."""
    three = (cr.IPS(), cr.IIPS(), cr.RIPS())
    return np.array([(one.estimate(log, "new").value - truth) ** 2 for one in three])


def table(part: str, settings: Iterator[Setting], logs: int, only: str) -> None:
    """Print RMSE without the part relative to with it, coverage and seconds of both, by world."""
    print(
        "| world | RMSE without / with | MSE / best of three: with, without | contained "
        "| width | seconds |"
    )
    print("|---|---|---|---|---|---|", flush=True)
    rows = []
    for setting in settings:
        truth = setting.truth()
        both: list[list[np.ndarray]] = [[], []]
        classic = []
        for number in range(logs):
            log = setting.log(number)
            classic.append(best_of_three(log, truth))
            if only != "without":
                both[0].append(judged(log, truth))
            with without(part):
                both[1].append(judged(log, truth))
        if only == "without":
            both[0] = both[1]
        with_, off = (np.mean(one, axis=0) for one in both)
        best = np.mean(classic, axis=0).min()
        ratios = [off[0] / with_[0], with_[0] / best, off[0] / best]
        rows.append([*ratios, with_[1], off[1], off[2] / with_[2], with_[3], off[3]])
        print(line(setting.name, rows[-1]), flush=True)
    every = np.array(rows)
    middle = np.exp(np.log(np.maximum(every, 1e-12)).mean(axis=0))
    middle[3:5] = every[:, 3:5].mean(axis=0)
    middle[6:] = every[:, 6:].sum(axis=0)
    print(line(f"**{len(rows)} worlds x {logs} logs**", list(middle)))


def line(name: str, row: list[float]) -> str:
    """Return a line of the table."""
    mse, with_, off, held, held_off, width, seconds, seconds_off = row
    return (
        f"| {name} | {mse**0.5:.3f} | {with_:.3f}, {off:.3f} | {held:.2f}, {held_off:.2f} "
        f"| {width:.2f} | {seconds:.1f}, {seconds_off:.1f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", required=True, help="of " + ", ".join(PARTS))
    parser.add_argument("--worlds", choices=("factored", "clicks"), default="factored")
    parser.add_argument("--named", default="", help="how the names of the worlds begin")
    parser.add_argument("--count", type=int, default=15, help="factored environments")
    parser.add_argument("--rows", type=int, default=8_000, help="most rows of a log")
    parser.add_argument("--logs", type=int, default=2, help="logs of a world")
    parser.add_argument("--only", choices=("both", "without"), default="both")
    given = parser.parse_args()
    settings = (
        factored(given.count, given.rows) if given.worlds == "factored" else clicked(given.rows)
    )
    wanted = (one for one in settings if one.name.startswith(given.named))
    table(given.part, wanted, given.logs, given.only)


if __name__ == "__main__":
    main()
