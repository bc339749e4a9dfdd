"""Peak memory does not grow with the number of rankings, measured in processes of their own."""

import json
import subprocess
import sys

import pytest

RUN = """
import json, resource, sys
import counterrank as cr
from counterrank.research import simulate
from counterrank.io import scan_log
import numpy as np
env = simulate.random(0, K=10, actions=3)
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
if sys.argv[1] == "write":
    simulate.write_log(env, 1000, sys.argv[2], seed=0)
    before = peak()
    simulate.write_log(env, int(sys.argv[3]), sys.argv[2], seed=0, batch=16_384)
else:
    names = ["ips", "rips", "order-2"]
    cr.evaluate(env.draw(300, np.random.default_rng(0)).to_log(), ["new"], estimators=names)
    before = peak()
    cr.evaluate(scan_log(sys.argv[2], targets="new"), ["new"], estimators=names)
print(json.dumps(peak() - before))
"""


def run(*arguments):
    done = subprocess.run(
        [sys.executable, "-c", RUN, *arguments], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="counts memory in kB")
def test_memory_of_writing_and_evaluating_does_not_grow(tmp_path):
    small, large = tmp_path / "small.parquet", tmp_path / "large.parquet"
    written = [run("write", str(path), str(n)) for path, n in ((small, 150_000), (large, 600_000))]
    streamed = [run("evaluate", str(path)) for path in (small, large)]
    # The larger log takes 4 times the room on disk and 300 MB in memory; peaks vary by a batch or
    # two.
    assert written[1] < written[0] + 100
    assert streamed[1] < streamed[0] + 150
    assert streamed[1] < 600
