"""One log in many shapes: in memory, in files, as Dask and Spark frames, on clusters that are
really started.
"""

import functools
import gc
import os
import shutil
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import counterrank as cr
from counterrank.io import ReadOptions, dask, read_log, scan_log, spark
from counterrank.policies import Candidates, parse_policy
from counterrank.research import simulate

PARTS, ROWS = 4, 500


def write_folder(folder, *, unit, poison=None):
    """Write PARTS files; `poison` puts a reward that is no number into row 17 of that part."""
    folder.mkdir()
    env = simulate.random(3, K=4, actions=3, d=3)
    whole = folder.parent / f"{folder.name}.parquet"
    simulate.write_log(env, PARTS * ROWS, whole, seed=1, batch=ROWS)
    table = pq.read_table(whole)
    rng = np.random.default_rng(2)
    devices = np.array(["desktop", "mobile", "tv"])[rng.integers(0, 3, len(table))]
    table = table.append_column("device", pa.array(devices))
    if unit:
        users = [f"user-{u}" for u in rng.integers(0, 700, len(table))]
        table = table.append_column("unit", pa.array(users))
    for part in range(PARTS):
        piece = table.slice(part * ROWS, ROWS)
        if part == poison:
            rewards = piece["reward"].to_pylist()
            rewards[17][2] = float("nan")
            piece = piece.set_column(
                piece.column_names.index("reward"), "reward", pa.array(rewards)
            )
        pq.write_table(piece, folder / f"part-{part}.parquet")
    return folder


def write_scores(folder):
    """Write PARTS files of candidates by name, scores of logger and target, and features."""
    folder.mkdir()
    rng = np.random.default_rng(5)
    names = np.array([f"item-{i}" for i in range(30)])
    plackett_luce = parse_policy("plackett-luce:temperature=0.7")
    for part in range(PARTS):
        lists = [rng.permutation(30)[: rng.integers(5, 9)].tolist() for _ in range(ROWS)]
        sets = Candidates.from_lists(lists)
        scores, new, price = rng.normal(size=(3, len(sets.items)))
        action = plackett_luce.bind(candidates=sets, scores=scores).sample(3, rng)[:, 0]
        columns = {
            "action": names[action].tolist(),
            "reward": (rng.random(action.shape) < 0.3).astype(float).tolist(),
            "candidates": [names[row].tolist() for row in lists],
            "unit": [f"user-{u}" for u in rng.integers(0, 700, ROWS)],
        }
        for name, flat in (("propensity_scores", scores), ("new_scores", new), ("z_price", price)):
            columns[name] = [row.tolist() for row in np.split(flat, sets.offsets[1:-1])]
        pq.write_table(pa.table(columns), folder / f"part-{part}.parquet")
    return folder


def write_ties(folder):
    """Write PARTS files of a ranker that swaps two neighbours now and then; every tenth row has equal
    scores where they decide, and so has every row of the third file.
    """
    folder.mkdir()
    rng = np.random.default_rng(6)
    swap = parse_policy("swap:probability=0.3")
    for part in range(PARTS):
        scores = np.sort(rng.normal(size=(ROWS, 4)))[:, ::-1].copy()
        action = swap.bind(scores=scores).sample(3, rng)[:, 0]
        scores[:: 1 if part == 2 else 10, 1:3] = 0.0
        columns = {
            "action": action.tolist(),
            "reward": (rng.random(action.shape) < 0.3).astype(float).tolist(),
            "candidates": [[0, 1, 2, 3]] * ROWS,
            "propensity_scores": scores.tolist(),
            "new_scores": (scores * [1.0, 2.0, 1.0, 1.0]).tolist(),
            "unit": [f"user-{u}" for u in rng.integers(0, 700, ROWS)],
        }
        pq.write_table(pa.table(columns), folder / f"part-{part}.parquet")
    return folder


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    home = tmp_path_factory.mktemp("logs")
    return {
        "unit": write_folder(home / "unit", unit=True),
        "plain": write_folder(home / "plain", unit=False),
        "scored": write_scores(home / "scored"),
        "tied": write_ties(home / "tied"),
        "poisoned": write_folder(home / "poisoned", unit=True, poison=3),
    }


@pytest.fixture(scope="session")
def dask_client():
    with dask.local_client(2) as client:
        yield client
    _collect()


# A process has one Spark context, and tests elsewhere stop theirs (the notebook on tables of Spark does): a
# session of one file is never handed to another that comes later.
@pytest.fixture(scope="module")
def spark_session():
    if not shutil.which("java") and not os.environ.get("JAVA_HOME"):
        message = "Spark needs Java; on Debian: apt-get install openjdk-17-jre-headless"
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
    with spark.local_session(2) as session:
        yield session
    _collect()


def _collect():
    """Connections that libraries leave open are closed here, not in the middle of another test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="module")
def built():
    """Sources that were made before; they can be passed over again."""
    return {}


@pytest.fixture
def make(request, folders, built):
    """Return a function from (engine, log, options) to what `evaluate` takes."""

    def build(engine, log="unit", **options):
        key = engine, log, repr(options)
        if key not in built:
            built[key] = _source(engine, folders[log], options, request)
        return built[key]

    return build


@pytest.fixture
def in_memory(make, built):
    """Return a function from (log, options, what is asked) to what memory gives; all engines are
    held against one evaluation.
    """

    def evaluated(log="unit", options=None, **asked):
        key = "in memory", log, repr(options), repr(asked)
        if key not in built:
            built[key] = cr.evaluate(make("memory", log, **(options or {})), ["new"], **asked)
        return built[key]

    return evaluated


def _source(engine, folder, options, request):
    if engine == "memory":
        return read_log(folder, targets="new", **options)
    if engine == "files":
        return scan_log(folder, targets="new", **options)
    kind, _, shape = engine.partition("-")
    make = {"dask": _dask, "spark": _spark}[kind]
    cluster = request.getfixturevalue({"dask": "dask_client", "spark": "spark_session"}[kind])
    if shape == "files":
        return make.files(scan_log(folder, targets="new", **options), cluster)
    return make.frame(folder, cluster, ReadOptions.from_keywords(targets="new", **options))


class _dask:
    @staticmethod
    def files(files, client):
        return dask.file_source(files, client)

    @staticmethod
    def frame(folder, client, options):
        import dask.dataframe as dd

        frame = dd.read_parquet(str(folder), split_row_groups=1)
        assert frame.npartitions == PARTS
        return dask.frame_source(frame, options, client=client)


class _spark:
    @staticmethod
    def files(files, session):
        return spark.file_source(files, session)

    @staticmethod
    def frame(folder, session, options):
        # A file per partition, in the order of the names, so that the same one is poisoned in every
        # shape.
        schema = session.read.parquet(str(folder / "part-0.parquet")).schema
        parts = [
            session.read.schema(schema).parquet(str(folder / f"part-{part}.parquet"))
            for part in range(PARTS)
        ]
        frame = functools.reduce(lambda left, right: left.union(right), parts)
        assert frame.rdd.getNumPartitions() == PARTS
        return spark.frame_source(frame, options)
