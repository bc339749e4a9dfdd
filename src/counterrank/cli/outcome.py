"""counterrank outcome: what a policy earned once it was shown, beside what was predicted."""

import click

_EPILOG = """Example:

\b
  counterrank outcome runs/2026-01-31.json --earned 0.123 --stderr 0.004

`counterrank serve runs` then shows predictions beside outcomes. The run's own file is not touched.
"""


@click.command("outcome", epilog=_EPILOG)
@click.argument("run", type=click.Path(dir_okay=False))
@click.option(
    "--earned", type=float, required=True, help="Reward per ranking of the policy in the A/B test."
)
@click.option("--stderr", type=float, default=0.0, show_default=True, help="Its standard error.")
@click.option("--target", metavar="NAME", help="Which policy, where the run has several.")
def command(run: str, earned: float, stderr: float, target: str | None) -> None:
    """Record what a policy of RUN, a file of `evaluate --json`, earned when it was shown to users."""
    from counterrank.serve import record

    click.echo(f"recorded in {record(run, earned, stderr, target)}")
