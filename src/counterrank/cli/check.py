"""counterrank check: can this log be trusted?"""

from typing import Any

import click

from counterrank.cli.console import results_console, showing_progress
from counterrank.cli.reading import reading, reading_options


@click.command("check")
@click.argument("log", type=click.Path())
@click.option("--target", "targets", multiple=True, help="Column of a target policy to check too; repeatable.")
@click.option("--segment", "segments", multiple=True, metavar="COLUMN", help="Check E[w]=1 by this column too.")
@click.option("--time", "time_column", metavar="COLUMN", help="Column of days or timestamps, to look for drift.")
@click.option("--json", "json_path", type=click.Path(dir_okay=False), help="Write the findings as JSON.")
@reading_options
def command(log: str, **options: Any) -> None:
    """Audit LOG and its propensities; exits with 2 when a check fails outright."""
    from counterrank import atomic
    from counterrank.cli import findings as render
    from counterrank.evaluation.audit_file import audit_file

    read = reading(options)
    with showing_progress():
        findings = audit_file(
            log, targets=options["targets"], segments=options["segments"], time=options["time_column"], **read
        )
    if options["json_path"]:
        atomic.write_text(options["json_path"], render.as_json(findings))
    results_console().print(render.as_table(findings))
    if any(finding["status"] == "failed" for finding in findings):
        raise click.exceptions.Exit(2)
