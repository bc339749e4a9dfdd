"""A forest for people.

Each group's rule, size, model and estimate as text, table, plain values and picture (SVG made of
text, lines and small matrices, without any library); and which features matter.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from counterrank.behavior.forest import Forest
from counterrank.behavior.masks import draw
from counterrank.records import Record, square
from counterrank.texts import in_percent

if TYPE_CHECKING:
    from rich.console import RenderableType

#: Index of each column of `Forest.facts`.
SHARE, OBJECTIVE, ESTIMATE, STDERR, GAIN = range(5)
#: Two-sided 95 % of the normal distribution.
_Z = 1.959964
#: Sizes in the picture: a box, the gap between boxes, a cell of a matrix.
_WIDTH, _HEIGHT, _GAP, _CELL = 190, 118, 22, 6


@dataclass(frozen=True, slots=True)
class Condition(Record):
    """What a rule says of one column.

    "range": low < value <= high, an infinite end left out; "in" and "not in": labels; "known": any
    value; "missing": none. `or_missing`: missing values belong to it too.
    """

    column: str
    kind: Literal["range", "in", "not in", "known", "missing"]
    low: float | None = None
    high: float | None = None
    labels: tuple[str, ...] = ()
    or_missing: bool = False

    def flaw(self) -> tuple[str, str] | None:
        """Return the end of a range that has none."""
        open_range = self.kind == "range" and self.low is None and self.high is None
        return ("high", "a number, nor is 'low'") if open_range else None

    def text(self, name: str | None = None, *, at_most: str = "<=") -> str:
        """Return the condition in signs, of a column by its own name or another.

        >>> Condition("x", "range", low=1.0, high=2.5).text(), Condition("x", "in", labels=("a", "b")).text()
        ('1 < x <= 2.5', 'x in {a, b}')
        """
        name = self.column if name is None else name
        if self.kind in ("known", "missing"):
            return f"{name} {self.kind}"
        if self.kind != "range":
            return f"{name} {self.kind} {{{', '.join(self.labels)}}}"
        if self.low is None:
            return f"{name} {at_most} {self.high:.4g}"
        if self.high is None:
            return f"{name} > {self.low:.4g}"
        return f"{self.low:.4g} < {name} {at_most} {self.high:.4g}"

    def __str__(self) -> str:
        if not self.or_missing:
            return self.text()
        return f"{self.column} anything" if self.kind == "known" else f"({self.text()} or missing)"


@dataclass(frozen=True, slots=True)
class Group:
    """A leaf: the rows for which all conditions hold get candidate `model`."""

    node: int
    conditions: tuple[Condition, ...]
    share: float
    model: int
    estimate: float
    stderr: float

    @property
    def rule(self) -> str:
        """The conditions as one sentence."""
        return " and ".join(map(str, self.conditions)) or "all rankings"

    @property
    def value(self) -> str:
        """The estimate with the half width of its interval; nothing where it is not known."""
        known = np.isfinite(self.estimate)
        return f"{self.estimate:.4g} ± {_Z * self.stderr:.2g}" if known else ""


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


def rules_of(forest: Forest, path: Path) -> tuple[Condition, ...]:
    """Return what holds along a path of (split, went left): one condition a feature, bounds merged."""
    out: list[Condition] = []
    for feature in dict.fromkeys(int(forest.nodes[at, 0]) for at, _ in path):
        steps = [(at, left) for at, left in path if forest.nodes[at, 0] == feature]
        name = forest.context_names[feature]
        missing = name in forest.with_missing and all(
            bool(forest.missing_left[at]) == left for at, left in steps
        )
        known = _known(forest, name, steps)
        if known is None:
            out.append(Condition(name, "missing"))
        else:
            out.append(replace(known, or_missing=missing))
    return tuple(out)


def _known(forest: Forest, name: str, steps: list[tuple[int, bool]]) -> Condition | None:
    """Return the condition on a value that is there, or None when no such value gets here."""
    if forest.nodes[steps[0][0], 3] > 0:
        return _among(forest, name, steps)
    low = max([float(forest.threshold[at]) for at, left in steps if not left], default=-np.inf)
    high = min([float(forest.threshold[at]) for at, left in steps if left], default=np.inf)
    # Such a threshold only tells missing values from all others.
    if high == -np.inf or low == np.inf:
        return None
    if np.isinf(low) and np.isinf(high):
        return Condition(name, "known")
    first, last = (None if np.isinf(end) else end for end in (low, high))
    return Condition(name, "range", first, last)


def last_rule(forest: Forest, path: Path) -> str:
    """Return all that a node's path says about the feature its parent was split by."""
    feature = forest.nodes[path[-1][0], 0]
    steps = tuple(step for step in path if forest.nodes[step[0], 0] == feature)
    return _bare(rules_of(forest, steps)[0])


def _bare(one: Condition) -> str:
    """Return a condition that stands alone and needs no brackets."""
    return f"{one.text()} or missing" if one.or_missing and one.kind != "known" else str(one)


def _among(forest: Forest, name: str, steps: list[tuple[int, bool]]) -> Condition | None:
    """Return the condition on a category: those that every step lets pass, or those that some step took away."""
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
        return Condition(name, "in", labels=_labels(forest, name, within)) if within else None
    return Condition(name, "not in", labels=_labels(forest, name, without))


def _labels(forest: Forest, name: str, codes: set[int]) -> tuple[str, ...]:
    labels = forest.categories.get(name, ())
    return tuple(labels[c] if c < len(labels) else str(c) for c in sorted(codes))


def importance(forest: Forest) -> dict[str, float]:
    """Return each feature's share of all gains (0 for all when nothing was split)."""
    total = {name: 0.0 for name in forest.context_names}
    for root, end in zip(forest.roots, [*forest.roots[1:], len(forest.nodes)], strict=True):
        # In shares of the undivided root's score: otherwise positions of large rewards would
        # outvote the rest.
        scale = forest.facts[root, OBJECTIVE] + forest.facts[root, GAIN]
        for at in range(int(root), int(end)):
            if forest.nodes[at, 0] >= 0 and np.isfinite(forest.facts[at, GAIN]):
                total[forest.context_names[int(forest.nodes[at, 0])]] += float(
                    forest.facts[at, GAIN] / abs(scale or 1)
                )
    whole = sum(total.values())
    return {name: gain / whole if whole > 0 else 0.0 for name, gain in total.items()}


@dataclass(frozen=True, slots=True)
class ModelMatrix(Record):
    """A behaviour model: its name, and which items matter to which reward."""

    name: str
    order: int | None = None
    matrix: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Leaf(Record):
    """A group of rankings: its rule, its share of all, its model and the estimate for it."""

    rule: str
    rules: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    share: float = float("nan")
    model: str = ""
    #: The items that matter: a row of the model's matrix, or all rows where one tree serves all
    #: positions.
    items: tuple[Any, ...] = ()
    estimate: float = float("nan")
    stderr: float = float("nan")
    low: float = float("nan")
    high: float = float("nan")


@dataclass(frozen=True, slots=True)
class Tree(Record):
    """The groups of one position; `position` is None where one tree serves all."""

    position: int | None = None
    groups: tuple[Leaf, ...] = ()

    def flaw(self) -> tuple[str, str] | None:
        """Return the position where it is missing: the groups have the items of one."""
        rows = [row for leaf in self.groups for row in leaf.items]
        if self.position is None and not all(isinstance(row, Sequence) for row in rows):
            return "position", "a number, though the groups have the items of one position"
        return None


@dataclass(frozen=True, slots=True)
class People(Record):
    """Rankings on one side of the split that matters most, and what counts for them.

    `sees` (K, K): for which share of them each item counts at each reward.
    """

    rule: str
    conditions: tuple[Condition, ...] = ()
    share: float = 1.0
    sees: tuple[tuple[float, ...], ...] = ()

    def flaw(self) -> tuple[str, str] | None:
        """Return the matrix where it is none."""
        return None if square(self.sees) else ("sees", "a square matrix of numbers")


@dataclass(frozen=True, slots=True)
class ForestDescription(Record):
    """A fitted forest in words: groups with rules, shares, models and estimates; what decides."""

    mse: str = ""
    rows: int = 0
    per_position: bool = True
    models: tuple[ModelMatrix, ...] = ()
    positions: tuple[Tree, ...] = ()
    #: Each feature's share of all gains.
    importance: dict[str, float] = field(default_factory=dict)
    people: tuple[People, ...] = ()
    notes: tuple[str, ...] = ()
    #: The policy that it was grown for, and the forests of other policies.
    target: str = ""
    others: "dict[str, ForestDescription]" = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"ForestDescription(mse={self.mse!r}, positions={len(self.positions)})"


def describe(forest: Forest) -> ForestDescription:
    """Return the forest in words."""
    return ForestDescription(
        mse=forest.mse,
        rows=forest.n_grown,
        per_position=forest.per_position,
        models=tuple(
            ModelMatrix(c.label, c.order, _rows(c.mask.astype(int))) for c in forest.candidates
        ),
        positions=tuple(
            Tree(
                tree + 1 if forest.per_position else None,
                tuple(_leaf(forest, tree, group) for group in groups(forest, tree)),
            )
            for tree in range(len(forest.roots))
        ),
        importance=importance(forest),
        people=tuple(people(forest)),
        notes=tuple(forest.notes),
    )


def _rows(matrix: NDArray[Any]) -> tuple[Any, ...]:
    return tuple(map(tuple, matrix.tolist()))


def people(forest: Forest) -> list[People]:
    """Return two kinds of rankings, told apart by the feature that brings most; or all as one.

    Trees of several positions split at slightly different values: a leaf belongs to the side that
    its first split on that feature sends it to, one that was not split on it to both.
    """
    gains = importance(forest)
    best = max(gains, key=lambda name: gains[name], default="")
    if not gains.get(best):
        return [_kind_of(forest, -1, None, ())]
    feature = forest.context_names.index(best)
    splits = np.flatnonzero(forest.nodes[:, 0] == feature)
    main = int(splits[np.argmax(forest.facts[splits, GAIN])])
    return [
        _kind_of(forest, main, left, rules_of(forest, ((main, left),))) for left in (True, False)
    ]


def _kind_of(
    forest: Forest, main: int, left: bool | None, conditions: tuple[Condition, ...]
) -> People:
    sees, shares = np.zeros((forest.K, forest.K)), []
    for tree in range(len(forest.roots)):
        rows = range(forest.K) if not forest.per_position else [tree]
        whole = 0.0
        for at, path in paths(forest, tree):
            if forest.nodes[at, 0] >= 0 or _side(forest, path, main) not in (None, left):
                continue
            share = float(np.nan_to_num(forest.facts[at, SHARE]))
            whole += share
            for k in rows:
                sees[k] += share * forest.candidates[int(forest.model[at])].mask[k]
        sees[rows] /= whole or 1.0
        if whole < 1.0:
            shares.append(whole)
    rule = _bare(conditions[0]) if conditions else "all rankings"
    return People(rule, conditions, float(np.mean(shares)) if shares else 1.0, _rows(sees))


def _side(forest: Forest, path: Path, main: int) -> bool | None:
    """Return the side of the main split that a path goes to at its first split on its feature."""
    for at, left in path:
        if main >= 0 and forest.nodes[at, 0] == forest.nodes[main, 0]:
            return left != _turned(forest, at, main)
    return None


def _turned(forest: Forest, at: int, main: int) -> bool:
    """Return whether the left of a split of categories is rather the right of the main one."""
    if forest.nodes[at, 3] == 0 or forest.nodes[main, 3] == 0:
        return False
    own, other = (forest.sets[forest.nodes[node, 3] - 1] for node in (at, main))
    return bool((own == other).mean() < 0.5)


def _leaf(forest: Forest, tree: int, group: Group) -> Leaf:
    mask = forest.candidates[group.model].mask.astype(int)
    reach = _Z * group.stderr
    return Leaf(
        rule=group.rule,
        rules=tuple(map(str, group.conditions)),
        conditions=group.conditions,
        share=group.share,
        model=forest.candidates[group.model].label,
        items=tuple(mask[tree].tolist()) if forest.per_position else _rows(mask),
        estimate=group.estimate,
        stderr=group.stderr,
        low=group.estimate - reach,
        high=group.estimate + reach,
    )


def text(forest: Forest) -> str:
    """Return the forest as lines of text: a line a group, the items that matter drawn beside it."""
    lines = [f"behaviour tree, objective '{forest.mse}', grown on {forest.n_grown} rankings"]
    for tree in range(len(forest.roots)):
        title = f"position {tree + 1}" if forest.per_position else "all positions"
        for number, group in enumerate(groups(forest, tree)):
            mask = forest.candidates[group.model].mask
            items = draw(mask[tree][None]) if forest.per_position else ""
            head = title if number == 0 else ""
            share = in_percent(group.share, 0) if np.isfinite(group.share) else ""
            lines.append(
                f"{head:13} {share:>5}  {forest.candidates[group.model].label:12} {items}  "
                f"{group.value:18} {group.rule}"
            )
    return "\n".join(lines)


def rich_table(forest: Forest) -> "RenderableType":
    """Return a `rich` table: position, rule, share of rankings, model, items that matter, estimate."""
    from rich.table import Table

    rows = f"{forest.n_grown:,} rankings"
    table = Table(
        title=f"Behaviour tree (objective '{forest.mse}', grown on {rows})", title_justify="left"
    )
    table.add_column("position", justify="right")
    table.add_column("group")
    table.add_column("share", justify="right")
    table.add_column("model")
    table.add_column("items that matter")
    table.add_column("estimate", justify="right")
    for tree in range(len(forest.roots)):
        title = str(tree + 1) if forest.per_position else "all"
        for number, group in enumerate(groups(forest, tree)):
            table.add_row("" if number else title, *_cells(forest, tree, group))
    used = [
        f"{name} {in_percent(share, 0)}" for name, share in importance(forest).items() if share > 0
    ]
    table.caption = "features: " + (", ".join(used) if used else "none is used")
    return table


def _cells(forest: Forest, tree: int, group: Group) -> tuple[str, ...]:
    """Return a group's columns of the table but for the first."""
    candidate = forest.candidates[group.model]
    return (
        group.rule,
        in_percent(group.share, 0) if np.isfinite(group.share) else "",
        candidate.label,
        draw(candidate.mask[tree][None] if forest.per_position else candidate.mask),
        group.value,
    )


def svg(forest: Forest, tree: int = 0) -> str:
    """Return one tree as an SVG document.

    Each box has share, model, estimate with interval and the model's matrix.
    """
    where, depth, leaves = _layout(forest, int(forest.roots[tree]))
    width, height = leaves * (_WIDTH + _GAP) + _GAP, (depth + 1) * (_HEIGHT + 3 * _GAP) + 2 * _GAP
    title = (
        f"Behaviour at position {tree + 1}" if forest.per_position else "Behaviour at all positions"
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" '
        f'height="{height:.0f}" role="img" font-family="system-ui, sans-serif" font-size="12">',
        f"<title>{title}</title>",
        f'<rect width="100%" height="100%" fill="white"/><text x="{_GAP}" y="18" '
        f'font-weight="600">{title}</text>',
    ]
    parts += [
        _branch(where[path[-1][0]], where[at], last_rule(forest, path))
        for at, path in paths(forest, tree)
        if path
    ]
    highlighted = tree if forest.per_position else None
    parts += [_box(forest, at, x, y, highlighted) for at, (x, y) in where.items()]
    return "\n".join([*parts, "</svg>"])


def _layout(forest: Forest, root: int) -> tuple[dict[int, tuple[float, float]], int, int]:
    """Return the centre-top of each box, the depth and the number of leaves; leaves stand side by side."""
    where: dict[int, tuple[float, float]] = {}
    state = {"leaves": 0, "depth": 0}

    def place(at: int, level: int) -> float:
        state["depth"] = max(state["depth"], level)
        if forest.nodes[at, 0] < 0:
            x = _GAP + (_WIDTH + _GAP) * state["leaves"] + _WIDTH / 2
            state["leaves"] += 1
        else:
            x = (
                place(int(forest.nodes[at, 1]), level + 1)
                + place(int(forest.nodes[at, 2]), level + 1)
            ) / 2
        where[at] = (x, 2 * _GAP + level * (_HEIGHT + 3 * _GAP))
        return x

    place(root, 0)
    return where, state["depth"], state["leaves"]


def _branch(start: tuple[float, float], end: tuple[float, float], rule: str) -> str:
    y0, y1 = start[1] + _HEIGHT, end[1]
    return (
        f'<path d="M{start[0]:.1f},{y0:.1f} V{(y0 + y1) / 2:.1f} H{end[0]:.1f} V{y1:.1f}" '
        f'fill="none" stroke="#667"/><text x="{end[0]:.1f}" y="{y1 - 8:.1f}" text-anchor="middle" '
        f'fill="#334" paint-order="stroke" stroke="white" stroke-width="4">{escape(rule)}</text>'
    )


def _box(forest: Forest, at: int, x: float, y: float, row: int | None) -> str:
    candidate = forest.candidates[int(forest.model[at])]
    leaf = forest.nodes[at, 0] < 0
    facts = forest.facts[at]
    lines = [f"{in_percent(facts[SHARE], 0)} of rankings" if np.isfinite(facts[SHARE]) else ""]
    if leaf and np.isfinite(facts[ESTIMATE]):
        lines += [f"value {facts[ESTIMATE]:.4g}", f"± {_Z * facts[STDERR]:.2g} (95 %)"]
    left = x - _WIDTH / 2
    words = "".join(
        f'<text x="{left + 10:.1f}" y="{y + 42 + 17 * i:.1f}" fill="#334">{escape(line)}</text>'
        for i, line in enumerate(lines)
    )
    cell = min(_CELL, 90 / len(candidate.mask))
    matrix = (
        _matrix(candidate.mask, left + _WIDTH - cell * len(candidate.mask) - 10, y + 12, row)
        if leaf
        else ""
    )
    title = candidate.label if leaf else f"by {forest.context_names[int(forest.nodes[at, 0])]}"
    return (
        f'<rect x="{left:.1f}" y="{y:.1f}" width="{_WIDTH}" height="{_HEIGHT}" rx="6" '
        f'fill="{"#eef4fb" if leaf else "#f6f6f6"}" stroke="#889"/>'
        f'<text x="{left + 10:.1f}" y="{y + 22:.1f}" font-weight="600">{escape(title)}</text>'
        f"{words}{matrix}"
    )


def _matrix(mask: NDArray[np.bool_], x: float, y: float, row: int | None) -> str:
    """Draw c[k, l]: dark where item l matters to reward k; the rows of other positions are pale."""
    cells, size = [], min(_CELL, 90 / len(mask))
    for k in range(len(mask)):
        for m in range(len(mask)):
            colour = ("#1f4e8c" if row is None or row == k else "#b9cbe4") if mask[k, m] else "#fff"
            cells.append(
                f'<rect x="{x + size * m:.1f}" y="{y + size * k:.1f}" width="{size:.2f}" '
                f'height="{size:.2f}" fill="{colour}" stroke="#ccd" stroke-width=".5"/>'
            )
    return "".join(cells)
