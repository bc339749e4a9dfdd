"""Worlds of the bench: populations by name, logs of A/B tests by path, and worlds of other modules."""

import importlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from counterrank.common.arrays import Floats
from counterrank.common.errors import ConfigError
from counterrank.data.columns import as_texts
from counterrank.data.log import RankingLog
from counterrank.io import in_memory
from counterrank.research import simulate
from counterrank.research.paper import figures
from counterrank.research.paper.replay import PublishedRun, replay_run

#: Part of every seed of a world: another number is another population.
FROZEN = 20_230_806
#: Worlds of a population whose number is not stated.
COUNT = 6


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """A log, the target's true value, and what else is known about it.

    Parameters
    ----------
    log
        What estimators see.
    truth
        The true value of the target, summed over positions.
    seed
        The seed of the trial; estimators that draw use it too.
    target
        The name of the target.
    truth_stderr
        The standard error of a truth that is itself an estimate.
    values
        The true value at each position (K,), where it is known.
    run
        The published run that the trial repeats.
    drawing
        CPU seconds of drawing the log.

    Examples
    --------
    >>> trial = worlds("published:1")[0].draw(0)
    >>> trial.log.n, trial.target, round(trial.truth, 2)
    (1000, 'new', 6.14)
    """

    log: RankingLog
    truth: float
    seed: int = 0
    target: str = "new"
    truth_stderr: float = 0.0
    values: Floats | None = None
    run: PublishedRun | None = None
    drawing: float = 0.0


@dataclass(frozen=True, slots=True)
class World:
    """A name, and the function that draws the trial of a seed.

    Parameters
    ----------
    name
        How results call the world.
    draw
        Returns the `Trial` of a seed. To run in several processes it must be importable: a function
        of a module, or a `functools.partial` of one.

    Examples
    --------
    >>> World("small", lambda seed: worlds("text:1")[0].draw(seed)).name
    'small'
    """

    name: str
    draw: Callable[[int], Trial]


def published_trial(setting: figures.Setting, seed: int) -> Trial:
    """Return run `seed` of the published experiment."""
    started = time.process_time()
    env = _published(setting)
    run = replay_run(env, setting.n, seed)
    log, values = run.log.to_log(), run.value()
    drawing = time.process_time() - started
    return Trial(log, float(values.sum()), seed, values=values, run=run, drawing=drawing)


@cache
def _published(setting: figures.Setting) -> simulate.Environment:
    return simulate.published(**setting.world)


def simulated_trial(world: simulate.Environment | simulate.World, n: int, seed: int) -> Trial:
    """Return n rankings of a simulated world; what is drawn depends on the world and `seed` alone."""
    started = time.process_time()
    log = world.draw(n, np.random.default_rng([seed, 7])).to_log()
    drawing, true = time.process_time() - started, simulate.true_value(world)
    return Trial(
        log,
        true.value,
        seed,
        truth_stderr=true.stderr,
        values=true.by_position,
        drawing=drawing,
    )


def bootstrapped(trial: Trial, seed: int) -> Trial:
    """Return a trial with its log bootstrapped: rows keep their buckets, so that copies of a row stay in one fold."""
    n, rng = trial.log.n, np.random.default_rng([seed, 19])
    return replace(trial, log=trial.log.take(np.sort(rng.integers(0, n, size=n))), seed=seed)


def _of_figures(count: int) -> Iterable[World]:
    """The distinct points of figures 2 to 4; seeds 0 to 299 are the published runs."""
    settings = (
        experiment.setting(x)
        for experiment in map(figures.get, ("data-size", "slate-size", "behavior"))
        for x in experiment.values
    )
    for setting in list(dict.fromkeys(settings))[:count]:
        name = f"published n={setting.n} K={setting.K} delta={setting.delta:g}"
        yield World(name, partial(published_trial, setting))


def _of_text(count: int) -> Iterable[World]:
    for w in range(count):
        world = simulate.paper(seed=FROZEN + w)
        yield World(f"text {w}", partial(simulated_trial, world, 8000))


#: Half of the random worlds are sums of effects of pairs, as the paper's are.
_REWARDS: tuple[simulate.RewardModel, ...] = (
    "pairwise",
    "pairwise",
    "pairwise",
    "binary",
    "triple",
    "multiplicative",
)


def _drawn(
    count: int,
    population: str,
    rewards: tuple[simulate.RewardModel, ...] = _REWARDS,
    **options: Any,
) -> Iterable[World]:
    for w in range(count):
        rng = np.random.default_rng([FROZEN, w, *population.encode()])
        n, K, A = (int(rng.choice(v)) for v in ((2000, 8000, 16000), (4, 6, 8, 12), (3, 5, 10)))
        world = simulate.random(
            int(rng.integers(10**9)),
            form=("published", "paper")[w % 2],
            reward=rewards[w % len(rewards)],
            K=K,
            actions=A,
            delta=float(rng.uniform()),
            epsilon=float(rng.uniform(0.2, 0.6)),
            context_policies=bool(rng.integers(2)),
            **options,
        )
        name = f"{population} {w}: {world.reward_model}, n={n}, {K} of {A}"
        yield World(name, partial(simulated_trial, world, n))


def _of_clicks(count: int) -> Iterable[World]:
    """Pages without replacement: search, feed and shop in turn."""
    for w in range(count):
        world = simulate.preset(("search", "feed", "shop")[w % 3], seed=FROZEN + w, K=5)
        assert isinstance(world, simulate.World)
        name = f"clicks {w}: {world.name}, {world.behavior}"
        yield World(name, partial(simulated_trial, world, 4000))


#: Loggers whose positions depend on each other, and how users click, by the numbers of the worlds in turn.
_LOGGERS = ("plackett-luce", "mixture", "swap", "epsilon")
_BEHAVIORS = ("position", "cascade", "dbn", "ubm", "redundancy", "attention")


def _of_dependent_positions(count: int) -> Iterable[World]:
    """Small catalogues whose rankings are drawn as a whole: no logger is a product over positions."""
    for w in range(count):
        words = {"logger": _LOGGERS[w % 4], "behavior": _BEHAVIORS[w % 6]}
        world = simulate.preset("search", seed=FROZEN + w, K=4, items=12, candidates=12, **words)
        name = f"non-factored {w}: {', '.join(words.values())}"
        yield World(name, partial(simulated_trial, world, 4000))


#: Worlds by the name of their population.
POPULATIONS: dict[str, Callable[[int], Iterable[World]]] = {
    "published": _of_figures,
    "text": _of_text,
    "random": partial(_drawn, population="random"),
    "groups": partial(_drawn, population="groups", groups=True),
    "triples": partial(_drawn, population="triples", rewards=("triple",)),
    "clicks": _of_clicks,
    "non-factored": _of_dependent_positions,
}


def worlds(text: str) -> list[World]:
    """Return the worlds of a text.

    Parameters
    ----------
    text
        A population ("groups"), perhaps with the number of its worlds ("groups:12"); a log of an A/B test
        with the column of its arm ("arms:COLUMN:PATH"), which gives a world for each pair of arms; or the
        import path of a `World` or of a list of them ("package.module:name").

    Returns
    -------
    list of World

    Raises
    ------
    ConfigError
        The text names no world.

    Examples
    --------
    >>> [world.name for world in worlds("published:2")]
    ['published n=1000 K=8 delta=0.6', 'published n=2000 K=8 delta=0.6']
    """
    name, _, detail = text.partition(":")
    if name in POPULATIONS and (detail.isdecimal() or not detail):
        return list(POPULATIONS[name](int(detail or COUNT)))
    if name == "arms":
        return _of_arms(detail)
    if name not in POPULATIONS and detail.isidentifier():
        return _of_module(text)
    raise ConfigError(
        f"'{text}' is no population; known are {', '.join(POPULATIONS)}, with a number of worlds as in "
        "groups:12; beside them arms:COLUMN:PATH, a log of an A/B test, and package.module:world"
    )


def imported(path: str, noun: str) -> Any:
    """Return the object at package.module:name."""
    module, _, name = path.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except Exception as problem:
        raise ConfigError(
            f"'{path}' cannot be loaded: {type(problem).__name__}: {problem}; give the import path of "
            f"{noun}, package.module:name"
        ) from problem


def _of_module(path: str) -> list[World]:
    loaded = imported(path, "a world")
    members = loaded if isinstance(loaded, list | tuple) else [loaded]
    for member in members:
        if not isinstance(member, World):
            raise ConfigError(f"'{path}' is a {type(member).__name__}, not a bench.World")
    return list(members)


def _of_arms(detail: str) -> list[World]:
    """Return a world for each pair of arms of a log: rows of the first, judged by what the second earned."""
    column, _, path = detail.partition(":")
    if not (column and path):
        raise ConfigError(
            "a log of an A/B test is named arms:COLUMN:PATH, as in arms:arm:ab.parquet"
        )
    names = list(_arms(column, path))
    return [
        World(f"{path}: {source} to {target}", partial(_arm_trial, column, path, source, target))
        for source in names
        for target in names
        if source != target
    ]


@cache
def _arms(column: str, path: str) -> dict[str, RankingLog]:
    """Return the rows of each arm of a log, which has a target of every arm's name."""
    log = in_memory(path, [column], {})
    names = np.unique(as_texts(np.asarray(log.columns[column]))).tolist()
    if not set(names) <= set(log.targets):
        log = in_memory(path, [column], {"targets": names})
    labels = as_texts(np.asarray(log.columns[column]))
    return {name: log.where(labels == name) for name in names}


def _arm_trial(column: str, path: str, source: str, target: str, seed: int) -> Trial:
    """Return a bootstrap of one arm's rows; what the other arm earned is the truth, with its error."""
    arms = _arms(column, path)
    totals = arms[target].reward @ arms[target].position_weights
    stderr = float(totals.std(ddof=1) / np.sqrt(len(totals)))
    trial = Trial(arms[source], float(totals.mean()), target=target, truth_stderr=stderr)
    return bootstrapped(trial, seed)
