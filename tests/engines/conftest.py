"""One log in many shapes: in memory, in files, as Dask and Spark frames, on clusters that are really started."""

import gc
import os
import shutil
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from counterrank import simulate
from counterrank.readers import read_log, scan_log

PARTS, ROWS = 6, 500
ENGINES = ["memory", "files", "dask-files", "dask-frame", "spark-files", "spark-frame"]


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
            piece = piece.set_column(piece.column_names.index("reward"), "reward", pa.array(rewards))
        pq.write_table(piece, folder / f"part-{part}.parquet")
    return folder


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    home = tmp_path_factory.mktemp("logs")
    return {
        "unit": write_folder(home / "unit", unit=True),
        "plain": write_folder(home / "plain", unit=False),
        "poisoned": write_folder(home / "poisoned", unit=True, poison=3),
    }


@pytest.fixture(scope="session")
def dask_client():
    from counterrank.engines.dask import local_client

    with local_client(2) as client:
        yield client
    _collect()


@pytest.fixture(scope="session")
def spark_session():
    from counterrank.engines.spark import local_session

    if not shutil.which("java") and not os.environ.get("JAVA_HOME"):
        message = "Spark needs Java; on Debian: apt-get install openjdk-17-jre-headless"
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
    with local_session(2) as session:
        yield session
    _collect()


def _collect():
    """Connections that libraries leave open are closed here, not in the middle of another test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture
def make(request, folders):
    """Return a function from (engine, log, options) to what `evaluate` takes."""

    def build(engine, log="unit", **options):
        folder = folders[log]
        if engine == "memory":
            return read_log(folder, targets="new", **options)
        if engine == "files":
            return scan_log(folder, targets="new", **options)
        kind, _, shape = engine.partition("-")
        if kind == "dask":
            client = request.getfixturevalue("dask_client")
            return _dask(client, folder, shape, options, request)
        return _spark(request.getfixturevalue("spark_session"), folder, shape, options)

    return build


def _dask(client, folder, shape, options, request):
    import dask.dataframe as dd

    from counterrank.engines import dask as engine
    from counterrank.readers import ReadOptions

    if shape == "files":
        return engine.file_source(scan_log(folder, targets="new", **options), client)
    current = client.as_current()
    current.__enter__()
    request.addfinalizer(lambda: current.__exit__(None, None, None))
    frame = dd.read_parquet(str(folder), split_row_groups=1)
    assert frame.npartitions == PARTS
    where = options.pop("where", None)
    return engine.frame_source(frame, ReadOptions.of(targets="new", **options), where=where)


def _spark(session, folder, shape, options):
    from counterrank.engines import spark as engine
    from counterrank.readers import ReadOptions

    if shape == "files":
        return engine.file_source(scan_log(folder, targets="new", **options), session)
    # A file a partition, in the order of the names, so that the same file is poisoned in every shape.
    parts = [session.read.parquet(str(folder / f"part-{part}.parquet")) for part in range(PARTS)]
    frame = parts[0]
    for part in parts[1:]:
        frame = frame.union(part)
    assert frame.rdd.getNumPartitions() == PARTS
    where = options.pop("where", None)
    return engine.frame_source(frame, ReadOptions.of(targets="new", **options), where=where)
