"""counterrank run: an evaluation, a test, learning or a plan in one file, for a nightly job."""

import json
from typing import Any

import click

from counterrank.cli.calls import Call, TableCommand
from counterrank.common.messages import for_command
from counterrank.policies import PolicySpec

_EPILOG = """A job file:

\b
  log = "logs/*.parquet"
  target = ["new"]
  segment = ["device"]
  json = "runs/{date}.json"
  html = "runs/{date}.html"
  require = "directional"
  primary = "clicks"
  guardrails = ["revenue >= -0.01"]
\b
  [rewards]
  clicks = "clicked"
  revenue = "revenue"
\b
  [columns]
  action = "items"

Every option of `counterrank evaluate` is a key of the same name. A file with a table [learn], [abtest], [plan] or
another command's stands for that command: its options are keys of that table, how to read the log is said outside.
Paths are relative to the file. {today} (or {date}), {yesterday} and {today-7} in paths and in `where` are days
like 2026-01-31 (UTC). Exit codes are those of the command.
"""


@click.command("run", epilog=_EPILOG)
@click.argument("job")
@click.option("--dry-run", is_flag=True, help="Check the file, print what it says, and do nothing.")
def run(job: str, dry_run: bool) -> None:
    """Run what JOB describes, a TOML file with every option of `evaluate`, or of another command."""
    from counterrank.cli.main import main

    call = Call.of_job(job)
    if dry_run:
        click.echo(f"counterrank {call.command} {call.log}")
        for name, value in call.values.items():
            click.echo(f"{name} = {json.dumps(value, default=_written, ensure_ascii=False)}")
        return
    command = main.get_command(click.get_current_context(), call.command)
    assert isinstance(command, TableCommand)
    with for_command(call.command, job=True):
        command.body(call)


def _written(value: Any) -> Any:
    """Return a policy, a table of events or of scores as the job file has it."""
    return value.text if isinstance(value, PolicySpec) else getattr(value, "record", str(value))
