import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


class Result:
    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.code = done.returncode
        self.out = done.stdout
        self.err = done.stderr


@pytest.fixture
def counterrank(tmp_path: Path):
    """Run the command as a user would: a process of its own in an empty folder."""

    def run(*arguments: object, timeout: float = 120) -> Result:
        command = [sys.executable, "-m", "counterrank", *map(str, arguments)]
        environment = {**os.environ, "COLUMNS": "110", "OMP_NUM_THREADS": "1"}
        return Result(
            subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=timeout)
        )

    return run


@pytest.fixture(scope="session")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small simulated log on disk."""
    from counterrank import simulate

    path = tmp_path_factory.mktemp("logs") / "log.parquet"
    simulate.write_log(simulate.published(K=4), 3000, path, seed=1)
    return path


def load(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))
