"""The public names, and what importing them costs."""

import ast
import importlib
import inspect
import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from types import FunctionType
from typing import get_type_hints

import counterrank as cr
from counterrank.common.options import FurtherOptions, LogOptions, Request
from counterrank.io import ReadOptions

HEAVY = (
    "numba",
    "pyarrow",
    "scipy",
    "sklearn",
    "plotly",
    "pandas",
    "polars",
    "dask",
    "pyspark",
    "matplotlib",
    "rich",
    "scipy.stats",
    "pyarrow.dataset",
)


def _loaded_after(code: str) -> set[str]:
    script = (
        f"{code}\nimport sys; print(','.join(name for name in {HEAVY!r} if name in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=300
    )
    return set(filter(None, done.stdout.strip().split(",")))


def test_every_public_name_loads_and_is_documented():
    for name in cr.__all__:
        found = getattr(cr, name)
        assert name == "__version__" or found.__doc__, f"{name} has no docstring"
    known = {"RankingLog", "evaluate", "IPS", "AIPS", "BehaviorTree", "PlackettLuce", "Propensity"}
    assert known | {"Estimate", "Evaluation"} <= set(cr.__all__)


def test_importing_the_package_is_light():
    assert _loaded_after("import counterrank") == set()


def test_an_evaluation_with_segments_loads_no_statistics_of_scipy_and_no_datasets_of_arrow():
    code = """
import numpy as np, counterrank as cr, counterrank.io
half = np.full((40, 2), 0.5)
action = np.arange(80).reshape(40, 2) % 2
log = cr.RankingLog(action=action, reward=action * 1.0, propensity=half, targets={"new": half},
                    columns={"side": np.where(action[:, 0] > 0, "l", "r")})
cr.evaluate(log, ["new"], estimators=["ips", "rips"], segments=["side"]).to_dict()
"""
    assert not _loaded_after(code) & {"scipy.stats", "pyarrow.dataset"}


def test_help_is_light():
    code = (
        "import sys; sys.argv = ['counterrank', '--help']\nfrom counterrank.cli.main import "
        "run\ntry: run()\nexcept SystemExit: pass"
    )
    script = (
        f"import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()):\n{_indented(code)}"
    )
    assert _loaded_after(script) == set()


def _indented(code: str) -> str:
    return "\n".join(f"    {line}" for line in code.splitlines())


def test_an_unknown_name_is_an_attribute_error():
    try:
        cr.nothing  # noqa: B018
    except AttributeError as problem:
        assert "nothing" in str(problem)
    else:
        raise AssertionError("an unknown name was found")


def test_the_source_of_every_public_class_is_found():
    """What a notebook's `??` shows: lost where a class says that it stands in `counterrank`."""
    for name in cr.__all__:
        found = getattr(cr, name)
        if inspect.isclass(found):
            assert inspect.getsource(found).lstrip().startswith(("class ", "@")), name


USER = """
import numpy as np
import counterrank as cr

log = cr.RankingLog(action=[[0, 1]], reward=np.ones((1, 2)), propensity=[[0.5, 0.5]])
result: cr.Evaluation = cr.evaluate(log, {"new": np.ones((1, 2))}, estimators=["ips"], unit="user")
estimate: cr.Estimate = result.estimate("new")
low: float = estimate.lift.low
interval: tuple[float, float] = cr.IPS().estimate(log, "new").interval(0.9)
read: cr.RankingLog = cr.read_log("log.parquet", targets="new")
level: str = result.verdict.level
policy: cr.Policy = cr.PlackettLuce([[2.0, 1.0]])
cr.evaluate({"action": [[0]], "reward": [[1]], "propensity": [[1.0]]}, "new")
cr.learn("log.parquet", logger="plackett-luce").certificate
"""
#: A line that must be refused, and the part of it that mypy names.
WRONG = {
    "cr.evalute(log)": 'no attribute "evalute"; maybe "evaluate"',
    "cr.evaluate(log, levle=0.9)": 'argument "levle"',
    "cr.evaluate(log, level='high')": 'Argument "level"',
    "cr.evaluate(3)": 'Argument 1 to "evaluate"',
    "result.estimates[0].vale": 'no attribute "vale"',
    "result.estimate('new').lift.lo": 'no attribute "lo"',
    "result.verdict.levle": 'no attribute "levle"',
    "cr.RankingLog(action=[[0]], rewards=[[1]], propensity=[[1]])": 'argument "rewards"',
    "cr.read_log('log.parquet', target='new')": 'argument "target"',
    "cr.PlackettLuce([[2.0, 1.0]], temprature=2.0)": 'argument "temprature"',
}


def test_a_users_type_checker_knows_names_parameters_and_results(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(USER + "".join(f"{line}\n" for line in WRONG))
    settings = tmp_path / "mypy.ini"
    settings.write_text("[mypy]\nstrict = True\ncache_dir = " + str(tmp_path / "cache"))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", settings, "--no-error-summary", script],
        capture_output=True, text=True, timeout=300,
        env={**os.environ, "MYPYPATH": str(Path(cr.__file__).parents[1])},
    )  # fmt: skip
    right = len(USER.splitlines())
    said: dict[int, str] = {}
    for line in done.stdout.splitlines():
        where, _, what = line.partition(": error: ")
        if what:
            said[int(where.rpartition(":")[2])] = what
    assert not [what for line, what in said.items() if line <= right], done.stdout
    for number, (line, named) in enumerate(WRONG.items(), right + 1):
        assert named in said.get(number, ""), f"{line}: {said.get(number)}"


def test_the_names_for_type_checkers_are_those_at_run_time():
    tree = ast.parse(Path(cr.__file__).with_suffix(".pyi").read_text())
    imported = {
        name.name: node.module
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    assert sorted([*imported, "__version__"]) == sorted(cr.__all__)
    for name, module in imported.items():
        assert getattr(cr, name) is getattr(importlib.import_module(module), name), name
    assert sorted(imported) == dir(cr)


def test_a_type_checker_knows_every_option_of_a_request_and_of_a_reader():
    parameters = set(inspect.signature(cr.evaluate).parameters) - {"log", "further"}
    further = {field.name for field in fields(Request)} - parameters
    assert further == {*get_type_hints(FurtherOptions)}
    # `evaluate` tells the reader which target is the baseline, for its messages.
    reading = {field.name for field in fields(ReadOptions)} - {"baseline"}
    assert reading <= {*get_type_hints(LogOptions)}


def public_functions() -> dict[str, FunctionType]:
    found = {name: getattr(cr, name) for name in cr.__all__}
    return {name: one for name, one in found.items() if inspect.isfunction(one)}


def test_public_functions_are_described_in_sections():
    for name, function in public_functions().items():
        doc = inspect.getdoc(function) or ""
        for section in ("Parameters", "Returns", "Raises", "Examples"):
            assert f"\n{section}\n{'-' * len(section)}\n" in doc, f"{name} has no {section}"
        for parameter in inspect.signature(function).parameters:
            assert re.search(rf"^\**{parameter}$", doc, flags=re.M), f"{name}: {parameter}"
        assert doc.splitlines()[0].endswith("."), name


def test_signatures_show_names_as_people_write_them():
    shown = {name: str(inspect.signature(one)) for name, one in public_functions().items()}
    shown["RankingLog"] = str(inspect.signature(cr.RankingLog))
    shown["PlackettLuce"] = str(inspect.signature(cr.PlackettLuce))
    for name, signature in shown.items():
        assert "counterrank." not in signature and "numpy." not in signature, f"{name}{signature}"
