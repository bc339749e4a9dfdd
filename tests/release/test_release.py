"""What is shipped is whole: wheel and sdist, types, templates and data, citation, changelog, workflow."""

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
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return out


def test_the_wheel_holds_everything_that_is_not_code_too(built):
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    there = {
        str(path.relative_to(ROOT / "src"))
        for path in SOURCE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in (".pyc", ".nbi", ".nbc")
    }
    assert there <= names, f"missing from the wheel: {sorted(there - names)}"
    for needed in ("py.typed", "report/templates/", "simulate/data/", "paper/data/"):
        assert any(name.startswith(f"counterrank/{needed}") for name in names), f"the wheel lacks {needed}"
    assert not [name for name in names if name.startswith(("tests", "docs")) or "__pycache__" in name]


def test_the_sdist_holds_tests_and_documentation(built):
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "Makefile"} <= names
    assert "tests/release/test_release.py" in names and "docs/index.md" in names


def test_the_version_is_the_same_everywhere():
    version = counterrank.__version__
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == version
    assert re.search(rf"^## \[{re.escape(version)}\]", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)


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
    (job,) = workflow["jobs"].values()
    runs = [step["run"] for step in job["steps"] if "run" in step]
    assert runs[-1].startswith("make test")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    supported = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    assert job["strategy"]["matrix"]["python"] == supported


def test_console_script_and_every_extra_that_is_named():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"counterrank": "counterrank.cli.main:run"}
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    named = {extra for page in pages for extra in re.findall(r"counterrank\[(\w+)\]", page.read_text())}
    asked = {extra for path in SOURCE.rglob("*.py") for extra in re.findall(r'extra="(\w+)"', path.read_text())}
    assert named and named | asked <= set(project["optional-dependencies"])
