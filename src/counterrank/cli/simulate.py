"""counterrank simulate: a log whose true value is known."""

from typing import Any

import click

from counterrank.cli.console import showing_progress

#: Options whose name differs from that of the environment's parameter.
_NAMES = {"rewards": "reward", "logging_": "logging"}


_EPILOG = """Example:

\b
  counterrank simulate --preset random --n 5000 --k 4 --out log.parquet
"""


@click.command("simulate", epilog=_EPILOG)
@click.option(
    "--preset",
    type=click.Choice(["published", "paper", "random"]),
    default="published",
    show_default=True,
    help="The world: of the paper's code, of its text, or one drawn from the seed (any K and number of actions).",
)
@click.option("--n", default=8000, show_default=True, type=click.IntRange(min=1), help="Number of rankings.")
@click.option("--k", default=8, show_default=True, type=click.IntRange(min=1), help="Positions in a ranking.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Seed of everything random.")
@click.option(
    "--out", required=True, type=click.Path(dir_okay=False), help="File to write; the ending says the format."
)
@click.option("--delta", type=click.FloatRange(0, 1), help="User behaviour parameter, 0 (simple) to 1 (complex).")
@click.option("--epsilon", type=click.FloatRange(0, 1), help="Randomness of the target policy, 0 to 1.")
@click.option("--sigma", type=click.FloatRange(min=0), help="Standard deviation of the reward noise.")
@click.option("--lam", type=click.FloatRange(0, 1e6), help="Sharpness of the behaviour distribution.")
@click.option("--actions", type=click.IntRange(min=2), help="Number of actions.")
@click.option("--rewards", type=click.Choice(["pairwise", "binary", "triple", "multiplicative"]), help="Reward model.")
@click.option("--logging", "logging_", type=click.Choice(["factored", "plackett-luce"]), help="Kind of logging policy.")
def command(preset: str, n: int, k: int, seed: int, out: str, **options: Any) -> None:
    """Write a simulated log with a target policy `new`, whose true value is printed (and kept in Parquet metadata)."""
    from counterrank import simulate

    given = {name: value for name, value in options.items() if value is not None}
    renamed = {_NAMES.get(name, name): value for name, value in given.items()}
    if preset != "published":
        renamed["seed"] = seed
    environment = simulate.preset(preset, K=k, **renamed)
    with showing_progress():
        truth = simulate.write_log(environment, n, out, seed=seed)
    click.echo(f"true value: {truth.value!r}")
