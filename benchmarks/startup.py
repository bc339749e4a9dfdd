"""Start-up: the import, --help, an evaluation with compiled kernels on disk; and a machine's very
first evaluation.
"""

import os
import sys
import tempfile
from pathlib import Path

from benchmarks import process_cpu, show

SMALL = """
import numpy as np, counterrank as cr
a = np.zeros((100, 4), dtype=int); p = np.full((100, 4), .5); r = np.random.default_rng(0).random((100, 4))
log = cr.RankingLog(action=a, reward=r, propensity=p)
cr.evaluate(log, {"new": p}, estimators=["ips", "iips", "rips"])
"""
SETS = {"default": "", "ips,iips,rips,snips": "ips,iips,rips,snips", "aips": "aips"}


def table() -> None:
    python = [sys.executable, "-c"]
    command = str(Path(sys.executable).with_name("counterrank"))
    process_cpu([*python, SMALL], repeats=1)
    base = process_cpu([*python, "import numpy"])
    rows = [
        ("`import numpy`", [*python, "import numpy"], ""),
        ("`import counterrank`", [*python, "import counterrank"], "3"),
        ("`counterrank --help`", [command, "--help"], "5"),
        ("small `evaluate`, kernels compiled before", [*python, SMALL], ""),
        ("Python alone", [*python, "pass"], ""),
    ]
    found = [(name, process_cpu(line) / base, most) for name, line, most in rows]
    show(
        "Start-up",
        ["", "x `import numpy`", "at most"],
        [(name, f"{ratio:.2f}", most) for name, ratio, most in found],
    )


def first_run(sets: tuple[str, ...] = tuple(SETS)) -> None:
    """Print the processor seconds of a first evaluation, nothing compiled before, and of the
    second.
    """
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        log = str(Path(folder) / "log.parquet")
        process_cpu(
            [sys.executable, "-m", "counterrank", "simulate", "--n", "8000", "--out", log],
            repeats=1,
        )
        for label in sets:
            os.environ["NUMBA_CACHE_DIR"] = str(Path(folder) / "cache" / label)
            line = [
                sys.executable,
                "-m",
                "counterrank",
                "evaluate",
                log,
                "--target",
                "new",
                "--quiet",
            ]
            line += ["--estimators", SETS[label]] if SETS[label] else []
            first, second = (process_cpu(line, repeats=1) for _ in range(2))
            rows.append((label, f"{first:.1f}", f"{second:.1f}", f"{first / second:.1f}", "5"))
    os.environ.pop("NUMBA_CACHE_DIR")
    show(
        "First evaluation on a machine",
        ["estimators", "first (CPU s)", "second", "ratio", "at most"],
        rows,
    )


if __name__ == "__main__":
    if sys.argv[1:] != ["first"]:
        table()
    first_run()
