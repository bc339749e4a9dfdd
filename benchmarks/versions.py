"""The wheel in clean environments: every supported Python that is installed, lowest and newest
dependencies.

Run: make versions            (needs a package index)
     python -m benchmarks.versions --python 3.11 --which lowest
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WHICH = ("lowest", "newest")
#: What a user does first, with what every installation has.
EVERY_NAME = (
    "import counterrank as cr; [getattr(cr, name) for name in cr.__all__]; "
    "print(len(cr.__all__), 'names')"
)
STEPS = (
    ("python", "-c", EVERY_NAME),
    ("counterrank", "--version"),
    ("counterrank", "simulate", "--preset", "random", "--n", "400", "--k", "2", "--out", "log.parquet"),
    ("counterrank", "check", "log.parquet", "--target", "new"),
    ("counterrank", "evaluate", "log.parquet", "--target", "new", "--estimators", "iips,ips", "--json", "found.json",
     "--html", "report.html"),
)  # fmt: skip


def project() -> dict[str, list[str]]:
    """Return the core dependencies and the supported versions of Python, as pyproject.toml says
    them.
    """
    found = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    supported = re.findall(r"Python :: (3\.\d+)", " ".join(found["classifiers"]))
    return {"dependencies": found["dependencies"], "supported": supported}


def lowest(requirements: Sequence[str]) -> list[str]:
    """Return each requirement pinned to its minimum.

    >>> lowest(["numpy>=2.1", "click>=8.1"])
    ['numpy==2.1', 'click==8.1']
    """
    return [requirement.replace(">=", "==") for requirement in requirements]


def wheel(folder: Path) -> Path:
    """Build the source distribution, the wheel from it, and return the wheel: both are tried."""
    _run([sys.executable, "-m", "build", "-q", "--no-isolation", "-o", str(folder)], ROOT)
    (made,) = folder.glob("*.whl")
    return made


def smoke(python: str, built: Path, which: str) -> str:
    """Install the wheel into a fresh environment, take the first steps, and return the versions it
    ran with.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _run([python, "-m", "venv", str(folder / "venv")], folder)
        own = folder / "venv" / "bin"
        pins = lowest(project()["dependencies"]) if which == "lowest" else []
        pip = [str(own / "python"), "-m", "pip", "--disable-pip-version-check"]
        _run(
            [*pip, "install", "-q", "--no-compile", "--only-binary=:all:", str(built), *pins],
            folder,
        )
        for program, *arguments in STEPS:
            _run([str(own / program), *arguments], folder)
        frozen = _run([*pip, "freeze", "--all"], folder)
    names = [re.split("[>=]", requirement)[0].lower() for requirement in project()["dependencies"]]
    pairs = dict(line.lower().split("==") for line in frozen.splitlines() if "==" in line)
    return ", ".join(f"{one} {pairs[one]}" for one in names)


def found(version: str) -> str | None:
    """Return where this Python is; None where there is none that answers, as pyenv's shims of
    versions that are not switched on do not.
    """
    path = shutil.which(f"python{version}")
    if path is None or subprocess.run([path, "-V"], capture_output=True).returncode:
        return None
    return path


def _run(command: Sequence[str], folder: Path) -> str:
    # A checkout on the path would be tried in place of the wheel.
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=1800, env=clean
    )
    if done.returncode:
        raise SystemExit(f"failed: {' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    """Try what is installed; say what is not."""
    supported = project()["supported"]
    parser = argparse.ArgumentParser(prog="make versions", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--python", choices=supported, action="append", help="only this version; repeatable"
    )
    parser.add_argument("--which", choices=WHICH, action="append", help="only these dependencies")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        built = wheel(Path(folder))
        for version in options.python or supported:
            python = found(version)
            if python is None:
                print(f"{version}: not installed, not tried", flush=True)
                continue
            for which in options.which or WHICH:
                print(f"{version} {which}: {smoke(python, built, which)}", flush=True)


if __name__ == "__main__":
    main()
