"""CPU of loading and validating a log against pyarrow reading the same columns: `python benchmarks/readers.py`."""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from counterrank.readers import from_frame, read_log
from counterrank.readers.fingerprint import fingerprint
from counterrank.sources import scan_log

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--k", type=int, default=8)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
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
    print(f"{given.n:,} rankings, K={given.k}, CPU seconds (best of {given.repeat}), ratio to pyarrow")
    for name, seconds in rows.items():
        print(f"{name:30s} {seconds:8.3f} {seconds / plain:6.2f}x")


if __name__ == "__main__":
    main()
