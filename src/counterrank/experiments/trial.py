"""One simulated data set: draw it, know the truth, run every estimator."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from counterrank import simulate
from counterrank.engines.local import MemorySource
from counterrank.estimators import registry
from counterrank.estimators.aips import AIPS
from counterrank.estimators.base import Estimator, View, Workspace
from counterrank.log import RankingLog
from counterrank.simulate.environment import Environment

_PARAMETERS = ("K", "delta", "sigma", "epsilon", "lam")


@dataclass(frozen=True, slots=True)
class Trial:
    """A simulated log, the world it came from, and the target's true value."""

    env: Environment
    log: RankingLog
    truth: float
    by_position: tuple[float, ...]
    seed: int
    noise: float


def draw(preset: str, setting: dict[str, Any], seed: int) -> Trial:
    """Return trial `seed`: of the published preset, the published run with that number; otherwise fresh draws.

    In `random` and `paper` the parameters of the world are drawn afresh for every seed.
    """
    options = {name: setting[name] for name in _PARAMETERS if setting.get(name) is not None}
    if preset == "published":
        env = _published(**options)
        data = simulate.replay(env, setting["n"], seed)
        values = simulate.replay_value(env, setting["n"], seed)
        return Trial(env, data.to_log(), float(values.sum()), tuple(values), seed, setting["noise"])
    env = simulate.preset(preset, seed=seed, **options)
    data = simulate.draw(env, setting["n"], np.random.default_rng([seed, 7]))
    truth = simulate.true_value(env)
    return Trial(env, data.to_log(), truth.value, tuple(truth.by_position), seed, setting["noise"])


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
    make: Callable[[], Estimator] | None = {
        "aips (true)": lambda: AIPS(behavior="log" if trial.env.name != "published" else _true_masks(trial)),
        "aips (oracle)": lambda: AIPS(behavior=_oracle_tree(trial, trial.noise)),
        "aips (oracle .1)": lambda: AIPS(behavior=_oracle_tree(trial, 0.1)),
        "aips (oracle .3)": lambda: AIPS(behavior=_oracle_tree(trial, 0.3)),
        "aips (oracle .5)": lambda: AIPS(behavior=_oracle_tree(trial, 0.5)),
    }.get(name)
    return registry.get(name) if make is None else make()


def _true_masks(trial: Trial) -> Any:
    names = list(trial.env.behavior_names)
    assert trial.log.behavior is not None
    index = np.array([names.index(str(name)) for name in trial.log.behavior])
    return trial.env.masks[index]


def _oracle_tree(trial: Trial, noise: float) -> Any:
    from counterrank.selection.faithful import faithful_tree

    return faithful_tree(trial, noise=noise)
