"""Runs a figure over seeds on all cores; a seed's results appear whole or not at all, so that a run can resume.

A trial is one simulated data set: draw it, know the truth, run every estimator.
"""

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from counterrank import atomic
from counterrank.data.log import RankingLog
from counterrank.data.source import MemorySource, default_threads
from counterrank.errors import ConfigError
from counterrank.estimators import AIPS, Estimator, View, Workspace, get_estimator
from counterrank.progress import reporter
from counterrank.research import simulate
from counterrank.research.paper import figures, results, special
from counterrank.research.paper.algorithm1 import Assigned, PublishedOracle
from counterrank.research.paper.columns import column
from counterrank.research.paper.figures import (
    FIGURES,
    ON_REQUEST,
    Experiment,
    OracleForm,
    Setting,
)
from counterrank.research.paper.replay import replay_run
from counterrank.research.paper.results import read_seed, seed_file
from counterrank.research.simulate import Environment
from counterrank.statistics import mean
from counterrank.weights.moments import Moments


def reproduce(
    figure: str,
    *,
    seeds: int,
    out: str,
    jobs: int | None = None,
    preset: str = "published",
    logs: tuple[str, ...] = (),
    estimators: Sequence[str] = (),
    oracle: OracleForm | None = None,
) -> Iterator[str]:
    """Make a figure (or all), yielding a line of text for each thing that was written.

    `logs` runs the A/B protocol on a user's own: log A, log B and the target, or one file of real
    pages (`real`), whose results have a folder of their own. `estimators` runs only
    some of a figure's, the others can follow later. `oracle` says how AIPS with the oracle grows its
    trees; each way has rows of its own, side by side in one folder.
    """
    names = list(FIGURES) if figure == "all" else [figure]
    for place, name in enumerate(names, 1):
        experiment = figures.get(name)
        if oracle is not None and oracle != OracleForm():
            experiment = grown(experiment, oracle, every=figure == "all")
        folder = Path(out) / name
        if logs:
            experiment, preset = on_logs(experiment, logs), "logs"
            folder = folder if len(logs) > 1 else folder_of(Path(out), logs[0])
        if estimators:
            experiment = only(experiment, estimators)
        missing = seeds_to_run(experiment, preset, range(seeds), folder)
        label = f"{name} ({place} of {len(names)})" if len(names) > 1 else name
        yield f"{label}: {len(missing)} of {seeds} seeds to run, results in {folder}"
        run_seeds(experiment, preset, missing, folder, jobs=jobs or default_threads(), label=label)
        yield from write_outcome(experiment, preset, range(seeds), folder)
    if figure == "all":
        from counterrank.research.paper.page import write_page

        yield from write_page(Path(out), preset=preset)


def on_logs(experiment: Experiment, logs: tuple[str, ...]) -> Experiment:
    """Return the A/B protocol on logs; a file of real pages is read before any seed runs."""
    if len(logs) == 1:
        special.real_pair(logs[0])
    return replace(experiment, logs=logs)


def folder_of(out: Path, log: str) -> Path:
    """Return where results on a file of real pages are kept."""
    return out / f"real-world-{Path(log).name.partition('.')[0]}"


def write_outcome(experiment: Experiment, preset: str, seeds: range, folder: Path) -> Iterator[str]:
    """Write the summary of a figure (Markdown, CSV, SVG, PNG), yielding what was written."""
    yield f"{experiment.name}: {experiment.about} ({len(seeds)} seeds, {preset})"
    rows = results.read_rows(folder, preset, seeds)
    table, drawn = special.figure_table(experiment, rows, preset), []
    if experiment.kind in ("accuracy", "runtime"):
        found = results.summarise(rows, common_truth=preset == "published")
        atomic.write_text(folder / f"{experiment.name}.csv", results.as_csv(found))
        if experiment.kind == "accuracy":
            drawn = results.plot_accuracy(experiment, found, folder, preset)
    else:
        drawn = special.pictures(experiment, rows, folder)
    atomic.write_text(folder / f"{experiment.name}.md", table)
    yield table
    for path in (folder / f"{experiment.name}.md", *drawn):
        yield f"  wrote {path}"


def grown(experiment: Experiment, oracle: OracleForm, *, every: bool = False) -> Experiment:
    """Return the figure with its oracles grown another way; of `every` figure, those without one stay."""
    for name in oracle.columns:
        column(name)  # a name that is none is refused before anything runs

    def renamed(name: str) -> str:
        form = OracleForm.of(name)
        return name if form is None else replace(oracle, noise=form.noise).name

    if experiment.kind not in ("accuracy", "runtime"):
        if every:
            return experiment
        raise ConfigError(
            f"figure '{experiment.name}' has no AIPS with the oracle: --algorithm and --split-on "
            "say how that one grows its trees"
        )
    drawn = tuple(
        (ending, tuple(renamed(name) for name in some)) for ending, some in experiment.pictures
    )
    names = tuple(renamed(name) for name in experiment.estimators)
    return replace(experiment, estimators=names, pictures=drawn)


def only(experiment: Experiment, names: Sequence[str]) -> Experiment:
    """Return the figure with some of its estimators."""
    known = (*experiment.estimators, *(ON_REQUEST if experiment.kind == "accuracy" else ()))
    for name in names:
        if name not in known:
            raise ConfigError(
                f"figure '{experiment.name}' has no estimator '{name}'; it has {', '.join(known)}"
            )
    return replace(experiment, estimators=tuple(name for name in known if name in names))


def seeds_to_run(
    experiment: Experiment, preset: str, seeds: Sequence[int], folder: Path
) -> list[int]:
    """Return the seeds of which something is missing, or whose file is only part of one."""
    paths = {seed: seed_file(folder, preset, seed) for seed in seeds}
    return [
        seed for seed, path in paths.items() if missing_estimators(experiment, path) is not None
    ]


def run_seeds(
    experiment: Experiment,
    preset: str,
    seeds: Sequence[int],
    folder: Path,
    *,
    jobs: int,
    label: str = "",
) -> None:
    """Run every seed of which something is missing, `jobs` at a time."""
    missing = seeds_to_run(experiment, preset, seeds, folder)
    reporter().begin(label or experiment.name, len(missing))
    if not missing:
        return
    if jobs <= 1 or len(missing) == 1:
        for seed in missing:
            run_seed(experiment, preset, seed, folder)
            reporter().advance(1)
        return
    with ProcessPoolExecutor(jobs, initializer=_one_thread) as pool:
        waiting: list[Future[None]] = [
            pool.submit(run_seed, experiment, preset, seed, folder) for seed in missing
        ]
        try:
            for done in as_completed(waiting):
                done.result()
                reporter().advance(1)
        # Ctrl-C too: leaving the `with` would wait for every seed that is still queued.
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def missing_estimators(experiment: Experiment, path: Path) -> tuple[str, ...] | None:
    """Return the estimators of which a seed's file has no results, None where nothing is missing.

    A file is whole for those it has; one that cannot be read has none.
    """
    table = read_seed(path)
    if table is None:
        return experiment.estimators
    if experiment.kind not in ("accuracy", "runtime"):
        return None
    there = set(table["estimator"].to_pylist())
    return tuple(name for name in experiment.estimators if name not in there) or None


def run_seed(experiment: Experiment, preset: str, seed: int, folder: Path) -> None:
    """Run what is missing of one seed, at every value of the figure, and write its file anew."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = seed_file(folder, preset, seed)
    wanted = replace(experiment, estimators=missing_estimators(experiment, path) or ())
    table = pa.Table.from_pylist(
        [{"seed": seed, "preset": preset, **row} for row in seed_rows(wanted, preset, seed)]
    )
    # Read again at the end: what other estimators left there stays.
    before = read_seed(path)
    if before is not None:
        table = pa.concat_tables([before, table], promote_options="default")
    with atomic.replacing(path) as temporary:
        pq.write_table(table, temporary)


def seed_rows(experiment: Experiment, preset: str, seed: int) -> list[dict[str, object]]:
    """Return the results of one seed: a row for each value of the figure and estimator."""
    if experiment.kind == "runtime":
        _warm(preset, experiment.estimators)
    if experiment.kind in ("accuracy", "runtime"):
        rows = []
        for x in experiment.values:
            drawn = draw_trial(preset, experiment.setting(x), seed)
            rows += [{"x": float(x), **row} for row in run_trial(drawn, experiment.estimators)]
        return rows
    return special.seed_rows(experiment, preset, seed)


@cache
def _warm(preset: str, estimators: tuple[str, ...]) -> None:
    """Run a small trial, once in a process: loading compiled code is no part of a run time."""
    run_trial(draw_trial(preset, Setting(n=400), 0), estimators)


def _one_thread() -> None:
    # One process a core: threads inside would only get in each other's way.
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"


@dataclass(frozen=True, slots=True)
class Trial:
    """A simulated log, the world it came from, and the target's true value."""

    env: Environment
    log: RankingLog
    truth: float
    seed: int
    noise: float
    oracle: PublishedOracle
    #: CPU seconds of drawing the log.
    drawing: float


def draw_trial(preset: str, setting: Setting, seed: int) -> Trial:
    """Return trial `seed`: of the published preset, the published run with that number; otherwise fresh draws.

    In `random` and `paper` the parameters of the world are drawn afresh for every seed.
    """
    started = time.process_time()
    if preset == "published":
        env = _published(setting)
        found = replay_run(env, setting.n, seed)
        log, drawing = found.log.to_log(), time.process_time() - started
        values = tuple(found.value())
        return Trial(
            env,
            log,
            sum(values),
            seed,
            setting.noise,
            PublishedOracle(env, seed, values, found),
            drawing,
        )
    env = simulate.preset(preset, seed=seed, **setting.world)
    log = simulate.draw(env, setting.n, np.random.default_rng([seed, 7])).to_log()
    drawing = time.process_time() - started
    truth = simulate.true_value(env)
    oracle = PublishedOracle(env, seed, tuple(truth.by_position))
    return Trial(env, log, truth.value, seed, setting.noise, oracle, drawing)


@cache
def _published(setting: Setting) -> Environment:
    return simulate.published(**setting.world)


def run_trial(trial: Trial, names: tuple[str, ...]) -> list[dict[str, object]]:
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
                "drawing": trial.drawing,
            }
        )
    return rows


def _estimate(trial: Trial, name: str) -> tuple[float, float, float]:
    # The tree, where there is one, is part of what is timed.
    estimator = _estimator(trial, name)
    workspace = Workspace(MemorySource(trial.log, threads=1), "new", seed=trial.seed)
    plan = estimator.plan(workspace)
    state = workspace.source.reduce(lambda batch: plan.partial(View(batch, "new")).state)
    found = plan.finish(state)
    if not found.estimable and name != "auto" and found.moments is not None:
        return _by_formula(found.moments)
    low, high = found.interval(0.95)
    return found.value, low, high


def _by_formula(state: Moments) -> tuple[float, float, float]:
    """Return the mean of w r with its interval, also where no weight is left: it is zero there.

    A report says instead that there is no evidence. The paper's figures average what the formulas
    give.
    """
    total = mean(replace(state, gram=None, buckets=None).sums, 0)
    return total.value, *total.interval(0.95)


def _estimator(trial: Trial, name: str) -> Estimator:
    if name == "aips (true)":
        return AIPS(behavior=_true_behavior(trial))
    form = OracleForm.of(name)
    if form is not None:
        return AIPS(
            behavior=trial.oracle.assignment(
                trial.log,
                trial.noise if form.noise is None else form.noise,
                cached=form.cached,
                algorithm=form.algorithm,
                columns=[column(name) for name in form.columns],
            )
        )
    return get_estimator(name)


def _true_behavior(trial: Trial) -> Assigned:
    """Return every row's own model."""
    names = np.array(trial.env.behavior_names)
    order = np.argsort(names)
    assert trial.log.behavior is not None
    model = order[np.searchsorted(names, trial.log.behavior, sorter=order)]
    return Assigned(trial.env.masks, np.repeat(model[:, None], trial.log.K, axis=1))
