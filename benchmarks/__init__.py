"""Costs as ratios, measured side by side in one run: `python -m benchmarks` or `make bench`."""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any


def cpu_seconds(run: Callable[[], object], repeats: int = 5) -> float:
    """Return processor seconds of the best repeat, all threads counted, compiled and warm."""
    run()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def wall_seconds(run: Callable[[], object], repeats: int = 3) -> float:
    """Return elapsed seconds of the best repeat, compiled and warm."""
    run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def child(
    *arguments: str, python: str = sys.executable, one_thread: bool = False
) -> dict[str, Any]:
    """Run Python with these arguments in a process of its own; return the JSON it prints last."""
    settings = dict(os.environ)
    if one_thread:
        settings |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    done = subprocess.run(
        [python, *arguments], capture_output=True, text=True, env=settings, check=False
    )
    if done.returncode:
        raise RuntimeError(
            done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no message"
        )
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def process_cpu(command: Sequence[str], repeats: int = 3) -> float:
    """Return processor seconds of a command, best of several."""
    times = []
    for _ in range(repeats):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


def peak_mb() -> float:
    """Return the most memory this process has held, in MB."""
    with suppress(OSError):
        # `ru_maxrss` begins with what the parent held when it started this process.
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e6
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale / 1e6


def show(title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table that is also Markdown."""
    print(f"\n### {title}\n")
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)
