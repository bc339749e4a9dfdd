"""A forest as a table for the terminal."""

from typing import TYPE_CHECKING

import numpy as np

from counterrank.behavior import draw
from counterrank.tree.forest import Forest
from counterrank.tree.words import groups, importance

if TYPE_CHECKING:
    from rich.console import RenderableType


def rich_table(forest: Forest) -> "RenderableType":
    """Return a `rich` table: position, rule, share of rankings, model, items that matter, estimate."""
    from rich.table import Table

    rows = f"{forest.n_grown:,} rankings"
    table = Table(title=f"Behaviour tree (objective '{forest.mse}', grown on {rows})", title_justify="left")
    for name, justify in (("position", "right"), ("group", "left"), ("share", "right"), ("model", "left")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    table.add_column("items that matter")
    table.add_column("estimate", justify="right")
    for tree in range(len(forest.roots)):
        for number, group in enumerate(groups(forest, tree)):
            mask = forest.candidates[group.model].mask
            table.add_row(
                (str(tree + 1) if forest.per_position else "all") if number == 0 else "",
                group.rule,
                f"{group.share:.0%}" if np.isfinite(group.share) else "",
                forest.candidates[group.model].label,
                draw(mask[tree][None]) if forest.per_position else draw(mask),
                f"{group.estimate:.4g} ± {1.959964 * group.stderr:.2g}" if np.isfinite(group.estimate) else "",
            )
    used = [f"{name} {share:.0%}" for name, share in importance(forest).items() if share > 0]
    table.caption = "features: " + (", ".join(used) if used else "none is used")
    return table
