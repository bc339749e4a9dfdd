"""A first run says once why it takes long; and what warmup promises holds."""

import os
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
    module: str = "counterrank.estimators.weights.ratios",
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


def test_a_later_run_that_loads_kept_code_says_nothing(capfd, clock):
    listener = FirstRun()
    listener.loaded = True
    run(listener, clock, 9.0)
    assert capfd.readouterr() == ("", "")


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


@pytest.mark.slow
def test_the_demo_compiles_nothing_after_warmup(tmp_path):
    """By the kernels' signatures: what an earlier run has left on disk hides nothing."""
    code = f"""
import gc
from click.testing import CliRunner
from numba.core.dispatcher import Dispatcher
from counterrank.cli.main import main
from counterrank.research.demo import run

def known():
    kernels = [one for one in gc.get_objects() if isinstance(one, Dispatcher)]
    return {{(one.py_func.__module__, one.py_func.__name__, sig) for one in kernels for sig in one.overloads}}

done = CliRunner().invoke(main, ["warmup"])
assert done.exit_code == 0, done.output
before = known()
run({str(tmp_path)!r}, n=1500)
assert before and known() == before, known() - before
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def told(monkeypatch):
    """What is known of the cache belongs to one test."""
    monkeypatch.setattr(FIRST_RUN, "uncached", False)
    return FIRST_RUN


def test_without_a_folder_for_compiled_code_kernels_run_all_the_same(told, monkeypatch, capfd):
    def refused(function):
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(jit, "_Cache", refused)
    assert jit.jit(lambda x: x + 1.0)(2.0) == 3.0
    assert told.uncached
    listener = FirstRun()
    listener.uncached = True
    listener.seconds = 5.0
    listener.on_start(compiling("counterrank.kernels.jit"))
    listener.on_end(compiling("counterrank.kernels.jit"))
    assert "NUMBA_CACHE_DIR" in capfd.readouterr().err


def test_a_full_disk_under_the_compiled_code_ends_nothing(told, monkeypatch, capfd):
    def full(self, sig, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(jit.FunctionCache, "save_overload", full)
    kernel = jit.jit(lambda x: x + 2.0)
    assert kernel(2.0) == 4.0 and kernel(2) == 4.0
    said = capfd.readouterr().err
    assert said.count("No space left on device") == 1 and "NUMBA_CACHE_DIR" in said


def test_a_command_runs_where_nothing_can_be_kept():
    """The whole package: every kernel is defined when its module is imported."""
    code = (
        "import numpy as np; import counterrank.estimators.weights.ratios; "
        "from counterrank.kernels.jit import fill; x = np.zeros(2); fill(x, 0.5); print(x.sum())"
    )
    # The one place that is left to numba is no archive.
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NUMBA_CACHE_LOCATOR_CLASSES": "_ZipCacheLocator"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert (found.returncode, found.stdout.strip()) == (0, "1.0"), found.stderr


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
def test_damaged_code_on_disk_is_made_anew(ending, tmp_path):
    """An index that was cut off, or machine code that is none: both were tracebacks."""
    script = tmp_path / "script.py"
    (tmp_path / "kernel.py").write_text(
        "from counterrank.kernels.jit import jit\n\n\n@jit\ndef twice(x):\n    return 2.0 * x\n"
    )
    script.write_text("from kernel import twice\n\nprint(twice(4.0))\n")
    own = os.environ | {
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }

    def run() -> str:
        done = subprocess.run(
            [sys.executable, str(script)], env=own, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert run() == "8.0"
    kept = list((tmp_path / "cache").rglob(f"*.{ending}"))
    assert kept
    for file in kept:
        file.write_bytes(file.read_bytes()[:40] if ending == "nbi" else b"no code")
    assert run() == "8.0" and run() == "8.0"
