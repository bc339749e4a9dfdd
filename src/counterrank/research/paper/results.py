"""What a figure's results show: tables with the paper's own values beside ours, and pictures.

Pictures have the paper's layout, as SVG and PNG; the same results give the same bytes.

Three are not MSE over seeds: behaviour distributions, the toy table and the A/B protocol.

Table 2, computed: a wrong behaviour model can have the smaller MSE. A world of two actions and two
positions in which the reward at position 1 is mu + delta 1{a_2 = 1} plus noise; the logger is
uniform, the target shows action 1 with probability p. The true model weighs both positions, the
wrong one only the first. Its parameters are such that bias and variances are the table's: 0, 0.5
and 0.1, 0.3.

The protocol of section 5, for two logs A and B: estimate B's policy from bootstraps of A, judge by
B itself.
"""

import csv
import json
from collections.abc import Iterator, Sequence
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from counterrank.common import atomic
from counterrank.common.arrays import Floats
from counterrank.common.errors import ConfigError, require
from counterrank.common.records import Json
from counterrank.common.texts import packaged
from counterrank.research import simulate, store
from counterrank.research.bench import Method, Trial, bootstrapped, run_trial
from counterrank.research.paper.figures import (
    ESTIMATORS,
    ORACLE_NOISE,
    Experiment,
    Picture,
    told,
)
from counterrank.research.summary import (
    Rows,
    Summary,
    cells,
    grid,
    markdown,
    named,
    paired,
    ratio_of_means,
    summarise,
    with_interval,
)

#: What tables and pictures call the metrics.
TITLES = {"mse": "MSE / V²", "squared_bias": "squared bias / V²", "variance": "variance / V²"}


def seed_file(folder: Path, seed: int) -> Path:
    """Return where the results of one seed are kept."""
    return store.seed_file(folder / "published", seed)


def seeds_in(folder: Path) -> list[int]:
    """Return the seeds whose results a figure's folder holds."""
    files = (folder / "published").glob("seed-*.parquet")
    return sorted(int(path.stem.removeprefix("seed-")) for path in files)


def read_rows(folder: Path, seeds: Any) -> Rows:
    """Return the columns of all seed files, in the order of seeds."""
    import pyarrow as pa

    tables = []
    for seed in seeds:
        path = seed_file(folder, seed)
        seed_table = store.read_seed(path)
        if seed_table is None:
            raise ConfigError(
                f"{path} cannot be read as results; run the figure again, which does that seed anew"
            )
        tables.append(seed_table)
    table = pa.concat_tables(tables, promote_options="default")
    return {name: table[name].to_numpy() for name in table.column_names}


@cache
def published_table() -> Json:
    """Return the published figures and run times."""
    loaded: Json = json.loads(packaged("counterrank.research.paper", "data/published_figures.json"))
    return loaded


def published(figure: str, metric: str, estimator: str, x: float) -> float | None:
    """Return the published value (divided by V^2), or None where there is none.

    >>> published("data-size", "mse", "iips", 8000)
    0.204
    """
    table = published_table()
    # One curve was published, whichever way its runs were made.
    if told(estimator) == ("", ORACLE_NOISE):
        estimator = "aips (oracle)"
    if x not in table["x"].get(figure, ()) or estimator not in table[figure][metric]:
        return None
    value: float | None = table[figure][metric][estimator][table["x"][figure].index(x)]
    return value


def accuracy_tables(experiment: Experiment, rows: Rows) -> Iterator[str]:
    """Yield a table of each metric / V^2, the published value and our ratio to it in brackets; then differences."""
    summaries = summarise(rows, common_truth=True)
    for metric, title in TITLES.items():
        texts = (_beside_published(experiment, s, metric) for s in summaries)
        yield grid(title, texts)
    covered = ((s["estimator"], s["x"], f"{s['coverage']:.2f}") for s in summaries)
    yield grid("95 % intervals contained the truth", covered)
    names = dict.fromkeys(s["estimator"] for s in summaries)
    # Somebody's own estimator, the last, is what all others are held against.
    reference = ["aips", *(name for name in names if name not in experiment.estimators)][-1]
    if reference in names and len(names) > 1:
        yield paired_table(rows, reference)


def _beside_published(experiment: Experiment, s: Summary, metric: str) -> tuple[str, Any, str]:
    """Return ours, the published value, and ours divided by it with the interval of ours."""
    name, x, ours = s["estimator"], s["x"], s[metric]
    theirs, comparison = published(experiment.name, metric, name, x), ""
    if theirs is not None:
        ratio, low, high = (s[f"{metric}{end}"] / theirs for end in ("", "_low", "_high"))
        times = f", x{ratio:.2f}: {low:.2g} to {high:.2g}" if s["seeds"] > 1 else ""
        comparison = f" ({theirs:.3g}{times})"
    return name, x, f"{ours:.3g}{comparison}"


def paired_table(rows: Rows, reference: str) -> str:
    """Return the ratios of squared errors on the same seeds, with 95 % intervals."""
    comparisons = paired(rows, reference)
    seeds = min((p["seeds"] for p in comparisons), default=0)
    texts = ((p["estimator"], p["x"], with_interval(p, "ratio")) for p in comparisons)
    note = (
        f"From the same {seeds} seeds, with 95 % intervals; one without an end says that a few seeds carry "
        "the error."
    )
    return grid(f"MSE divided by that of {reference}", texts, note)


def as_csv(rows: Rows) -> str:
    """Return every number of the summaries as CSV."""
    summaries, out = summarise(rows, common_truth=True), StringIO()
    writer = csv.DictWriter(out, list(summaries[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({**s, "x": f"{s['x']:g}"} for s in summaries)
    return out.getvalue()


# Run time, tables 3 and 4.

#: The two of the published tables, by our names: the published AIPS is the one with its oracle.
_TIMED = {"ips": "ips", "aips (oracle)": "aips"}


def published_seconds(parameter: str | None, row: str, x: float) -> Any:
    """Return the published run time, mean and deviation over 100 seeds, or the ratio of the row "relative".

    >>> published_seconds("K", "aips", 14)
    [351.5, 3.059]
    """
    table = published_table()["runtime"].get(parameter, {"x": ()})
    return table[row][table["x"].index(x)] if x in table["x"] else None


def runtime_tables(experiment: Experiment, rows: Rows) -> Iterator[str]:
    """Yield the published table with our rows in it, then the estimates alone: CPU seconds.

    The published clock includes drawing the data, so ours does in the first table; the second has
    every estimator without it.
    """
    by = {(name, x): cell for x, name, cell in cells(rows)}
    points = dict.fromkeys(x for _, x in by)
    lines = []
    for x in points:
        times = []
        for ours, theirs in _TIMED.items():
            if cell := by.get((ours, x)):
                seconds = cell["seconds"] + cell["drawing"]
                times.append(seconds)
                lines.append((ours, x, _spread(seconds)))
            if printed := published_seconds(experiment.parameter, theirs, x):
                lines.append((f"published {theirs}", x, f"{printed[0]:.4g} (± {printed[1]:.3g})"))
        if len(times) == len(_TIMED) and len(times[0]) > 1:
            relative = named("relative", *ratio_of_means(times[1], times[0]))
            lines.append(("relative", x, with_interval(relative, "relative")))
        if told := published_seconds(experiment.parameter, "relative", x):
            lines.append(("published relative", x, f"{told:.2f}"))
    yield grid("CPU seconds with the data drawn", lines)
    alone = ((name, x, _spread(cell["seconds"])) for (name, x), cell in by.items())
    yield grid("the estimate alone", alone)


def _spread(seconds: Floats) -> str:
    """Return mean and deviation; one seed has no deviation."""
    spread = f" (± {seconds.std(ddof=1):.4f})" if len(seconds) > 1 else ""
    return f"{seconds.mean():.4f}{spread}"


# Pictures.

#: Okabe and Ito's colour-blind safe palette with four more, and a marker for each.
_PALETTE = (
    "#D55E00",
    "#0072B2",
    "#009E73",
    "#999999",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
    "#8C510A",
    "#762A83",
    "#4D9221",
    "#B2182B",
)
_MARKERS = "os^DvPX*<>ph"


def styles(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return colour and marker of each estimator of a picture, no two alike.

    >>> len({colour for colour, _ in styles(["ips", "aips (oracle .1)", "aips (pasif)", "auto"]).values()})
    4
    """
    looks = list(zip(_PALETTE, _MARKERS, strict=True))
    # Those of the main figures look alike in every picture.
    chosen = {name: looks[ESTIMATORS.index(name)] for name in names if name in ESTIMATORS}
    free = [look for look in looks if look not in chosen.values()] or looks
    further_names = [name for name in names if name not in chosen]
    return chosen | {name: free[i % len(free)] for i, name in enumerate(further_names)}


def figure_and_axes(panels: int, title: str, *, width: float = 4.2) -> tuple[Any, Any]:
    """Return a matplotlib figure with a title and a row of panels, drawn without a display."""
    matplotlib = require("matplotlib", extra="paper")
    matplotlib.use("agg")
    # Ids in the SVG are random without it, and dates (`save`) are today's: files would differ from
    # run to run.
    matplotlib.rcParams["svg.hashsalt"] = "counterrank"
    pyplot = require("matplotlib.pyplot", extra="paper")
    fig, axes = pyplot.subplots(
        1, panels, figsize=(width * panels, 4.2), layout="constrained", squeeze=False
    )
    fig.suptitle(title)
    return fig, axes[0]


def save(fig: Any, handles: dict[str, Any], folder: Path, picture: Picture) -> list[Path]:
    """Put the legend below the panels, write the figure as SVG and PNG named by its number, and close it."""
    # Behind all others, whatever panel it came from.
    order = sorted(handles, key=lambda name: name.startswith("published"))
    fig.legend(
        [handles[name] for name in order],
        order,
        loc="outside lower center",
        ncols=min(len(order), 5),
        frameon=False,
    )
    paths = [folder / f"{picture.stem}.svg", folder / f"{picture.stem}.png"]
    for path in paths:
        kind = path.suffix[1:]
        with atomic.replacing(path) as temporary:
            metadata = {"Date": None} if kind == "svg" else {"Software": None}
            fig.savefig(temporary, format=kind, dpi=140, metadata=metadata)
    require("matplotlib.pyplot", extra="paper").close(fig)
    return paths


def plot_accuracy(experiment: Experiment, rows: Rows, folder: Path) -> list[Path]:
    """Draw MSE, squared bias and variance over the varied parameter, a picture for each figure of the paper.

    Hollow markers are the published values.
    """
    summaries, paths = summarise(rows, common_truth=True), []
    for picture in experiment.pictures:
        shown = [
            s for s in summaries if not picture.estimators or s["estimator"] in picture.estimators
        ]
        if shown:
            paths += save(*_picture(experiment, picture, shown), folder, picture)
    return paths


def _picture(
    experiment: Experiment, picture: Picture, summaries: Sequence[Summary]
) -> tuple[Any, dict[str, Any]]:
    fig, axes = figure_and_axes(3, picture.title)
    look = styles(list(dict.fromkeys(s["estimator"] for s in summaries)))
    handles: dict[str, Any] = {}
    for axis, (metric, title) in zip(axes, TITLES.items(), strict=True):
        for name, (colour, marker) in look.items():
            points = [s for s in summaries if s["estimator"] == name]
            x, y, low, high = (
                [s[key] for s in points] for key in ("x", metric, f"{metric}_low", f"{metric}_high")
            )
            handles[name] = axis.plot(x, y, color=colour, marker=marker, ms=5)[0]
            axis.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
            theirs = [(v, published(experiment.name, metric, name, v)) for v in x]
            if available := [pair for pair in theirs if pair[1] is not None]:
                marks = dict(ls="", marker=marker, ms=9, mfc="none", alpha=0.8)
                axis.plot(*zip(*available, strict=True), color=colour, **marks)
                handles["published (hollow)"] = axis.plot([], [], color="#555", **marks)[0]
        # One seed has no variance, which no logarithm shows.
        if any(s[metric] > 0 for s in summaries):
            axis.set_yscale("log")
        if experiment.parameter == "n":
            axis.set_xscale("log", base=2)
            axis.set_xticks(
                list(experiment.values), [f"{int(v) // 1000}k" for v in experiment.values]
            )
        axis.set(xlabel=experiment.label, title=title)
        axis.grid(alpha=0.25)
    return fig, handles


def behavior_shares(experiment: Experiment, seed: int, _: list[Method]) -> list[dict[str, Any]]:
    """Return the share of each behaviour at every value of the figure."""
    rows = []
    for x in experiment.values:
        env = simulate.published(**experiment.setting(x).world)
        # Contexts alone: shares follow from them without drawing a behaviour.
        context = np.random.default_rng([seed, 3]).normal(size=(10_000, env.d))
        shares = simulate.behavior_probability(env, context).mean(axis=0)
        rows += [
            {"x": float(x), "estimator": n, "value": float(s)}
            for n, s in zip(env.behavior_names, shares, strict=True)
        ]
    return rows


def share_tables(_: Experiment, rows: Rows) -> Iterator[str]:
    """Yield the shares of behaviours, means over seeds."""
    yield grid(
        "behaviour", ((name, x, f"{cell['value'].mean():.3f}") for x, name, cell in cells(rows))
    )


def plot_shares(experiment: Experiment, rows: Rows, folder: Path) -> list[Path]:
    """Draw the shares of behaviours."""
    picture = experiment.pictures[0]
    fig, axes = figure_and_axes(1, picture.title, width=6.5)
    bottom: dict[str, float] = {}
    look = styles(list(dict.fromkeys(rows["estimator"].tolist())))
    handles = {}
    for x, name, cell in cells(rows):
        label, share = f"{x:g}", float(cell["value"].mean())
        handles[name] = axes[0].bar(
            label, share, bottom=bottom.get(label, 0.0), color=look[name][0]
        )
        bottom[label] = bottom.get(label, 0.0) + share
    axes[0].set(xlabel=experiment.label, ylabel="share of users")
    return save(fig, handles, folder, picture)


#: The world of table 2: probability p of the target, base reward mu, interaction delta, standard deviation
#: of the noise and rows, such that bias and variances are those of the table.
TOY = {
    "p": 0.8090471243824047,
    "mu": 2.196574476607192,
    "delta": -0.3235752482726977,
    "sigma": 1.0,
    "n": 10,
}


def bias_and_variance(*, weighs_both: bool) -> tuple[float, float]:
    """Return bias and variance of V_1 by enumeration, weighing both positions or the first alone."""
    p, mu, delta, sigma, n = TOY.values()
    first, second = np.indices((2, 2))
    target, mean = np.array([1 - p, p]), mu + delta * second
    weight = 2 * target[first] * (2 * target[second] if weighs_both else 1.0)
    value = float((target[first] * target[second] * mean).sum())
    estimate, squares = (weight * mean).mean(), weight**2 * (mean**2 + sigma**2)
    return float(estimate) - value, float(squares.mean() - estimate**2) / n


#: The models of the table, whether they weigh both positions, and their printed bias and variance.
_PRINTED = {"true model": (True, 0.0, 0.5), "wrong but optimised model": (False, 0.1, 0.3)}


def toy_rows(*_: Any) -> list[dict[str, Any]]:
    """Return bias, variance and MSE of both models."""
    return [
        {"x": 0.0, "estimator": name, **_with_mse(*bias_and_variance(weighs_both=weighs_both))}
        for name, (weighs_both, *_) in _PRINTED.items()
    ]


def _with_mse(bias: float, variance: float) -> dict[str, float]:
    return {"bias": bias, "variance": variance, "mse": bias**2 + variance}


def toy_tables(_: Experiment, rows: Rows) -> Iterator[str]:
    """Yield the table, the printed numbers in brackets."""
    lines = []
    for i, (name, numbers) in enumerate(_PRINTED.items()):
        printed = _with_mse(*numbers[1:]).items()
        cells = (f"{abs(rows[key][i]):.2f} ({value:.2f})" for key, value in printed)
        lines.append((name, *cells))
    yield markdown(("AIPS with the", "bias", "variance", "MSE"), lines)


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
    "estimator",
    "wins of all",
    "wins of the paper's four",
    "below AIPS",
    "mean squared error",
    "CVaR .1",
    "CVaR .3",
    "CVaR .5",
)
#: The four that the paper's figure 5 compares.
PAPERS_FIELD = ("ips", "iips", "rips", PAPERS_AIPS)


def ab_rows(_: Experiment, seed: int, methods: list[Method]) -> list[dict[str, Any]]:
    """Return the results of one bootstrap of log A."""
    return [{"x": 0.0, **row} for row in run_trial(bootstrapped(ab_trial(), seed), methods)]


def ab_tables(_: Experiment, rows: Rows) -> Iterator[str]:
    """Yield the shares of trials that each estimator wins, its mean squared error and CVaR.

    A share of wins depends on who competes: it is given among all estimators and among the paper's four. Beside
    the wins: in which share its error is below that of the paper's AIPS, the CDF of relative errors at
    one. Below: errors under that of the value that judges are not seen.
    """
    errors = _errors(rows)
    of_all, of_four = wins(errors), wins({n: errors[n] for n in PAPERS_FIELD if n in errors})
    lines, reference = [], errors.get(PAPERS_AIPS)
    for name, squared in errors.items():
        below = ""
        if reference is not None and name != PAPERS_AIPS:
            below = f"{(squared < reference).mean():.0%}"
        tail = (f"{cvar(squared, alpha):.4g}" for alpha in (0.1, 0.3, 0.5))
        shares = (f"{field[name]:.0%}" if name in field else "" for field in (of_all, of_four))
        lines.append((name, *shares, below, f"{squared.mean():.4g}", *tail))
    value, error = float(rows["truth"][0]), float(rows["truth_stderr"][0])
    note = (
        f"B earns {value:.4g} with a standard error of {error:.2g}, whose square is {error**2:.2g}: "
        "estimators that differ by less are not told apart."
    )
    yield markdown(_AB_HEAD, lines, note)


def wins(errors: dict[str, Floats]) -> dict[str, float]:
    """Return the share of trials in which each estimator has the smallest error; the first wins a tie.

    >>> wins({"a": np.array([1.0, 2.0]), "b": np.array([3.0, 0.0])})
    {'a': 0.5, 'b': 0.5}
    """
    if not errors:
        return {}
    won = np.bincount(np.stack(list(errors.values())).argmin(axis=0), minlength=len(errors))
    return dict(zip(errors, (won / won.sum()).tolist(), strict=True))


def plot_ab(experiment: Experiment, rows: Rows, folder: Path) -> list[Path]:
    """Draw the CDF of relative errors and the CVaR curves."""
    errors, picture = _errors(rows), experiment.pictures[0]
    fig, axes = figure_and_axes(2, picture.title, width=5)
    # The paper's AIPS, against which its figure shows the others.
    reference = np.maximum(errors.get(PAPERS_AIPS, next(iter(errors.values()))), 1e-30)
    alphas, handles = np.linspace(0.02, 1, 50), {}
    for name, (colour, _) in styles(list(errors)).items():
        relative = np.sort(errors[name] / reference)
        shares = np.arange(1, len(relative) + 1) / len(relative)
        handles[name] = axes[0].step(relative, shares, color=colour)[0]
        axes[1].plot(alphas, [cvar(errors[name], a) for a in alphas], color=colour)
    axes[0].set(
        xscale="log", xlabel="squared error relative to AIPS", ylabel="share of trials (CDF)"
    )
    axes[1].set(yscale="log", xlabel="alpha", ylabel="CVaR of the squared error")
    return save(fig, handles, folder, picture)


def _errors(rows: Rows) -> dict[str, Floats]:
    """Return the squared errors of each estimator, by seed."""
    return {name: (cell["value"] - cell["truth"]) ** 2 for _, name, cell in cells(rows)}
