"""counterrank estimators: names for --estimators."""

import click

from counterrank.cli.console import results_console


@click.command("estimators")
def command() -> None:
    """List the estimators by name, with the first line of what each does."""
    from rich.table import Table

    from counterrank.estimators import registry

    table = Table("name", "what it does", box=None)
    for name in registry.names():
        doc = (type(registry.get(name)).__doc__ or "").strip().splitlines()
        table.add_row(name, doc[0] if doc else "")
    results_console().print(table)
