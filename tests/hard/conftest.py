"""A small log on disk, and the command line in a process of its own."""

import subprocess
import sys

import numpy as np
import pytest

from counterrank.research import simulate


@pytest.fixture(scope="session")
def log_file(tmp_path_factory):
    """600 simulated rankings with a target called new."""
    path = tmp_path_factory.mktemp("hard") / "log.parquet"
    simulate.write_log(simulate.random(3, K=3, actions=3, d=2), 600, path, seed=1, batch=200)
    return path


@pytest.fixture(scope="session")
def command():
    """Return a function that runs `counterrank ...`, or a script around it, and returns the
    finished process.
    """

    def run(*arguments, before=None, script=None, timeout=120):
        code = script or "from counterrank.cli.main import run; run()"
        return subprocess.run(
            [sys.executable, "-c", code, *map(str, arguments)],
            capture_output=True, text=True, timeout=timeout, preexec_fn=before,
        )  # fmt: skip

    return run


@pytest.fixture
def rng():
    return np.random.default_rng(0)
