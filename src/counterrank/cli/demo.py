"""counterrank demo: the whole thing in a minute."""

import click

from counterrank.cli.console import showing_progress


@click.command("demo")
@click.option(
    "--out",
    default="out/demo",
    show_default=True,
    type=click.Path(file_okay=False),
    help="Folder to write to.",
)
def command(out: str) -> None:
    """Evaluate two policies on the embedded log of a shop's front page, then learn a third and
    certify it.
    """
    from counterrank import demo

    with showing_progress():
        demo.run(out)
