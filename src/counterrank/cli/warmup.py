"""counterrank warmup: compile ahead of time what an evaluation needs, for images and first
impressions.
"""

import tempfile
import time
from pathlib import Path

import click

#: Enough for trees and regressions to be fitted; more would only take longer.
_ROWS = 1_200


@click.command("warmup")
def command() -> None:
    """Compile what an evaluation needs, so that the first one on this machine is as fast as the
    next.

    Compiled code is kept beside the package, or in NUMBA_CACHE_DIR when it is set. Run this once
    when an image is built; a second call finds everything there and takes a few seconds.
    """
    from counterrank.demo import shop
    from counterrank.evaluation import DEFAULT_ESTIMATORS, evaluate
    from counterrank.kernels.jit import FIRST_RUN

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
        evaluate(_without_distributions(log), list(shop.TARGETS)[:1], audit=False)
    compiled = (
        f"{FIRST_RUN.seconds:.0f} s of compiling"
        if FIRST_RUN.seconds > 0
        else "nothing was left to compile"
    )
    click.echo(f"ready: {compiled}, {time.perf_counter() - start:.0f} s in all")


def _without_distributions(log: Path) -> Path:
    import pyarrow.parquet as pq

    table = pq.read_table(log)
    kept = [name for name in table.column_names if not name.endswith("_dist")]
    path = log.with_name("bare.parquet")
    pq.write_table(table.select(kept), path)
    return path
