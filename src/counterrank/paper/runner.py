"""Runs a figure over seeds on all cores; a seed's results appear whole or not at all, so that a run
can resume.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import Any

from counterrank import atomic
from counterrank.errors import ConfigError
from counterrank.paper import figures
from counterrank.paper.figures import FIGURES, ON_REQUEST, Experiment
from counterrank.paper.summary import read_seed, seed_file
from counterrank.progress import reporter
from counterrank.source import default_threads


def reproduce(
    figure: str,
    *,
    seeds: int,
    out: str,
    jobs: int | None = None,
    preset: str = "published",
    pair: tuple[str, str, str] | None = None,
    estimators: Sequence[str] = (),
) -> Iterator[str]:
    """Make a figure (or all), yielding a line of text for each thing that was written.

    `pair` (log A, log B, target) runs the A/B protocol on a user's own logs; `estimators` runs only
    some of a figure's, the others can follow later.
    """
    from counterrank.paper.outcome import write_outcome

    names = list(FIGURES) if figure == "all" else [figure]
    for place, name in enumerate(names, 1):
        experiment = figures.get(name)
        if pair is not None:
            experiment, preset = replace(experiment, fixed={"pair": pair}), "logs"
        if estimators:
            experiment = only(experiment, estimators)
        folder = Path(out) / name
        missing = seeds_to_run(experiment, preset, range(seeds), folder)
        label = f"{name} ({place} of {len(names)})" if len(names) > 1 else name
        yield f"{label}: {len(missing)} of {seeds} seeds to run, results in {folder}"
        run_seeds(experiment, preset, missing, folder, jobs=jobs or default_threads(), label=label)
        yield from write_outcome(experiment, preset, range(seeds), folder)
    if figure == "all":
        from counterrank.paper.page import write_page

        yield from write_page(Path(out), preset=preset)


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
    before = read_seed(path)
    if before is not None:
        table = pa.concat_tables([before, table], promote_options="default")
    with atomic.replacing(path) as temporary:
        pq.write_table(table, temporary)


def seed_rows(experiment: Experiment, preset: str, seed: int) -> list[dict[str, Any]]:
    """Return the results of one seed: a row for each value of the figure and estimator."""
    if experiment.kind in ("accuracy", "runtime"):
        from counterrank.paper import trial

        rows = []
        for x in experiment.values:
            drawn = trial.draw(preset, experiment.setting(x), seed)
            rows += [{"x": float(x), **row} for row in trial.run(drawn, experiment.estimators)]
        return rows
    from counterrank.paper import special

    return special.seed_rows(experiment, preset, seed)


def _one_thread() -> None:
    # One process a core: threads inside would only get in each other's way.
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
