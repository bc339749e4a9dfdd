"""counterrank learn: from a log to a better policy with a certificate."""

import os
from functools import partial
from typing import Any

import click

from counterrank.cli.calls import Call, command, exit_if

_EPILOG = """Examples:

\b
  counterrank learn log.parquet --logger plackett-luce --unit user --out policy.json --html learned.html
  counterrank learn log.parquet --independent-rows --out policy.json --grade assumed --segment device
  counterrank evaluate next-week.parquet --logger plackett-luce --policy new=policy.json --target new

Exit codes: 0 a certified policy was written; 1 nothing could be certified, no policy was written; 2 bad usage or input.
"""


@command("learn", _EPILOG)
def learn(call: Call) -> None:
    """Learn a policy that is better than today's with stated confidence.

    Where the log cannot certify one, say what is missing.

    LOG must say how today's policy draws: scores of all candidates with --logger, or whole
    distributions.
    """
    from counterrank import learning

    learning.refuse_other_formats(call.get("out"))
    out, settings = call.json_file("out"), call.settings
    if "reward_range" in settings:
        settings["reward_range"] = _range(settings["reward_range"])
    result = call.run(learning.learn, **settings)
    certified = result.certificate.certified
    if certified:
        result.save(str(out))
    written = partial(result.to_json, policy=os.path.basename(str(out)) if certified else None)
    call.deliver(result, written)
    exit_if("" if certified else str(result.certificate))


def _range(value: Any) -> tuple[float, float]:
    try:
        low, high = map(float, value.split(",") if isinstance(value, str) else value)
    except ValueError:
        raise click.UsageError(f"reward_range is two numbers, like 0,100; got {value!r}") from None
    return low, high
