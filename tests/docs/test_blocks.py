"""Every block of a page that a reader would run is run: Python in one namespace, our own commands."""

import importlib.util
import shlex
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("doc_blocks", Path(__file__).with_name("conftest.py"))
tools = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tools)

#: Pages whose blocks have tests of their own, because they need a setting.
ELSEWHERE = {
    "howto/nightly-job.md",
    "howto/metrics.md",
    "howto/extend.md",
    "evidence/reproduction.md",
}
PAGES = sorted(
    str(path.relative_to(ROOT / "docs"))
    for path in (ROOT / "docs").rglob("*.md")
    if tools.blocks(f"docs/{path.relative_to(ROOT / 'docs')}", "(?:python|bash)")
)
#: What a block may take for granted, page by page.
GIVEN = {"howto/ab-tests.md", "howto/learn.md", "explanation/auto.md", "explanation/verdict.md",
         "explanation/behavior.md", "explanation/audit.md"}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if page not in ELSEWHERE | GIVEN])
def test_every_block_runs(page, tmp_path, monkeypatch, capfd):
    from counterrank.cli.main import run

    monkeypatch.chdir(tmp_path)
    # Pages show what a command prints into a file, however wide the terminal of the tests is.
    monkeypatch.delenv("COLUMNS", raising=False)
    name = f"docs/{page}"
    found = [(line, "python", code) for line, code in tools.blocks(name, "python")]
    found += [(line, "bash", code) for line, code in tools.blocks(name, "bash")]
    # A page of the tutorials shows what its last command printed.
    if page.startswith("tutorials/"):
        found += [(line, "text", code) for line, code in tools.blocks(name, "text")]
    names: dict[str, object] = {}
    for line, language, code in sorted(found):
        if language == "python":
            tools.run_python(name, code, line, names)
            continue
        if language == "text":
            shown = capfd.readouterr()
            assert " ".join(code.split()) in " ".join((shown.out + shown.err).split()), (
                f"{name}:{line}"
            )
            continue
        for command in code.strip().splitlines():
            words = shlex.split(command)
            assert words[0] in ("counterrank", "mkdir"), f"{name}:{line}: {command}"
            if words[0] == "mkdir":
                Path(words[-1]).mkdir(parents=True, exist_ok=True)
                continue
            monkeypatch.setattr(sys, "argv", words)
            with pytest.raises(SystemExit) as stop:
                run()
            assert not stop.value.code, f"{name}:{line}: {command}\n{capfd.readouterr().err}"


def test_the_first_evaluation_is_reliable(tmp_path, monkeypatch):
    """The tutorial promises a reliable result, and an interval that contains the truth."""
    import json

    import pyarrow.parquet as pq

    from counterrank.cli.main import run

    monkeypatch.chdir(tmp_path)
    commands = [
        line
        for _, code in tools.blocks("docs/tutorials/first-evaluation.md", "bash")
        for line in code.strip().splitlines()
        if "simulate" in line or "--html" in line
    ]
    for command in commands:
        monkeypatch.setattr(sys, "argv", shlex.split(command))
        with pytest.raises(SystemExit) as stop:
            run()
        assert not stop.value.code
    result = json.loads(Path("result.json").read_text())
    (estimate,) = (one for one in result["estimates"] if one["estimator"] == "auto")
    truth = float(pq.read_schema("log.parquet").metadata[b"counterrank.true_value"])
    assert result["verdict"]["level"] == "reliable"
    assert estimate["low"] < truth < estimate["high"]
