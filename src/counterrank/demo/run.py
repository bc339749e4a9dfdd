"""The main job on the shop's log: what a newcomer sees in a minute."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from counterrank.demo import shop

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from counterrank.evaluation import Evaluation

SEGMENTS = ("x_device", "x_returning", "x_tenure_days", "country")
WORDS = {"reward": "clicks", "ranking": "page"}


def run(out_dir: str | os.PathLike[str], *, console: "Console | None" = None, n: int = shop.ROWS) -> "Evaluation":
    """Write the log, evaluate both targets, print the table and the truth, write report.html and report.json."""
    from rich.console import Console

    from counterrank.evaluation import DEFAULT_ESTIMATORS, evaluate

    folder = Path(out_dir)
    log = folder / "log.parquet"
    shop.make_log(log, n=n)
    names = [*DEFAULT_ESTIMATORS, "aips"]  # the shop's visitors differ, which its tree shows
    command = f"counterrank demo --out {folder}"
    result = evaluate(log, list(shop.TARGETS), estimators=names, segments=SEGMENTS, command=command)
    result.log["words"] = WORDS
    result.to_json(folder / "report.json")
    result.to_html(folder / "report.html")
    console = console or Console()
    console.print(result)
    console.print(_truth(result, shop.truth(n)))
    console.print(f"\nOpen {folder / 'report.html'} in a browser. The log is {log}.", highlight=False, soft_wrap=True)
    return result


def _truth(result: "Evaluation", values: dict[str, float]) -> "Table":
    """The shop is simulated: what really happens, what was estimated, what judging slot by slot would have said."""
    from rich import box
    from rich.table import Table

    from counterrank.report import percent

    title = "\nThis shop is simulated, so the truth is known (lift in clicks per page)"
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("target")
    for name in ("truth", "estimate", "interval", "slot by slot (iips)"):
        table.add_column(name, justify="right", no_wrap=True)
    for target in shop.TARGETS:
        found, alone = result.estimate(target), result.estimate(target, "iips")
        truth = values[target] / values["logging"] - 1
        low, high = found.lift.relative_low, found.lift.relative_high
        shares = (percent(value, sign=True) for value in (truth, found.lift.relative, low, high, alone.lift.relative))
        real, estimate, lowest, highest, slots = shares
        table.add_row(target, real, estimate, f"{lowest} to {highest}", slots)
    return table
