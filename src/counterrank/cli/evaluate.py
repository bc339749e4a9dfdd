"""The commands `evaluate`, `check`, `validate` and `curve`: what a log says of a target, and how far to trust it."""

import shlex
import sys
from typing import Any

import click

from counterrank.cli.calls import Call, command, exit_if, missing_option, not_shipped
from counterrank.cli.console import say, showing_progress, write
from counterrank.common.options import OPTIONS, READING, Kind

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


@command("evaluate", _EVALUATE)
def evaluate(call: Call) -> None:
    """Estimate what each target policy would earn, with an interval, a verdict and a decision.

    LOG is a file, a folder or a quoted pattern of Parquet, Arrow, CSV or JSON Lines files: one row
    per ranking, with lists or numbered columns (action_1, action_2, ...), or the long format, one row
    per position with columns ranking and position.
    """
    from counterrank.estimators import with_position_curve
    from counterrank.evaluation import evaluate, meets

    settings = call.settings
    named = settings.pop("targets", ())
    lists = _lists(call.get("target_lists") or (), named)
    scored = settings.get("scores")
    targets = named or (() if scored else (*settings.get("policies", ()), *lists))
    if lists:
        settings["target_lists"] = lists
    if not (targets or scored):
        # A job that wants a result must not pass for done.
        if call.outputs or call.get("require"):
            raise missing_option("targets")
        return _overview(call)
    if curve := call.get("position_curve"):
        names = settings.get("estimators")
        settings["estimators"] = with_position_curve(
            names if names is None or isinstance(names, str) else ",".join(names), curve
        )
    command_line = shlex.join(["counterrank", *sys.argv[1:]])
    words = {role: call.get(f"{role}_name") for role in ("reward", "ranking")}
    result = call.run(evaluate, targets, command=command_line, **settings)
    result = result.called(**{role: word for role, word in words.items() if word})
    call.deliver(result)
    # Last: a job that fails its requirement still has its report.
    required, verdict = call.get("require"), result.verdict
    if required == "ship":
        exit_if(not_shipped(result.decision))
    elif required and not meets(verdict.level, required):
        weak = _too_weak(verdict, required)
        exit_if(f"evidence is {verdict.level}, {required} was required{weak}")


def _too_weak(verdict: Any, required: str) -> str:
    """Return the targets whose evidence is below what was required, each with what holds it back most."""
    from counterrank.evaluation import causes_first, meets

    return "".join(
        f"\n'{target}' is {level}: {doubt.code}: {doubt.text}"
        for target, level in verdict.targets.items()
        if not meets(level, required)
        for doubt in causes_first(row for row in verdict.reasons if row.target == target)[:1]
    )


def _overview(call: Call) -> None:
    """Print what a log holds and what could be evaluated, for somebody who has named no target yet."""
    from counterrank.checks import audit_file
    from counterrank.io import columns_of, opened
    from counterrank.report import plain
    from counterrank.statistics import mean

    reading = {name: value for name, value in call.settings.items() if name in READING}
    log = opened(call.log, (), needs_targets=False, require_propensity=False, **reading)
    with showing_progress(enabled=not call.get("quiet")), log as (source, _):
        earned = mean(source.reduce(_earned, label="reading"), 0)
        rows = earned.sample.n
        audit = audit_file(call.log, **reading)
    mapping = columns_of(call.get("columns") or {})
    columns = {role: value for role, value in mapping.items() if isinstance(value, str)}
    names = (call.get("reward_name"), *source.first.rewards, columns.get("reward"), "reward")
    reward = next(filter(None, names))
    lines = [
        f"{rows:,} rankings of {source.first.K} positions; today's policy earned "
        f"{plain(earned.value, earned.stderr)} {'' if reward == 'reward' else f'{reward} '}per ranking.",
        *(f"Audit: {line}" for line in audit.summary().splitlines()[:4]),
        *_candidates(call, columns),
    ]
    say(lines)


def _earned(batch: Any) -> Any:
    """Return the sums of what rankings earned, which a weight of the row multiplies."""
    from counterrank.statistics import sums_of

    earned, by_unit = batch.reward @ batch.position_weights, batch.summed_by_unit
    weighted = earned if batch.weight is None else earned * batch.weight
    return sums_of([weighted], batch.bucket if by_unit else None, batch.weight)


def _candidates(call: Call, roles: dict[str, str]) -> list[str]:
    """Return which columns look like targets, and the next command; `roles` are those that are known."""
    from counterrank.io import ROLES, guess_job

    # A format of another tool has no columns to guess from.
    if not isinstance(call.log, str) or call.get("format"):
        return ["Name a target with --target, or give its lists with --config target_lists=FILE."]
    guess = guess_job(call.log, stated=roles)
    named = (
        role.removesuffix("_scores").removesuffix("_dist")
        for role in roles
        if role not in ROLES and not role.startswith("z_")
    )
    targets = [name for name in dict.fromkeys(named) if name != "propensity"] or guess.targets
    if not targets:
        return [
            "No column looks like a target; name one with --target, or give --policy NAME=KIND."
        ]
    words = ["counterrank", "evaluate", call.log, "--target", targets[0]]
    if roles:
        words += ["--columns", ",".join(f"{role}={name}" for role, name in roles.items())]
    logger = guess.logger if call.get("logger") is None else call.get("logger").text
    policies = {name: guess.policies.get(name, logger) for name in targets if logger}
    if policies:
        words += ["--logger", logger]
        words += [f"--policy={name}={kind}" for name, kind in policies.items()]
    words += [word for name, value in call.values.items() for word in _typed(name, value)]
    return [f"Columns that look like targets: {', '.join(targets)}.", f"Next: {shlex.join(words)}"]


def _typed(name: str, value: Any) -> list[str]:
    """Return an option as it is typed; columns and policies stand in the command already."""
    option = OPTIONS[name]
    if option.kind is Kind.SWITCH:
        return [option.spelled] if value is True else []
    if option.kind in (Kind.PAIRS, Kind.METRICS):
        value = [f"{key}={text}" for key, text in value.items()]
    elif option.kind in (Kind.COLUMNS, Kind.POLICY, Kind.POLICIES):
        return []
    if option.kind is Kind.LIST and not isinstance(value, str):
        value = ",".join(map(str, value))
    texts = value if isinstance(value, (list, tuple)) else [value]
    return [f"{option.spelled}={text}" for text in texts if isinstance(text, (str, int, float))]


def _lists(texts: tuple[str, ...], targets: tuple[str, ...]) -> dict[str, str]:
    """Return the files of lists by the names of their targets."""
    paths: dict[str, str] = {}
    for text in texts:
        name, sign, path = text.partition("=")
        # The = of a folder like day=3 is no name's.
        if not sign or "/" in name:
            name, path = (targets[0] if len(targets) == 1 else "lists"), text
        if name in paths:
            raise click.UsageError(f"--target-lists gives '{name}' twice; write NAME=FILE")
        paths[name] = path
    return paths


_CHECK = """Examples:

\b
  counterrank check log.parquet --target new
  counterrank check log.parquet --target new --time day --segment device
  counterrank check log.parquet --json - | jq '.audit[] | select(.status == "failed")'

Exit codes: 0 no check failed (warnings may stand); 2 a check failed, or bad usage or bad input.
"""


@command("check", _CHECK)
def check(call: Call) -> None:
    """Audit LOG and its propensities: what is wrong, the likely cause, and what to do about it."""
    from counterrank.checks import audit_file

    settings = call.settings
    if "rewards" in settings:
        from counterrank.metrics import Metrics

        settings["rewards"] = Metrics.parse(settings["rewards"]).operands
    audit = call.run(audit_file, **settings)
    call.deliver(audit)
    if audit.failed:
        raise click.exceptions.Exit(2)


_VALIDATE = """Examples:

\b
  counterrank validate ab-test.parquet --arm variant --html validation.html
  counterrank validate ab-test.parquet --arm variant --estimators iips --json - | jq .summary

The log holds the rows of all arms. Each arm has a column of its own name with its probabilities of the shown items in
every row; `propensity`, where it was logged, is the serving arm's. Exit codes: 0 done; 2 bad usage or bad input.
"""


@command("validate", _VALIDATE)
def validate(call: Call) -> None:
    """Predict every arm of a past A/B test from each other arm, and compare with what it earned."""
    from counterrank.evaluation import validate

    call.deliver(call.run(validate, **call.settings))


_CURVE = """Example:

\b
  counterrank curve log.parquet --logger top --out curve.json
  counterrank evaluate log.parquet --position-curve curve.json ...

Exit codes: 0 done; 2 bad usage or bad input, or a log that does not tell examination from relevance.
"""


@command("curve", _CURVE)
def curve(call: Call) -> None:
    """Estimate how often each position of LOG is looked at, for training rankers and for pbm."""
    from counterrank.evaluation import position_curve

    write(call.get("out"), call.run(position_curve, **call.settings).to_json())
