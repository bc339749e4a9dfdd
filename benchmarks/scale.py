"""Streaming from disk: processor time against reading alone, peak memory; weak scaling of each
engine.

`python -m benchmarks.scale two-workers [N]` prints elapsed times by one worker and by two, `store [N]`
processor times from a file and from an object store.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks import child, peak_mb, show, wall_seconds

FOUR = ["ips", "iips", "rips", "snips"]
FIXED = [*FOUR, "order-2"]
_TASK = ("-m", "benchmarks.scale")
SETS = (FIXED, ["aips"], ["auto"])


def stream(n: int) -> None:
    """Print writing, reading and evaluating n rankings and a tenth of them, each in a process of
    its own.
    """
    header = [
        "rankings",
        "K = 10",
        "x reading",
        "CPU s per million",
        "wall s",
        "peak MB beyond imports",
    ]
    show("Streaming from Parquet", header, _streamed(n))


def _streamed(n: int) -> Iterator[tuple[str, ...]]:
    with tempfile.TemporaryDirectory() as folder:
        for rankings in (n // 10, n):
            path = str(Path(folder) / f"{rankings}.parquet")
            yield _row(
                rankings, "simulate (writing)", child(*_TASK, "write", path, str(rankings)), None
            )
            read = child(*_TASK, "read", path, one_thread=True)
            yield _row(rankings, "pyarrow reads the columns", read, read["cpu"])
            for names in SETS:
                done = child(*_TASK, "evaluate", path, *names, one_thread=True)
                yield _row(rankings, f"evaluate: {', '.join(names)}", done, read["cpu"])


def _row(n: int, what: str, done: dict[str, Any], base: float | None) -> tuple[str, ...]:
    ratio = f"{done['cpu'] / base:.2f}" if base else ""
    return (
        f"{n:,}",
        what,
        ratio,
        f"{done['cpu'] / n * 1e6:.2f}",
        f"{done['wall']:.1f}",
        f"{done['peak']:.0f}",
    )


def environment() -> Any:
    from counterrank.research import simulate

    return simulate.random(0, K=10, actions=3)


def measured(work: Callable[[], object]) -> dict[str, float]:
    """Return processor and elapsed seconds, and the memory that `work` needed on top of what was
    there.
    """
    before, cpu, wall = peak_mb(), time.process_time(), time.perf_counter()
    work()
    return {
        "cpu": time.process_time() - cpu,
        "wall": time.perf_counter() - wall,
        "peak": peak_mb() - before,
    }


def write(path: str, n: str) -> dict[str, float]:
    from counterrank.research import simulate

    env = environment()
    simulate.write_log(env, 100, path, seed=0)
    return measured(lambda: simulate.write_log(env, int(n), path, seed=0))


def read(path: str) -> dict[str, float]:
    """Read what an evaluation reads, a row group at a time, and do nothing with it."""
    import pyarrow.parquet as pq

    from counterrank.io import scan_log

    columns = list(scan_log(path, targets="new").spec.columns)

    def run() -> None:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            for group in range(file.metadata.num_row_groups):
                file.read_row_group(group, columns=columns)

    return measured(run)


def evaluate(path: str, *names: str) -> dict[str, float]:
    import counterrank as cr
    from counterrank.io import scan_log

    # A first evaluation in miniature, so that imports and compiled kernels are there.
    cr.evaluate(environment().draw(300, _rng()).to_log(), ["new"], estimators=list(names))
    return measured(
        lambda: cr.evaluate(scan_log(path, targets="new"), ["new"], estimators=list(names))
    )


def _rng() -> Any:
    import numpy as np

    return np.random.default_rng(0)


def two_workers(n: str = "4_000_000", path: str | None = None) -> dict[str, Any]:
    """Return elapsed seconds of streaming n rankings, K = 8, by one worker and by two, best of three in
    turns, and whether both found the same digits; `path` is a log that an earlier run wrote.
    """
    import counterrank as cr
    from counterrank.io import scan_log
    from counterrank.research import simulate

    env = simulate.random(0, K=8, actions=3)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        log = path or str(Path(folder) / "log.parquet")
        if not Path(log).exists():
            simulate.write_log(env, int(n), log, seed=0)
        for names in (FOUR, [*FOUR, "aips"]):
            cr.evaluate(env.draw(300, _rng()).to_log(), ["new"], estimators=names)
            best, estimates = {1: float("inf"), 2: float("inf")}, {}
            for _ in range(3):
                for workers in best:
                    start = time.perf_counter()
                    source = scan_log(log, targets="new", workers=workers)
                    done = cr.evaluate(source, ["new"], estimators=names)
                    best[workers] = min(best[workers], time.perf_counter() - start)
                    estimates[workers] = [one.to_dict() for one in done.estimates], done.log
            found[", ".join(names)] = {
                "one": round(best[1], 2),
                "two": round(best[2], 2),
                "ratio": round(best[2] / best[1], 3),
                "same digits": str(estimates[1]) == str(estimates[2]),
            }
    return found


def store(n: str = "1_000_000") -> dict[str, Any]:
    """Return processor seconds of this process on n rankings in a file and in an object store, best
    of three in turns.
    """
    import counterrank as cr
    from counterrank.io import scan_log
    from counterrank.research import simulate

    env = simulate.random(0, K=8, actions=3)
    cr.evaluate(env.draw(300, _rng()).to_log(), ["new"], estimators=FOUR)
    with tempfile.TemporaryDirectory() as folder, _object_store() as client:
        path = str(Path(folder) / "log.parquet")
        simulate.write_log(env, int(n), path, seed=0)
        client.create_bucket(Bucket="logs")
        client.upload_file(path, "logs", "log.parquet")
        best = {path: float("inf"), "s3://logs/log.parquet": float("inf")}
        for _ in range(3):
            for log in best:
                start = time.process_time()
                cr.evaluate(scan_log(log, targets="new"), ["new"], estimators=FOUR)
                best[log] = min(best[log], time.process_time() - start)
    local, away = best.values()
    return {"file": local, "store": away, "ratio": round(away / local, 3)}


@contextmanager
def _object_store() -> Iterator[Any]:
    """Start a server of S3's interface in a process of its own; return a client of it."""
    import boto3

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    os.environ |= keys | {"AWS_ENDPOINT_URL": address, "AWS_REGION": "us-east-1"}
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=quiet, stderr=quiet) as server:
        try:
            for _ in range(120):
                with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                time.sleep(0.5)
            yield boto3.client("s3", region_name="us-east-1", endpoint_url=address)
        finally:
            server.terminate()


def weak_scaling(n: int) -> None:
    """Print the elapsed time with one worker and n rankings over that with two workers and 2n."""
    from counterrank.research import simulate

    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "log"
        folder.mkdir()
        for part in range(8):
            simulate.write_log(environment(), n // 4, folder / f"part-{part}.parquet", seed=part)
        half = Path(home) / "half"
        half.mkdir()
        for part in range(4):
            shutil.copy(folder / f"part-{part}.parquet", half)
        rows = []
        for name, engine in ENGINES.items():
            times = []
            for workers, data in ((1, half), (2, folder)):
                with engine(str(data), workers) as run:
                    times.append(wall_seconds(run, repeats=3))
            rows.append((name, f"{times[0]:.2f}", f"{times[1]:.2f}", f"{times[0] / times[1]:.2f}"))
    header = [
        "engine",
        f"1 worker, {n:,} (wall s)",
        f"2 workers, {2 * n:,} (wall s)",
        "efficiency (1 is ideal)",
    ]
    show("Weak scaling, fixed estimators", header, rows)


def _run(source: Any) -> Callable[[], object]:
    import counterrank as cr

    return lambda: cr.evaluate(source, ["new"], estimators=FIXED)


@contextmanager
def _memory(path: str, workers: int) -> Iterator[Callable[[], object]]:
    import counterrank as cr
    from counterrank.data.source import MemorySource

    yield _run(MemorySource(cr.read_log(path, targets="new"), threads=workers))


@contextmanager
def _files(path: str, workers: int) -> Iterator[Callable[[], object]]:
    from counterrank.io import scan_log

    yield _run(scan_log(path, targets="new", workers=workers))


@contextmanager
def _dask(path: str, workers: int) -> Iterator[Callable[[], object]]:
    from counterrank.io import scan_log
    from counterrank.io.dask import file_source, local_client

    with local_client(workers) as client:
        yield _run(file_source(scan_log(path, targets="new"), client))


@contextmanager
def _spark(path: str, workers: int) -> Iterator[Callable[[], object]]:
    from counterrank.io import scan_log
    from counterrank.io.spark import file_source, local_session

    with ExitStack() as stack:
        session = stack.enter_context(local_session(workers))
        yield _run(file_source(scan_log(path, targets="new"), session))


ENGINES = {
    "memory, threads": _memory,
    "files, threads": _files,
    "Dask, files": _dask,
    "Spark, files": _spark,
}

if __name__ == "__main__":
    tasks = {
        "write": write,
        "read": read,
        "evaluate": evaluate,
        "two-workers": two_workers,
        "store": store,
    }
    task = tasks[sys.argv[1]]
    print(json.dumps(task(*sys.argv[2:])))
