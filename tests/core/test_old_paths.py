"""Paths that documentation once showed keep working, and say where to go."""

import importlib
import subprocess
import sys

import pytest

import counterrank as cr
from counterrank import behavior, inference, propensity_models
from counterrank._old_paths import MOVED

OLD = {
    "counterrank.propensities": ("estimate_propensities", propensity_models.estimate_propensities),
    "counterrank.behavior.masks": ("mask", behavior.mask),
    "counterrank.behavior.candidates": ("Candidate", cr.Candidate),
    "counterrank.inference.methods": ("interval", inference.interval),
    "counterrank.inference.normal": ("check_level", inference.check_level),
}


def test_every_old_path_is_tried_here():
    assert set(OLD) == set(MOVED)


@pytest.mark.parametrize("path", OLD)
def test_an_old_path_gives_the_thing_itself_and_warns(path):
    name, there = OLD[path]
    with pytest.warns(DeprecationWarning, match=f"{path} is now {MOVED[path]}"):
        assert getattr(importlib.import_module(path), name) is there
    with pytest.raises(AttributeError):
        _ = importlib.import_module(path).nothing


def test_the_import_statement_works_in_a_fresh_interpreter():
    script = (
        "import warnings; warnings.simplefilter('ignore')\nfrom counterrank.behavior.masks import "
        "draw\nfrom counterrank.behavior.candidates import Candidate\nfrom "
        "counterrank.inference.normal import check_level\nfrom counterrank import "
        "propensities\nimport counterrank.behavior\nassert "
        "callable(counterrank.behavior.candidates)\nassert 'counterrank.learning' not in "
        "__import__('sys').modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=300)
