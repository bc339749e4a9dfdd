"""Figures that are not MSE over seeds: behaviour distributions, the toy table, the A/B protocol.

Table 2, computed: a wrong behaviour model can have the smaller MSE. A world of two actions and two
positions in which the reward at position 1 is mu + delta 1{a_2 = 1} plus noise; the logger is
uniform, the target shows action 1 with probability p. The true model weighs both positions, the
wrong one only the first. Its parameters are solved for so that bias and variances are the table's:
0, 0.5 and 0.1, 0.3.

The protocol of section 5, for two logs A and B: estimate B's policy from bootstraps of A, judge by
B itself. `real` has such a pair from files of real pages.
"""

from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.arrays import Floats
from counterrank.behavior import BehaviorTree, candidates
from counterrank.data.log import RankingLog
from counterrank.estimators import AIPS, Estimator, get_estimator
from counterrank.io import read_log
from counterrank.research import simulate
from counterrank.research.paper import real, results, times
from counterrank.research.paper.figures import Experiment
from counterrank.research.simulate import behavior_probability


def seed_rows(experiment: Experiment, preset: str, seed: int) -> list[dict[str, object]]:
    """Return the results of one seed."""
    if experiment.kind == "distribution":
        return _behavior_shares(experiment, preset, seed)
    if experiment.kind == "toy":
        return toy_rows()
    if len(experiment.logs) == 1:
        found = real_pair(experiment.logs[0])
        rows = ab_trial(found.log, found.value, real.TARGET, experiment.estimators, seed)
        return [{**row, "truth_stderr": found.stderr} for row in rows]
    log_a, value_b, target = ab_pair(experiment.logs)
    return ab_trial(log_a, value_b, target, experiment.estimators, seed)


def pictures(experiment: Experiment, rows: dict[str, NDArray[Any]], folder: Path) -> list[Path]:
    """Draw a figure; return the files."""
    if experiment.kind == "distribution":
        return _plot_shares(experiment, rows, folder)
    return [] if experiment.kind == "toy" else plot_ab(rows, folder)


def figure_table(experiment: Experiment, rows: dict[str, NDArray[Any]], preset: str) -> str:
    """Return the table of any figure; that of a published world has the published values beside ours."""
    published = preset == "published"
    if experiment.kind == "accuracy":
        found = results.summarise(rows, common_truth=published)
        return results.accuracy_tables(experiment, found, compare=published)
    if experiment.kind == "runtime":
        return times.runtime_table(experiment, rows, compare=published)
    make = {"distribution": _shares_table, "toy": toy_table}.get(experiment.kind, ab_table)
    return make(rows)


def _behavior_shares(experiment: Experiment, preset: str, seed: int) -> list[dict[str, object]]:
    found = []
    for x in experiment.values:
        options = experiment.setting(x).world
        env = simulate.preset(
            preset, **options, **({} if preset == "published" else {"seed": seed})
        )
        # Contexts alone: shares follow from them without drawing a behaviour.
        context = np.random.default_rng([seed, 3]).normal(size=(10_000, env.d))
        shares = behavior_probability(env, context).mean(axis=0)
        found += [
            {"x": float(x), "estimator": n, "value": float(s)}
            for n, s in zip(env.behavior_names, shares, strict=True)
        ]
    return found


def _mean(rows: dict[str, NDArray[Any]], x: float, name: str) -> float:
    here = (rows["x"] == x) & (rows["estimator"] == name)
    return float(rows["value"][here].mean())


def _shares_table(rows: dict[str, NDArray[Any]]) -> str:
    values, names = np.unique(rows["x"]), list(dict.fromkeys(rows["estimator"].tolist()))
    lines = [(name, *(f"{_mean(rows, x, name):.3f}" for x in values)) for name in names]
    return results.markdown(("behaviour", *(f"{x:g}" for x in values)), lines)


def _plot_shares(experiment: Experiment, rows: dict[str, NDArray[Any]], folder: Path) -> list[Path]:
    values, names = np.unique(rows["x"]), list(dict.fromkeys(rows["estimator"].tolist()))
    fig, axes = results.figure_and_axes(1, width=6.5)
    bottom = np.zeros(len(values))
    colours = ["#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2"]
    for index, name in enumerate(names):
        shares = np.array([_mean(rows, x, name) for x in values])
        axes[0].bar(
            [f"{x:g}" for x in values], shares, bottom=bottom, label=name, color=colours[index % 6]
        )
        bottom += shares
    axes[0].set_xlabel(experiment.label)
    axes[0].set_ylabel("share of users")
    fig.legend(loc="outside right center", frameon=False)
    return results.save(fig, folder, experiment.name)


#: The table's numbers: bias of the wrong model, variances of the true and of the wrong one.
PRINTED = {"bias": 0.1, "true_variance": 0.5, "wrong_variance": 0.3}


@dataclass(frozen=True, slots=True)
class ToyWorld:
    """Target probability p, base reward mu, interaction delta, rows n; noise has standard deviation sigma."""

    p: float
    mu: float
    delta: float
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


def solve() -> ToyWorld:
    """Return the world in which the table's numbers hold.

    >>> world = solve()
    >>> [round(x, 6) for x in bias_and_variance(world, both=False)]
    [0.1, 0.3]
    """
    from scipy import optimize

    def off(unknown: NDArray[np.float64]) -> list[float]:
        # Between .5 and 1 whatever the solver tries: p and 1 - p trade places otherwise, and p may
        # leave [0, 1].
        world = ToyWorld(0.5 + 0.5 / (1 + np.exp(-unknown[0])), unknown[1], unknown[2])
        bias, wrong = bias_and_variance(world, both=False)
        return [
            bias - PRINTED["bias"],
            wrong - PRINTED["wrong_variance"],
            bias_and_variance(world, both=True)[1] - PRINTED["true_variance"],
        ]

    found = optimize.root(off, [0.0, 1.0, -0.5], tol=1e-13)
    p, mu, delta = found.x
    return ToyWorld(float(0.5 + 0.5 / (1 + np.exp(-p))), float(mu), float(delta))


def toy_rows() -> list[dict[str, object]]:
    """Return bias, variance and MSE of both models."""
    world = solve()
    found = []
    for name, both in (("true model", True), ("wrong but optimised model", False)):
        bias, variance = bias_and_variance(world, both=both)
        found.append(
            {
                "x": 0.0,
                "estimator": name,
                "bias": bias,
                "variance": variance,
                "mse": bias**2 + variance,
            }
        )
    return found


def toy_table(columns: dict[str, NDArray[Any]]) -> str:
    """Return the table as Markdown, the printed numbers in brackets."""
    lines = []
    printed = (
        (0.0, PRINTED["true_variance"]),
        (PRINTED["bias"], PRINTED["wrong_variance"]),
    )
    for i, (bias, variance) in enumerate(printed):
        theirs = (bias, variance, bias**2 + variance)
        cells = [
            f"{abs(columns[key][i]):.2f} ({value:.2f})"
            for key, value in zip(("bias", "variance", "mse"), theirs, strict=True)
        ]
        lines.append((columns["estimator"][i], *cells))
    return results.markdown(("AIPS with the", "bias", "variance", "MSE"), lines)


#: The paper's AIPS of the real-world experiment: its MSE by PAS-IF.
PAPERS_AIPS = "aips (pasif)"
#: Rankings of the logging and of the other policy in the paper's A/B test.
ROWS = (1979, 1954)


def ab_trial(
    log_a: RankingLog, value_b: float, target: str, estimators: tuple[str, ...], seed: int
) -> list[dict[str, object]]:
    """Return each estimator's squared error on one bootstrap of A; copies of a row stay in one fold."""
    rng = np.random.default_rng([seed, 19])
    # Rows carry their buckets with them, so that copies of one stay in one fold.
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
    if name != PAPERS_AIPS:
        return get_estimator(name)
    tree = BehaviorTree(candidates=candidates(log.K, "real-world"), mse="pasif")
    return AIPS(behavior=tree.fit(log, target, seed=seed))


@cache
def ab_pair(paths: tuple[str, ...] = ()) -> tuple[RankingLog, float, str]:
    """Return log A, what B's policy earned on log B, and the target's name: from files, or simulated.

    The original logs are proprietary; the simulated ones have their shape: 1,979 and 1,954 rows, A
    = 2, K = 6, d = 5, clicks.
    """
    if paths:
        first, second, target = paths
        log_a, log_b = read_log(first, targets=[target]), read_log(second)
        return log_a, log_b.value, target
    env = simulate.real_world()
    rows_a, rows_b = ROWS
    drawn_a = simulate.draw(env, rows_a, np.random.default_rng(1))
    drawn_b = simulate.draw(env, rows_b, np.random.default_rng(2), policy="target")
    return drawn_a.to_log(), drawn_b.to_log().value, "new"


@cache
def real_pair(path: str) -> real.RealPair:
    """Return the log and the other policy's value of a file of real pages, read once."""
    return real.read_pair(path)


def cvar(errors: Floats, alpha: float) -> float:
    """Return the mean of the worst alpha share of errors.

    >>> cvar(np.array([1.0, 2.0, 3.0, 4.0]), 0.5)
    3.5
    """
    worst = np.sort(errors)[::-1]
    return float(worst[: max(1, round(alpha * len(worst)))].mean())


_AB_HEAD = (
    "estimator",
    "wins",
    "below AIPS",
    "mean squared error",
    "CVaR .1",
    "CVaR .3",
    "CVaR .5",
)


def ab_table(rows: dict[str, NDArray[Any]]) -> str:
    """Return the share of trials that each estimator wins, its mean squared error and CVaR.

    Beside the wins: in which share its error is below that of the paper's AIPS, the CDF of relative
    errors at one.
    """
    errors, won = _errors(rows), wins(rows)
    lines = []
    reference = errors.get(PAPERS_AIPS)
    for name, own in errors.items():
        below = ""
        if reference is not None and name != PAPERS_AIPS:
            below = f"{(own < reference).mean():.0%}"
        tail = (f"{cvar(own, alpha):.4g}" for alpha in (0.1, 0.3, 0.5))
        lines.append((name, f"{won[name]:.0%}", below, f"{own.mean():.4g}", *tail))
    return results.markdown(_AB_HEAD, lines) + _own_error(rows)


def _own_error(rows: dict[str, NDArray[Any]]) -> str:
    """Return what the value that judges can tell: errors below its own are not seen."""
    if "truth_stderr" not in rows:
        return ""
    value, error = float(rows["truth"][0]), float(rows["truth_stderr"][0])
    return (
        f"\nB earns {value:.4g} with a standard error of {error:.2g}, whose square is "
        f"{error**2:.2g}: estimators that differ by less are not told apart.\n"
    )


def wins(rows: dict[str, NDArray[Any]]) -> dict[str, float]:
    """Return the share of trials in which each estimator has the least error."""
    errors = _errors(rows)
    stacked = np.stack(list(errors.values()))  # (estimators, trials)
    shares = np.bincount(stacked.argmin(axis=0), minlength=len(errors)) / stacked.shape[1]
    return dict(zip(errors, shares.tolist(), strict=True))


def plot_ab(rows: dict[str, NDArray[Any]], folder: Path) -> list[Path]:
    """Draw the CDF of relative errors and the CVaR curves."""
    errors = _errors(rows)
    names = list(errors)
    fig, axes = results.figure_and_axes(2, width=5)
    # The paper's AIPS, against which its figure shows the others.
    reference = errors.get(PAPERS_AIPS, errors[names[0]])
    alphas = np.linspace(0.02, 1, 50)
    for index, name in enumerate(names):
        colour, _ = results.style(name, index)
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
    return results.save(fig, folder, "real-world")


def _errors(rows: dict[str, NDArray[Any]]) -> dict[str, Floats]:
    names = dict.fromkeys(rows["estimator"].tolist())
    return {name: rows["error"][rows["estimator"] == name].astype(float) for name in names}
