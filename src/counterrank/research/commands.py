"""The laboratory's commands: the demo, a simulated log, the paper's figures, compiling ahead."""

import os
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from counterrank.cli.console import results_console, seed_option, showing_progress
from counterrank.common.errors import ConfigError
from counterrank.research.paper import FIGURES

_WORLDS = ("search", "feed", "shop")


_EPILOG = """Example:

\b
  counterrank simulate --preset random --n 5000 --k 4 --out log.parquet
  counterrank simulate --preset search --behavior cascade --out log.parquet
"""


@click.command(
    "simulate", epilog=_EPILOG, short_help="Write a simulated log with a known true value."
)
@click.option(
    "--preset",
    type=click.Choice(["published", "paper", "random", *_WORLDS]),
    default="published",
    show_default=True,
    help="The world: of the paper's code, of its text, one drawn from the seed (any K and number "
    "of actions), or one of real shape, with candidates, features and clicks: a search page, a "
    "feed, a shop with revenue.",
)
@click.option(
    "--n", default=8000, show_default=True, type=click.IntRange(min=1), help="Number of rankings."
)
@click.option(
    "--k",
    type=click.IntRange(min=1),
    help="Positions in a ranking (8; search and feed 10, shop 5).",
)
@seed_option
@click.option(
    "--out",
    required=True,
    type=click.Path(dir_okay=False),
    help="File to write; the ending says the format.",
)
@click.option(
    "--delta",
    type=click.FloatRange(0, 1),
    help="User behaviour parameter, 0 (simple) to 1 (complex).",
)
@click.option(
    "--epsilon", type=click.FloatRange(0, 1), help="Randomness of the target policy, 0 to 1."
)
@click.option(
    "--sigma", type=click.FloatRange(min=0), help="Standard deviation of the reward noise."
)
@click.option(
    "--lam", type=click.FloatRange(0, 1e6), help="Sharpness of the behaviour distribution."
)
@click.option(
    "--actions", type=click.IntRange(min=2), help="Number of actions, or of items in the catalogue."
)
@click.option(
    "--candidates",
    type=click.IntRange(min=1),
    help="search, feed, shop: items a request chooses from.",
)
@click.option(
    "--behavior",
    type=click.Choice(["position", "cascade", "dbn", "ubm", "redundancy", "attention", "mixed"]),
    help="search, feed, shop: how users click.",
)
def simulate(preset: str, n: int, k: int | None, seed: int, out: str, **options: Any) -> None:
    """Write a simulated log with a target policy `new`.

    Its true value is printed, and kept in Parquet metadata.
    """
    from counterrank.io import check_outputs
    from counterrank.research import simulate as worlds

    check_outputs([], {"--out": out})
    world_options = {
        name: value for name, value in {"K": k, **options}.items() if value is not None
    }
    # The published world is drawn in the paper's code and has no seed of ours.
    world_options |= {"seed": seed} if preset != "published" else {}
    if preset == "published" and world_options.get("actions") == worlds.published().A:
        del world_options["actions"]
    if preset in _WORLDS and "actions" in world_options:
        world_options["items"] = world_options.pop("actions")
    environment = worlds.preset(preset, **world_options)
    with showing_progress():
        truth = worlds.write_log(environment, n, out, seed=seed)
    click.echo(f"true value: {truth.value!r}")
    # Beside the value, which scripts read from stdout.
    fitting = shlex.join(["counterrank", "evaluate", out, *worlds.reading_options(environment)])
    click.echo(f"evaluate it with: {fitting}", err=True)


# The names stand on a line of their own that is never wrapped, so that scripts can read them.
_HELP = f"""Reproduce FIGURE of the paper, ours beside the published values; run again to resume.

FIGURE "all" makes every figure; "page" makes page.md from the results that are there. A file PROTOCOL.toml
instead, as the bench writes it, repeats that study: worlds, estimators and seeds are those of the file.

\b
[{"|".join([*FIGURES, "all"])}]

\b
{chr(10).join(f"{name:20} {text}" for name, text in FIGURES.items())}

"aips (true)" knows each row's behaviour; "aips (oracle)" grows the paper's trees, told the true bias with an error, in
forms such as "aips (oracle .1)"; "aips" is the tree from the log alone, as `evaluate` runs it.
"""


def _split_names(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    """Split at commas."""
    return tuple(name.strip() for text in texts for name in text.split(",") if name.strip())


class _Figure(click.Choice[str]):
    """The name of a figure, or a protocol file."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and value.endswith(".toml"):
            return value
        return super().convert(value, param, ctx)


@click.command("reproduce", help=_HELP, short_help="Reproduce the figures and tables of the paper.")
@click.argument("figure", type=_Figure([*FIGURES, "all", "page"]), metavar="FIGURE")
@click.option(
    "--seeds",
    default=100,
    show_default=True,
    type=click.IntRange(min=1),
    help="Simulated data sets a point.",
)
@click.option(
    "--out", required=True, type=click.Path(file_okay=False), help="Folder for results and figures."
)
@click.option("--jobs", type=click.IntRange(min=1), help="Processes (default: all cores).")
@click.option(
    "--estimators",
    multiple=True,
    callback=_split_names,
    help="These instead of the figure's own, any that `counterrank estimators` lists, or your own by "
    "import path, package.module:Name.",
)
def reproduce(figure: str, **options: Any) -> None:
    """Reproduce FIGURE of the paper, ours beside the published values; run again to resume."""
    from counterrank.research import paper

    if figure.endswith(".toml"):
        lines = _study(figure, **options)
    elif figure == "page":
        lines = paper.write_page(Path(options["out"]))
    else:
        lines = paper.reproduce(figure, **options)
    # What the caller's own folder has can be imported, as with `python -m`.
    sys.path.insert(0, os.getcwd())
    try:
        with showing_progress():
            for line in lines:
                click.echo(line)
    except KeyboardInterrupt:
        # Other commands leave nothing behind; here every finished seed is a file of its own.
        click.echo("interrupted; finished seeds are kept, run again to resume", err=True)
        raise click.exceptions.Exit(130) from None


def _study(path: str, *, out: str, jobs: int | None, **options: Any) -> Iterator[str]:
    """Repeat the study of a protocol file, yielding its table and what was written."""
    from counterrank.research import bench

    context = click.get_current_context()
    for name in options:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise ConfigError(f"--{name} does not go with {path}, which says what is run")
    result = bench.repeat(path, out, jobs=jobs, progress=False)
    yield result.summary()
    for written in result.write(out):
        yield f"  wrote {written}"


@click.command("demo", short_help="Evaluate two policies on the log of a shop, and learn a third.")
@click.option(
    "--out",
    default="out/demo",
    show_default=True,
    type=click.Path(file_okay=False),
    help="Folder to write to.",
)
def demo(out: str) -> None:
    """Evaluate two policies on the embedded log of a shop's front page, then learn a third and certify it."""
    from counterrank.research.demo import run

    with showing_progress():
        run(out, console=results_console())


#: Enough for trees and regressions to be fitted; more would only take longer.
_ROWS = 1_200


@click.command("warmup", short_help="Compile ahead of time what an evaluation needs.")
def warmup() -> None:
    """Compile what an evaluation needs, so that the first one on this machine is as fast as the next.

    Compiled code is kept beside the package, or in NUMBA_CACHE_DIR when it is set. Run this once
    when an image is built; a second call finds everything there and takes a few seconds.
    """
    import pyarrow.parquet as pq

    from counterrank.evaluation import DEFAULT_ESTIMATORS, evaluate
    from counterrank.kernels.jit import FIRST_RUN
    from counterrank.learning import learn
    from counterrank.research import simulate as worlds
    from counterrank.research.demo import shop

    FIRST_RUN.told = True  # who asks for it need not be told
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.parquet"
        shop.make_log(log, n=_ROWS)
        # Once with the policies' whole distributions, once with the logged propensities alone.
        evaluate(
            log,
            list(shop.TARGETS)[:1],
            estimators=[*DEFAULT_ESTIMATORS, "aips"],
            segments=["x_device"],
        )
        table = pq.read_table(log)
        without_dists = [name for name in table.column_names if not name.endswith("_dist")]
        evaluate(table.select(without_dists), list(shop.TARGETS)[:1], audit=False)
        learn(log)
        # And once with scores of candidates, whose pages show no item twice.
        scores = Path(folder) / "scores.parquet"
        worlds.write_log(worlds.preset("search", K=4, candidates=8), _ROWS, scores, seed=0)
        evaluate(scores, ["new"])
    compiled = (
        f"{FIRST_RUN.seconds:.0f} s of compiling"
        if FIRST_RUN.seconds > 0
        else "nothing was left to compile"
    )
    click.echo(f"ready: {compiled}, {time.perf_counter() - start:.0f} s in all")
