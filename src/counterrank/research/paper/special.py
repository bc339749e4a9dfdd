"""Figures that are not MSE over seeds: behaviour distributions, the toy table, the A/B protocol.

Table 2, computed: a wrong behaviour model can have the smaller MSE. A world of two actions and two
positions in which the reward at position 1 is mu + delta 1{a_2 = 1} plus noise; the logger is
uniform, the target shows action 1 with probability p. The true model weighs both positions, the
wrong one only the first. Its parameters are such that bias and variances are the table's: 0, 0.5
and 0.1, 0.3.

The protocol of section 5, for two logs A and B: estimate B's policy from bootstraps of A, judge by
B itself.
"""

from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from counterrank.arrays import Floats
from counterrank.research import simulate
from counterrank.research.bench import Method, Trial, bootstrapped, run_trial
from counterrank.research.paper import results
from counterrank.research.paper.figures import Experiment
from counterrank.research.summary import Rows, TextTable, cells, grid


def behavior_shares(experiment: Experiment, seed: int, _: list[Method]) -> list[dict[str, Any]]:
    """Return the share of each behaviour at every value of the figure."""
    found = []
    for x in experiment.values:
        env = simulate.published(**experiment.setting(x).world)
        # Contexts alone: shares follow from them without drawing a behaviour.
        context = np.random.default_rng([seed, 3]).normal(size=(10_000, env.d))
        shares = simulate.behavior_probability(env, context).mean(axis=0)
        found += [
            {"x": float(x), "estimator": n, "value": float(s)}
            for n, s in zip(env.behavior_names, shares, strict=True)
        ]
    return found


def share_tables(_: Experiment, rows: Rows) -> Iterator[TextTable]:
    """Yield the shares of behaviours, means over seeds."""
    yield grid(
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


#: The world of table 2: probability p of the target, base reward mu, interaction delta, standard deviation
#: of the noise and rows, such that bias and variances are those of the table.
TOY = {
    "p": 0.8090471243824047,
    "mu": 2.196574476607192,
    "delta": -0.3235752482726977,
    "sigma": 1.0,
    "n": 10,
}


def bias_and_variance(*, both: bool) -> tuple[float, float]:
    """Return bias and variance of V_1 by enumeration, weighing both positions or the first alone."""
    p, mu, delta, sigma, n = TOY.values()
    first = second = value = 0.0
    for a1, a2 in product((0, 1), repeat=2):
        target = [1 - p, p]
        mean = mu + delta * a2
        weight = 2 * target[a1] * (2 * target[a2] if both else 1.0)
        first += 0.25 * weight * mean
        second += 0.25 * weight**2 * (mean**2 + sigma**2)
        value += target[a1] * target[a2] * mean
    return first - value, (second - first**2) / n


#: The models of the table, whether they weigh both positions, and their printed bias and variance.
_PRINTED = {"true model": (True, 0.0, 0.5), "wrong but optimised model": (False, 0.1, 0.3)}


def toy_rows(*_: Any) -> list[dict[str, Any]]:
    """Return bias, variance and MSE of both models."""
    return [
        {"x": 0.0, "estimator": name, **_with_mse(*bias_and_variance(both=both))}
        for name, (both, *_) in _PRINTED.items()
    ]


def _with_mse(bias: float, variance: float) -> dict[str, float]:
    return {"bias": bias, "variance": variance, "mse": bias**2 + variance}


def toy_tables(_: Experiment, rows: Rows) -> Iterator[TextTable]:
    """Yield the table, the printed numbers in brackets."""
    lines = []
    for i, (name, numbers) in enumerate(_PRINTED.items()):
        printed = _with_mse(*numbers[1:]).items()
        cells = (f"{abs(rows[key][i]):.2f} ({value:.2f})" for key, value in printed)
        lines.append((name, *cells))
    yield TextTable(("AIPS with the", "bias", "variance", "MSE"), lines)


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
    log_a = env.draw(ROWS[0], np.random.default_rng(1)).to_log()
    log_b = env.draw(ROWS[1], np.random.default_rng(2), policy="target").to_log()
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


def ab_rows(_: Experiment, seed: int, some: list[Method]) -> list[dict[str, Any]]:
    """Return the results of one bootstrap of log A."""
    return [{"x": 0.0, **row} for row in run_trial(bootstrapped(ab_trial(), seed), some)]


def ab_tables(_: Experiment, rows: Rows) -> Iterator[TextTable]:
    """Yield the share of trials that each estimator wins, its mean squared error and CVaR.

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
    yield TextTable(_AB_HEAD, lines, note)


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
