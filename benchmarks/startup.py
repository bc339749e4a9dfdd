"""Start-up: the import, --help and a first evaluation with compiled kernels on disk, against `import numpy`."""

import sys
from pathlib import Path

from benchmarks import process_cpu, show

FIRST = """
import numpy as np, counterrank as cr
a = np.zeros((100, 4), dtype=int); p = np.full((100, 4), .5); r = np.random.default_rng(0).random((100, 4))
log = cr.RankingLog(action=a, reward=r, propensity=p)
cr.evaluate(log, {"new": p}, estimators=["ips", "iips", "rips"])
"""


def table() -> None:
    python = [sys.executable, "-c"]
    command = str(Path(sys.executable).with_name("counterrank"))
    process_cpu([*python, FIRST], repeats=1)
    base = process_cpu([*python, "import numpy"])
    rows = [
        ("`import numpy`", [*python, "import numpy"], ""),
        ("`import counterrank`", [*python, "import counterrank"], "3"),
        ("`counterrank --help`", [command, "--help"], "5"),
        ("first `evaluate`, kernels compiled before", [*python, FIRST], ""),
        ("Python alone", [*python, "pass"], ""),
    ]
    found = [(name, process_cpu(line) / base, most) for name, line, most in rows]
    show("Start-up", ["", "x `import numpy`", "at most"], [(name, f"{ratio:.2f}", most) for name, ratio, most in found])


if __name__ == "__main__":
    table()
