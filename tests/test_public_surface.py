"""The public names, and what importing them costs."""

import inspect
import subprocess
import sys

import counterrank as cr

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
