"""A forest in words, as text and as a table: each group's rule, size, model and estimate; and which
features matter.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from counterrank.behavior import draw
from counterrank.tree.forest import Forest

if TYPE_CHECKING:
    from rich.console import RenderableType

#: Index of each column of `Forest.facts`.
SHARE, OBJECTIVE, ESTIMATE, STDERR, GAIN = range(5)
#: Two-sided 95 % of the normal distribution.
_Z = 1.959964


@dataclass(frozen=True, slots=True)
class Group:
    """A leaf: the rows for which all of `rules` hold get candidate `model`."""

    node: int
    rules: tuple[str, ...]
    share: float
    model: int
    estimate: float
    stderr: float

    @property
    def rule(self) -> str:
        """The rules as one sentence."""
        return " and ".join(self.rules) if self.rules else "all rankings"


def groups(forest: Forest, tree: int) -> list[Group]:
    """Return the leaves of one tree, left to right."""
    found: list[Group] = []
    for at, path in paths(forest, tree):
        if forest.nodes[at, 0] < 0:
            share, _, value, error, _ = (float(v) for v in forest.facts[at])
            found.append(
                Group(at, rules_of(forest, path), share, int(forest.model[at]), value, error)
            )
    return found


#: How a node is reached: each split above it, and whether the way goes left there.
Path = tuple[tuple[int, bool], ...]


def paths(forest: Forest, tree: int) -> Iterator[tuple[int, Path]]:
    """Yield the nodes of one tree with the way to each: parents first, left before right."""
    stack: list[tuple[int, Path]] = [(int(forest.roots[tree]), ())]
    while stack:
        at, path = stack.pop()
        yield at, path
        if forest.nodes[at, 0] >= 0:
            stack.append((int(forest.nodes[at, 2]), (*path, (at, False))))
            stack.append((int(forest.nodes[at, 1]), (*path, (at, True))))


def rules_of(forest: Forest, path: Path) -> tuple[str, ...]:
    """Return what holds along a path of (split, went left): one rule a feature, bounds merged."""
    out: list[str] = []
    for feature in dict.fromkeys(int(forest.nodes[at, 0]) for at, _ in path):
        steps = [(at, left) for at, left in path if forest.nodes[at, 0] == feature]
        name = forest.context_names[feature]
        missing = name in forest.with_missing and all(
            bool(forest.missing_left[at]) == left for at, left in steps
        )
        known = _known(forest, name, steps)
        if known is None:
            out.append(f"{name} missing")
        elif missing:
            out.append(f"({known} or missing)" if known != f"{name} known" else f"{name} anything")
        else:
            out.append(known)
    return tuple(out)


def _known(forest: Forest, name: str, steps: list[tuple[int, bool]]) -> str | None:
    """Return the rule about a value that is there, or None when no such value gets here."""
    if forest.nodes[steps[0][0], 3] > 0:
        return _among(forest, name, steps)
    low = max([float(forest.threshold[at]) for at, left in steps if not left], default=-np.inf)
    high = min([float(forest.threshold[at]) for at, left in steps if left], default=np.inf)
    if high == -np.inf or low == np.inf:
        return None
    if np.isinf(low) and np.isinf(high):
        return f"{name} known"
    if np.isinf(low):
        return f"{name} <= {high:.4g}"
    return f"{name} > {low:.4g}" if np.isinf(high) else f"{low:.4g} < {name} <= {high:.4g}"


def last_rule(forest: Forest, path: Path) -> str:
    """Return all that a node's path says about the feature its parent was split by."""
    feature = forest.nodes[path[-1][0], 0]
    rules = rules_of(forest, tuple(step for step in path if forest.nodes[step[0], 0] == feature))
    return rules[0].strip("()")


def _among(forest: Forest, name: str, steps: list[tuple[int, bool]]) -> str | None:
    """Return the rule about a category: those that every step lets pass, or those that some step
    took away.
    """
    within: set[int] | None = None
    without: set[int] = set()
    for at, left in steps:
        codes = {int(c) for c in np.flatnonzero(forest.sets[forest.nodes[at, 3] - 1])}
        if not left:
            without |= codes
        else:
            within = codes if within is None else within & codes
    if within is not None:
        within -= without
        return f"{name} in {{{_labels(forest, name, within)}}}" if within else None
    return f"{name} not in {{{_labels(forest, name, without)}}}"


def _labels(forest: Forest, name: str, codes: set[int]) -> str:
    labels = forest.categories.get(name, ())
    return ", ".join(labels[c] if c < len(labels) else str(c) for c in sorted(codes))


def importance(forest: Forest) -> dict[str, float]:
    """Return each feature's share of all gains (0 for all when nothing was split)."""
    total = {name: 0.0 for name in forest.context_names}
    for root, end in zip(forest.roots, [*forest.roots[1:], len(forest.nodes)], strict=True):
        scale = forest.facts[root, OBJECTIVE] + forest.facts[root, GAIN]
        for at in range(int(root), int(end)):
            if forest.nodes[at, 0] >= 0 and np.isfinite(forest.facts[at, GAIN]):
                total[forest.context_names[int(forest.nodes[at, 0])]] += float(
                    forest.facts[at, GAIN] / abs(scale or 1)
                )
    whole = sum(total.values())
    return {name: gain / whole if whole > 0 else 0.0 for name, gain in total.items()}


def describe(forest: Forest) -> dict[str, Any]:
    """Return the forest as plain values for JSON: groups with rules, shares, models and estimates;
    importance.
    """
    return {
        "mse": forest.mse,
        "rows": forest.n_grown,
        "per_position": forest.per_position,
        "models": [
            {"name": c.label, "order": c.order, "matrix": c.mask.astype(int).tolist()}
            for c in forest.candidates
        ],
        "positions": [
            {
                "position": tree + 1 if forest.per_position else None,
                "groups": [_plain(forest, tree, group) for group in groups(forest, tree)],
            }
            for tree in range(len(forest.roots))
        ],
        "importance": importance(forest),
        "notes": list(forest.notes),
    }


def _plain(forest: Forest, tree: int, group: Group) -> dict[str, Any]:
    mask = forest.candidates[group.model].mask
    known = np.isfinite(group.estimate)
    return {
        "rule": group.rule,
        "rules": list(group.rules),
        "share": group.share if np.isfinite(group.share) else None,
        "model": forest.candidates[group.model].label,
        "items": (mask[tree] if forest.per_position else mask).astype(int).tolist(),
        "estimate": group.estimate if known else None,
        "stderr": group.stderr if known else None,
        "low": group.estimate - _Z * group.stderr if known else None,
        "high": group.estimate + _Z * group.stderr if known else None,
    }


def text(forest: Forest) -> str:
    """Return the forest as lines of text: a line a group, the items that matter drawn beside it."""
    lines = [f"behaviour tree, objective '{forest.mse}', grown on {forest.n_grown} rankings"]
    for tree in range(len(forest.roots)):
        title = f"position {tree + 1}" if forest.per_position else "all positions"
        for number, group in enumerate(groups(forest, tree)):
            mask = forest.candidates[group.model].mask
            items = draw(mask[tree][None]) if forest.per_position else ""
            head = title if number == 0 else ""
            share = f"{group.share:4.0%}" if np.isfinite(group.share) else "    "
            value = (
                f"{group.estimate:.4g} ± {_Z * group.stderr:.2g}"
                if np.isfinite(group.estimate)
                else ""
            )
            lines.append(
                f"{head:13} {share}  {forest.candidates[group.model].label:12} {items}  "
                f"{value:18} {group.rule}"
            )
    return "\n".join(lines)


def rich_table(forest: Forest) -> "RenderableType":
    """Return a `rich` table: position, rule, share of rankings, model, items that matter, estimate."""
    from rich.table import Table

    rows = f"{forest.n_grown:,} rankings"
    table = Table(
        title=f"Behaviour tree (objective '{forest.mse}', grown on {rows})", title_justify="left"
    )
    for name, justify in (
        ("position", "right"),
        ("group", "left"),
        ("share", "right"),
        ("model", "left"),
    ):
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
                f"{group.estimate:.4g} ± {_Z * group.stderr:.2g}"
                if np.isfinite(group.estimate)
                else "",
            )
    used = [f"{name} {share:.0%}" for name, share in importance(forest).items() if share > 0]
    table.caption = "features: " + (", ".join(used) if used else "none is used")
    return table
