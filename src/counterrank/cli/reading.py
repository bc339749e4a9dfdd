"""The options that say how to read a log, shared by the commands that read one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from counterrank.errors import ConfigError

Function = TypeVar("Function", bound=Callable[..., Any])

_OPTIONS = [
    click.option("--columns", metavar="ROLE=NAME,...", help="Map columns, e.g. action=items,reward=clicks."),
    click.option("--config", type=click.Path(dir_okay=False), metavar="FILE", help="A TOML file with these options."),
    click.option("--context", metavar="NAME,...", help="Context columns (default: names starting with x_)."),
    click.option(
        "--propensity-kind",
        type=click.Choice(["factored", "prefix", "position", "joint"]),
        help="What the propensities are of (default: factored).",
    ),
    click.option("--unit", metavar="NAME", help="Column of users or sessions whose rows belong together."),
    click.option("--format", "format_", metavar="NAME", help="vw-ccb, vw-slates, open-bandit, kuairand, seznam ..."),
]


def reading_options(function: Function) -> Function:
    """Add the reading options to a command."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def reading(options: dict[str, Any]) -> dict[str, Any]:
    """Return the reader's keyword arguments from a command's options, taking them out of `options`."""
    config = options.pop("config", None)
    found: dict[str, Any] = dict(_from_file(config)) if config else {}
    columns, context = options.pop("columns", None), options.pop("context", None)
    given = {
        "columns": _mapping(columns) if columns else None,
        "context": tuple(part.strip() for part in context.split(",")) if context else None,
        "propensity_kind": options.pop("propensity_kind", None),
        "unit": options.pop("unit", None),
        "format": options.pop("format_", None),
    }
    return {**found, **{name: value for name, value in given.items() if value is not None}}


def _mapping(text: str) -> dict[str, str]:
    pairs = [part.split("=", 1) for part in text.split(",") if part.strip()]
    if any(len(pair) != 2 or not all(side.strip() for side in pair) for pair in pairs):
        raise ConfigError(f"--columns '{text}' is not understood; write action=items,reward=clicks")
    return {role.strip(): name.strip() for role, name in pairs}


def _from_file(path: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as problem:
        raise ConfigError(f"cannot read {path}: {problem.strerror}") from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise ConfigError(f"{path} is not valid TOML: {problem}") from problem
