"""counterrank evaluate: should we ship this ranker?"""

import shlex
import sys
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
from counterrank.cli.reading import inputs, policy_names, reading, reading_options

_EPILOG = """Examples:

\b
  counterrank evaluate log.parquet --target new --html report.html
  counterrank evaluate 'logs/*.parquet' --target a --target b --segment device
  counterrank evaluate log.csv --target new --columns action=doc,reward=click,propensity=p
  counterrank evaluate long.csv --target new --columns ranking=request_id,position=rank,action=doc
  counterrank evaluate log.parquet --target new --json - | jq .verdict.level
  counterrank evaluate log.parquet --target new --quiet --require reliable || echo "not yet"

Exit codes: 0 done; 1 done, but --require was not met; 2 bad usage or bad input; 70 a fault of counterrank itself;
130 interrupted.
"""


@click.command("evaluate", epilog=_EPILOG)
@click.argument("log", type=click.Path())
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="COLUMN",
    help="Column with a target policy's probabilities of the shown items; repeat for more "
    "(default: every --policy).",
)
@click.option(
    "--estimators",
    metavar="NAME,...|all",
    help="Which estimators (default: a recommended set); `counterrank estimators` lists them.",
)
@click.option(
    "--position-curve",
    metavar="FILE|estimate",
    help="How often each position is looked at, for pbm, click-model and interpol: numbers in a "
    "file, or estimated.",
)
@click.option(
    "--position-weights",
    metavar="uniform|dcg|W1,W2,..",
    help="How much each position counts (default: uniform).",
)
@click.option("--level", default=0.95, show_default=True, help="Confidence level of the intervals.")
@click.option(
    "--segment",
    "segments",
    multiple=True,
    metavar="COLUMN",
    help="Break down by a column; repeatable.",
)
@click.option(
    "--practical",
    type=float,
    metavar="SHARE",
    help="Smallest relative lift that matters, e.g. 0.01.",
)
@click.option(
    "--estimate-propensity",
    is_flag=False,
    flag_value="auto",
    metavar="[METHOD]",
    help="Estimate missing propensities: plackett-luce (from scores or features of candidates), "
    "logistic, boosting, frequency:COLUMNS or by-list:COLUMNS (default: what fits the log).",
)
@click.option(
    "--audit/--no-audit",
    default=None,
    help="List the audit's findings (default), or only what the verdict rests on.",
)
@click.option(
    "--independent-rows", is_flag=True, help="No visitor has two rows: no unit column is needed."
)
@click.option(
    "--sequential",
    is_flag=False,
    flag_value=10_000,
    type=click.IntRange(min=1),
    metavar="[ROWS]",
    help="Intervals that hold at every look at a growing log; shortest at about ROWS rankings "
    "(10000).",
)
@click.option(
    "--time", "time_column", metavar="COLUMN", help="Column of days or timestamps, for the audit."
)
@click.option(
    "--reward-name", metavar="WORD", help="What a reward is called in the report, e.g. clicks."
)
@click.option(
    "--ranking-name", metavar="WORD", help="What a ranking is called in the report, e.g. page."
)
@click.option(
    "--engine",
    type=click.Choice(["local", "dask", "spark"]),
    default="local",
    show_default=True,
    help="Where files are summed.",
)
@seed_option
@json_option
@click.option(
    "--html",
    "html_path",
    type=click.Path(dir_okay=False),
    help="Write the report as one HTML file; - is stdout.",
)
@click.option(
    "--require",
    type=click.Choice(["reliable", "directional", "insufficient"]),
    help="Exit with 1 unless the evidence is at least this good.",
)
@quiet_option
@reading_options
def command(log: str, **options: Any) -> None:
    """Estimate what each target policy would earn, how sure that is, and what would make it surer.

    LOG is a file, a folder or a quoted pattern of Parquet, Arrow, CSV or JSON Lines files: one row
    a ranking, with lists or numbered columns (action_1, action_2, ...), or the long format, one row
    a position with columns ranking and position.
    """
    from counterrank.estimators import with_position_curve
    from counterrank.evaluation import evaluate, meets
    from counterrank.readers import check_outputs

    read_from = inputs(log, options)
    read = reading(options)
    targets = options["targets"] or policy_names(read.get("policies"))
    if not targets:
        raise click.MissingParameter(param_hint="'--target'", param_type="option")
    json_path, html_path = options["json_path"], options["html_path"]
    piped = printing_to_stdout(json_path, html_path)
    check_outputs(read_from, {"--json": json_path, "--html": html_path})
    quiet = options["quiet"]
    with showing_progress(enabled=not quiet):
        result = evaluate(
            log,
            targets,
            estimators=with_position_curve(options["estimators"], options["position_curve"]),
            position_weights=options["position_weights"],
            level=options["level"],
            segments=options["segments"],
            seed=options["seed"],
            practical=options["practical"],
            command=_command(),
            **_asked_for(options),
            **read,
        )
    words = {"reward": options["reward_name"], "ranking": options["ranking_name"]}
    if any(words.values()):
        result.log["words"] = {role: word for role, word in words.items() if word}
    if json_path:
        write(json_path, result.to_json())
    if html_path:
        write(html_path, result.to_html())
        if not (quiet or options["reward_name"]) and (word := _reward_word(read.get("columns"))):
            click.echo(
                f"the report speaks of 'reward'; --reward-name {word} makes it speak of {word}",
                err=True,
            )
    if not (quiet or piped):
        results_console().print(result)
    if options["require"] and not meets(result.verdict["level"], options["require"]):
        click.echo(
            f"evidence is {result.verdict['level']}, {options['require']} was required", err=True
        )
        raise click.exceptions.Exit(1)


#: What people call a reward, by how its column is often called.
_REWARD_WORDS = {
    **dict.fromkeys(("click", "clicks", "clicked", "is_click", "is_clicked"), "clicks"),
    **dict.fromkeys(
        ("purchase", "purchases", "purchased", "bought", "conversion", "converted"), "purchases"
    ),
    **dict.fromkeys(("revenue", "gmv", "sales"), "revenue"),
}


def _reward_word(columns: Any) -> str | None:
    """Return a better word than "reward" where the column's name suggests one."""
    pairs = (
        dict(part.partition("=")[::2] for part in columns.split(","))
        if isinstance(columns, str)
        else columns or {}
    )
    return _REWARD_WORDS.get(str(pairs.get("reward", "")).strip().lower())


def _asked_for(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that change how the log is opened, where they were given."""
    found: dict[str, Any] = {}
    named = ("estimate_propensity", "audit", "independent_rows", "sequential")
    for name, given in (*((name, name) for name in named), ("time", "time_column")):
        if options[given] not in (None, False) or (given == "audit" and options[given] is False):
            found[name] = options[given]
    if options["engine"] != "local":
        found["engine"] = options["engine"]
    return found


def _command() -> str:
    """Return the command line that repeats this run."""
    return shlex.join(["counterrank", *sys.argv[1:]])
