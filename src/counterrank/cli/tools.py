"""The small commands: the list of estimators, past evaluations in a browser, what was earned."""

import click

from counterrank.cli.console import results_console
from counterrank.errors import CounterrankError


@click.command("estimators")
def estimators() -> None:
    """List the names that --estimators takes, and what each does.

    Any number can stand in order-2, dr-order-2, clip-order-2 and so on. Names with dr-, switch-, dm
    and cascade-dr use a reward model and need whole distributions in the log (propensity_dist,
    NAME_dist).
    """
    from rich.markup import escape
    from rich.table import Table

    from counterrank.estimators import estimator_names

    table = Table("name", "what it does", box=None, pad_edge=False)
    # The recommended one first, then plain names before forms of them.
    for name in sorted(estimator_names(), key=lambda name: (name != "auto", "-" in name)):
        table.add_row(name, escape(_sentence(name)))
    results_console().print(table)


def _sentence(name: str) -> str:
    from counterrank.estimators import get_estimator
    from counterrank.report import describe

    known = describe(name)
    if known is not None:
        return known[0]
    try:
        doc = (type(get_estimator(name)).__doc__ or "").strip().splitlines()
    except CounterrankError as problem:  # a broken plug-in is listed with what is wrong
        doc = [str(problem)]
    return doc[0] if doc else ""


@click.command("serve")
@click.argument("directory", type=click.Path(file_okay=False))
@click.option(
    "--port",
    default=8765,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="0 picks a free one.",
)
@click.option("--open/--no-open", "open_browser", default=False, help="Open the page in a browser.")
def serve(directory: str, port: int, open_browser: bool) -> None:
    """List the results in DIRECTORY, show their reports, compare two; for this machine only.

    A result is a JSON file that `counterrank evaluate`, `learn`, `validate` or `abtest` wrote with
    --json; evaluations are what can be compared and looked at over time.
    """
    from counterrank.report.serve import run

    run(directory, port=port, open_browser=open_browser)


_OUTCOME = """Example:

\b
  counterrank outcome runs/2026-01-31.json --earned 0.123 --stderr 0.004

`counterrank serve runs` then shows predictions beside outcomes. The run's own file is not touched.
"""


@click.command("outcome", epilog=_OUTCOME)
@click.argument("run", type=click.Path(dir_okay=False))
@click.option(
    "--earned", type=float, required=True, help="Reward per ranking of the policy in the A/B test."
)
@click.option("--stderr", type=float, default=0.0, show_default=True, help="Its standard error.")
@click.option("--target", metavar="NAME", help="Which policy, where the run has several.")
def outcome(run: str, earned: float, stderr: float, target: str | None) -> None:
    """Record what a policy of RUN, a file of `evaluate --json`, earned when it was shown to users."""
    from counterrank.report.serve import record

    click.echo(f"recorded in {record(run, earned, stderr, target)}")
