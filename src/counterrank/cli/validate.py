"""counterrank validate: would this tool have been right about our last A/B test?"""

from typing import Any

import click

from counterrank.cli.console import (
    json_option,
    printing_to_stdout,
    quiet_option,
    results_console,
    seed_option,
    showing_progress,
    write,
)
from counterrank.cli.reading import inputs, reading, reading_options

_EPILOG = """Examples:

\b
  counterrank validate ab-test.parquet --arm variant --html validation.html
  counterrank validate ab-test.parquet --arm variant --estimators iips --json - | jq .summary

The log holds the rows of all arms. `propensity` is the serving arm's; each arm has a column of its own name with its
probabilities of the shown items in every row. Exit codes: 0 done; 2 bad usage or bad input.
"""


@click.command("validate", epilog=_EPILOG)
@click.argument("log", type=click.Path())
@click.option(
    "--arm", required=True, metavar="COLUMN", help="Column that says which arm served a row."
)
@click.option(
    "--estimators",
    "estimator",
    default="auto",
    show_default=True,
    metavar="NAME",
    help="Which one to judge.",
)
@click.option("--level", default=0.95, show_default=True, help="Confidence level of the intervals.")
@seed_option
@json_option
@click.option(
    "--html", "html_path", type=click.Path(dir_okay=False), help="Write one HTML page; - is stdout."
)
@quiet_option
@reading_options
def command(log: str, **options: Any) -> None:
    """Predict every arm of a past A/B test from each other arm, and compare with what it earned."""
    from counterrank.evaluation import validate
    from counterrank.readers import check_outputs

    read_from = inputs(log, options)
    read = reading(options)
    json_path, html_path = options["json_path"], options["html_path"]
    piped = printing_to_stdout(json_path, html_path)
    check_outputs(read_from, {"--json": json_path, "--html": html_path})
    with showing_progress(enabled=not options["quiet"]):
        result = validate(
            log,
            options["arm"],
            estimators=options["estimator"],
            level=options["level"],
            seed=options["seed"],
            **read,
        )
    if json_path:
        write(json_path, result.to_json())
    if html_path:
        write(html_path, result.to_html())
    if not (options["quiet"] or piped):
        results_console().print(result)
