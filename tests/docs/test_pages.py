"""What the pages and the README tell people to type is typed here."""

import importlib.util
import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest

import counterrank as cr
from counterrank.cli.main import main
from counterrank.report.pictures import KINDS

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("doc_blocks", Path(__file__).with_name("conftest.py"))
tools = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tools)


def typed(line, capsys):
    """Run a command line as a user would, and return its exit code and what it printed."""
    words = shlex.split(line)
    assert words[0] == "counterrank", f"only our own commands are run here: {line}"
    try:
        code = main.main(words[1:], standalone_mode=False)
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    return code or 0, capsys.readouterr().out


def test_the_nightly_job(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    ((_, job),) = tools.blocks("docs/howto/nightly-job.md", "toml")
    (tmp_path / "job.toml").write_text(job)
    ((_, code),) = tools.blocks("docs/howto/nightly-job.md", "bash")
    codes = []
    for line in code.strip().splitlines():
        if line == "mkdir -p runs":
            (tmp_path / "runs").mkdir()
        else:
            codes.append(typed(line, capsys)[0])
    # The evidence of a simulated log may be too thin for `require`; everything is written all the
    # same.
    assert codes[:2] == [0, 0] and codes[2] in (0, 1)
    assert {path.suffix for path in (tmp_path / "runs").iterdir()} == {".json", ".html"}


@pytest.mark.slow
def test_several_metrics(tmp_path, monkeypatch, capsys):
    page = "docs/howto/metrics.md"
    monkeypatch.chdir(tmp_path)
    names = {}
    for line, code in tools.blocks(page, "python"):
        tools.run_python(page, code, line, names)
    ((_, config),) = tools.blocks(page, "toml")
    (tmp_path / "shop.toml").write_text(config)
    ((_, commands),) = tools.blocks(page, "bash")
    first, second = commands.strip().splitlines()
    code, printed = typed(first, capsys)
    assert code == 0 and {"shop.html", "shop.json"} <= set(os.listdir(tmp_path))
    ((_, promised),) = tools.blocks(page, "text")
    assert promised.strip() in printed
    assert typed(second, capsys)[0] == 1


def test_charts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for line, code in tools.blocks("docs/howto/charts.md", "python"):
        tools.run_python("docs/howto/charts.md", code, line, names)
    kinds = re.findall(
        r"^\| `([a-z-]+)` \|", (ROOT / "docs/howto/charts.md").read_text(), flags=re.M
    )
    assert sorted(kinds) == sorted(KINDS) and (tmp_path / "values.svg").exists()


def test_the_readme(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    old, new = rng.normal(size=(2, 400, 4))
    names = {
        "A": cr.PlackettLuce(old).sample(2, rng)[:, 0],
        "R": rng.random((400, 2)),
        "X": rng.normal(size=(400, 2)),
        "old_scores": old,
        "new_scores": new,
        "users": np.arange(400),
    }
    for line, code in tools.blocks("README.md", "python"):
        tools.run_python("README.md", code, line, names)
    assert (tmp_path / "report.html").exists()
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


def test_the_readme_lists_commands_that_exist():
    text = (ROOT / "README.md").read_text()
    named = set(re.findall(r"`counterrank ([a-z]+)", text))
    assert named and named <= set(main.list_commands(None))


PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "llms.txt",
    *sorted((ROOT / "docs").rglob("*.md")),
]


def shown(path: Path) -> list[str]:
    """Return the lines of all fenced blocks of a page, continued ones joined, without comments."""
    found = re.findall(r"^```[^\n]*\n(.*?)^```", path.read_text(), flags=re.M | re.S)
    return "".join(found).replace("\\\n", " ").splitlines()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_command_on_a_page_is_one_that_is_understood(path):
    # Whatever stands around it on the line: cd, RUN, a pipe, a redirection, quotes of another tool.
    parts = [
        part
        for line in shown(path)
        for part in re.split(r"&&|\|\||\||2>>|>(?!=)", line.partition("  #")[0])
    ]
    found = [re.match(r'\s*(?:RUN )?counterrank ([a-z].*?)"?,?\s*$', part) for part in parts]
    for line in [match[1] for match in found if match and "[OPTIONS]" not in match[1]]:
        name, *words = shlex.split(line)
        command = main.get_command(None, name)
        assert command is not None, line
        command.make_context(name, words)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_scripts_and_targets_on_a_page_exist(path):
    text = path.read_text()
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.M))
    assert set(re.findall(r"(?:^|`)make ([a-z]+)\b", text, flags=re.M)) <= targets
    for script in re.findall(r"python ((?:benchmarks|docs)/[\w/]+\.py)", text):
        assert (ROOT / script).exists(), script
    for module in re.findall(r"python -m (benchmarks\.[\w.]+\w)", text):
        inside = ROOT / module.replace(".", "/")
        assert inside.with_suffix(".py").exists() or inside.is_dir(), module


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_names_and_files_on_a_page_exist(path):
    text = path.read_text()
    assert not {name for name in re.findall(r"\bcr\.([A-Za-z]\w*)", text) if not hasattr(cr, name)}
    places = [ROOT, ROOT / "src" / "counterrank"]
    for file in re.findall(r"`([a-z_]+(?:/[a-z_]+)+\.(?:py|md|ipynb))`", text):
        assert any((place / file).exists() for place in places), file


def test_the_glossary_has_the_words_of_auto():
    page = (ROOT / "docs/reference/glossary.md").read_text()
    words = re.findall(r"^\| (.*?) \|", page, flags=re.M)[2:]
    assert words == sorted(words, key=lambda word: word.strip("`").lower())
    known = " ".join(words).lower()
    text = (ROOT / "docs/explanation/auto.md").read_text().lower()
    used = (
        "allowance", "start", "cross-fitt", "closed form", "jackknife", "lift", "interval",
        "standard error", "control", "segment", "unit", "rips", "iips", "drawn rankings",
        "prefix", "joint", "factored", "click model", "target", "logger", "flag", "bias", "sampled",
    )  # fmt: skip
    for word in used:
        assert re.search(word.replace(" ", "[ -]"), text), (
            f"docs/explanation/auto.md has no '{word}' any more"
        )
        assert word in known, f"the glossary lacks '{word}'"


def test_pictures_are_those_of_the_script(tmp_path):
    runpy.run_path(str(ROOT / "docs" / "pictures.py"))["draw"](tmp_path)
    for path in tmp_path.iterdir():
        assert path.read_text() == (ROOT / "docs" / "images" / path.name).read_text(), (
            f"run docs/pictures.py: {path.name}"
        )
    assert len(list(tmp_path.iterdir())) == 4


def test_every_public_name_is_on_one_page_of_the_api():
    pages = sorted((ROOT / "docs" / "reference" / "api").glob("*.md"))
    documented = [
        name
        for page in pages
        for name in re.findall(r"^\.\. auto\w+:: (\S+)$", page.read_text(), flags=re.M)
    ]
    assert len(documented) == len(set(documented))
    # Errors stand there as a tree; everything else by the name that people import.
    tree = (
        {"CounterrankError", "CounterrankWarning"}
        if "counterrank.common.errors" in documented
        else set()
    )
    missing = (
        set(cr.__all__)
        - {"__version__"}
        - tree
        - {path.removeprefix("counterrank.") for path in documented}
    )
    assert not missing, f"docs/reference/api lacks {sorted(missing)}"


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda path: path.stem
)
def test_rows_of_tables_have_as_many_cells_as_their_heads(path):
    cells = None
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        found = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else None
        assert cells is None or found is None or found == cells, (
            f"{path.name}:{number}: a bar inside a cell?"
        )
        cells = found


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    # A page that no menu lists is a warning too.
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "docs", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "reference" / "api" / "evaluate.html").read_text()
    # Public names, not where they happen to live.
    assert 'id="counterrank.evaluate"' in page and "counterrank.evaluation.run" not in page
    assert (tmp_path / "llms.txt").read_text() == (ROOT / "llms.txt").read_text()
    # The menu at the side lists the pages of the section: tutorials, how-tos, the API.
    for first, second in (
        ("tutorials/first-evaluation", "own-tables.html"),
        ("howto/metrics", "scale.html"),
        ("reference/api/logs", "estimators.html"),
    ):
        text = (tmp_path / f"{first}.html").read_text()
        side = text.partition('class="bd-docs-nav')[2].partition("</nav>")[0]
        assert f'href="{second}"' in side, first
    assert "the smallest relative lift" in page


def test_the_text_for_assistants_names_every_level_and_decision(capsys):
    from counterrank.evaluation.metric_table import HOLD, SHIP, TEST
    from counterrank.evaluation.result import LEVELS

    code, printed = typed("counterrank skill", capsys)
    assert code == 0 and (ROOT / "llms.txt").read_text().startswith(printed)
    rows = re.findall(r"^\| `([a-z]+)` \|", printed, flags=re.M)
    assert set(rows) == {*LEVELS, SHIP, TEST, HOLD}
    assert "Not significant, so the policies are equal" in printed


def test_the_gallery_has_a_command_and_a_picture_for_every_page():
    page = (ROOT / "docs" / "gallery.md").read_text()
    for section in page.split("\n## ")[1:]:
        (picture,) = re.findall(r"\(images/(\S+\.png)\)", section)
        assert (ROOT / "docs" / "images" / picture).exists() and "counterrank " in section
