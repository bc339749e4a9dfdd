"""One simulated data set: draw it, know the truth, run every estimator."""

import time
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from counterrank import simulate
from counterrank.estimators import AIPS, Estimator, View, Workspace, get_estimator
from counterrank.log import RankingLog
from counterrank.paper.oracle import Assigned, Oracle
from counterrank.paper.replay import replay_run
from counterrank.simulate import Environment
from counterrank.source import MemorySource

_PARAMETERS = ("K", "delta", "sigma", "epsilon", "lam")


@dataclass(frozen=True, slots=True)
class Trial:
    """A simulated log, the world it came from, and the target's true value."""

    env: Environment
    log: RankingLog
    truth: float
    seed: int
    noise: float
    oracle: Oracle
    #: CPU seconds of drawing the log.
    drawing: float


def draw(preset: str, setting: dict[str, Any], seed: int) -> Trial:
    """Return trial `seed`: of the published preset, the published run with that number; otherwise
    fresh draws.

    In `random` and `paper` the parameters of the world are drawn afresh for every seed.
    """
    options = {name: setting[name] for name in _PARAMETERS if setting.get(name) is not None}
    started = time.process_time()
    if preset == "published":
        env = _published(**options)
        found = replay_run(env, setting["n"], seed)
        log, drawing = found.log.to_log(), time.process_time() - started
        values = tuple(found.value())
        return Trial(
            env, log, sum(values), seed, setting["noise"], Oracle(env, seed, values, found), drawing
        )
    env = simulate.preset(preset, seed=seed, **options)
    log = simulate.draw(env, setting["n"], np.random.default_rng([seed, 7])).to_log()
    drawing = time.process_time() - started
    truth = simulate.true_value(env)
    oracle = Oracle(env, seed, tuple(truth.by_position))
    return Trial(env, log, truth.value, seed, setting["noise"], oracle, drawing)


@cache
def _published(**options: Any) -> Environment:
    return simulate.published(**options)


def run(trial: Trial, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return a row for each estimator: its value, interval, the truth and its CPU seconds."""
    rows = []
    for name in names:
        started = time.process_time()
        value, low, high = _estimate(trial, name)
        rows.append(
            {
                "estimator": name,
                "value": value,
                "low": low,
                "high": high,
                "truth": trial.truth,
                "seconds": time.process_time() - started,
                "drawing": trial.drawing,
            }
        )
    return rows


def _estimate(trial: Trial, name: str) -> tuple[float, float, float]:
    estimator = _estimator(trial, name)
    workspace = Workspace(MemorySource(trial.log, threads=1), "new", seed=trial.seed)
    plan = estimator.plan(workspace)
    state = workspace.source.reduce(lambda batch: plan.partial(View(batch, "new")).state)
    found = plan.finish(state)
    low, high = found.interval(0.95)
    return found.value, low, high


def _estimator(trial: Trial, name: str) -> Estimator:
    if name == "aips (true)":
        return AIPS(behavior=_true_behavior(trial))
    if name.startswith("aips (oracle"):
        level = name.removeprefix("aips (oracle").removesuffix(")")
        cached = level == ", cached"
        noise = float(level) if level and not cached else trial.noise
        return AIPS(behavior=trial.oracle.assignment(trial.log, noise, cached=cached))
    return get_estimator(name)


def _true_behavior(trial: Trial) -> Assigned:
    """Return every row's own model."""
    names = np.array(trial.env.behavior_names)
    order = np.argsort(names)
    assert trial.log.behavior is not None
    model = order[np.searchsorted(names, trial.log.behavior, sorter=order)]
    return Assigned(trial.env.masks, np.repeat(model[:, None], trial.log.K, axis=1))
