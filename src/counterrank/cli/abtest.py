"""counterrank abtest: a test that ran, with every row read for every ranker."""

from typing import Any

import click

from counterrank.cli.options import (
    arm_option,
    level_option,
    log_argument,
    opened,
    picked,
    result_options,
    sequential_option,
    showing_progress,
)

_ABTEST = """Examples:

\b
  counterrank abtest test.parquet --arm variant --policy a=plackett-luce --policy b=plackett-luce
  counterrank abtest test.parquet --arm variant --baseline control --html test.html --json test.json
  counterrank abtest test.parquet --arm variant --sequential

The log holds the rows of all arms. Each arm has a column of its own name with its probabilities of the shown items in
every row, also those that another arm served, or scores (NAME_scores) and --policy NAME=KIND. Exit codes: 0 done; 2 bad
usage or bad input.
"""


@click.command("abtest", epilog=_ABTEST)
@log_argument
@arm_option
@click.option(
    "--baseline",
    metavar="ARM",
    help="The arm that others are compared with (default: the first by name).",
)
@level_option("level of the intervals")
@sequential_option("test")
@click.option(
    "--top-down",
    is_flag=True,
    help="What stands below a place does not change its reward; dropped where the log shows that it "
    "does.",
)
@result_options
def abtest(log: Any, **options: Any) -> None:
    """Read an A/B test with its log: every row tells about every ranker that could have shown it."""
    from counterrank import evaluation

    command = opened(log, options)
    asked = picked(options, "baseline", "level", "sequential", "top_down", "seed")
    with showing_progress(enabled=not command.quiet):
        result = evaluation.abtest(log, options["arm"], **asked, **command.reading)
    command.hand_over(result)
