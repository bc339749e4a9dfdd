"""A first run says once why it takes long; and what warmup promises holds."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from counterrank.kernels import jit
from counterrank.kernels.jit import FIRST_RUN, FirstRun


def compiling(module: str) -> SimpleNamespace:
    def kernel() -> None: ...

    kernel.__module__ = module
    return SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=kernel)})


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(jit.time, "perf_counter", lambda: now[0])
    return now


def run(
    listener: FirstRun,
    clock: list[float],
    seconds: float,
    module: str = "counterrank.weights.kernels.weights",
) -> None:
    listener.on_start(compiling(module))
    clock[0] += seconds
    listener.on_end(compiling(module))


def test_a_long_first_run_is_explained_once_on_stderr(capfd, clock):
    listener = FirstRun()
    run(listener, clock, 0.4)
    assert capfd.readouterr() == ("", "")  # one small kernel needs no word
    run(listener, clock, 0.7)
    out, err = capfd.readouterr()
    assert out == "" and err.count("\n") == 1 and "compiling" in err and "counterrank warmup" in err
    run(listener, clock, 5.0)
    assert capfd.readouterr() == ("", "")
    assert listener.seconds == pytest.approx(6.1)


def test_time_inside_a_caller_counts_once(clock):
    listener = FirstRun()
    listener.on_start(compiling("counterrank.kernels.standard"))
    run(listener, clock, 2.0)
    listener.on_end(compiling("counterrank.kernels.standard"))
    assert listener.seconds == 2.0


def test_other_peoples_kernels_and_a_closed_stderr_say_nothing(capfd, clock, monkeypatch):
    listener = FirstRun()
    run(listener, clock, 9.0, module="somebody.elses")
    assert capfd.readouterr().err == "" and not listener.told
    monkeypatch.setattr(jit.sys, "stderr", None)
    run(listener, clock, 9.0)
    assert not listener.told


@pytest.mark.slow
def test_nothing_is_left_to_compile_after_warmup(monkeypatch):
    from counterrank.cli.main import main

    for _ in range(2):
        monkeypatch.setattr(FIRST_RUN, "seconds", 0.0)
        done = CliRunner().invoke(main, ["warmup"])
        assert done.exit_code == 0, done.output
    assert "nothing was left to compile" in done.output


@pytest.mark.slow
def test_warmup_holds_for_scores_too(tmp_path):
    from counterrank.cli.main import main

    assert CliRunner().invoke(main, ["warmup"]).exit_code == 0
    log = str(tmp_path / "search.parquet")
    # In a process that has not seen the kernels: what is not on disk is compiled there.
    code = (
        "import sys; from click.testing import CliRunner; from counterrank.cli.main import main; "
        "run = CliRunner().invoke; "
        f"run(main, ['simulate', '--preset', 'search', '--n', '1000', '--out', {log!r}]); "
        "from counterrank.kernels.jit import FIRST_RUN; FIRST_RUN.seconds = 0.0; "
        f"done = run(main, ['evaluate', {log!r}, '--target', 'new']); "
        "sys.exit(done.output if done.exit_code or FIRST_RUN.seconds else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
