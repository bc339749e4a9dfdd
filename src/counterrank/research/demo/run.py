"""The main job on the shop's log, then a policy learned from it: what a newcomer sees in a minute."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from counterrank.research.demo import shop

if TYPE_CHECKING:
    from rich.console import Console

    from counterrank.evaluation import Evaluation
    from counterrank.learning import Learned
    from counterrank.report.document import Document

SEGMENTS = ("x_device", "x_returning", "x_tenure_days", "country")
#: Visits on which the truth of what was learned is drawn: to about a hundredth of a click.
TRUTH_ROWS = 4_000
WORDS = {"reward": "clicks", "ranking": "page"}


def run(
    out_dir: str | os.PathLike[str], *, console: "Console | None" = None, n: int = shop.ROWS
) -> "Evaluation":
    """Write the log, evaluate both targets, learn a third policy.

    Print each with the truth and write pages of both.
    """
    from rich.console import Console

    from counterrank.evaluation import DEFAULT_ESTIMATORS, evaluate
    from counterrank.learning import learn
    from counterrank.report.terminal import renderables

    folder = Path(out_dir)
    log = folder / "log.parquet"
    shop.make_log(log, n=n)
    names = [*DEFAULT_ESTIMATORS, "aips"]  # the shop's visitors differ, which its tree shows
    command = f"counterrank demo --out {folder}"
    result = evaluate(
        log,
        list(shop.TARGETS),
        estimators=names,
        segments=SEGMENTS,
        command=command,
        target_is_fresh=True,
    )
    result = result.called(**WORDS)
    result.to_json(folder / "report.json")
    result.to_html(folder / "report.html")
    console = console or Console()
    console.print(result)
    for block in renderables(_truth(result, shop.truth(n))):
        console.print(block)
    learned = learn(log)
    learned.to_html(folder / "learned.html")
    learned.to_json(
        folder / "learned.json", policy="policy.json" if learned.certificate.certified else None
    )
    if learned.certificate.certified:
        learned.save(folder / "policy.json")
    console.print("\nA third policy, learned from the same log\n", style="bold")
    console.print(learned)
    console.print(_true_gain(learned, log, n))
    pages = f"{folder / 'report.html'} and {folder / 'learned.html'}"
    console.print(
        f"\nOpen {pages} in a browser. The log is {log}.", highlight=False, soft_wrap=True
    )
    return result


def _true_gain(learned: "Learned", log: Path, n: int) -> str:
    """Return what the learned policy really earns, in per cent as its certificate promises it."""
    from counterrank.io import read_log
    from counterrank.report import percent

    rows = read_log(log).take(slice(0, TRUTH_ROWS))
    rng = np.random.default_rng(0)
    served = learned.policy.bind(rows).sample(shop.SLOTS, rng, size=2)
    who = shop.visits(n, np.random.default_rng(shop.SEED)).take(slice(0, TRUTH_ROWS))
    gains = [
        shop.click_probability(who, served[:, j]).sum(axis=1).mean() for j in range(served.shape[1])
    ]
    lift = float(np.mean(gains)) / shop.true_value(who, shop.logging_policy(who)) - 1
    return f"The truth: {percent(lift, sign=True)} clicks per page."


def _truth(result: "Evaluation", values: dict[str, float]) -> "Document":
    """The shop is simulated: what really happens, what was estimated, what judging slot by slot would have said."""
    from counterrank.report import percent
    from counterrank.report.document import BRIEF, Document, Table

    title = "This shop is simulated, so the truth is known (lift in clicks per page)"
    rows = []
    for target in shop.TARGETS:
        lift, alone = result.estimate(target).lift, result.estimate(target, "iips").lift
        truth = values[target] / values["logging"] - 1
        numbers = (truth, lift.relative, lift.relative_low, lift.relative_high, alone.relative)
        real, estimate, low, high, slots = (percent(value, sign=True) for value in numbers)
        rows.append((target, real, estimate, f"{low} to {high}", slots))
    head = ("target", "truth", "estimate", "interval", "slot by slot (iips)")
    return Document("", [Table(title, head, rows, detail=BRIEF)])
