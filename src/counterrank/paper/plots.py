"""Figures in the paper's layout, as SVG and PNG; the same results give the same bytes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from counterrank import atomic
from counterrank.errors import require
from counterrank.paper.figures import Experiment
from counterrank.paper.published import published
from counterrank.paper.summary import METRICS, Summary

#: Okabe and Ito's colour-blind safe palette, and a marker of its own for each estimator.
_STYLES = {
    "ips": ("#D55E00", "o"),
    "iips": ("#0072B2", "s"),
    "rips": ("#009E73", "^"),
    "aips (true)": ("#999999", "D"),
    "aips (oracle)": ("#CC79A7", "v"),
    "aips": ("#E69F00", "P"),
    "auto": ("#000000", "*"),
}
_EXTRA = ("#56B4E9", "#F0E442", "#0072B2", "#D55E00")
_TITLES = {"mse": "MSE / V²", "squared_bias": "squared bias / V²", "variance": "variance / V²"}


def style(name: str, index: int) -> tuple[str, str]:
    """Return colour and marker of an estimator."""
    return _STYLES.get(name, (_EXTRA[index % len(_EXTRA)], "X"))


def figure_and_axes(panels: int, *, width: float = 4.2) -> tuple[Any, Any]:
    """Return a matplotlib figure with a row of panels, drawn without a display."""
    matplotlib = require("matplotlib", extra="paper")
    matplotlib.use("agg")
    matplotlib.rcParams["svg.hashsalt"] = "counterrank"
    pyplot = require("matplotlib.pyplot", extra="paper")
    fig, axes = pyplot.subplots(
        1, panels, figsize=(width * panels, 3.8), layout="constrained", squeeze=False
    )
    return fig, axes[0]


def save(fig: Any, folder: Path, name: str) -> list[Path]:
    """Write the figure as SVG and PNG, atomically, and close it."""
    paths = [folder / f"{name}.svg", folder / f"{name}.png"]
    for path in paths:
        kind = path.suffix[1:]
        with atomic.replacing(path) as temporary:
            metadata = {"Date": None} if kind == "svg" else {"Software": None}
            fig.savefig(temporary, format=kind, dpi=140, metadata=metadata)
    require("matplotlib.pyplot", extra="paper").close(fig)
    return paths


def plot_accuracy(
    experiment: Experiment, summaries: Sequence[Summary], folder: Path, preset: str
) -> list[Path]:
    """Draw MSE, squared bias and variance over the varied parameter; hollow markers are the
    published values.
    """
    fig, axes = figure_and_axes(3)
    names = list(dict.fromkeys(s.estimator for s in summaries))
    for axis, metric in zip(axes, METRICS, strict=True):
        for index, name in enumerate(names):
            _draw_line(
                axis, [s for s in summaries if s.estimator == name], metric, style(name, index)
            )
            if preset == "published":
                _draw_published(axis, experiment, metric, name, style(name, index))
        axis.set_yscale("log")
        if experiment.log_x:
            axis.set_xscale("log", base=2)
            axis.set_xticks(
                list(experiment.values), [f"{int(v) // 1000}k" for v in experiment.values]
            )
        axis.set_xlabel(experiment.label)
        axis.set_title(_TITLES[metric])
        axis.grid(alpha=0.25)
    fig.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside upper center",
        ncols=min(len(names), 7),
        frameon=False,
    )
    return save(fig, folder, experiment.name)


def _draw_line(axis: Any, points: Sequence[Summary], metric: str, look: tuple[str, str]) -> None:
    x = [s.x for s in points]
    axis.plot(
        x,
        [s.metrics[metric] for s in points],
        color=look[0],
        marker=look[1],
        ms=5,
        label=points[0].estimator,
    )
    low, high = zip(*(s.bands[metric] for s in points), strict=True)
    axis.fill_between(x, low, high, color=look[0], alpha=0.15, linewidth=0)


def _draw_published(
    axis: Any, experiment: Experiment, metric: str, name: str, look: tuple[str, str]
) -> None:
    found = [(x, published(experiment.name, metric, name, x)) for x in experiment.values]
    shown = [(x, y) for x, y in found if y is not None]
    if shown:
        axis.plot(
            *zip(*shown, strict=True),
            ls="",
            color=look[0],
            marker=look[1],
            ms=9,
            mfc="none",
            alpha=0.8,
        )
