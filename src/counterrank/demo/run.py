"""The main job on the shop's log: what a newcomer sees in a minute."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from counterrank.demo import shop

if TYPE_CHECKING:
    from rich.console import Console

    from counterrank.evaluation.result import Evaluation

SEGMENTS = ("x_device", "x_returning", "x_country", "x_tenure_days")
WORDS = {"reward": "clicks", "ranking": "page"}


def run(out_dir: str | os.PathLike[str], *, console: "Console | None" = None, n: int = shop.ROWS) -> "Evaluation":
    """Write the log, evaluate both targets, print the table and the truth, write report.html and report.json."""
    from rich.console import Console

    from counterrank.evaluation.run import evaluate

    folder = Path(out_dir)
    log = folder / "log.parquet"
    shop.make_log(log, n=n)
    result = evaluate(log, list(shop.TARGETS), segments=SEGMENTS)
    result.log["words"] = WORDS
    result.to_json(folder / "report.json")
    result.to_html(folder / "report.html")
    console = console or Console()
    console.print(result)
    console.print(_truth(result, shop.truth(n)), highlight=False)
    console.print(f"\nOpen {folder / 'report.html'} in a browser. The log is {log}.", highlight=False, soft_wrap=True)
    return result


def _truth(result: "Evaluation", values: dict[str, float]) -> str:
    lines = ["\nThis shop is simulated, so the truth is known (exact clicks per page):"]
    for name in shop.TARGETS:
        found = result.estimate(name)
        low, high = found.interval()
        inside = "inside" if low <= values[name] <= high else "outside"
        alone = result.estimate(name, "iips").value
        lines.append(
            f"  {name}: {values[name]:.3f}, lift {values[name] / values['logging'] - 1:+.1%}; {inside} the interval "
            f"of {found.estimator}; judged slot by slot (iips) it looked like {alone:.3f}"
        )
    return "\n".join(lines)
