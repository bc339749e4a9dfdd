"""counterrank serve: past evaluations in the browser, on this machine only."""

import click


@click.command("serve")
@click.argument("directory", type=click.Path(file_okay=False))
@click.option(
    "--port",
    default=8765,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="0 picks a free one.",
)
@click.option("--open/--no-open", "open_browser", default=False, help="Open the page in a browser.")
def command(directory: str, port: int, open_browser: bool) -> None:
    """List the evaluations in DIRECTORY, show their reports, compare two; for this machine only.

    An evaluation is a JSON file written by `counterrank evaluate --json`.
    """
    from counterrank import serve

    serve.run(directory, port=port, open_browser=open_browser)
