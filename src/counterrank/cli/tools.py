"""The small commands: the list of estimators, pages of past results, what was earned."""

from pathlib import Path

import click

from counterrank.cli.console import results_console, say
from counterrank.common.errors import CounterrankError
from counterrank.common.texts import packaged
from counterrank.report.words import visible


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
        table.add_row(name, escape(visible(_sentence(name))))
    results_console().print(table)


def _sentence(name: str) -> str:
    from counterrank.estimators import get_estimator
    from counterrank.report.method import describe

    description = describe(name)
    if description is not None:
        return description[0]
    try:
        doc = (type(get_estimator(name)).__doc__ or "").strip().splitlines()
    except CounterrankError as problem:  # a broken plug-in is listed with what is wrong
        doc = [str(problem)]
    return doc[0] if doc else ""


@click.command("skill")
def skill() -> None:
    """Print a short text for assistants: the commands, what each verdict allows one to say, and what not to say."""
    click.echo(packaged("counterrank.cli", "skill.md"), nl=False)


@click.command("history")
@click.argument("directory", type=click.Path(file_okay=False))
@click.option(
    "--out",
    required=True,
    type=click.Path(dir_okay=False),
    metavar="PAGE.html",
    help="The page to write; reports of single runs go into a folder beside it.",
)
def history(directory: str, out: str) -> None:
    """Write static pages of all results in DIRECTORY: a list, runs over time beside outcomes, every report.

    A result is a JSON file that `counterrank evaluate`, `learn`, `plan`, `validate` or `abtest` wrote with
    --json.
    """
    from counterrank.report.history import write_history

    if not out.endswith((".html", ".htm")):
        raise click.UsageError(f"--out is an HTML file; '{out}' does not end in .html")
    written, damaged = write_history(directory, out)
    for name in damaged:
        click.echo(f"{visible(name)} cannot be read; write it anew, or remove it", err=True)
    reports = len(written) - 1
    click.echo(f"{written[0]}: {reports} report{'' if reports == 1 else 's'}")


@click.command("explain")
@click.argument("result", type=click.Path(dir_okay=False))
@click.option(
    "--repro",
    is_flag=True,
    help="Print what a bug report needs: versions, options, shapes and codes of findings; no "
    "names, paths or values of the log.",
)
def explain(result: str, repro: bool) -> None:
    """Print in at most ten lines what RESULT, a JSON file of any command, says and does not say."""
    import json

    from counterrank.report import explanation, stored_results

    record = stored_results.load(result)
    if repro:
        click.echo(json.dumps(explanation.repro(record), indent=2))
    else:
        say(explanation.explained(record, result))


_OUTCOME = """Example:

\b
  counterrank outcome runs/2026-01-31.json --lift 0.012 --stderr 0.004
  counterrank history runs --out history.html

History then shows predictions beside outcomes. The run's own file is not touched.
"""


@click.command("outcome", epilog=_OUTCOME)
@click.argument("run", type=click.Path(dir_okay=False))
@click.option(
    "--lift",
    type=float,
    help="What the policy earned more per ranking than today's in an A/B test.",
)
@click.option(
    "--earned", type=float, help="What the policy earned per ranking, where the lift is not known."
)
@click.option("--stderr", type=float, default=0.0, show_default=True, help="Its standard error.")
@click.option("--target", metavar="NAME", help="Which policy, where the run has several.")
def outcome(
    run: str, lift: float | None, earned: float | None, stderr: float, target: str | None
) -> None:
    """Record what an A/B test measured of a policy of RUN, a file of `evaluate --json`."""
    from counterrank.report.history import read_outcomes, record

    path = Path(run)
    before = read_outcomes(path)
    destination = record(path, earned, stderr, target, lift=lift)
    after = read_outcomes(path)
    replaced = [
        f"; it replaces {measured.value:g} ± {measured.stderr:g}, recorded before of {name}"
        for name, measured in before.items()
        if after[name] != measured
    ]
    click.echo(f"recorded in {destination}{''.join(replaced)}")
