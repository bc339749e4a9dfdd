"""Packages that are there as if installed: a folder with code and metadata on the path, no network,
no pip.
"""

import importlib
import sys
import tomllib
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parent / "example_package"


def metadata(folder, name, version, groups):
    """Write what an installer would write about a package."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = []
    for group, points in groups.items():
        lines += [f"[{group}]", *(f"{key} = {value}" for key, value in points.items()), ""]
    (info / "entry_points.txt").write_text("\n".join(lines))


@pytest.fixture
def visible(monkeypatch):
    """Return a function that puts a folder on the path, and takes its modules away afterwards."""
    before = set(sys.modules)

    def show(*folders):
        for folder in folders:
            monkeypatch.syspath_prepend(str(folder))
        importlib.invalidate_caches()

    yield show
    for name in set(sys.modules) - before:
        if name.startswith(("counterrank_example", "broken_plugin")):
            del sys.modules[name]


@pytest.fixture
def example(tmp_path, visible):
    """The example package, installed."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    metadata(tmp_path, project["name"], project["version"], project["entry-points"])
    visible(tmp_path, EXAMPLE / "src")
    return tmp_path


@pytest.fixture
def broken(tmp_path, visible):
    """Plug-ins that fail in all the usual ways."""
    folder = tmp_path / "broken"
    groups = {
        "counterrank.estimators": {
            "no-module": "broken_plugin_absent:Thing",
            "no-name": "broken_plugin:Absent",
            "bad-make": "broken_plugin:bad_make",
            "bad-kind": "broken_plugin:bad_kind",
            "bad-import": "broken_plugin_raises:Thing",
            "ips": "broken_plugin:bad_kind",
        },
        "counterrank.policies": {
            "Odd": "broken_plugin:bad_kind",
            "Uniform": "broken_plugin:bad_kind",
        },
        "counterrank.formats": {"odd-format": "broken_plugin_raises:Thing"},
        "counterrank.commands": {"odd-command": "broken_plugin_raises:Thing"},
    }
    metadata(folder, "broken-plugin", "9.9", groups)
    (folder / "broken_plugin.py").write_text(
        "def bad_make():\n    raise RuntimeError('no licence')\n\n\ndef bad_kind():\n    return 3\n"
    )
    (folder / "broken_plugin_raises.py").write_text("1 / 0\n")
    visible(folder)
    return folder
