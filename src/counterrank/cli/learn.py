"""counterrank learn: from a log to a better policy with a certificate."""

import os
from functools import partial
from typing import Any

import click

from counterrank.cli.options import (
    guardrail_option,
    level_option,
    log_argument,
    opened,
    picked,
    primary_option,
    result_options,
    reward_option,
    segment_option,
    showing_progress,
)

_EPILOG = """Examples:

\b
  counterrank learn log.parquet --logger plackett-luce --unit user --out policy.json --html learned.html
  counterrank learn log.parquet --independent-rows --out policy.json --grade assumed --segment device
  counterrank evaluate next-week.parquet --logger plackett-luce --policy new=policy.json --target new

Exit codes: 0 a certified policy was written; 1 nothing could be certified, no policy was written; 2 bad usage or input.
"""


@click.command("learn", epilog=_EPILOG)
@log_argument
@click.option(
    "--out",
    required=True,
    type=click.Path(dir_okay=False),
    help="Where the certified policy is written.",
)
@click.option(
    "--model",
    type=click.Choice(["linear", "boosting"]),
    default="linear",
    show_default=True,
    help="linear: a click model, linear in features and context. boosting: LightGBM on top (extra "
    "`boosting`).",
)
@click.option(
    "--path",
    type=click.Choice(["best-of", "plackett-luce"]),
    default="best-of",
    show_default=True,
    help="best-of: the best of m rankings of today's policy. plackett-luce: today's scores plus the "
    "learned one; needs no sampler of today's policy, and many more rows.",
)
@click.option(
    "--grade",
    type=click.Choice(["free", "assumed"]),
    default="free",
    show_default=True,
    help="free: nothing is assumed about behaviour, at any number of rows. assumed: a t bound.",
)
@reward_option
@primary_option
@guardrail_option
@level_option("of the certificate")
@segment_option("Look at this column's groups too.")
@click.option(
    "--reward-range",
    metavar="LOW,HIGH",
    help="How small and large one reward can be, where it is not 0/1.",
)
@click.option(
    "--independent-rows",
    is_flag=True,
    help="No visitor has two rows; without it, or --unit, nothing is certified.",
)
@click.option(
    "--despite-audit", is_flag=True, help="Go on although the audit of the log has failed."
)
@click.option(
    "--resume",
    type=click.Path(file_okay=False),
    help="Keep draws in this folder, and go on from them after an interruption.",
)
@result_options
def learn(log: Any, **options: Any) -> None:
    """Learn a policy that is better than today's with stated confidence.

    Where the log cannot certify one, say what is missing.

    LOG must say how today's policy draws: scores of all candidates with --logger, or whole
    distributions.
    """
    from counterrank import learning

    out = options["out"]
    learning.refuse_other_formats(out)
    if not out.endswith(".json"):
        raise click.UsageError(f"--out is a JSON file; '{out}' does not end in .json")
    command = opened(log, options, **{"--out": out})
    with showing_progress(enabled=not command.quiet):
        result = learning.learn(
            log,
            reward_range=_range(options["reward_range"]),
            **picked(options, *_AS_GIVEN),
            **command.metrics("rewards", "primary", "guardrails"),
            **command.reading,
        )
    certified = result.certificate.certified
    if certified:
        result.save(out)
    written = partial(result.to_json, policy=os.path.basename(out) if certified else None)
    command.hand_over(result, written)
    if not certified:
        click.echo(str(result.certificate), err=True)
        raise click.exceptions.Exit(1)


#: Options that `learning.learn` takes under the same name.
_AS_GIVEN = (
    "model",
    "path",
    "grade",
    "level",
    "seed",
    "segments",
    "independent_rows",
    "despite_audit",
    "resume",
)


def _range(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise click.UsageError(f"--reward-range is two numbers, like 0,100; got '{text}'") from None
    return low, high
