"""counterrank estimators: names for --estimators."""

import click

from counterrank.cli.console import results_console
from counterrank.errors import CounterrankError

#: Forms of an estimator that share its class.
_FORMS = {"sn": "Self-normalised: ", "cv-": "With E[w] = 1 as a control: "}


@click.command("estimators")
def command() -> None:
    """List the estimators by name, with the first line of what each does."""
    from rich.markup import escape
    from rich.table import Table

    from counterrank.estimators import registry

    table = Table("name", "what it does", box=None)
    for name in registry.names():
        try:
            doc = (type(registry.get(name)).__doc__ or "").strip().splitlines()
        except CounterrankError as problem:  # a broken plug-in is listed with what is wrong
            doc = [str(problem)]
        form = next((text for start, text in _FORMS.items() if name.startswith(start)), "")
        table.add_row(name, escape(form + (doc[0] if doc else "")))
    results_console().print(table)
