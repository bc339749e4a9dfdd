"""What keeps the suite short and the same each time.

The files that take longest come first, so that no core waits for one at the end; Java does not
compile for days to come; and Hypothesis draws the same examples in each run.
"""

import os

import pytest
from hypothesis import settings

# A suite that fails by chance fails somebody else's change. `make fuzz` draws anew.
settings.register_profile("repeatable", derandomize=True)
settings.register_profile("anew", derandomize=False, print_blob=True)
settings.load_profile("repeatable")

# Spark's jobs here last seconds. Without the second compiler and the threads of the parallel
# collector its process takes 12 instead of 22 seconds of CPU for two evaluations.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

#: Files of half a minute and more on a busy machine, the longest first, but no two that start
#: clusters side by side. `make test` hands whole files to two processes; pytest-xdist's own order is
#: by the number of tests, which leaves long files of few tests to the end.
LONGEST = (
    "io/engines/test_engines.py", "estimators/auto/test_auto.py", "estimators/auto/test_family.py",
    "cli/test_outputs.py", "docs/test_notebooks.py", "research/paper/test_oracle.py",
    "io/engines/test_opening.py", "cli/test_commands.py",
    "docs/test_pages.py", "estimators/auto/test_two_phase.py", "evaluation/test_memory.py",
    "browser/test_site_search.py",
)  # fmt: skip

#: What `--quick` leaves out, test by test: `make check` is for between two edits.
LEFT_OUT = ("slow", "browser", "cluster")


def place(nodeid: str) -> int:
    """Return where the file of a test stands in the order; all others come after these."""
    file = nodeid.partition("::")[0].removeprefix("tests/")
    return LONGEST.index(file) if file in LONGEST else len(LONGEST)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="leave out what takes seconds")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: place(item.nodeid))
    if config.getoption("--quick"):
        slow = {item for item in items if any(map(item.get_closest_marker, LEFT_OUT))}
        config.hook.pytest_deselected(items=[*slow])
        items[:] = [item for item in items if item not in slow]
