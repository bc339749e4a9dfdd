"""The world of the coverage benchmark, and logs drawn from it."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def bench() -> ModuleType:
    """Return the coverage benchmark as a module: its world has a truth known by enumeration."""
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "interval_coverage.py"
    spec = importlib.util.spec_from_file_location("interval_coverage", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["interval_coverage"] = module
    spec.loader.exec_module(module)
    return module
