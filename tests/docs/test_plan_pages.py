"""What the pages about exploration tell people to type is typed here."""

import importlib.util
import re
import shlex
from pathlib import Path

import click
import pytest

from counterrank.cli.main import main
from counterrank.exploration.settings import SETTINGS

spec = importlib.util.spec_from_file_location("doc_blocks", Path(__file__).with_name("conftest.py"))
tools = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tools)


@pytest.fixture(autouse=True)
def quick():
    """Fewer pages and steps than people get: that the pages can be followed is looked at here."""
    few = {"requests": 96, "draws": 3, "rankers": 2, "points": 9, "steps": 40}
    before = {name: getattr(SETTINGS, name) for name in few}
    for name, value in few.items():
        object.__setattr__(SETTINGS, name, value)
    yield
    for name, value in before.items():
        object.__setattr__(SETTINGS, name, value)


def typed(line):
    try:
        code = main.main(shlex.split(line)[1:], standalone_mode=False)
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    return code or 0


def in_order(page):
    """Return the blocks of a page that are run, as they stand: (line, language, code)."""
    found = [
        (line, language, code)
        for language in ("python", "bash", "toml")
        for line, code in tools.blocks(page, language)
    ]
    return sorted(found)


def follow(page, names):
    for line, language, code in in_order(page):
        if language == "python":
            tools.run_python(page, code, line, names)
        elif language == "toml":
            Path("runs").mkdir()
            Path("job.toml").write_text(code)
            assert typed("counterrank run job.toml") == 0
        else:
            for command in code.strip().splitlines():
                assert typed(command) == 0, command


def test_what_to_randomise_and_how_to_serve_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    follow("docs/howto/what-to-randomise.md", names)
    assert {"explore.json", "plan.json", "plan.html", "runs"} <= {
        p.name for p in tmp_path.iterdir()
    }
    assert re.fullmatch(
        r"plan-\d{4}-\d{2}-\d{2}\.json", sorted((tmp_path / "runs").iterdir())[1].name
    )
    assert names["plan"].choice.detectable
    served = {}
    follow("docs/howto/serve-exploration.md", served)
    assert len(set(served["page"].tolist())) == 3 and 0 < served["chance"] <= 1


def test_four_weeks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    follow("docs/howto/four-weeks.md", {})
    made = {path.name for path in tmp_path.iterdir()}
    assert {"explore.json", "plan.html", "week2.json", "week4.html"} <= made
