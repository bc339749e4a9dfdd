"""What keeps the suite short: the order of the files, those that take longest first, so that no core
waits for one at the end; and a Java that does not compile for days to come.
"""

import os
from pathlib import Path

import pytest

# Spark's jobs here last seconds. Without the second compiler and the threads of the parallel
# collector its process takes 12 instead of 22 seconds of CPU for two evaluations.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

#: Files of half a minute and more on a busy machine, the longest first, but no two that start
#: clusters side by side. `make test` hands whole files to two processes; pytest-xdist's own order is
#: by the number of tests, which leaves long files of few tests to the end.
LONGEST = (
    "io/engines/test_engines.py", "estimators/auto/test_auto.py", "estimators/auto/test_family.py",
    "cli/test_outputs.py", "docs/test_notebooks.py", "research/paper/test_oracle.py",
    "io/engines/test_opening.py", "models/test_mixture_fit.py", "cli/test_commands.py",
    "docs/test_pages.py", "estimators/auto/test_two_phase.py", "evaluation/test_memory.py",
    "models/test_one_class_fit.py", "browser/test_site_search.py",
)  # fmt: skip


def place(nodeid: str) -> int:
    """Return where the file of a test stands in the order; all others come after these."""
    file = nodeid.partition("::")[0].removeprefix("tests/")
    return LONGEST.index(file) if file in LONGEST else len(LONGEST)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="leave out the longest files")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if not config.getoption("--quick"):
        return None
    file = collection_path.as_posix().rpartition("/tests/")[2]
    return True if file in LONGEST or file in ("browser", "docs", "ordinary", "release") else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: place(item.nodeid))
