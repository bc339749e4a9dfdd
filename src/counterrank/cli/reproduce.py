"""counterrank reproduce: the paper's figures and tables."""

from pathlib import Path
from typing import Any

import click

from counterrank.cli.console import showing_progress
from counterrank.paper import FIGURES

# The names stand on a line of their own that is never wrapped, so that scripts can read them.
_HELP = f"""Reproduce FIGURE of the paper, ours beside the published values; run again to resume.

FIGURE "all" makes every figure and a page of them; "page" makes the page from the results that are there.

\b
[{"|".join([*FIGURES, "all"])}]

\b
{chr(10).join(f"{name:20} {text}" for name, text in FIGURES.items())}
"""


@click.command("reproduce", help=_HELP)
@click.argument("figure", type=click.Choice([*FIGURES, "all", "page"]), metavar="FIGURE")
@click.option(
    "--seeds",
    default=100,
    show_default=True,
    type=click.IntRange(min=1),
    help="Simulated data sets a point.",
)
@click.option(
    "--out", required=True, type=click.Path(file_okay=False), help="Folder for results and figures."
)
@click.option("--jobs", type=click.IntRange(min=1), help="Processes (default: all cores).")
@click.option(
    "--preset",
    type=click.Choice(["published", "paper", "random"]),
    default="published",
    show_default=True,
)
@click.option(
    "--estimators", multiple=True, help="Only this estimator of the figure; repeat for more."
)
@click.option(
    "--into",
    type=click.Path(dir_okay=False),
    help="page: the file to write instead of one in --out.",
)
@click.option(
    "--log-a", type=click.Path(), help="real-world: the log of the policy that collected the data."
)
@click.option(
    "--log-b", type=click.Path(), help="real-world: the log of the policy to evaluate, to judge by."
)
@click.option(
    "--target",
    default="new",
    show_default=True,
    help="real-world: B's probabilities, a column of log A.",
)
def command(figure: str, log_a: str | None, log_b: str | None, target: str, **options: Any) -> None:
    """Reproduce FIGURE of the paper, ours beside the published values; run again to resume."""
    from counterrank.paper import reproduce

    into = options.pop("into")
    if into is not None and figure != "page":
        raise click.UsageError("--into goes with page")
    if figure == "page":
        from counterrank.paper import write_page

        for line in write_page(Path(options["out"]), into and Path(into), preset=options["preset"]):
            click.echo(line)
        return
    if (log_a is None) != (log_b is None) or (log_a and figure != "real-world"):
        raise click.UsageError("--log-a and --log-b go together, with the figure real-world")
    if log_a and log_b:
        options["pair"] = (log_a, log_b, target)

    with showing_progress():
        for line in reproduce(figure, **options):
            click.echo(line)
