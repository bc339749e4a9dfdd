"""From per-seed results to what a figure shows.

MSE, squared bias and variance with bands, the paper's own values beside them, tables and pictures.

Pictures have the paper's layout, as SVG and PNG; the same results give the same bytes.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterrank import atomic
from counterrank.arrays import Floats
from counterrank.errors import ConfigError, require
from counterrank.records import Json
from counterrank.research.paper import figures
from counterrank.research.paper.figures import Experiment

if TYPE_CHECKING:
    import pyarrow as pa


#: What is measured, and what tables and pictures call it.
TITLES = {"mse": "MSE / V²", "squared_bias": "squared bias / V²", "variance": "variance / V²"}
METRICS = tuple(TITLES)
_RESAMPLES = 400


@dataclass(frozen=True, slots=True)
class PointSummary:
    """Errors of one estimator at one value of the figure, relative to V^2, with 95 % bands over seeds."""

    x: float
    estimator: str
    seeds: int
    metrics: dict[str, float]
    bands: dict[str, tuple[float, float]]
    coverage: float
    width: float
    seconds: float


def seed_file(folder: Path, preset: str, seed: int) -> Path:
    """Return where the results of one seed are kept."""
    return folder / preset / f"seed-{seed:06d}.parquet"


def seeds_in(folder: Path, preset: str) -> list[int]:
    """Return the seeds whose results a figure's folder holds."""
    return sorted(
        int(path.stem.removeprefix("seed-")) for path in (folder / preset).glob("seed-*.parquet")
    )


def read_seed(path: Path) -> "pa.Table | None":
    """Return the results of one seed; None where there are none, or only part of a file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.exists():
        return None
    try:
        return pq.read_table(path)
    except (pa.ArrowInvalid, OSError):
        return None


def read_rows(folder: Path, preset: str, seeds: Any) -> dict[str, NDArray[Any]]:
    """Return the columns of all seed files, in the order of seeds."""
    import pyarrow as pa

    tables = []
    for seed in seeds:
        path = seed_file(folder, preset, seed)
        found = read_seed(path)
        if found is None:
            raise ConfigError(
                f"{path} cannot be read as results; run the figure again, which does that seed anew"
            )
        tables.append(found)
    table = pa.concat_tables(tables, promote_options="default")
    return {name: table[name].to_numpy() for name in table.column_names}


def summarise(rows: dict[str, NDArray[Any]], *, common_truth: bool) -> list[PointSummary]:
    """Return a summary for each (value, estimator).

    `common_truth`: one world, so V is the mean of the seeds' true values, as in the paper;
    otherwise every seed is a world of its own and errors are relative to its own V.
    """
    found = []
    for x in np.unique(rows["x"]):
        common = _mean_over_seeds(rows, rows["x"] == x) if common_truth else None
        for name in dict.fromkeys(rows["estimator"].tolist()):
            here = (rows["x"] == x) & (rows["estimator"] == name)
            if here.any():
                found.append(
                    _summary(float(x), name, {k: v[here] for k, v in rows.items()}, common)
                )
    return found


def _mean_over_seeds(rows: dict[str, NDArray[Any]], here: NDArray[np.bool_]) -> float:
    """Return the mean of the seeds' true values: a seed counts once, however many estimators ran on it."""
    _, first = np.unique(rows["seed"][here], return_index=True)
    return float(rows["truth"][here][first].mean())


def _summary(
    x: float, name: str, rows: dict[str, NDArray[Any]], common: float | None
) -> PointSummary:
    # Errors before squares: where every seed is a world of its own, each has its own V.
    truth = rows["truth"] if common is None else np.full_like(rows["truth"], common)
    errors = (rows["value"] - truth) / np.abs(truth)
    # Bands are part of what is written, and the same results give the same bytes.
    rng = np.random.default_rng([len(errors), 13])
    picks = rng.integers(0, len(errors), size=(_RESAMPLES, len(errors)))
    resampled = _metrics(errors[picks])
    bands = {m: tuple(float(q) for q in np.quantile(resampled[m], [0.025, 0.975])) for m in METRICS}
    return PointSummary(
        x=x,
        estimator=name,
        seeds=len(errors),
        metrics={m: float(v[0]) for m, v in _metrics(errors[None]).items()},
        bands=bands,  # type: ignore[arg-type]
        coverage=float(((rows["low"] <= truth) & (truth <= rows["high"])).mean()),
        width=float(np.mean((rows["high"] - rows["low"]) / np.abs(truth))),
        seconds=float(np.median(rows["seconds"])),
    )


def _metrics(errors: Floats) -> dict[str, Floats]:
    """Errors (B, seeds) to each metric (B,): mse = squared bias + variance."""
    bias = errors.mean(axis=1)
    return {
        "mse": (errors**2).mean(axis=1),
        "squared_bias": bias**2,
        # Divided by n, not n - 1: then bias and variance add up to the MSE exactly.
        "variance": errors.var(axis=1),
    }


#: The figures with published values, and the number of runs behind them.
MAIN = ("data-size", "slate-size", "behavior")
PUBLISHED_RUNS = 300


@cache
def published_table() -> Json:
    """Return the published figures and run times."""
    text = (
        files("counterrank.research.paper")
        .joinpath("data/published_figures.json")
        .read_text(encoding="utf-8")
    )
    loaded: Json = json.loads(text)
    return loaded


def published(figure: str, metric: str, estimator: str, x: float) -> float | None:
    """Return the published value (divided by V^2), or None where there is none.

    >>> published("data-size", "mse", "iips", 8000)
    0.204
    """
    table = published_table()
    # One curve was published, whichever way its runs were made.
    form = figures.OracleForm.of(estimator)
    if form is not None and form.noise is None:
        estimator = figures.OracleForm().name
    if figure not in table["x"] or estimator not in table[figure][metric]:
        return None
    if x not in table["x"][figure]:
        return None
    value: float | None = table[figure][metric][estimator][table["x"][figure].index(x)]
    return value


@dataclass(frozen=True, slots=True)
class BesidePublished:
    """The error of one estimator at one point: ours, the published one, their ratio with a 95 % interval."""

    figure: str
    summary: PointSummary
    published: float
    metric: str = "mse"

    @property
    def ratio(self) -> float:
        """Ours divided by the published."""
        return self.summary.metrics[self.metric] / self.published

    @property
    def interval(self) -> tuple[float, float]:
        """The ratio's 95 % interval over seeds."""
        low, high = self.summary.bands[self.metric]
        return low / self.published, high / self.published

    def within(self, share: float) -> bool:
        """Whether the ratio differs from 1 by no more than `share`."""
        return abs(self.ratio - 1) <= share

    def surely_outside(self, share: float) -> bool:
        """Whether the whole interval differs from 1 by more than `share`: not by chance alone."""
        low, high = self.interval
        return high < 1 - share or low > 1 + share


def summaries(
    out: Path, figure: str, preset: str = "published", most: int | None = None
) -> list[PointSummary]:
    """Return the summaries of a figure's finished seeds, at most the first `most`; none where there are none."""
    folder = out / figure
    seeds = [seed for seed in seeds_in(folder, preset) if most is None or seed < most]
    if not seeds:
        return []
    found = summarise(read_rows(folder, preset, seeds), common_truth=preset == "published")
    order = figures.get(figure).estimators
    return sorted(
        found, key=lambda s: (order.index(s.estimator) if s.estimator in order else len(order), s.x)
    )


def comparisons(out: Path, metric: str = "mse") -> list[BesidePublished]:
    """Return every comparison that the results in a folder allow, over the published runs."""
    found = []
    for figure in MAIN:
        for summary in summaries(out, figure, most=PUBLISHED_RUNS):
            theirs = published(figure, metric, summary.estimator, summary.x)
            if theirs is not None:
                found.append(BesidePublished(figure, summary, theirs, metric))
    return found


def verdict(found: Sequence[BesidePublished], names: Iterable[str], share: float) -> str:
    """Return a sentence: at how many points these estimators agree, and how far the others are."""
    wanted = set(names)
    these = [c for c in found if c.summary.estimator in wanted]
    if not these:
        return "no results yet."
    inside = sum(c.within(share) for c in these)
    far = max(these, key=lambda c: abs(c.ratio - 1))
    text = (
        f"{inside} of {len(these)} values lie within {share:.0%} of the published ones; the "
        "farthest is "
        f"{far.summary.estimator} at {_point(far)}, ratio {far.ratio:.2f} ({_span(far.interval)})."
    )
    surely = [c for c in these if c.surely_outside(share)]
    if inside < len(these):
        names_of = ", ".join(f"{c.summary.estimator} at {_point(c)}" for c in surely)
        text += (
            f" Beyond chance: {names_of}."
            if surely
            else " None is outside beyond chance: their intervals reach in."
        )
    return text


def cell(comparison: BesidePublished) -> str:
    """Return ours, then the published value and the ratio with its interval in brackets."""
    c = comparison
    ours = c.summary.metrics[c.metric]
    return f"{ours:.3g} ({c.published:.3g}; {c.ratio:.2f}, {_span(c.interval)})"


def _span(interval: tuple[float, float]) -> str:
    return f"{interval[0]:.2f} to {interval[1]:.2f}"


def _point(c: BesidePublished) -> str:
    return f"{figures.get(c.figure).parameter} = {c.summary.x:g}"


def grid(title: str, found: Sequence[PointSummary], show: Callable[[PointSummary], str]) -> str:
    """Return a Markdown table, a line an estimator and a column a value of the figure."""
    values = sorted({s.x for s in found})
    lines = []
    for name in dict.fromkeys(s.estimator for s in found):
        cells = {s.x: show(s) for s in found if s.estimator == name}
        lines.append((name, *(cells.get(x, "") for x in values)))
    return markdown((title, *(f"{x:g}" for x in values)), lines)


def markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table.

    >>> print(markdown(("a", "b"), [("1", "2")]), end="")
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    rows = [f"| {' | '.join(cells)} |" for cells in (head, *lines)]
    return "\n".join([rows[0], f"|{'---|' * len(head)}", *rows[1:]]) + "\n"


def accuracy_tables(experiment: Experiment, found: Sequence[PointSummary], *, compare: bool) -> str:
    """Return a table of MSE, one of squared bias and one of variance."""
    return "\n".join(
        accuracy_table(experiment, found, compare=compare, metric=metric) for metric in METRICS
    )


def accuracy_table(
    experiment: Experiment, found: Sequence[PointSummary], *, compare: bool, metric: str = "mse"
) -> str:
    """Return a metric / V^2 by estimator and value.

    To `compare`, the published value and our ratio to it in brackets.
    """
    return grid(TITLES[metric], found, lambda s: _cell(experiment, s, metric, compare))


def _cell(experiment: Experiment, summary: PointSummary, metric: str, compare: bool) -> str:
    ours = summary.metrics[metric]
    theirs = published(experiment.name, metric, summary.estimator, summary.x) if compare else None
    return f"{ours:.3g}" if theirs is None else f"{ours:.3g} ({theirs:.3g}, x{ours / theirs:.2f})"


def as_csv(found: Sequence[PointSummary]) -> str:
    """Return every number of the summaries as CSV."""
    columns = [f"{m}{end}" for m in METRICS for end in ("", "_low", "_high")]
    lines = [",".join(["x", "estimator", "seeds", *columns, "coverage", "width", "seconds"])]
    for s in found:
        numbers = [value for m in METRICS for value in (s.metrics[m], *s.bands[m])]
        cells = [
            f"{s.x:g}",
            s.estimator,
            str(s.seeds),
            *(repr(v) for v in [*numbers, s.coverage, s.width, s.seconds]),
        ]
        lines.append(",".join(cells))
    return "\n".join(lines) + "\n"


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


def style(name: str, index: int) -> tuple[str, str]:
    """Return colour and marker of an estimator."""
    return _STYLES.get(name, (_EXTRA[index % len(_EXTRA)], "X"))


def figure_and_axes(panels: int, *, width: float = 4.2) -> tuple[Any, Any]:
    """Return a matplotlib figure with a row of panels, drawn without a display."""
    matplotlib = require("matplotlib", extra="paper")
    matplotlib.use("agg")
    # Ids in the SVG are random without it, and dates (`save`) are today's: files would differ from
    # run to run.
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
    experiment: Experiment, summaries: Sequence[PointSummary], folder: Path, preset: str
) -> list[Path]:
    """Draw MSE, squared bias and variance over the varied parameter; hollow markers are the published values.

    A figure of several pictures draws each.
    """
    paths = []
    every = tuple(s.estimator for s in summaries)
    for ending, names in experiment.pictures or (("", every),):
        shown = [s for s in summaries if s.estimator in names]
        if shown:
            paths += _picture(experiment, shown, folder, preset, experiment.name + ending)
    return paths


def _picture(
    experiment: Experiment, summaries: Sequence[PointSummary], folder: Path, preset: str, file: str
) -> list[Path]:
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
        axis.set_title(TITLES[metric])
        axis.grid(alpha=0.25)
    fig.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside upper center",
        ncols=min(len(names), 7),
        frameon=False,
    )
    return save(fig, folder, file)


def _draw_line(
    axis: Any, points: Sequence[PointSummary], metric: str, look: tuple[str, str]
) -> None:
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
