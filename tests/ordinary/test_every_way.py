"""Logs that people write, through everything the product does: a result or one message.

Each way is tried on half as many logs as its longest axis has names, with a fixed seed; `make fuzz`
tries all of them, then others. A fault is repeated with `run_case(way, Recipe(...), folder)`.
"""

import importlib.util
import sys
import warnings
from pathlib import Path

import pytest
from benchmarks.ordinary_logs import AXES


def _load():
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "ordinary.py"
    spec = importlib.util.spec_from_file_location("benchmark_ordinary", path)
    module = sys.modules["benchmark_ordinary"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ordinary = _load()
SEED = 27


def recipes(way):
    """Every other of the recipes of a way, which of them in turns."""
    first = list(ordinary.WAYS).index(way) % 2
    return ordinary.cases(SEED, way, short=True)[first::2]


@pytest.mark.slow
@pytest.mark.parametrize("way", ordinary.WAYS)
def test_a_result_or_one_message(way, tmp_path):
    answered = 0
    for number, recipe in enumerate(recipes(way)):
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            answered += ordinary.run_case(way, recipe, folder) == "answered"
        except Exception as problem:
            raise AssertionError(f"{way!r}, {recipe}: {problem}") from problem
    # A way that refuses everything has tried nothing.
    assert answered >= 2


def test_every_kind_of_column_takes_part():
    tried = [recipe for way in ordinary.WAYS for recipe in recipes(way)]
    long = {"size": {"50,000"}}
    for axis, names in AXES.items():
        assert {getattr(one, axis) for one in tried} == set(names) - long.get(axis, set())


def _warns(case):
    warnings.warn("divide by zero", RuntimeWarning, stacklevel=1)


@pytest.mark.parametrize(
    "use", [lambda case: 1 // 0, _warns, lambda case: "the value is nan", lambda case: "+inf %"]
)
def test_faults_are_seen(use, tmp_path, monkeypatch):
    monkeypatch.setitem(ordinary.WAYS, "broken", ordinary.Way(use))
    with pytest.raises((ZeroDivisionError, RuntimeWarning, AssertionError)):
        ordinary.run_case("broken", ordinary.Recipe(size="9"), tmp_path)


def test_a_fault_of_a_command_is_seen(monkeypatch):
    def broken(*_, **__):
        raise KeyError("x")

    monkeypatch.setattr("counterrank.cli.calls.showing_progress", broken)
    with pytest.raises(AssertionError, match="exit 70"):
        ordinary.called("evaluate", "log.parquet", "--target=new")
