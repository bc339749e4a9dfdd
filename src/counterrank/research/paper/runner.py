"""Runs a figure over seeds on all cores; a seed's results appear whole or not at all, so that a run can resume."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from counterrank.common import atomic
from counterrank.common.errors import ConfigError
from counterrank.data.source import default_threads, reporter
from counterrank.estimators import AIPS
from counterrank.estimators.behavior import BehaviorTree
from counterrank.research import bench
from counterrank.research.bench import Method, published_trial, run_trial
from counterrank.research.paper import figures, results
from counterrank.research.paper.figures import FIGURES, Experiment, Setting
from counterrank.research.paper.results import seed_file
from counterrank.research.store import complete, missing_methods
from counterrank.research.summary import Rows


def contenders(experiment: Experiment, estimators: Sequence[str] = ()) -> list[Method]:
    """Return which methods run: those of the figure, or the given ones by name or import path."""
    if estimators and not experiment.estimators:
        raise ConfigError(f"figure '{experiment.name}' has no estimators to choose from")
    selected = bench.methods(estimators or experiment.estimators)
    if experiment.kind != "real-world":
        return selected
    # Section 5 has candidates of its own.
    paper_aips = AIPS(behavior=BehaviorTree(candidates="real-world", mse="pasif"))
    return [Method(m.name, paper_aips) if m.name == results.PAPERS_AIPS else m for m in selected]


def reproduce(
    figure: str,
    *,
    seeds: int,
    out: str,
    jobs: int | None = None,
    estimators: Sequence[str] = (),
) -> Iterator[str]:
    """Make a figure (or all), yielding a line of text for each thing that was written.

    Estimators can follow later: only what is missing of a seed is run.
    """
    names = list(FIGURES) if figure == "all" else [figure]
    for place, name in enumerate(names, 1):
        experiment, folder = figures.get(name), Path(out) / name
        # In a run of everything, figures without estimators are made as they are.
        fixed = figure == "all" and not experiment.estimators
        methods = contenders(experiment, () if fixed else estimators)
        missing = seeds_to_run(methods, range(seeds), folder)
        label = f"{name} ({place} of {len(names)})" if len(names) > 1 else name
        yield f"{label}: {len(missing)} of {seeds} seeds to run, results in {folder}"
        run_seeds(experiment, missing, folder, methods, jobs=jobs or default_threads())
        yield from write_outcome(experiment, range(seeds), folder)
    yield from write_page(Path(out))


def write_outcome(experiment: Experiment, seeds: range, folder: Path) -> Iterator[str]:
    """Write the summary of a figure (Markdown, CSV, SVG, PNG), yielding what was written."""
    yield f"{experiment.title} ({len(seeds)} seeds)"
    rows, (_, tables, draw) = results.read_rows(folder, seeds), KINDS[experiment.kind]
    text = "\n".join(tables(experiment, rows))
    atomic.write_text(folder / f"{experiment.name}.md", text)
    if experiment.kind in ("accuracy", "runtime"):
        atomic.write_text(folder / f"{experiment.name}.csv", results.as_csv(rows))
    yield text
    for path in (folder / f"{experiment.name}.md", *draw(experiment, rows, folder)):
        yield f"  wrote {path}"


_TITLE = "The figures and tables of Kiyohara et al. (2023), made anew"


def write_page(out: Path) -> Iterator[str]:
    """Write one page with every figure and table that a folder has results of, numbered as in the paper."""
    introduction = (
        "MSE, squared bias and variance are divided by V². In brackets: the published value, and "
        "ours divided by it."
    )
    parts = [f"# {_TITLE}\n\n{introduction}\n"]
    for name in FIGURES:
        folder, experiment = out / name, figures.get(name)
        seeds = results.seeds_in(folder)
        if not seeds:
            continue
        parts.append(
            f"## {experiment.title}\n\n`counterrank reproduce {name}`, {len(seeds)} "
            f"seed{'s' * (len(seeds) > 1)}.\n"
        )
        parts += [
            f"![{picture.title}]({name}/{picture.stem}.svg)\n"
            for picture in experiment.pictures
            if (folder / f"{picture.stem}.svg").exists()
        ]
        _, tables, _ = KINDS[experiment.kind]
        rows = results.read_rows(folder, seeds)
        parts += tables(experiment, rows)
    atomic.write_text(out / "page.md", "\n".join(parts))
    yield f"wrote {out / 'page.md'}"


def seeds_to_run(methods: Sequence[Method], seeds: Sequence[int], folder: Path) -> list[int]:
    """Return the seeds of which something is missing, or whose file is only part of one."""
    return [seed for seed in seeds if missing_methods(methods, seed_file(folder, seed)) is not None]


def run_seeds(
    experiment: Experiment,
    seeds: Sequence[int],
    folder: Path,
    methods: Sequence[Method],
    *,
    jobs: int,
) -> None:
    """Run what is missing of some seeds, `jobs` at a time."""
    reporter().begin(experiment.name, len(seeds))
    work = partial(run_seed, experiment, folder, methods)
    for _ in bench.in_processes(work, seeds, jobs):
        reporter().advance(1)


def run_seed(experiment: Experiment, folder: Path, methods: Sequence[Method], seed: int) -> None:
    """Run what is missing of one seed, at every value of the figure, and write its file anew."""
    run = KINDS[experiment.kind][0]
    complete(
        seed_file(folder, seed),
        methods,
        lambda missing: [{"seed": seed, **row} for row in run(experiment, seed, missing)],
    )


def trial_rows(experiment: Experiment, seed: int, methods: list[Method]) -> list[dict[str, Any]]:
    """Return a row for each value of the figure and estimator; seed i is the published run with that number."""
    if experiment.kind == "runtime":
        _warm(tuple(methods))
    return [
        {"x": float(x), **row}
        for x in experiment.values
        for row in run_trial(published_trial(experiment.setting(x), seed), methods)
    ]


@cache
def _warm(methods: tuple[Method, ...]) -> None:
    """Run a small trial, once in a process: loading compiled code is no part of a run time."""
    run_trial(published_trial(Setting(n=400), 0), methods)


#: Returns the results of one seed, then the tables, the published values beside ours, and the pictures.
Kind = tuple[
    Callable[[Experiment, int, list[Method]], list[dict[str, Any]]],
    Callable[[Experiment, Rows], Iterator[str]],
    Callable[[Experiment, Rows, Path], list[Path]],
]


def _no_pictures(experiment: Experiment, rows: Rows, folder: Path) -> list[Path]:
    return []


KINDS: dict[str, Kind] = {
    "accuracy": (trial_rows, results.accuracy_tables, results.plot_accuracy),
    "runtime": (trial_rows, results.runtime_tables, _no_pictures),
    "distribution": (results.behavior_shares, results.share_tables, results.plot_shares),
    "toy": (results.toy_rows, results.toy_tables, _no_pictures),
    "real-world": (results.ab_rows, results.ab_tables, results.plot_ab),
}
