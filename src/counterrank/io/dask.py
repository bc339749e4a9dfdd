"""Dask: passes over a Dask frame, or over files by the workers of a `distributed` cluster."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from math import ceil
from typing import Any

import pyarrow as pa

from counterrank.common.errors import EngineError, LogError, require
from counterrank.data.source import default_threads
from counterrank.io.cluster import (
    ClusterSource,
    TaskOutcome,
    Work,
    added,
    files_on_cluster,
    frame_on_cluster,
    one_line,
    packed,
    unpacked,
)
from counterrank.io.file_source import FileSource
from counterrank.io.options import ReadOptions
from counterrank.io.readers import as_table
from counterrank.io.where import Where

#: No more results than this come home one by one; neighbours are added on the workers.
RESULTS = 256
_PICKLER = "cloudpickle"


def frame_source(frame: Any, options: ReadOptions, *, client: Any = None) -> ClusterSource:
    """Return the log in a Dask frame; `client` does the work, or the one in force, or else Dask's threads here."""
    require("dask.dataframe", extra="dask")
    chosen, where = frame, options.where
    if where is not None:
        # No row, but the types of the columns: what is no column, or no value of one, is told at once.
        where.expression(as_table(frame._meta).schema)
        chosen = frame.map_partitions(_fitting, where, meta=frame._meta)
    head = _head(chosen, client)
    source = frame_on_cluster(partial(_run_on_frame, chosen, client), head, options)
    spec = source.spec
    for field in (*spec.fields.values(), *spec.targets.values(), *spec.dists.values()):
        # Dask turns columns of arrays into text, which cuts numbers to eight digits.
        if field.form == "text" and "," not in (head[field.name][0].as_py() or ","):
            raise LogError(
                f"Dask has turned the arrays in column '{field.name}' into text, which cuts their "
                "digits; call dask.config.set({'dataframe.convert-string': False}) before making "
                "the frame, or read Parquet"
            )
    return source


def file_source(files: FileSource, client: Any = None) -> ClusterSource:
    """Return a log in files, read by the workers of `client`; without one, by those of a cluster on this machine."""
    stack = ExitStack()
    used = stack.enter_context(local_client()) if client is None else client
    return files_on_cluster(files, partial(_run_on_files, used, len(files.parts)), stack)


@contextmanager
def local_client(workers: int | None = None) -> Iterator[Any]:
    """Start one process a core, reachable from this machine only, and stop them at the end."""
    distributed = require("distributed", extra="dask")
    # Loopback and any free port: the log is offered to nobody else, and two runs do not collide.
    cluster = distributed.LocalCluster(
        n_workers=workers or default_threads(),
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        worker_dashboard_address="127.0.0.1:0",
        silence_logs=50,
    )
    with cluster, distributed.Client(cluster, set_as_default=False) as client:
        yield client


def _head(frame: Any, stated: Any) -> pa.Table:
    """Return the first rows of a frame."""
    client = stated or _client()
    # Not the first partition alone: a filter may have emptied it.
    for index in range(frame.npartitions):
        try:
            start = frame.get_partition(index).head(1000, npartitions=1, compute=False)
            rows = start.compute() if client is None else client.compute(start).result()
        except Exception as problem:
            raise EngineError(f"partition {index}: {one_line(problem)}") from problem
        if len(rows) or index == frame.npartitions - 1:
            return as_table(rows)
    raise LogError("the log is empty: the frame has no partitions")


def _run_on_frame(
    frame: Any, stated: Any, work: Work, columns: Sequence[str]
) -> Generator[TaskOutcome]:
    import dask

    client = stated or _client()
    payload = packed(work, _PICKLER)
    parts = frame[list(columns)].to_delayed()
    # Not pure: by equal arguments Dask would answer a second pass from the first.
    tasks = [
        dask.delayed(_task, pure=False)(payload, index, delayed)
        for index, delayed in enumerate(parts)
    ]
    return _here(tasks) if client is None else _gathered(client, client.compute(tasks))


def _run_on_files(
    client: Any, count: int, work: Work, columns: Sequence[str]
) -> Generator[TaskOutcome]:
    payloads = [packed(work, _PICKLER)] * count
    return _gathered(client, client.map(_task, payloads, range(count), pure=False))


def _client() -> Any:
    """The client in force, if `distributed` is in use at all."""
    import sys

    # Who has a client has imported it already; to import it only to ask is slow.
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return distributed.get_client()
    except ValueError:
        return None


def _here(tasks: Sequence[Any]) -> Generator[TaskOutcome]:
    """Compute without a cluster; after a failure go one by one, to name the partition that failed."""
    import dask

    try:
        yield from dask.compute(*tasks)
    except Exception:
        for index, task in enumerate(tasks):
            try:
                task.compute()
            except Exception as problem:
                raise EngineError(f"partition {index}: {one_line(problem)}") from problem
        raise


def _gathered(client: Any, leaves: list[Any]) -> Generator[TaskOutcome]:
    """Yield outcomes in order. The tree of additions depends on the number of partitions alone."""
    width = ceil(len(leaves) / RESULTS)
    groups = [leaves[first : first + width] for first in range(0, len(leaves), width)]
    futures = [g[0] if len(g) == 1 else client.submit(added, g, pure=False) for g in groups]
    done = 0
    try:
        for group, future in zip(groups, futures, strict=True):
            try:
                outcome = future.result()
            except Exception as problem:
                bad = next((i for i, leaf in enumerate(group) if leaf.status == "error"), 0)
                raise EngineError(f"partition {done + bad}: {one_line(problem)}") from problem
            yield outcome
            done += len(group)
    finally:
        # After a failure, or when nobody asks on: what is still queued would only keep workers busy.
        if done < len(leaves):
            client.cancel([*leaves[done:], *futures])


def _task(payload: bytes, index: int, frame: Any = ()) -> TaskOutcome:
    """Do a piece of work with a partition of a frame; a part of files is read by the work itself."""
    outcome: TaskOutcome = unpacked(payload, _PICKLER)(
        index, (as_table(piece) for piece in [frame] if len(piece))
    )
    return outcome


def _fitting(partition: Any, where: Where) -> Any:
    """Return the rows of a partition that fit."""
    return partition.iloc[where.rows(as_table(partition[list(where.columns)]))]
