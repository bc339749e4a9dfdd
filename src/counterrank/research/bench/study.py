"""A study: every estimator on the same logs of every world, in several processes, resumed where it stopped."""

import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from counterrank.cli.console import showing_progress
from counterrank.common.errors import ConfigError
from counterrank.data.source import default_threads, reporter
from counterrank.research.bench.methods import Estimators, Method, methods, run_trial
from counterrank.research.bench.protocol import Protocol, resumed
from counterrank.research.bench.result import BenchResult
from counterrank.research.bench.worlds import Trial, World, worlds
from counterrank.research.store import complete, read_seed, seed_file

T = TypeVar("T")
R = TypeVar("R")
Row = dict[str, Any]
Task = tuple[World, int]


def run(
    where: str | World | Sequence[str | World],
    estimators: Estimators,
    *,
    seeds: int | Sequence[int] = 20,
    jobs: int | None = None,
    resume: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> BenchResult:
    """Return every estimator's results on the same logs of every world.

    Parameters
    ----------
    where
        Populations ("published", "text", "random", "groups", "triples", "clicks", "non-factored", with a
        number of worlds as in "groups:12"), logs of A/B tests ("arms:COLUMN:PATH"), import paths
        (package.module:world), or `World` objects.
    estimators
        Names, import paths (package.module:Estimator) or objects; or a mapping from names of your own
        to them, as in {"ips": "ips", "mine": MyEstimator()}.
    seeds
        Number of logs of each world, or their seeds.
    jobs
        Processes; by default all cores, or one if a world or an estimator cannot be sent to a process.
    resume
        A folder. What it has of this study is not run again; finished seeds are written there as the
        study runs, and `protocol.toml`, which repeats it: `counterrank reproduce protocol.toml --out DIR`.
    progress
        Whether to show progress on a terminal.

    Returns
    -------
    BenchResult

    Raises
    ------
    ConfigError
        A world or an estimator is unknown, or two have one name.

    Examples
    --------
    >>> result = run("text:1", ["ips", "iips"], seeds=2, jobs=1)
    >>> result.table["estimator"].tolist()
    ['ips', 'iips']
    """
    listed = [where] if isinstance(where, str | World) else list(where)
    selected, places = methods(estimators), _worlds(listed)
    numbers = _seeds(seeds)
    if not (places and selected and numbers):
        raise ConfigError("a bench needs at least one world, one estimator and one seed")
    protocol = _protocol(listed, selected, numbers)
    folder = None if resume is None else Path(resume)
    if folder is not None:
        resumed(protocol, folder).write(folder)
    tasks = [(world, seed) for world in places for seed in numbers]
    rows: list[Row] = []
    with showing_progress(enabled=progress):
        reporter().begin("bench", len(tasks))
        work = partial(_task_rows, selected, folder)
        for task_rows in in_processes(work, tasks, _processes(jobs, selected, places)):
            rows += task_rows
            reporter().advance(1)
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return BenchResult(columns, protocol)


def repeat(
    path: str | os.PathLike[str],
    resume: str | os.PathLike[str] | None = None,
    *,
    jobs: int | None = None,
    progress: bool = True,
) -> BenchResult:
    """Run the study of a protocol file again.

    Parameters
    ----------
    path
        The file, as `run` writes it. By hand: `worlds` and `estimators`, lists of texts, and `seeds`.
    resume, jobs, progress
        As in `run`.

    Returns
    -------
    BenchResult

    Raises
    ------
    ConfigError
        The file is no protocol, or the study had objects, which no file can make again.
    """
    protocol = Protocol.read(Path(path))
    if protocol.objects:
        raise ConfigError(
            f"the study of {path} had objects, which no file can make again: "
            f"{', '.join(protocol.objects)}; define them in a module and name them package.module:name"
        )
    return run(
        protocol.worlds,
        dict(protocol.estimators),
        seeds=protocol.seeds,
        jobs=jobs,
        resume=resume,
        progress=progress,
    )


def _worlds(listed: Sequence[Any]) -> list[World]:
    """Return the worlds of texts and objects; two of one name are refused."""
    places: list[World] = []
    for entry in listed:
        if not isinstance(entry, str | World):
            raise ConfigError(f"{entry!r} is no world; give a population's name or a bench.World")
        places += worlds(entry) if isinstance(entry, str) else [entry]
    names = [world.name for world in places]
    if twins := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise ConfigError(
            f"world '{twins[0]}' is there {names.count(twins[0])} times, and results go by name"
        )
    return places


def _seeds(seeds: int | Sequence[int]) -> list[int]:
    numbers = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    for number in numbers:
        if not isinstance(number, int | np.integer) or number < 0:  # type: ignore[redundant-expr]
            raise ConfigError(f"seeds are whole numbers from 0 on, not {number!r}")
    if len(set(numbers)) < len(numbers):
        raise ConfigError("a seed is there twice; give each seed once")
    return [int(number) for number in numbers]


def _protocol(
    listed: Sequence[str | World], selected: Sequence[Method], seeds: Sequence[int]
) -> Protocol:
    texts = [entry if isinstance(entry, str) else entry.name for entry in listed]
    objects = [entry.name for entry in listed if isinstance(entry, World)]
    # What an object's class does not make again is described, and a description has brackets.
    objects += [
        m.name for m in selected if m.estimator is not None and m.source == repr(m.estimator)
    ]
    sources = {method.name: method.source for method in selected}
    return Protocol(tuple(texts), sources, tuple(seeds), tuple(objects))


def _processes(jobs: int | None, selected: Sequence[Method], places: Sequence[World]) -> int:
    """Return the number of processes, one if something cannot be sent there and no number was asked for."""
    count = default_threads() if jobs is None else jobs
    if count <= 1:
        return 1
    entries: list[Method | World] = [*selected, *places]
    for entry in entries:
        try:
            ForkingPickler.dumps(entry)
        except Exception as problem:
            if jobs is None:
                return 1
            what = "world" if isinstance(entry, World) else "estimator"
            raise ConfigError(
                f"{what} '{entry.name}' cannot be sent to another process ({problem}); define its "
                "function or class in a module, outside of functions, or use jobs=1"
            ) from problem
    return count


def _task_rows(selected: Sequence[Method], folder: Path | None, task: Task) -> list[Row]:
    """Return the rows of one world and seed; with a folder, run only what its file lacks."""
    world, seed = task

    def run_missing(missing: Iterable[Method]) -> list[Row]:
        trial = _drawn(world, seed)
        rows = run_trial(trial, missing, refuse=False)
        return [{"x": world.name, "seed": seed, **row} for row in rows]

    if folder is None:
        return run_missing(selected)
    path = seed_file(folder / _folder_name(world.name), seed)
    complete(path, selected, run_missing)
    table = read_seed(path)
    assert table is not None
    by_name = {row["estimator"]: row for row in table.to_pylist()}
    return [by_name[method.name] for method in selected]


def _drawn(world: World, seed: int) -> Trial:
    try:
        trial = world.draw(seed)
    except Exception as problem:
        problem.add_note(f"world '{world.name}', seed {seed} of the bench")
        raise
    if not isinstance(trial, Trial):
        raise ConfigError(f"world '{world.name}' draws a {type(trial).__name__}, not a bench.Trial")
    return trial


def _folder_name(name: str) -> str:
    """Return a folder's name for a world: readable, and different for different names.

    >>> _folder_name("text 0")
    'text-0-3e8d4ab8'
    """
    readable = re.sub(r"[^A-Za-z0-9.=]+", "-", name).strip("-.")[:60]
    return f"{readable}-{zlib.crc32(name.encode()):08x}"


def in_processes(work: Callable[[T], R], tasks: Sequence[T], jobs: int) -> Iterator[R]:
    """Yield the result of each task in order, `jobs` at a time; those that wait are dropped on an error."""
    if jobs <= 1 or len(tasks) <= 1:
        yield from map(work, tasks)
        return
    with ProcessPoolExecutor(min(jobs, len(tasks)), initializer=_one_thread) as pool:
        yield from pool.map(work, tasks)


def _one_thread() -> None:
    """One process a core: threads inside would only get in each other's way."""
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
