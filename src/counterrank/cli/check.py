"""counterrank check: can this log be trusted?"""

from typing import Any

import click

from counterrank.cli.console import printing_to_stdout, results_console, showing_progress, write
from counterrank.cli.reading import inputs, reading, reading_options

_EPILOG = """Examples:

\b
  counterrank check log.parquet --target new
  counterrank check log.parquet --target new --time day --segment device
  counterrank check log.parquet --json - | jq '.audit[] | select(.status == "failed")'

Exit codes: 0 no check failed (warnings may stand); 2 a check failed, or bad usage or bad input.
"""


@click.command("check", epilog=_EPILOG)
@click.argument("log", type=click.Path())
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="COLUMN",
    help="Column of a target policy to check too; repeatable.",
)
@click.option(
    "--segment",
    "segments",
    multiple=True,
    metavar="COLUMN",
    help="Check E[w]=1 by this column too.",
)
@click.option(
    "--time",
    "time_column",
    metavar="COLUMN",
    help="Column of days or timestamps, to look for drift.",
)
@click.option(
    "--json",
    "json_path",
    type=click.Path(dir_okay=False),
    help="Write the findings as JSON; - is stdout.",
)
@reading_options
def command(log: str, **options: Any) -> None:
    """Audit LOG and its propensities: what is wrong, the likely cause, and what to do about it."""
    from counterrank.audit import audit_file
    from counterrank.readers import check_outputs

    read_from = inputs(log, options)
    read = reading(options)
    piped = printing_to_stdout(options["json_path"])
    check_outputs(read_from, {"--json": options["json_path"]})
    with showing_progress():
        findings = audit_file(
            log,
            targets=options["targets"],
            segments=options["segments"],
            time=options["time_column"],
            **read,
        )
    if options["json_path"]:
        write(options["json_path"], findings.to_json())
    if not piped:
        results_console().print(findings)
    if findings.failed:
        raise click.exceptions.Exit(2)
