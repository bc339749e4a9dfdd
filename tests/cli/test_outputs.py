"""Full disks, locked folders, files that change underfoot, interrupts, crowds: a clear error,
nothing half-written.
"""

import errno
import json
import os
import resource
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import counterrank as cr
from counterrank.common import atomic
from counterrank.common.errors import CounterrankError, OutputError

FAST = ["--target", "new", "--estimators", "iips,rips"]


def leftovers(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.slow
def test_a_full_disk_in_a_real_process(command, log_file, tmp_path):
    # The report is larger than the largest file this process may write.
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    out = tmp_path / "report.html"
    # Kernels compiled now are kept in files of their own, which the limit would hit before the
    # report.
    assert command("evaluate", log_file, *FAST, "--html", out, timeout=600).returncode == 0
    out.write_text("the old report")
    done = command("evaluate", log_file, *FAST, "--html", out, before=limit)
    assert done.returncode == 2, done.stderr
    assert (
        "cannot write" in done.stderr
        and "report.html" in done.stderr
        and "Traceback" not in done.stderr
    )
    assert out.read_text() == "the old report" and leftovers(tmp_path) == ["report.html"]


@pytest.mark.parametrize("where", ["write", "rename"])
def test_a_disk_that_fills_up_leaves_the_old_file(tmp_path, monkeypatch, where):
    out = tmp_path / "result.json"
    atomic.write_text(out, "old")

    def full(*arguments, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(*((Path, "write_bytes") if where == "write" else (os, "replace")), full)
    with pytest.raises(OutputError, match=r"cannot write .*result.json: No space left"):
        atomic.write_text(out, "new" * 1000)
    monkeypatch.undo()
    assert out.read_text() == "old" and leftovers(tmp_path) == ["result.json"]


def test_policies_and_trees_on_a_full_disk(tmp_path, monkeypatch):
    def full(*arguments, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OutputError, match="No space left"):
        cr.save_policy(cr.Uniform(3), tmp_path / "p.npz")
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize(
    "where", ["/proc/counterrank/report.json", "{file}/report.json", "{folder}"]
)
def test_an_output_that_cannot_be_made(log_file, tmp_path, where):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    out = where.format(file=tmp_path / "file", folder=tmp_path / "folder")
    result = cr.evaluate(log_file, ["new"], estimators=["iips"])
    with pytest.raises(OutputError, match="cannot write"):
        result.to_json(out)
    assert leftovers(tmp_path) == ["file", "folder"]


def test_devices_and_links_are_written_to_and_not_replaced(tmp_path):
    atomic.write_text("/dev/null", "nothing")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with pytest.raises(OutputError, match="cannot write /dev/full: No space left"):
        atomic.write_text("/dev/full", "x")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    atomic.write_text(tmp_path / "link", "x")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_text() == "x"


@pytest.mark.slow
def test_results_can_go_to_standard_output(command, log_file):
    done = command("evaluate", log_file, *FAST, "--quiet", "--json", "/dev/stdout")
    assert done.returncode == 0 and json.loads(done.stdout)["schema"] == "counterrank/evaluation/2"


@pytest.mark.parametrize("keep", [0.0, 0.3, 0.9])
def test_a_file_that_is_cut_while_it_is_read(log_file, tmp_path, keep):
    path = tmp_path / "log.parquet"
    pq.write_table(pq.read_table(log_file), path, row_group_size=100)
    source = cr.scan_log(path, targets="new")
    batches = source.batches(rows=100)
    next(batches)
    os.truncate(path, int(keep * path.stat().st_size))
    with pytest.raises(CounterrankError, match=r"log\.parquet"):
        list(source.batches(rows=100))
    try:
        list(batches)
    except CounterrankError as problem:
        assert "log.parquet" in str(problem)


def test_a_file_that_vanishes_between_two_passes(log_file, tmp_path):
    path = tmp_path / "log.parquet"
    path.write_bytes(log_file.read_bytes())
    source = cr.scan_log(path, targets="new")
    list(source.batches(rows=100))
    path.unlink()
    with pytest.raises(CounterrankError, match=r"log\.parquet"):
        list(source.batches(rows=100))


# A shell that starts tests in the background has them ignore interrupts, which children inherit.
SLOW = """
import signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from counterrank.data.source import MemorySource
def slow(self, partial, label=""):
    print("summing", flush=True)
    time.sleep(600)
MemorySource.reduce = slow
from counterrank.cli.main import run
run()
"""


@pytest.mark.slow
def test_an_interrupt_leaves_nothing_and_says_130(log_file, tmp_path):
    outputs = ["--json", tmp_path / "r.json", "--html", tmp_path / "r.html"]
    arguments = [sys.executable, "-c", SLOW, "evaluate", log_file, *FAST, *outputs]
    started = subprocess.Popen(
        [*map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert started.stdout.readline().strip() == "summing"
    started.send_signal(signal.SIGINT)
    _, errors = started.communicate(timeout=300)
    assert (
        started.returncode == 130
        and "interrupted; nothing was written" in errors
        and "Traceback" not in errors
    )
    assert leftovers(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("stop, code, said", [
    (signal.SIGTERM, 143, "terminated; nothing was written"),
])  # fmt: skip
def test_a_termination_leaves_nothing(log_file, tmp_path, stop, code, said):
    arguments = [
        sys.executable,
        "-c",
        SLOW,
        "evaluate",
        log_file,
        *FAST,
        "--json",
        tmp_path / "r.json",
    ]
    started = subprocess.Popen(
        [*map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert started.stdout.readline().strip() == "summing"
    started.send_signal(stop)
    _, errors = started.communicate(timeout=300)
    assert started.returncode == code and said in errors and "Traceback" not in errors
    assert leftovers(tmp_path) == []


def told(capsys, monkeypatch, *arguments):
    """Exit code and what the command line says on stderr."""
    from counterrank.cli import main

    monkeypatch.setattr(sys, "argv", ["counterrank", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        main.run()
    return stop.value.code, capsys.readouterr().err


@pytest.fixture
def never_read(monkeypatch):
    """Outputs are refused before anything is read."""
    monkeypatch.setattr(
        "counterrank.io.file_source.open_source", lambda *_, **__: pytest.fail("it was read")
    )
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


WRITING = [
    ("evaluate", "--json"),
    ("evaluate", "--html"),
    ("evaluate", "--markdown"),
    ("check", "--json"),
    ("validate", "--json"),
]


@pytest.mark.parametrize("command, option", [*WRITING, ("validate", "--html")])
@pytest.mark.parametrize("through", ["path", "link", "hard link", "link to the log"])
def test_the_log_is_never_an_output(
    log_file, tmp_path, capsys, monkeypatch, never_read, command, option, through
):
    log, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    log.write_bytes(log_file.read_bytes())
    before = log.read_bytes()
    given = log
    if through == "link":
        out.symlink_to(log)
    elif through == "hard link":
        os.link(log, out)
    elif through == "link to the log":
        given = tmp_path / "link.parquet"
        given.symlink_to(log)
        out = log
    else:
        out = tmp_path / "." / "in.parquet"
    asked = ("--arm", "variant") if command == "validate" else ("--target", "new")
    code, said = told(capsys, monkeypatch, command, given, *asked, option, out)
    assert code == 2 and "would be lost" in said and option in said
    assert log.read_bytes() == before


def test_outputs_that_would_be_read_next_time_or_clash(
    log_file, tmp_path, capsys, monkeypatch, never_read
):
    folder = tmp_path / "log"
    folder.mkdir()
    (folder / "a.parquet").write_bytes(log_file.read_bytes())
    run = ("evaluate", folder, "--target", "new")
    code, said = told(capsys, monkeypatch, *run, "--json", folder / "r.json")
    assert code == 2 and "would be read as part of it" in said
    pattern = ("evaluate", str(folder / "*.parquet"), "--target", "new")
    code, said = told(capsys, monkeypatch, *pattern, "--html", folder / "a.parquet")
    assert code == 2 and "one of the inputs" in said
    code, said = told(capsys, monkeypatch, *pattern, "--html", folder / "b.parquet")
    assert code == 2 and "next time" in said
    code, said = told(
        capsys, monkeypatch, *run, "--json", tmp_path / "x", "--html", tmp_path / "." / "x"
    )
    assert code == 2 and "--json and --html would both write" in said
    (tmp_path / "old.json").write_text("old")
    (tmp_path / "old.json").chmod(0o444)
    (tmp_path / "locked").mkdir(mode=0o555)
    for out in ("old.json", "locked/r.json", "locked/deeper/r.json", "log", "old.json/r.json"):
        code, said = told(capsys, monkeypatch, *run, "--json", tmp_path / out)
        assert code == 2 and ("cannot write" in said or "is a directory" in said), said
    assert (tmp_path / "old.json").read_text() == "old"
    config = tmp_path / "job.toml"
    config.write_text("[log]\n")
    code, said = told(capsys, monkeypatch, *run, "--config", config, "--json", config)
    assert code == 2 and "would be lost" in said and config.read_text() == "[log]\n"


def test_whatever_a_command_reads_is_no_output(log_file, tmp_path, capsys, monkeypatch, never_read):
    for name in ("items.csv", "curve.txt", "policy.json"):
        (tmp_path / name).write_text("old")
    given = {
        "items.csv": ("--items", tmp_path / "items.csv"),
        "curve.txt": ("--position-curve", tmp_path / "curve.txt"),
        "policy.json": ("--policy", f"new={tmp_path / 'policy.json'}"),
    }
    for name, option in given.items():
        run = ("evaluate", log_file, "--target", "new", *option, "--json", tmp_path / name)
        code, said = told(capsys, monkeypatch, *run)
        assert code == 2 and "would be lost" in said and (tmp_path / name).read_text() == "old"
    job = tmp_path / "job.toml"
    text = f'log = "{log_file}"\ntarget = "new"\nhtml = "job.toml"\n'
    job.write_text(text)
    code, said = told(capsys, monkeypatch, "run", job)
    assert code == 2 and "would be lost" in said and job.read_text() == text


def test_simulate_refuses_what_it_cannot_write_before_it_draws(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(
        "counterrank.research.simulate.write_log", lambda *given, **options: pytest.fail("drew")
    )
    (tmp_path / "old.parquet").write_text("old")
    (tmp_path / "old.parquet").chmod(0o444)
    code, said = told(capsys, monkeypatch, "simulate", "--out", tmp_path / "old.parquet")
    assert code == 2 and "read-only" in said and (tmp_path / "old.parquet").read_text() == "old"


def test_a_fault_of_ours_has_a_code_of_its_own(log_file, capsys, monkeypatch):
    def broken(*arguments, **options):
        raise ZeroDivisionError("division by \x1b[31mzero")

    monkeypatch.setattr("counterrank.io.file_source.open_source", broken)
    code, said = told(capsys, monkeypatch, "evaluate", log_file, "--target", "new")
    assert (
        code == 70
        and "this should not have happened (ZeroDivisionError: division by \ufffd[31mzero" in said
    )
    assert "Traceback" not in said and "\x1b" not in said
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def test_names_cannot_command_a_terminal(log_file, tmp_path, capsys, monkeypatch):
    evil = "new\x1b[2J\x07\x9b31m"
    table = pq.read_table(log_file)
    path = tmp_path / "log.parquet"
    pq.write_table(
        table.rename_columns([evil if name == "new" else name for name in table.column_names]), path
    )
    from counterrank.cli import main

    monkeypatch.setenv("FORCE_COLOR", "1")
    for target in (evil, evil + "?"):
        arguments = [
            "counterrank",
            "evaluate",
            str(path),
            "--target",
            target,
            "--estimators",
            "iips",
            "--config",
            "audit=false",
        ]
        monkeypatch.setattr(sys, "argv", arguments)
        with pytest.raises(SystemExit):
            main.run()
        shown = capsys.readouterr()
        for text in (shown.out, shown.err):
            assert "\x07" not in text and "\x9b" not in text and "\x1b[2J" not in text
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def test_an_interrupt_while_writing_leaves_the_old_file(tmp_path):
    out = tmp_path / "r.json"
    out.write_text("old")
    with pytest.raises(KeyboardInterrupt), atomic.replacing(out) as temporary:
        temporary.write_text("half of the n")
        raise KeyboardInterrupt
    assert out.read_text() == "old" and leftovers(tmp_path) == ["r.json"]


def test_many_writers_and_a_reader_see_whole_files(tmp_path):
    out = tmp_path / "r.json"
    texts = [json.dumps({"writer": w, "numbers": [w] * 20_000}) for w in range(4)]
    atomic.write_text(out, texts[0])
    stop = time.monotonic() + 1.0

    def keep_writing(text):
        while time.monotonic() < stop:
            atomic.write_text(out, text)

    threads = [threading.Thread(target=keep_writing, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    seen = set()
    while any(thread.is_alive() for thread in threads):
        text = out.read_text()
        assert text in texts
        seen.add(texts.index(text))
    assert len(seen) > 1 and leftovers(tmp_path) == ["r.json"]


@pytest.mark.slow
def test_two_evaluations_into_one_folder(log_file, tmp_path):
    arguments = [
        "evaluate",
        log_file,
        *FAST,
        "--json",
        tmp_path / "r.json",
        "--html",
        tmp_path / "r.html",
    ]
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "counterrank", *map(str, arguments)], stdout=subprocess.DEVNULL
        )
        for _ in range(2)
    ]
    assert [process.wait(timeout=120) for process in started] == [0, 0]
    assert leftovers(tmp_path) == ["r.html", "r.json"]
    json.loads((tmp_path / "r.json").read_text())
    assert (tmp_path / "r.html").read_text().rstrip().endswith("</html>")
