"""The bench: any estimator on logs whose truth is known, world by world, on the same seeds.

    from counterrank.research import bench

    found = bench.run(["groups:3", "random:3"], ["ips", "aips", MyEstimator()], seeds=20)
    found.table           # MSE, squared bias, variance, coverage, width, time
    found.paired("ips")   # differences of squared errors seed by seed

A world is a name and a function from a seed to a `Trial`. Worlds of the populations are frozen: the
number of a world says which it is, in every version.
"""

import importlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, TypeVar

import numpy as np

from counterrank.common.arrays import Floats
from counterrank.common.errors import ConfigError, CounterrankError, require
from counterrank.data.log import RankingLog
from counterrank.data.source import MemorySource
from counterrank.estimators import AIPS, AIPSPairs, Estimator, Workspace, get_estimator
from counterrank.estimators.behavior import BehaviorTree, Oracle, mse_estimate
from counterrank.research import simulate
from counterrank.research.paper import figures
from counterrank.research.paper.replay import PublishedRun, oracle_assignment, replay_run
from counterrank.research.summary import Rows, grid, paired, summarise

T = TypeVar("T")
R = TypeVar("R")
#: Part of every seed of a world: another number is another population.
FROZEN = 20_230_806


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """A log, the target's true value, and what else is known about it.

    `truth_stderr` is the error of a truth that is itself an estimate; `values` (K,) the true value
    at each position; `run` the published run that it is.
    """

    log: RankingLog
    truth: float
    seed: int = 0
    target: str = "new"
    truth_stderr: float = 0.0
    values: Floats | None = None
    run: PublishedRun | None = None
    #: CPU seconds of drawing the log.
    drawing: float = 0.0


@dataclass(frozen=True, slots=True)
class World:
    """A name, and the function that draws the log of a seed."""

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
    """Return n rankings of a simulated world; what was drawn depends on the world and `seed` alone."""
    started = time.process_time()
    log = world.draw(n, np.random.default_rng([seed, 7])).to_log()
    drawing, known = time.process_time() - started, simulate.true_value(world)
    return Trial(
        log,
        known.value,
        seed,
        truth_stderr=known.stderr,
        values=known.by_position,
        drawing=drawing,
    )


def bootstrapped(trial: Trial, seed: int) -> Trial:
    """Return a trial with its log bootstrapped: rows keep their buckets, so that copies of one stay in one fold."""
    n, rng = trial.log.n, np.random.default_rng([seed, 19])
    return replace(trial, log=trial.log.take(np.sort(rng.integers(0, n, size=n))), seed=seed)


def _of_figures(count: int) -> Iterable[World]:
    """The distinct points of figures 2 to 4; seeds 0 to 299 are the published runs."""
    every = (
        experiment.setting(x)
        for experiment in map(figures.get, ("data-size", "slate-size", "behavior"))
        for x in experiment.values
    )
    for setting in list(dict.fromkeys(every))[:count]:
        name = f"published n={setting.n} K={setting.K} delta={setting.delta:g}"
        yield World(name, partial(published_trial, setting))


def _of_text(count: int) -> Iterable[World]:
    for w in range(count):
        world = simulate.paper(seed=FROZEN + w)
        yield World(f"text {w}", partial(simulated_trial, world, 8000))


#: Half of the worlds are sums of effects of pairs, as the paper's are.
_REWARDS: tuple[simulate.RewardModel, ...] = (
    "pairwise",
    "pairwise",
    "pairwise",
    "binary",
    "triple",
    "multiplicative",
)


def _drawn(count: int, population: str, **more: Any) -> Iterable[World]:
    for w in range(count):
        rng = np.random.default_rng([FROZEN, w, *population.encode()])
        n, K, A = (int(rng.choice(v)) for v in ((2000, 8000, 16000), (4, 6, 8, 12), (3, 5, 10)))
        world = simulate.random(
            int(rng.integers(10**9)),
            form=("published", "paper")[w % 2],
            reward=_REWARDS[w % len(_REWARDS)],
            K=K,
            actions=A,
            delta=float(rng.uniform()),
            epsilon=float(rng.uniform(0.2, 0.6)),
            context_policies=bool(rng.integers(2)),
            **more,
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


#: Worlds by the name of their population.
POPULATIONS: dict[str, Callable[[int], Iterable[World]]] = {
    "published": _of_figures,
    "text": _of_text,
    "random": partial(_drawn, population="random"),
    "groups": partial(_drawn, population="groups", groups=True),
    "clicks": _of_clicks,
}
#: Worlds of a population whose number is not said.
COUNT = 6


def worlds(given: str) -> list[World]:
    """Return the worlds of "groups", or "groups:12" (so many of them).

    >>> [world.name for world in worlds("published:2")]
    ['published n=1000 K=8 delta=0.6', 'published n=2000 K=8 delta=0.6']
    """
    name, _, count = given.partition(":")
    if name in POPULATIONS and (count.isdecimal() or not count):
        return list(POPULATIONS[name](int(count or COUNT)))
    raise ConfigError(
        f"'{given}' is no population; known are {', '.join(POPULATIONS)}, with a number of worlds as in "
        "groups:12"
    )


#: Estimators with a behaviour tree.
_TREES = {"aips": AIPS, "aips-pairs": AIPSPairs}


@dataclass(frozen=True, slots=True, eq=False)
class Method:
    """An estimator on the bench; without one it is made for each trial, from what only a simulator knows.

    Names beyond those of `counterrank estimators`: "aips (true)" knows each row's behaviour, "aips
    (oracle)" and "aips (oracle .1)" grow the paper's trees on published runs, "aips (truth)" searches exactly with the
    true bias, "aips (pasif)" minimises another MSE estimate; the last two also of `aips-pairs`.
    """

    name: str
    estimator: Estimator | None = None

    @classmethod
    def of(cls, name: str) -> "Method":
        """Return the method of a name or of an import path; one that is unknown raises."""
        kind, _, form = name.removesuffix(")").partition(" (")
        if ":" in name:
            made = _imported(name)
            return cls(made.name, made)
        if name == "aips (true)":
            return cls(name, AIPS(behavior="log"))
        if figures.oracle_noise(name) is not None or (kind in _TREES and form == "truth"):
            return cls(name)
        if kind not in _TREES or not form:
            return cls(name, get_estimator(name))
        return cls(name, _TREES[kind](behavior=BehaviorTree(mse=mse_estimate(form))))

    def made(self, trial: Trial) -> Estimator:
        """Return the estimator for a trial."""
        if self.estimator is not None:
            return self.estimator
        noise = figures.oracle_noise(self.name)
        if noise is not None and trial.run is not None:
            return AIPS(behavior=oracle_assignment(trial.run, trial.log, noise))
        if noise is not None or trial.values is None:
            worlds = "published runs" if trial.values is not None else "simulated worlds"
            raise ConfigError(f"'{self.name}' is told the truth of {worlds}; this is none")
        tree = BehaviorTree(mse=Oracle(values=trial.values))
        return _TREES[self.name.partition(" (")[0]](behavior=tree)


def methods(given: Sequence[str | Estimator] | Mapping[str, Estimator]) -> list[Method]:
    """Return estimators by name, by import path (package.module:Estimator) or as objects.

    A mapping gives them names of its own.
    """
    if isinstance(given, Mapping):
        return [Method(name, estimator) for name, estimator in given.items()]
    return [Method.of(one) if isinstance(one, str) else Method(one.name, one) for one in given]


def _imported(path: str) -> Estimator:
    """Return the estimator at package.module:Name, a class or an object."""
    module, _, name = path.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
        made = found() if isinstance(found, type) else found
    except Exception as problem:
        raise ConfigError(
            f"'{path}' cannot be loaded: {type(problem).__name__}: {problem}; give the import path of "
            "an estimator, package.module:Name"
        ) from problem
    if not isinstance(made, Estimator):
        raise ConfigError(f"'{path}' is a {type(made).__name__}, not a counterrank Estimator")
    return made


def run_trial(trial: Trial, some: Sequence[Method], *, refuse: bool = True) -> list[dict[str, Any]]:
    """Return a row for each method: its value, interval, the truth and its CPU seconds.

    Where an estimator refuses a log, raise, or give no value.
    """
    rows = []
    for method in some:
        started = time.process_time()
        try:
            # The tree, where there is one, is part of what is timed.
            value, low, high = _estimate(trial, method)
        except CounterrankError:
            if refuse:
                raise
            value = low = high = np.nan
        rows.append(
            {
                "estimator": method.name,
                "value": value,
                "low": low,
                "high": high,
                "truth": trial.truth,
                "truth_stderr": trial.truth_stderr,
                "seconds": time.process_time() - started,
                "drawing": trial.drawing,
            }
        )
    return rows


def _estimate(trial: Trial, method: Method) -> tuple[float, float, float]:
    workspace = Workspace(MemorySource(trial.log, threads=1), trial.target, seed=trial.seed)
    fitted = method.made(trial).fit(workspace)
    state = workspace.source.reduce(fitted.sums)
    found = fitted.estimate(state)
    if not found.estimable and method.name != "auto" and found.moments is not None:
        # The mean of w r is zero where no weight is left. A report says instead that there is no
        # evidence; the paper's figures average what the formulas give.
        total = fitted.solution(state).total
        return total.value, *total.interval(0.95)
    return found.value, *found.interval(0.95)


@dataclass(frozen=True, slots=True)
class BenchResult:
    """Every estimate by world, seed and estimator, in columns (`rows`), and what they add up to."""

    rows: Rows = field(repr=False)

    @property
    def table(self) -> Any:
        """A pandas frame with a row for each world and estimator; errors in units of the reward."""
        found = require("pandas", extra="frames").DataFrame(summarise(self.rows, relative=False))
        bands = [name for name in found if name.endswith(("_low", "_high"))]
        return found.drop(columns=bands).rename(columns={"x": "world"})

    def paired(self, against: str) -> Any:
        """Return a pandas frame of differences of squared errors, over V², on the same seeds."""
        pandas = require("pandas", extra="frames")
        return pandas.DataFrame(paired(self.rows, against)).rename(columns={"x": "world"})

    def summary(self) -> str:
        """Return MSE / V² by estimator and world as a Markdown table, and the coverage of all worlds."""
        found = summarise(self.rows)
        texts = ((s["estimator"], s["x"], f"{s['mse']:.3g}") for s in found)
        covered: dict[str, list[float]] = {}
        for s in found:
            covered.setdefault(s["estimator"], []).append(s["coverage"])
        told = [f"{name} {np.mean(shares):.2f}" for name, shares in covered.items()]
        note = f"95 % intervals contained the truth: {', '.join(told)}"
        return grid("MSE / V²", texts, note)

    def __str__(self) -> str:
        return self.summary()


def run(
    where: str | World | Sequence[str | World],
    estimators: Sequence[str | Estimator] | Mapping[str, Estimator],
    *,
    seeds: int | Sequence[int] = 20,
    jobs: int = 1,
) -> BenchResult:
    """Return every estimator's results on the same logs of every world.

    Parameters
    ----------
    where
        Populations ("published", "text", "random", "groups", "clicks", with a number of worlds as in
        "groups:12"), or `World` objects.
    estimators
        Names, import paths (package.module:Estimator) or objects; or objects by names of yours, as in
        {"aips (windows)": cr.AIPS(behavior=cr.BehaviorTree(candidates=["S", "W1", "W2"]))}.
    seeds
        How many logs of each world, or their seeds.
    jobs
        Processes.

    Returns
    -------
    BenchResult
        With `.table`, `.paired(against)` and `.summary()`.
    """
    given = [where] if isinstance(where, str | World) else where
    every = [w for one in given for w in (worlds(one) if isinstance(one, str) else [one])]
    some = methods(estimators)
    numbers = range(seeds) if isinstance(seeds, int) else seeds
    if not (every and some and numbers):
        raise ConfigError("a bench needs at least one world, one estimator and one seed")
    tasks = [(world, seed) for world in every for seed in numbers]
    rows = [row for part in in_processes(partial(_rows, some), tasks, jobs) for row in part]
    return BenchResult({name: np.array([row[name] for row in rows]) for name in rows[0]})


def _rows(some: Sequence[Method], task: tuple[World, int]) -> list[dict[str, Any]]:
    world, seed = task
    found = run_trial(world.draw(seed), some, refuse=False)
    return [{"x": world.name, "seed": seed, **row} for row in found]


def in_processes(work: Callable[[T], R], tasks: Sequence[T], jobs: int) -> Iterator[R]:
    """Yield the result of each task in order, `jobs` at a time; those that wait are dropped on an error."""
    if jobs <= 1 or len(tasks) <= 1:
        yield from map(work, tasks)
        return
    with ProcessPoolExecutor(jobs, initializer=_one_thread) as pool:
        yield from pool.map(work, tasks)


def _one_thread() -> None:
    """One process a core: threads inside would only get in each other's way."""
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
