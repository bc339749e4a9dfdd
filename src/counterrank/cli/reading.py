"""The options that say how to read a log, shared by the commands that read one."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

Function = TypeVar("Function", bound=Callable[..., Any])

_OPTIONS = [
    click.option(
        "--columns",
        metavar="ROLE=NAME,...",
        help="What columns are called here, e.g. action=items,reward=clicks.",
    ),
    click.option(
        "--config",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        help="A TOML file with the options on columns.",
    ),
    click.option(
        "--context", metavar="NAME,...", help="Context columns (default: names starting with x_)."
    ),
    click.option(
        "--propensity-kind",
        type=click.Choice(["factored", "prefix", "position", "joint"]),
        help="What the numbers are: P(a_k|x) of each item (factored, the default); given the "
        "items above (prefix); "
        "of this item at this position (position); one for the whole ranking (joint).",
    ),
    click.option(
        "--unit", metavar="NAME", help="Column of users or sessions whose rows belong together."
    ),
    click.option(
        "--logger",
        metavar="KIND[:OPTION=VALUE,...]",
        help="How the logger ranked by the scores in `propensity_scores`: plackett-luce, softmax "
        "(temperature), top, epsilon (epsilon), rand-top-n (n) or swap (probability).",
    ),
    click.option(
        "--policy",
        "policies",
        multiple=True,
        metavar="NAME=KIND[:...]",
        help="The same for a target policy with scores in NAME_scores, or a file of a saved "
        "policy; repeatable.",
    ),
    click.option(
        "--items",
        type=click.Path(),
        metavar="FILE",
        help="Features of items: a file with a column `item` (or `item_id`) and one column a feature.",
    ),
    click.option(
        "--missing-reward",
        type=click.Choice(["error", "zero"]),
        help="What a missing reward is: an error (the default), or zero.",
    ),
    click.option(
        "--decimal",
        type=click.Choice([".", ","]),
        help="The decimal sign of numbers in text (default: .).",
    ),
    click.option(
        "--renumber",
        is_flag=True,
        default=None,
        help="Close gaps in positions (slots of ads, filtered items): what stands below moves up.",
    ),
    click.option(
        "--encode-actions/--no-encode-actions",
        default=None,
        help="Number the items anew, as is done for names (default: where ids are huge).",
    ),
    click.option(
        "--format",
        "format_",
        metavar="NAME",
        help="parquet, arrow, csv or jsonl (default: found out), or vw-ccb, vw-slates, "
        "open-bandit, amazon-music, kuairand, seznam.",
    ),
]


def reading_options(function: Function) -> Function:
    """Add the reading options to a command."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def reading(options: dict[str, Any]) -> dict[str, Any]:
    """Return the reader's keyword arguments from a command's options, taking them out of `options`.

    What is said on the command line goes before the configuration file, whose [log] table (or the
    whole file) has the same names.
    """
    config = options.pop("config", None)
    given = {name: options.pop(option, None) for option, name in _ARGUMENTS.items()}
    return {
        **_from_file(config),
        **{name: value for name, value in given.items() if value not in (None, ())},
    }


def inputs(log: str, options: dict[str, Any]) -> list[str | None]:
    """Return the files a command reads, before `reading` takes their options away: no result may be
    written there.
    """
    policies = [text.partition("=")[2] for text in options.get("policies") or ()]
    curve = options.get("position_curve")
    return [log, options.get("config"), options.get("items"), curve, *policies]


def policy_names(given: Any) -> tuple[str, ...]:
    """Return the names of target policies given as NAME=KIND texts or as a table.

    >>> policy_names(("new=top", "old=softmax:temperature=2")), policy_names({"new": {"kind": "top"}})
    (('new', 'old'), ('new',))
    """
    from counterrank.policies import parse_named_policy

    names = (
        given
        if isinstance(given, Mapping)
        else [parse_named_policy(text)[0] for text in given or ()]
    )
    return tuple(names)


#: Command-line option and the reader's argument it stands for.
_ARGUMENTS = {
    "columns": "columns",
    "context": "context",
    "propensity_kind": "propensity_kind",
    "unit": "unit",
    "logger": "logger",
    "policies": "policies",
    "items": "items",
    "missing_reward": "missing_reward",
    "decimal": "decimal",
    "renumber": "renumber",
    "encode_actions": "encode_actions",
    "format_": "format",
}


def _from_file(path: str | None) -> dict[str, Any]:
    if path is None:
        return {}
    from counterrank.readers import log_table

    return log_table(path)
