"""Parts from other packages, found by entry points and loaded when they are asked for.

A package offers an estimator, a policy, a format of log files or a command in its pyproject.toml:

    [project.entry-points."counterrank.estimators"]
    median = "my_package:MedianIPS"

Listing names loads nothing, so a broken plug-in harms nobody who does not use it.
"""

import sys
import warnings
from collections.abc import Collection
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from counterrank.common.errors import CounterrankError, CounterrankWarning

#: Commands of the command line: `click.Command` objects.
COMMANDS = "counterrank.commands"
ESTIMATORS = "counterrank.estimators"
#: Formats of log files: readers, made with `counterrank.io.adapter`.
FORMATS = "counterrank.formats"
POLICIES = "counterrank.policies"
#: Formats of JSON policy files by their schema: classes with `from_dict`, whose objects have
#: `bind(log)`.
POLICY_FILES = "counterrank.policy_files"


def plugins_of(group: str, reserved: Collection[str] = ()) -> dict[str, EntryPoint]:
    """Return the plug-ins of a group by name; a reserved name is left out, with a warning."""
    points: dict[str, EntryPoint] = {}
    for point in _points(group, tuple(sys.path)):
        if point.name in reserved or point.name in points:
            warnings.warn(
                f"{described(point)} is not used: the name '{point.name}' is taken",
                CounterrankWarning,
                stacklevel=3,
            )
            continue
        points[point.name] = point
    return points


@cache
def _points(group: str, path: tuple[str, ...]) -> list[EntryPoint]:
    """Return the entry points of a group in order; each look goes through all installed packages of `path`."""
    return sorted(entry_points(group=group), key=lambda point: (point.name, point.value))


def described(point: EntryPoint) -> str:
    """Name a plug-in and the package it comes from."""
    package = (
        f" of package {point.dist.name} {point.dist.version}" if point.dist is not None else ""
    )
    return f"the plug-in '{point.name}' ({point.value}){package}"


def load(point: EntryPoint, error: type[CounterrankError]) -> Any:
    """Return what a plug-in points at, or raise `error` that names it, whatever its code raises."""
    try:
        return point.load()
    except Exception as problem:
        raise error(
            f"{described(point)} cannot be loaded: {type(problem).__name__}: {problem}; update or "
            "uninstall it"
        ) from problem
