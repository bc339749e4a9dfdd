"""What is shipped is whole: wheel and sdist, types, templates and data, citation, changelog,
workflow.
"""

import importlib
import importlib.util
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

import counterrank

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "counterrank"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Wheel and sdist made by the build backend itself: no isolation, no network."""
    out = tmp_path_factory.mktemp("dist")
    arguments = ["-m", "hatchling", "build", "-d", str(out)]
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return out


def test_the_wheel_holds_everything_that_is_not_code_too(built):
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    there = {
        str(path.relative_to(ROOT / "src"))
        for path in SOURCE.rglob("*")
        if path.is_file()
        and "__pycache__" not in path.parts
        and path.suffix not in (".pyc", ".nbi", ".nbc")
    }
    assert there <= names, f"missing from the wheel: {sorted(there - names)}"
    for needed in (
        "py.typed",
        "report/templates/",
        "research/simulate/data/",
        "research/paper/data/",
        "learning/",
        "report/history.py",
    ):
        assert any(name.startswith(f"counterrank/{needed}") for name in names), (
            f"the wheel lacks {needed}"
        )
    assert not [
        name for name in names if name.startswith(("tests", "docs")) or "__pycache__" in name
    ]
    # Every folder of the source is a package with a door, or holds data: nothing is left behind or
    # half moved.
    folders = {path.parent for path in SOURCE.rglob("*.py") if "__pycache__" not in path.parts}
    assert all((folder / "__init__.py").exists() for folder in folders)


def test_every_entry_point_of_the_wheel_leads_somewhere(built):
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (
            name for name in archive.namelist() if name.endswith("dist-info/entry_points.txt")
        )
        text = archive.read(name).decode()
    # The name of a format has colons and slashes, so a line ends its name at the first " = ".
    found = [line.split(" = ") for line in text.splitlines() if " = " in line]
    commands = {"counterrank", "demo", "reproduce", "simulate", "warmup"}
    formats = {"kuairand", "open-bandit", "counterrank/policy/1"}
    assert {name for name, _ in found} == commands | formats
    assert {line for line in text.splitlines() if line.startswith("[")} == {
        "[console_scripts]",
        "[counterrank.commands]",
        "[counterrank.formats]",
        "[counterrank.policy_files]",
    }
    for _, where in found:
        module, _, attribute = where.partition(":")
        assert callable(getattr(importlib.import_module(module), attribute)), where


def test_the_sdist_holds_tests_and_documentation(built):
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "CITATION.cff",
        "Makefile",
    } <= names
    assert "tests/release/test_release.py" in names and "docs/index.md" in names
    assert {
        "CONTRIBUTING.md",
        "requirements-dev.lock",
        "docs/notebooks/shop_csv.ipynb",
    } <= names
    # What the tests of an unpacked sdist read is in it.
    assert ".github/workflows/test.yml" in names


def test_the_version_is_the_same_everywhere():
    version = counterrank.__version__
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == version
    assert re.search(
        rf"^## \[{re.escape(version)}\]", (ROOT / "CHANGELOG.md").read_text(), flags=re.M
    )


def test_the_citation_file_has_what_the_format_asks_for():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0" and citation["type"] == "software"
    for entry in (citation, *citation["references"]):
        assert entry["title"] and all(
            "name" in a or {"family-names", "given-names"} <= set(a) for a in entry["authors"]
        )
    assert citation["message"] and citation["license"] == "Apache-2.0"


def test_the_workflow_runs_make_test_on_every_supported_version():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())
    job = workflow["jobs"]["complete"]
    runs = [step["run"] for step in job["steps"] if "run" in step]
    assert runs[-1].startswith("make test")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    supported = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    assert job["strategy"]["matrix"]["python"] == supported


def test_workflows_pin_their_actions_and_may_only_read():
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        used = re.findall(r"uses: (\S+)", path.read_text())
        assert used and all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", one) for one in used)
        assert yaml.safe_load(path.read_text())["permissions"] == {"contents": "read"}


def test_the_same_source_gives_the_same_wheel(built, tmp_path):
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        check=True,
        timeout=120,
    )
    (first,), (second,) = built.glob("*.whl"), tmp_path.glob("*.whl")
    assert first.read_bytes() == second.read_bytes()


def test_the_weight_of_a_file_ignores_docstrings_and_layout():
    sys.path.insert(0, str(ROOT))
    try:
        weight = importlib.import_module("benchmarks.weight")
    finally:
        sys.path.remove(str(ROOT))
    plain = weight.counted("class A:\n    def f(self):\n        return 1\n")
    wordy = weight.counted(
        'class A:\n    "What A is."\n    def f(self):\n        "One."\n\n        return (\n1\n)\n'
    )
    assert plain == wordy == {"nodes": 7, "functions": 1, "classes": 1}


def test_console_script_and_every_extra_that_is_named():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"counterrank": "counterrank.cli.main:run"}
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    named = {
        extra for page in pages for extra in re.findall(r"counterrank\[(\w+)\]", page.read_text())
    }
    asked = {
        extra
        for path in SOURCE.rglob("*.py")
        for extra in re.findall(r'extra="(\w+)"', path.read_text())
    }
    assert named and named | asked <= set(project["optional-dependencies"])


def _requirements():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [one for several in project["optional-dependencies"].values() for one in several]
    return [
        one for one in (*project["dependencies"], *extras) if not one.startswith("counterrank[")
    ]


def _numbers(version):
    return [int(part) for part in re.findall(r"\d+", version)]


def test_the_lock_holds_every_dependency_at_or_above_its_minimum_and_nothing_of_this_machine():
    lines = [
        line
        for line in (ROOT / "requirements-dev.lock").read_text().splitlines()
        if not line.startswith("#")
    ]
    assert all(re.fullmatch(r"[\w.-]+==[\w.!+-]+", line) for line in lines), (
        "a path, a host or a loose version"
    )
    locked = {
        name.lower().replace("_", "-"): version
        for name, version in (line.split("==") for line in lines)
    }
    assert "counterrank" not in locked
    for requirement in _requirements():
        name, least = re.match(r"([\w.-]+)(?:\[\w+\])?>=([\d.]+)$", requirement).groups()
        assert _numbers(locked[name.lower()]) >= _numbers(least), requirement


def test_one_package_has_one_minimum():
    least = {}
    for requirement in _requirements():
        name, _, version = requirement.partition(">=")
        assert least.setdefault(name, version) == version, f"{name} has two minimums"


@pytest.fixture(scope="module")
def versions():
    place = importlib.util.spec_from_file_location("versions", ROOT / "benchmarks" / "versions.py")
    found = importlib.util.module_from_spec(place)
    place.loader.exec_module(found)
    return found


def test_a_python_that_does_not_answer_is_not_installed(versions, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert versions.found("3.12") is None
    shim = tmp_path / "python3.12"
    for answer in (127, 0):
        shim.write_text(f"#!/bin/sh\nexit {answer}\n")
        shim.chmod(0o755)
        assert versions.found("3.12") == (None if answer else str(shim))


def test_the_script_of_make_versions_pins_each_core_dependency(versions):
    project = versions.project()
    assert project["supported"] == ["3.11", "3.12", "3.13", "3.14"]
    pins = versions.lowest(project["dependencies"])
    assert len(pins) == len(project["dependencies"]) and all(
        re.fullmatch(r"[\w-]+==[\d.]+", pin) for pin in pins
    )


def test_the_checklist_names_targets_that_exist():
    named = set(re.findall(r"`make (\w+)`", (ROOT / "docs" / "releasing.md").read_text()))
    there = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), flags=re.M))
    assert {"test", "versions", "lock", "dist", "audit"} <= named <= there


def test_the_files_that_are_tested_first_are_there():
    """A file that was moved would quietly go to the end of the suite, where one core waits for it."""
    from tests.conftest import LONGEST, place

    assert [name for name in LONGEST if not (ROOT / "tests" / name).is_file()] == []
    first, last = f"tests/{LONGEST[0]}::test_a", "src/counterrank/data/log.py::counterrank.data.log"
    assert place(first) == 0 and place(last) == len(LONGEST)
    test = (ROOT / "Makefile").read_text().partition("\ntest:")[2].partition("\n\n")[0]
    assert "--no-loadscope-reorder" in test
