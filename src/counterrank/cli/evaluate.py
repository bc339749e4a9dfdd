"""The commands `evaluate`, `check`, `validate` and `weights`: what a log says of a target, and how far to trust it."""

import shlex
import sys
from typing import Any

import click

from counterrank.cli.options import (
    Options,
    arm_option,
    guardrail_option,
    json_option,
    level_option,
    log_argument,
    opened,
    picked,
    policy_names,
    primary_option,
    reading_options,
    result_options,
    reward_option,
    seed_option,
    segment_option,
    sequential_option,
    showing_progress,
    time_option,
    write,
)

_EVALUATE = """Examples:

\b
  counterrank evaluate log.parquet --target new --html report.html
  counterrank evaluate 'logs/*.parquet' --target a --target b --segment device
  counterrank evaluate log.csv --target new --columns action=doc,reward=click,propensity=p
  counterrank evaluate long.csv --target new --columns ranking=request_id,position=rank,action=doc
  counterrank evaluate log.parquet --target new --reward clicks=click --reward revenue=revenue \\
      --guardrail 'revenue >= -0.01' --require ship
  counterrank evaluate log.parquet --target new --json - | jq .verdict.level
  counterrank evaluate log.parquet --target new --quiet --require reliable || echo "not yet"

Exit codes: 0 done; 1 done, but --require was not met; 2 bad usage or bad input; 70 a fault of counterrank itself;
130 interrupted.
"""


@click.command("evaluate", epilog=_EVALUATE)
@log_argument
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="COLUMN",
    help="Column with a target policy's probabilities of the shown items; repeat for more "
    "(default: every --policy).",
)
@reward_option
@primary_option
@guardrail_option
@click.option(
    "--baseline",
    metavar="NAME|logger",
    help="The policy that lifts are against: a target or policy, or the one that served the log "
    "(logger, the default).",
)
@click.option(
    "--target-lists",
    "target_lists",
    multiple=True,
    metavar="[NAME=]FILE",
    help="Lists of another ranker as a target: a file with the columns query, rank and document.",
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
@level_option("level of the intervals")
@segment_option("Break down by a column; repeatable.")
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
    "--behavior-candidates",
    metavar="FILE|paper|published|real-world|generated",
    help="Behaviour models that the tree of aips may choose from: a set, or a JSON file of names "
    "and matrices (default: generated).",
)
@click.option(
    "--behavior-mse",
    metavar="pairs|pasif|su",
    help="What that tree minimises (default: pairs).",
)
@click.option(
    "--item-groups",
    metavar="COLUMN,...",
    help="Columns of --items whose values make groups; weights then compare groups of items.",
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
    "--target-is-fresh",
    is_flag=True,
    help="No target was trained on these rows; without this or the next, evidence is directional.",
)
@click.option(
    "--target-trained-until",
    metavar="DATE",
    help="When training of the targets ended: only rows later than that by --time count.",
)
@sequential_option("log")
@time_option
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
@click.option(
    "--weights-out",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write the weights of every ranking as Parquet, for training of your own.",
)
@click.option(
    "--mlflow", is_flag=True, help="Record the result as a run of MLflow (MLFLOW_TRACKING_URI)."
)
@click.option(
    "--require",
    type=click.Choice(["ship", "reliable", "directional", "insufficient"]),
    help="Exit with 1 unless the decision is to ship, or the evidence is at least this good.",
)
@result_options
def evaluate(log: Any, **options: Any) -> None:
    """Estimate what each target policy would earn, how sure that is, and what would make it surer.

    LOG is a file, a folder or a quoted pattern of Parquet, Arrow, CSV or JSON Lines files: one row
    a ranking, with lists or numbered columns (action_1, action_2, ...), or the long format, one row
    a position with columns ranking and position.
    """
    from counterrank import evaluation
    from counterrank.errors import require
    from counterrank.estimators import with_position_curve

    command = opened(log, options, **{"--weights-out": options["weights_out"]})
    read = command.reading
    if options["mlflow"]:
        # Before the evaluation, not after it.
        require("mlflow", extra="mlflow")
    lists = _lists(options["target_lists"], options["targets"])
    targets = options["targets"] or (*policy_names(read.get("policies")), *lists)
    if lists:
        read["target_lists"] = lists
    if options["engine"] != "local":
        read["engine"] = options["engine"]
    if not targets:
        raise click.MissingParameter(param_hint="'--target'", param_type="option")
    with showing_progress(enabled=not command.quiet):
        result = evaluation.evaluate(
            log,
            targets,
            estimators=with_position_curve(options["estimators"], options["position_curve"]),
            command=shlex.join(["counterrank", *sys.argv[1:]]),
            **{name: options[name] for name in _AS_GIVEN if options[name] is not None},
            **command.metrics("rewards", "primary", "guardrails", "baseline"),
            **read,
        )
    words = {"reward": options["reward_name"], "ranking": options["ranking_name"]}
    if any(words.values()):
        result = result.called(**{role: word for role, word in words.items() if word})
    command.hand_over(result)
    if options["mlflow"]:
        click.echo(f"recorded as run {evaluation.log_to_mlflow(result)} of MLflow", err=True)
    _suggest_a_word(options, read.get("columns"))
    # Last: a job that fails its requirement still has its report.
    if options["require"] == "ship":
        if result.decision.action != "ship":
            why = "; ".join(one.text for one in result.decision.reasons)
            click.echo(
                f"the decision is {result.decision.action}, ship was required: {why}", err=True
            )
            raise click.exceptions.Exit(1)
    elif options["require"] and not evaluation.meets(result.verdict.level, options["require"]):
        click.echo(
            f"evidence is {result.verdict.level}, {options['require']} was required", err=True
        )
        raise click.exceptions.Exit(1)


def _lists(given: tuple[str, ...], targets: tuple[str, ...]) -> dict[str, str]:
    """Return the files of lists by the names of their targets."""
    found: dict[str, str] = {}
    for text in given:
        name, sign, path = text.partition("=")
        # The = of a folder like day=3 is no name's.
        if not sign or "/" in name:
            name, path = (targets[0] if len(targets) == 1 else "lists"), text
        if name in found:
            raise click.UsageError(f"--target-lists gives '{name}' twice; write NAME=FILE")
        found[name] = path
    return found


#: Options that `evaluation.evaluate` takes under the same name.
_AS_GIVEN = (
    "position_weights", "level", "segments", "seed", "practical", "weights_out", "time", "audit",
    "estimate_propensity", "independent_rows", "sequential", "target_is_fresh",
    "target_trained_until", "item_groups", "behavior_candidates", "behavior_mse",
)  # fmt: skip


#: What people call a reward, by how its column is often called.
_REWARD_WORDS = {
    **dict.fromkeys(("click", "clicks", "clicked", "is_click", "is_clicked"), "clicks"),
    **dict.fromkeys(
        ("purchase", "purchases", "purchased", "bought", "conversion", "converted"), "purchases"
    ),
    **dict.fromkeys(("revenue", "gmv", "sales"), "revenue"),
}


def _suggest_a_word(options: Options, columns: Any) -> None:
    """Say how the report could speak of clicks, where the reward's column is called so."""
    if options["quiet"] or options["reward_name"] or not options["html_path"]:
        return
    if word := _reward_word(columns):
        click.echo(
            f"the report speaks of 'reward'; --reward-name {word} makes it speak of {word}",
            err=True,
        )


def _reward_word(columns: Any) -> str | None:
    """Return a better word than "reward" where the column's name suggests one."""
    pairs = (
        dict(part.partition("=")[::2] for part in columns.split(","))
        if isinstance(columns, str)
        else columns or {}
    )
    return _REWARD_WORDS.get(str(pairs.get("reward", "")).strip().lower())


_CHECK = """Examples:

\b
  counterrank check log.parquet --target new
  counterrank check log.parquet --target new --time day --segment device
  counterrank check log.parquet --json - | jq '.audit[] | select(.status == "failed")'

Exit codes: 0 no check failed (warnings may stand); 2 a check failed, or bad usage or bad input.
"""


@click.command("check", epilog=_CHECK)
@log_argument
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="COLUMN",
    help="Column of a target policy to check too; repeatable.",
)
@segment_option("Check E[w]=1 by this column too.")
@time_option
@json_option
@reading_options
def check(log: Any, **options: Any) -> None:
    """Audit LOG and its propensities: what is wrong, the likely cause, and what to do about it."""
    from counterrank.audit import audit_file

    command = opened(log, options)
    read = command.reading
    if "rewards" in command.measured:
        from counterrank.metrics import Metrics

        read = {**read, "rewards": Metrics.of(command.measured["rewards"]).operands}
    with showing_progress():
        found = audit_file(log, **picked(options, "targets", "segments", "time"), **read)
    command.hand_over(found)
    if found.failed:
        raise click.exceptions.Exit(2)


_VALIDATE = """Examples:

\b
  counterrank validate ab-test.parquet --arm variant --html validation.html
  counterrank validate ab-test.parquet --arm variant --estimators iips --json - | jq .summary

The log holds the rows of all arms. `propensity` is the serving arm's; each arm has a column of its own name with its
probabilities of the shown items in every row. Exit codes: 0 done; 2 bad usage or bad input.
"""


@click.command("validate", epilog=_VALIDATE)
@log_argument
@arm_option
@click.option(
    "--estimators", default="auto", show_default=True, metavar="NAME", help="Which one to judge."
)
@reward_option
@primary_option
@level_option("level of the intervals")
@result_options
def validate(log: Any, **options: Any) -> None:
    """Predict every arm of a past A/B test from each other arm, and compare with what it earned."""
    from counterrank import evaluation

    command = opened(log, options)
    chosen = {
        **picked(options, "estimators", "level", "seed"),
        **command.metrics("rewards", "primary"),
    }
    with showing_progress(enabled=not command.quiet):
        result = evaluation.validate(log, options["arm"], **chosen, **command.reading)
    command.hand_over(result)


_CURVE = """Example:

\b
  counterrank curve log.parquet --logger top --out curve.json
  counterrank evaluate log.parquet --position-curve curve.json ...

Exit codes: 0 done; 2 bad usage or bad input, or a log that does not tell examination from relevance.
"""


@click.command("curve", epilog=_CURVE)
@log_argument
@click.option(
    "--out",
    required=True,
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="JSON file for the curve; - is stdout.",
)
@seed_option
@reading_options
def curve(log: Any, **options: Any) -> None:
    """Estimate how often each position of LOG is looked at, for training rankers and for pbm."""
    from counterrank import evaluation

    command = opened(log, options, **{"--out": options["out"]})
    with showing_progress():
        found = evaluation.position_curve(log, seed=options["seed"], **command.reading)
    write(options["out"], found.to_json())
