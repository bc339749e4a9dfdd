"""counterrank plan: what to randomise, what it costs, and what it lets next rankers show."""

from typing import Any

import click

from counterrank.cli.options import (
    level_option,
    log_argument,
    opened,
    picked,
    policy_names,
    result_options,
    showing_progress,
    time_option,
)

_EPILOG = """Examples:

\b
  counterrank plan log.parquet --logger top --out explore.json --html plan.html
  counterrank plan log.parquet --logger top --policy new=top --detect 0.02 --budget 0.005 --time day
  counterrank evaluate next-month.parquet --logger explore.json --policy new=top --target new

LOG has the scores of all candidates (`propensity_scores`); its ranker may be deterministic. Candidates are given with
--policy; without any, rankers near production stand for them. Exit codes: 0 done; 2 bad usage or bad input.
"""


#: Options that `exploration.plan` takes under the same name.
_AS_GIVEN = ("detect", "budget", "level", "rows_per_week", "time", "seed", "ask_auto")


@click.command("plan", epilog=_EPILOG)
@log_argument
@click.option(
    "--detect",
    default=0.01,
    show_default=True,
    metavar="SHARE",
    help="The relative lift that has to be shown: 0.01 is 1 %.",
)
@click.option(
    "--budget",
    default=0.01,
    show_default=True,
    metavar="SHARE",
    help="The relative loss of the metric that exploration may cost.",
)
@click.option(
    "--rows-per-week", type=float, metavar="N", help="Rankings served in a week; or give --time."
)
@time_option
@click.option(
    "--out",
    type=click.Path(dir_okay=False),
    metavar="SPEC.json",
    help="Write the chosen policy, for the server and for --logger of what it logs.",
)
@click.option(
    "--auto/--no-auto",
    "ask_auto",
    default=True,
    show_default=True,
    help="Draw logs of the chosen option and ask `auto` what it would say.",
)
@level_option("of the intervals")
@result_options
def plan(log: Any, **options: Any) -> None:
    """Say what to randomise so that next rankers can be evaluated, and what it costs."""
    from counterrank import exploration

    out = options["out"]
    if out is not None and not out.endswith(".json"):
        raise click.UsageError(f"--out is a JSON file; '{out}' does not end in .json")
    command = opened(log, options, **{"--out": out})
    names = policy_names(command.reading.get("policies"))
    with showing_progress(enabled=not command.quiet):
        result = exploration.plan(log, names, **picked(options, *_AS_GIVEN), **command.reading)
    if out is not None:
        result.save(out)
    command.hand_over(result)
