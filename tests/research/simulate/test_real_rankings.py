"""The study of real rankings: its population, and its measures against small cases worked by hand."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from counterrank.research.simulate import World


@pytest.fixture(scope="module")
def study():
    path = Path(__file__).resolve().parents[3] / "benchmarks" / "real_rankings.py"
    return load(path)


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def test_the_population_is_balanced_and_draws_share_no_world(study):
    develop, fresh = study.population("develop"), study.population("fresh")
    assert len(develop) == 44
    judged = [cell for cell in develop if cell["family"] not in ("far", "top")]
    assert len(judged) == 36 and {cell["n"] for cell in judged} == {2000, 20000}
    pairs = {(cell["world"]["behavior"], cell["world"]["logger"]) for cell in judged}
    assert len(pairs) == len(study.BEHAVIORS) * len(study.LOGGERS)
    assert {cell["world"]["items"] for cell in judged} == {items for items, _ in study.SIZES}
    seeds = [cell["world"]["seed"] for cell in (*develop, *fresh)]
    assert len(set(seeds)) == len(seeds)
    for cell in develop:
        World(**cell["world"])


def test_the_quick_form_has_every_family_and_logger(study):
    cells = study.quick(study.population("develop"))
    assert {cell["family"] for cell in cells} == {
        *study.BEHAVIORS,
        "blind",
        "revenue",
        "far",
        "top",
    }
    assert {cell["n"] for cell in cells} == {2000}
    assert {cell["world"]["logger"] for cell in cells} == set(study.LOGGERS)


def answer(value, low, high, cpu=1.0):
    return {"value": value, "low": low, "high": high, "cpu": cpu}


def test_measures_of_one_world(study):
    nothing = {"value": np.nan, "low": np.nan, "high": np.nan, "cpu": 1.0}
    cell = {
        "family": "dbn",
        "n": 200,
        "truth": {"value": 2.0, "sd": 1.0},
        "logs": [
            {
                "ips": answer(4.0, 0, 9),
                "iips": answer(3.0, 2, 4),
                "rips": nothing,
                "auto": answer(2.5, 1.5, 3.5),
            },
            {
                "ips": answer(0.0, 0, 9),
                "iips": answer(1.0, 0, 1),
                "rips": nothing,
                "auto": answer(1.5, 0.5, 1.5),
            },
            {"ips": answer(2.0, 0, 9), "iips": answer(2.0, 1, 3), "rips": nothing, "auto": nothing},
        ],
    }
    found = study.measures(cell, "auto")
    assert found["ratio"] == pytest.approx(
        0.25 / (2 / 3)
    )  # against IIPS, over the logs that each answered
    assert (found["hits"], found["intervals"], found["silent"]) == (1, 2, 1)
    arm = 2 * 1.959964 / np.sqrt(100)  # half of the rows went to the new arm
    assert found["width"] == pytest.approx(1.5 / arm, rel=1e-6)
    assert found["rmse"] == pytest.approx(0.25)
    assert study.measures(cell, "rips") is None


def test_a_believed_miss_is_counted(study, capsys):
    far = {"family": "far", "n": 200, "world": {}, "truth": {"value": 2.0, "sd": 1.0}}
    says = [("reliable", 0.0, 1.0), ("insufficient", 0.0, 1.0), ("directional", 1.0, 3.0)]
    says.append(("reliable", np.nan, np.nan))  # no interval, nothing missed
    far["logs"] = [
        {"auto": {**answer(0.5, low, high), "verdict": level}} for level, low, high in says
    ]
    study.report([far], ["auto"])
    assert (
        "2 of 4 intervals miss, 3 believed, 1 missed and believed (0.250)"
        in capsys.readouterr().out
    )


def test_an_unexpected_error_is_counted_and_told(study, capsys):
    cell = {"family": "dbn", "n": 200, "world": {}, "truth": {"value": 2.0, "sd": 1.0}}
    cell["logs"] = [{"auto": {"failed": "KeyError('x')", "cpu": 1.0}}]
    study.report([cell], ["auto"])
    assert (
        "auto: 1 logs ended in an unexpected error, the first: KeyError('x')"
        in capsys.readouterr().out
    )
