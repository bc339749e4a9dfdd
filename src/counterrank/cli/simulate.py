"""counterrank simulate: a log whose true value is known."""

from typing import Any

import click

from counterrank.cli.console import showing_progress

#: Options whose name differs from that of the environment's parameter.
_NAMES = {"rewards": "reward", "logging_": "logging"}


@click.command("simulate")
@click.option("--preset", type=click.Choice(["published", "paper", "random"]), default="published", show_default=True)
@click.option("--n", default=8000, show_default=True, type=click.IntRange(min=1), help="Number of rankings.")
@click.option("--k", default=8, show_default=True, type=click.IntRange(min=1), help="Positions in a ranking.")
@click.option("--seed", default=0, show_default=True)
@click.option(
    "--out", required=True, type=click.Path(dir_okay=False), help="File to write; the ending says the format."
)
@click.option("--delta", type=float, help="User behaviour parameter, 0 (simple) to 1 (complex).")
@click.option("--epsilon", type=float, help="Randomness of the target policy, 0 to 1.")
@click.option("--sigma", type=float, help="Standard deviation of the reward noise.")
@click.option("--lam", type=float, help="Sharpness of the behaviour distribution.")
@click.option("--actions", type=click.IntRange(min=2), help="Number of actions.")
@click.option("--rewards", type=click.Choice(["pairwise", "binary", "triple", "multiplicative"]), help="Reward model.")
@click.option("--logging", "logging_", type=click.Choice(["factored", "plackett-luce"]), help="Kind of logging policy.")
def command(preset: str, n: int, k: int, seed: int, out: str, **options: Any) -> None:
    """Write a simulated log; the true value of the target `new` is printed and kept in Parquet metadata."""
    from counterrank import simulate

    given = {name: value for name, value in options.items() if value is not None}
    renamed = {_NAMES.get(name, name): value for name, value in given.items()}
    if preset != "published":
        renamed["seed"] = seed
    environment = simulate.preset(preset, K=k, **renamed)
    with showing_progress():
        truth = simulate.write_log(environment, n, out, seed=seed)
    click.echo(f"true value: {truth.value!r}")
