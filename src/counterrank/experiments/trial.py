"""One simulated data set: draw it, know the truth, run every estimator."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank import simulate
from counterrank.behavior.candidates import Candidate
from counterrank.behavior.tree.random_growth import RandomGrowth
from counterrank.engines.local import MemorySource
from counterrank.estimators import registry
from counterrank.estimators.aips import AIPS
from counterrank.estimators.base import Estimator, View, Workspace
from counterrank.log import RankingLog
from counterrank.ratios import Ratios
from counterrank.selection.mse.oracle import Oracle
from counterrank.selection.tree import BehaviorTree
from counterrank.simulate.environment import Environment

_FRESH_DATA_SETS = 10
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
        "aips (true)": lambda: AIPS(behavior=_TrueBehavior(trial.env)),
        "aips (oracle)": lambda: AIPS(behavior=_oracle_tree(trial, trial.noise)),
        "aips (oracle .1)": lambda: AIPS(behavior=_oracle_tree(trial, 0.1)),
        "aips (oracle .3)": lambda: AIPS(behavior=_oracle_tree(trial, 0.3)),
        "aips (oracle .5)": lambda: AIPS(behavior=_oracle_tree(trial, 0.5)),
    }.get(name)
    return registry.get(name) if make is None else make()


class _TrueBehavior:
    """Every row weighed by the model it was drawn with."""

    def __init__(self, env: Environment) -> None:
        self.masks, self.names = env.masks, np.array(env.behavior_names)

    def weights(self, batch: RankingLog, ratios: Ratios) -> NDArray[np.float64]:
        """Return importance weights (n, K)."""
        assert batch.behavior is not None
        order = np.argsort(self.names)
        model = order[np.searchsorted(self.names, batch.behavior, sorter=order)]
        return ratios.by_choice(self.masks, np.repeat(model[:, None], batch.K, axis=1))


def _oracle_tree(trial: Trial, noise: float) -> BehaviorTree:
    """Return the paper's tree: Algorithm 1 with the true bias plus noise, on the rows it is then applied to.

    The expectation behind the bias is taken over ten fresh data sets of the same size, as in the public code.
    """
    fresh = simulate.draw(trial.env, _FRESH_DATA_SETS * trial.log.n, np.random.default_rng([trial.seed, 23]))
    tree = BehaviorTree(
        candidates=[Candidate(n, m) for n, m in zip(trial.env.behavior_names, trial.env.masks, strict=True)],
        mse=Oracle(np.array(trial.by_position), sample=fresh.to_log()),
        random_growth=RandomGrowth(noise=noise),
    )
    return tree.fit(trial.log, "new", seed=trial.seed)
