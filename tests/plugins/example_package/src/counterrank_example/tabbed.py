"""A format and a command in one file: one item per line, with tabs; and how many lines there are."""

from pathlib import Path

import click
import pyarrow as pa

from counterrank.io import adapter


@adapter
def read_tabbed(path, options):
    """Read action, reward and propensity of one item per line."""
    rows = [line.split("\t") for line in Path(path).read_text().splitlines()]
    table = pa.table(
        {
            "action": [[action] for action, _, _ in rows],
            "reward": [[float(reward)] for _, reward, _ in rows],
            "propensity": [[float(propensity)] for _, _, propensity in rows],
        }
    )
    return table, options, ("read by an example",)


@click.command("lines", short_help="Count the lines of a file.")
@click.argument("path")
def lines(path):
    """Print how many lines a file has."""
    click.echo(len(Path(path).read_text().splitlines()))
