"""counterrank reproduce: the paper's figures and tables."""

from typing import Any

import click

from counterrank.cli.console import showing_progress
from counterrank.experiments.names import FIGURES


@click.command("reproduce")
@click.argument("figure", type=click.Choice([*FIGURES, "all"]), metavar=f"[{'|'.join([*FIGURES, 'all'])}]")
@click.option(
    "--seeds", default=100, show_default=True, type=click.IntRange(min=1), help="Simulated data sets a point."
)
@click.option("--out", required=True, type=click.Path(file_okay=False), help="Folder for results and figures.")
@click.option("--jobs", type=click.IntRange(min=1), help="Processes (default: all cores).")
@click.option("--preset", type=click.Choice(["published", "paper", "random"]), default="published", show_default=True)
def command(figure: str, **options: Any) -> None:
    """Reproduce FIGURE of the paper, ours beside the published values; run again to resume."""
    from counterrank.experiments.runner import reproduce

    with showing_progress():
        for line in reproduce(figure, **options):
            click.echo(line)
