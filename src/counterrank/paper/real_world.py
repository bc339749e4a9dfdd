"""The protocol of section 5 for two logs A and B: estimate B's policy from bootstraps of A, judge
by B itself.
"""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.behavior import candidates
from counterrank.estimators import AIPS, Estimator, get_estimator
from counterrank.log import RankingLog
from counterrank.paper import plots
from counterrank.source import MemorySource
from counterrank.tree import BehaviorTree, fit_cross_fitted

Floats = NDArray[np.float64]

#: Rankings of the logging and of the other policy in the paper's A/B test.
ROWS = (1979, 1954)


def trial(
    log_a: RankingLog, value_b: float, target: str, estimators: tuple[str, ...], seed: int
) -> list[dict[str, Any]]:
    """Return each estimator's squared error on one bootstrap of A; copies of a row stay in one
    fold.
    """
    rng = np.random.default_rng([seed, 19])
    resampled = log_a.take(np.sort(rng.integers(0, log_a.n, size=log_a.n)))
    found = []
    for name in estimators:
        value = (
            _estimator(name, resampled, target, seed).estimate(resampled, target, seed=seed).value
        )
        found.append(
            {
                "x": 0.0,
                "estimator": name,
                "value": value,
                "truth": value_b,
                "error": (value - value_b) ** 2,
            }
        )
    return found


def _estimator(name: str, log: RankingLog, target: str, seed: int) -> Estimator:
    if name != "aips (pasif)":
        return get_estimator(name)
    tree = BehaviorTree(candidates=candidates(log.K, "real-world"), mse="pasif")
    return AIPS(behavior=fit_cross_fitted(MemorySource(log), target, seed=seed, tree=tree))


@cache
def pair(paths: tuple[str, str, str] | None) -> tuple[RankingLog, float, str]:
    """Return log A, what B's policy earned on log B, and the target's name: from files, or
    simulated.

    The original logs are proprietary; the simulated ones have their shape: 1,979 and 1,954 rows, A
    = 2, K = 6, d = 5, clicks.
    """
    if paths is not None:
        from counterrank.readers import read_log

        log_a, log_b = read_log(paths[0], targets=[paths[2]]), read_log(paths[1])
        return log_a, log_b.value, paths[2]
    from counterrank import simulate

    env = simulate.real_world()
    rows_a, rows_b = ROWS
    drawn_a = simulate.draw(env, rows_a, np.random.default_rng(1))
    drawn_b = simulate.draw(env, rows_b, np.random.default_rng(2), policy="target")
    return drawn_a.to_log(), drawn_b.to_log().value, "new"


def cvar(errors: Floats, alpha: float) -> float:
    """Return the mean of the worst alpha share of errors.

    >>> cvar(np.array([1.0, 2.0, 3.0, 4.0]), 0.5)
    3.5
    """
    worst = np.sort(errors)[::-1]
    return float(worst[: max(1, round(alpha * len(worst)))].mean())


def table(rows: dict[str, NDArray[Any]]) -> str:
    """Return the share of trials each estimator wins, its mean squared error and CVaR."""
    errors, won = _errors(rows), wins(rows)
    lines = [
        "| estimator | wins | mean squared error | CVaR .1 | CVaR .3 | CVaR .5 "
        "|\n|---|---|---|---|---|---|"
    ]
    for name in errors:
        tail = " | ".join(f"{cvar(errors[name], alpha):.4g}" for alpha in (0.1, 0.3, 0.5))
        lines.append(f"| {name} | {won[name]:.0%} | {errors[name].mean():.4g} | {tail} |")
    return "\n".join(lines) + "\n"


def wins(rows: dict[str, NDArray[Any]]) -> dict[str, float]:
    """Return the share of trials in which each estimator has the least error."""
    errors = _errors(rows)
    stacked = np.stack(list(errors.values()))  # (estimators, trials)
    shares = np.bincount(stacked.argmin(axis=0), minlength=len(errors)) / stacked.shape[1]
    return dict(zip(errors, shares.tolist(), strict=True))


def winner(rows: dict[str, NDArray[Any]]) -> tuple[str, float]:
    """Return the estimator that wins most often, and how often."""
    return max(wins(rows).items(), key=lambda item: item[1])


def plot(rows: dict[str, NDArray[Any]], folder: Path) -> list[Path]:
    """Draw the CDF of relative errors and the CVaR curves."""
    errors = _errors(rows)
    return _draw(list(errors), errors, folder)


def _errors(rows: dict[str, NDArray[Any]]) -> dict[str, Floats]:
    names = dict.fromkeys(rows["estimator"].tolist())
    return {name: rows["error"][rows["estimator"] == name].astype(float) for name in names}


def _draw(names: list[str], errors: dict[str, Floats], folder: Path) -> list[Path]:
    fig, axes = plots.figure_and_axes(2, width=5)
    reference = errors.get("aips (pasif)", errors[names[0]])
    alphas = np.linspace(0.02, 1, 50)
    for index, name in enumerate(names):
        colour, _ = plots.style(name, index)
        relative = np.sort(errors[name] / np.maximum(reference, 1e-30))
        axes[0].step(
            relative, np.arange(1, len(relative) + 1) / len(relative), color=colour, label=name
        )
        axes[1].plot(alphas, [cvar(errors[name], a) for a in alphas], color=colour)
    axes[0].set(
        xscale="log", xlabel="squared error relative to AIPS", ylabel="share of trials (CDF)"
    )
    axes[1].set(yscale="log", xlabel="alpha", ylabel="CVaR of the squared error")
    fig.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside upper center",
        ncols=len(names),
        frameon=False,
    )
    return plots.save(fig, folder, "real-world")
