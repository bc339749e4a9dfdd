"""Figures that are not MSE over seeds: behaviour distributions, the toy table, the A/B protocol."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.paper import plots, real_world, toy
from counterrank.paper.figures import Experiment


def seed_rows(experiment: Experiment, preset: str, seed: int) -> list[dict[str, Any]]:
    """Return the results of one seed."""
    if experiment.kind == "distribution":
        return _behavior_shares(experiment, preset, seed)
    if experiment.kind == "toy":
        return toy.rows()
    log_a, value_b, target = real_world.pair(experiment.fixed.get("pair"))
    return real_world.trial(log_a, value_b, target, experiment.estimators, seed)


def outcome(
    experiment: Experiment, rows: dict[str, NDArray[Any]], folder: Path
) -> tuple[str, list[Path]]:
    """Return the table of a figure and the pictures drawn."""
    if experiment.kind == "distribution":
        return table(experiment, rows), _plot_shares(experiment, rows, folder)
    if experiment.kind == "toy":
        return table(experiment, rows), []
    return table(experiment, rows), real_world.plot(rows, folder)


def table(experiment: Experiment, rows: dict[str, NDArray[Any]]) -> str:
    """Return the table of a figure."""
    make = {"distribution": _shares_table, "toy": toy.table}.get(experiment.kind, real_world.table)
    return make(rows)


def _behavior_shares(experiment: Experiment, preset: str, seed: int) -> list[dict[str, Any]]:
    from counterrank import simulate
    from counterrank.simulate import behavior_probability

    found = []
    for x in experiment.values:
        setting = experiment.setting(x)
        options = {
            key: setting[key] for key in ("K", "delta", "lam") if setting.get(key) is not None
        }
        env = simulate.preset(
            preset, **options, **({} if preset == "published" else {"seed": seed})
        )
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
    lines = [f"| behaviour | {' | '.join(f'{x:g}' for x in values)} |\n|---|{'---|' * len(values)}"]
    for name in names:
        lines.append(f"| {name} | {' | '.join(f'{_mean(rows, x, name):.3f}' for x in values)} |")
    return "\n".join(lines) + "\n"


def _plot_shares(experiment: Experiment, rows: dict[str, NDArray[Any]], folder: Path) -> list[Path]:
    values, names = np.unique(rows["x"]), list(dict.fromkeys(rows["estimator"].tolist()))
    fig, axes = plots.figure_and_axes(1, width=6.5)
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
    return plots.save(fig, folder, experiment.name)
