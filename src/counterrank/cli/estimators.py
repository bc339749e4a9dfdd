"""counterrank estimators: names for --estimators."""

import click

from counterrank.cli.console import results_console
from counterrank.errors import CounterrankError


@click.command("estimators")
def command() -> None:
    """List the names that --estimators takes, and what each does.

    Any number can stand in order-2, dr-order-2, clip-order-2 and so on. Names with dr-, switch-, dm
    and cascade-dr use a reward model and need whole distributions in the log (propensity_dist,
    NAME_dist).
    """
    from rich.markup import escape
    from rich.table import Table

    from counterrank.estimators import estimator_names

    table = Table("name", "what it does", box=None, pad_edge=False)
    # The recommended one first, then plain names before forms of them.
    for name in sorted(estimator_names(), key=lambda name: (name != "auto", "-" in name)):
        table.add_row(name, escape(_sentence(name)))
    results_console().print(table)


def _sentence(name: str) -> str:
    from counterrank.estimators import get_estimator
    from counterrank.report import describe

    known = describe(name)
    if known is not None:
        return known[0]
    try:
        doc = (type(get_estimator(name)).__doc__ or "").strip().splitlines()
    except CounterrankError as problem:  # a broken plug-in is listed with what is wrong
        doc = [str(problem)]
    return doc[0] if doc else ""
