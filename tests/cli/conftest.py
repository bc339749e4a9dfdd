import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass
class Result:
    code: int
    out: str
    err: str


@pytest.fixture
def counterrank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    """Run the command in this process, in an empty folder, as the console script does."""
    from counterrank.cli.main import run

    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> Result:
        capfd.readouterr()
        monkeypatch.setattr(sys, "argv", ["counterrank", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            run()
        out, err = capfd.readouterr()
        return Result(int(stop.value.code or 0), out, err)

    return call


@pytest.fixture
def counterrank_process(tmp_path: Path):
    """Run the command as a process of its own."""

    def call(*arguments: object, timeout: float = 200) -> Result:
        command = [sys.executable, "-m", "counterrank", *map(str, arguments)]
        environment = {**os.environ, "COLUMNS": "110"}
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    return call


@pytest.fixture(scope="session")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small simulated log on disk."""
    from counterrank.research import simulate

    path = tmp_path_factory.mktemp("logs") / "log.parquet"
    simulate.write_log(simulate.published(K=4), 3000, path, seed=1)
    return path


@pytest.fixture(scope="session")
def log_file(tmp_path_factory):
    """600 simulated rankings with a target called new."""
    from counterrank.research import simulate

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
