"""CPU of loading and validating a log against pyarrow reading the same columns: `python
benchmarks/readers.py`.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import counterrank as cr
from counterrank.data.fingerprint import fingerprint
from counterrank.data.log import RankingLog
from counterrank.io import from_frame, read_log, scan_log

COLUMNS = ["action", "reward", "propensity", "new", *(f"x_{j}" for j in range(5))]


def write(path: Path, n: int, length: int, rng: np.random.Generator) -> None:
    def matrix(values: np.ndarray) -> pa.Array:
        offsets = pa.array(np.arange(0, values.size + 1, length, dtype=np.int32))
        return pa.ListArray.from_arrays(offsets, pa.array(values.ravel()))

    columns = {
        "action": matrix(rng.integers(0, 20, (n, length))),
        "reward": matrix((rng.random((n, length)) < 0.1).astype(float)),
        "propensity": matrix(rng.uniform(0.05, 1, (n, length))),
        "new": matrix(rng.uniform(0, 1, (n, length))),
    }
    columns |= {f"x_{j}": pa.array(rng.normal(size=n)) for j in range(5)}
    pq.write_table(pa.table(columns), path, row_group_size=131_072)


def stream(path: Path) -> int:
    return sum(batch.n for batch in scan_log(path, targets="new").batches())


def cpu(function: Callable[[], object], repeat: int) -> float:
    """Return the least CPU seconds, all threads counted."""
    times = []
    for _ in range(repeat):
        first = time.process_time()
        function()
        times.append(time.process_time() - first)
    return min(times)


def write_candidates(
    path: Path, n: int, count: int, length: int, rng: np.random.Generator, features: int = 0
) -> None:
    """Write requests with `count` candidates, the scores of two policies and `features` of each
    candidate, shown by the first policy (Plackett-Luce).
    """

    def lists(values: np.ndarray) -> pa.Array:
        offsets = pa.array(np.arange(0, values.size + 1, values.shape[1], dtype=np.int32))
        return pa.ListArray.from_arrays(offsets, pa.array(values.ravel()))

    writer = None
    step = 500 if features else 50_000
    for first in range(0, n, step):
        rows = min(step, n - first)
        items = (rng.integers(0, 20_000, (rows, 1)) + np.arange(count)).astype(np.int32)
        old = rng.normal(size=(rows, count)).astype(np.float32)
        new = (old + 0.3 * rng.normal(size=(rows, count))).astype(np.float32)
        order = np.argsort(-(old + rng.gumbel(size=(rows, count))), axis=1)[:, :length]
        table = pa.table({
            "action": lists(np.take_along_axis(items, order, axis=1)),
            "reward": lists((rng.random((rows, length)) < 0.1).astype(np.float32)),
            "candidates": lists(items), "propensity_scores": lists(old), "new_scores": lists(new),
            **{f"z_{j}": lists(rng.normal(size=(rows, count)).astype(np.float32))
               for j in range(features)},
        })  # fmt: skip
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def weights(log: RankingLog) -> np.ndarray:
    """Return the sums of the weights by position."""
    ratio = log.targets["new"].prefix_log_prob(log.action) - log.propensity.prefix_log_prob(
        log.action
    )
    return np.exp(ratio).sum(axis=0)


def with_candidates(n: int, count: int, features: int, estimators: list[str]) -> None:
    """Print the CPU of a pass over candidates and scores against reading the columns, and the peak
    of memory.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        write_candidates(path, n, count, 5, np.random.default_rng(0), features)
        policies = {"new": "plackett-luce:temperature=0.8"}
        source = scan_log(path, targets="new", logger="plackett-luce", policies=policies)
        weights(source.first)
        step = 500 if features else 50_000

        def read() -> int:
            # Read-ahead would hold the whole file, and the peak below would be its.
            file = pq.ParquetFile(path, pre_buffer=False)
            return sum(batch.num_rows for batch in file.iter_batches(step))

        plain = cpu(read, 1)
        batches = cpu(lambda: sum(batch.n for batch in source.batches()), 1)
        summed = cpu(lambda: source.reduce(weights), 1)
        wide = f" x {features} features" if features else ""
        print(
            f"{n:,} requests x {count} candidates{wide}; reading the columns: {plain:.2f} s of CPU"
        )
        print(f"batches with two policies  {batches:6.2f} s  {batches / plain:5.2f} x")
        print(f"weights of both policies   {summed:6.2f} s  {summed / plain:5.2f} x   {peak()}")
        for name in estimators:
            asked = {"logger": "plackett-luce", "policies": policies, "independent_rows": True}
            spent = cpu(lambda n=name, a=asked: cr.evaluate(path, ["new"], estimators=[n], **a), 1)
            print(f"evaluate: {name:16s} {spent:6.2f} s  {spent / plain:5.2f} x   {peak()}")


def peak() -> str:
    """Return the largest memory so far."""
    return f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--k", type=int, default=8)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument(
        "--candidates", type=int, help="measure scores of this many candidates a request instead"
    )
    parser.add_argument("--features", type=int, default=0, help="of each candidate")
    parser.add_argument("--evaluate", default="", help="estimators to run on it too, by commas")
    given = parser.parse_args()
    if given.candidates:
        wanted = [name for name in given.evaluate.split(",") if name]
        with_candidates(given.n, given.candidates, given.features, wanted)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        write(path, given.n, given.k, np.random.default_rng(0))
        table = pq.read_table(path, columns=COLUMNS)
        log = read_log(path, targets="new")
        fingerprint(log)
        plain = cpu(lambda: pq.read_table(path, columns=COLUMNS), given.repeat)
        rows = {
            "pyarrow reads the columns": plain,
            "read_log": cpu(lambda: read_log(path, targets="new"), given.repeat),
            "read_log, no options": cpu(lambda: read_log(path), given.repeat),
            "scan_log, every batch": cpu(lambda: stream(path), given.repeat),
            "from_frame (no reading)": cpu(lambda: from_frame(table, targets="new"), given.repeat),
            "fingerprint (no reading)": cpu(lambda: fingerprint(log), given.repeat),
        }
    print(
        f"{given.n:,} rankings, K={given.k}, CPU seconds (best of {given.repeat}), ratio to pyarrow"
    )
    for name, seconds in rows.items():
        print(f"{name:30s} {seconds:8.3f} {seconds / plain:6.2f}x")


if __name__ == "__main__":
    main()
