"""Figures that are not MSE over seeds: behaviour distributions, the toy table, the A/B protocol.

Table 2, computed: a wrong behaviour model can have the smaller MSE. A world of two actions and two
positions in which the reward at position 1 is mu + delta 1{a_2 = 1} plus noise; the logger is
uniform, the target shows action 1 with probability p. The true model weighs both positions, the
wrong one only the first. Its parameters are such that bias and variances are the table's: 0, 0.5
and 0.1, 0.3.

The protocol of section 5, for two logs A and B: estimate B's policy from bootstraps of A, judge by
B itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from counterrank.arrays import Floats
from counterrank.research import bench, simulate
from counterrank.research.bench import Method, Trial, bootstrapped
from counterrank.research.paper import results
from counterrank.research.paper.figures import Experiment
from counterrank.research.simulate import behavior_probability
from counterrank.research.summary import Rows, TextTable, cells, grid


def behavior_shares(experiment: Experiment, seed: int) -> list[dict[str, Any]]:
    """Return the share of each behaviour at every value of the figure."""
    found = []
    for x in experiment.values:
        env = simulate.published(**experiment.setting(x).world)
        # Contexts alone: shares follow from them without drawing a behaviour.
        context = np.random.default_rng([seed, 3]).normal(size=(10_000, env.d))
        shares = behavior_probability(env, context).mean(axis=0)
        found += [
            {"x": float(x), "estimator": n, "value": float(s)}
            for n, s in zip(env.behavior_names, shares, strict=True)
        ]
    return found


def share_table(rows: Rows) -> TextTable:
    """Return the shares of behaviours, means over seeds."""
    return grid(
        "behaviour", ((name, x, f"{own['value'].mean():.3f}") for x, name, own in cells(rows))
    )


def plot_shares(experiment: Experiment, rows: Rows, folder: Path) -> list[Path]:
    """Draw the shares of behaviours."""
    picture = experiment.pictures[0]
    fig, axes = results.figure_and_axes(1, picture.title, width=6.5)
    bottom: dict[str, float] = {}
    look = results.styles(list(dict.fromkeys(rows["estimator"].tolist())))
    handles = {}
    for x, name, own in cells(rows):
        at, share = f"{x:g}", float(own["value"].mean())
        handles[name] = axes[0].bar(at, share, bottom=bottom.get(at, 0.0), color=look[name][0])
        bottom[at] = bottom.get(at, 0.0) + share
    axes[0].set(xlabel=experiment.label, ylabel="share of users")
    results.legend(fig, handles)
    return results.save(fig, folder, picture)


@dataclass(frozen=True, slots=True)
class ToyWorld:
    """Target probability p, base reward mu, interaction delta, rows n; noise has standard deviation sigma.

    The defaults are those that give bias and variances of the table.
    """

    p: float = 0.8090471243824047
    mu: float = 2.196574476607192
    delta: float = -0.3235752482726977
    n: int = 10
    sigma: float = 1.0


def bias_and_variance(world: ToyWorld, *, both: bool) -> tuple[float, float]:
    """Return bias and variance of V_1 by enumeration, weighing both positions or the first alone."""
    first = second = value = 0.0
    for a1, a2 in product((0, 1), repeat=2):
        target = [1 - world.p, world.p]
        mean = world.mu + world.delta * a2
        weight = 2 * target[a1] * (2 * target[a2] if both else 1.0)
        first += 0.25 * weight * mean
        second += 0.25 * weight**2 * (mean**2 + world.sigma**2)
        value += target[a1] * target[a2] * mean
    return first - value, (second - first**2) / world.n


def toy_rows() -> list[dict[str, Any]]:
    """Return bias, variance and MSE of both models."""
    world, found = ToyWorld(), []
    for name, both in (("true model", True), ("wrong but optimised model", False)):
        bias, variance = bias_and_variance(world, both=both)
        row = {"bias": bias, "variance": variance, "mse": bias**2 + variance}
        found.append({"x": 0.0, "estimator": name, **row})
    return found


def toy_table(rows: Rows) -> TextTable:
    """Return the table, the printed numbers in brackets."""
    lines = []
    for i, (bias, variance) in enumerate(((0.0, 0.5), (0.1, 0.3))):
        printed = {"bias": bias, "variance": variance, "mse": bias**2 + variance}
        cells = (f"{abs(rows[key][i]):.2f} ({value:.2f})" for key, value in printed.items())
        lines.append((str(rows["estimator"][i]), *cells))
    return TextTable(("AIPS with the", "bias", "variance", "MSE"), lines)


#: The paper's AIPS of the real-world experiment: its MSE by PAS-IF.
PAPERS_AIPS = "aips (pasif)"
#: Rankings of the logging and of the other policy in the paper's A/B test.
ROWS = (1979, 1954)


@cache
def ab_trial() -> Trial:
    """Return log A, judged by what B's policy earned on log B.

    The original logs are proprietary; these are simulated in their shape: 1,979 and 1,954 rows, A =
    2, K = 6, d = 5, clicks.
    """
    env = simulate.real_world()
    log_a = simulate.draw(env, ROWS[0], np.random.default_rng(1)).to_log()
    log_b = simulate.draw(env, ROWS[1], np.random.default_rng(2), policy="target").to_log()
    totals = log_b.reward.sum(axis=1)
    error = float(totals.std() / np.sqrt(len(totals)))
    return Trial(log_a, log_b.value, truth_stderr=error)


def cvar(errors: Floats, alpha: float) -> float:
    """Return the mean of the worst alpha share of errors.

    >>> cvar(np.array([1.0, 2.0, 3.0, 4.0]), 0.5)
    3.5
    """
    worst = np.sort(errors)[::-1]
    return float(worst[: max(1, round(alpha * len(worst)))].mean())


_AB_HEAD = (
    "estimator", "wins", "below AIPS", "mean squared error", "CVaR .1", "CVaR .3", "CVaR .5",
)  # fmt: skip


def ab_table(rows: Rows) -> TextTable:
    """Return the share of trials that each estimator wins, its mean squared error and CVaR.

    Beside the wins: in which share its error is below that of the paper's AIPS, the CDF of relative
    errors at one. Below: errors under that of the value that judges are not seen.
    """
    errors = _errors(rows)
    won = np.bincount(np.stack(list(errors.values())).argmin(axis=0), minlength=len(errors))
    lines, reference = [], errors.get(PAPERS_AIPS)
    for name, own, count in zip(errors, errors.values(), won.tolist(), strict=True):
        below = ""
        if reference is not None and name != PAPERS_AIPS:
            below = f"{(own < reference).mean():.0%}"
        tail = (f"{cvar(own, alpha):.4g}" for alpha in (0.1, 0.3, 0.5))
        lines.append((name, f"{count / len(own):.0%}", below, f"{own.mean():.4g}", *tail))
    value, error = float(rows["truth"][0]), float(rows["truth_stderr"][0])
    note = (
        f"B earns {value:.4g} with a standard error of {error:.2g}, whose square is {error**2:.2g}: "
        "estimators that differ by less are not told apart."
    )
    return TextTable(_AB_HEAD, lines, note)


def plot_ab(experiment: Experiment, rows: Rows, folder: Path) -> list[Path]:
    """Draw the CDF of relative errors and the CVaR curves."""
    errors, picture = _errors(rows), experiment.pictures[0]
    fig, axes = results.figure_and_axes(2, picture.title, width=5)
    # The paper's AIPS, against which its figure shows the others.
    reference = np.maximum(errors.get(PAPERS_AIPS, next(iter(errors.values()))), 1e-30)
    alphas, handles = np.linspace(0.02, 1, 50), {}
    for name, (colour, _) in results.styles(list(errors)).items():
        relative = np.sort(errors[name] / reference)
        shares = np.arange(1, len(relative) + 1) / len(relative)
        handles[name] = axes[0].step(relative, shares, color=colour)[0]
        axes[1].plot(alphas, [cvar(errors[name], a) for a in alphas], color=colour)
    axes[0].set(
        xscale="log", xlabel="squared error relative to AIPS", ylabel="share of trials (CDF)"
    )
    axes[1].set(yscale="log", xlabel="alpha", ylabel="CVaR of the squared error")
    results.legend(fig, handles)
    return results.save(fig, folder, picture)


def _errors(rows: Rows) -> dict[str, Floats]:
    """Return the squared errors of each estimator, by seed."""
    return {name: (own["value"] - own["truth"]) ** 2 for _, name, own in cells(rows)}


#: How figures of these kinds are made: rows of a seed, a table, and pictures.
KINDS: dict[
    str,
    tuple[
        Callable[[Experiment, int, list[Method]], list[dict[str, Any]]],
        Callable[[Rows], TextTable],
        Callable[[Experiment, Rows, Path], list[Path]],
    ],
] = {
    "distribution": (
        lambda figure, seed, some: behavior_shares(figure, seed),
        share_table,
        plot_shares,
    ),
    "toy": (lambda figure, seed, some: toy_rows(), toy_table, lambda figure, rows, folder: []),
    "real-world": (
        lambda figure, seed, some: [
            {"x": 0.0, **row} for row in bench.run_trial(bootstrapped(ab_trial(), seed), some)
        ],
        ab_table,
        plot_ab,
    ),
}
