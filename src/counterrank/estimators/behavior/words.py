"""A forest for people: each group's rule, size, model and estimate as plain values and text; features that matter."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from counterrank.common.records import Record, square
from counterrank.common.texts import in_percent
from counterrank.estimators.behavior.forest import Forest, Node
from counterrank.estimators.behavior.masks import draw

#: Two-sided 95 % of the normal distribution.
_Z = 1.959964
#: A split tells groups apart if a shuffled context shows so large a difference less often than this.
_CLEAR = 0.05


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


#: How a node is reached: each split above it, and whether the way goes left there.
Path = tuple[tuple[Node, bool], ...]


def leaves(forest: Forest, tree: int) -> Iterator[tuple[Node, Path]]:
    """Yield the leaves of one tree with the way to each, left before right."""
    stack: list[tuple[Node, Path]] = [(forest.nodes[forest.roots[tree]], ())]
    while stack:
        node, path = stack.pop()
        if node.leaf:
            yield node, path
        else:
            sides = ((forest.nodes[node.right], False), (forest.nodes[node.left], True))
            stack += [(child, (*path, (node, left))) for child, left in sides]


def rules_of(forest: Forest, path: Path) -> tuple[Condition, ...]:
    """Return what holds along a path of (split, went left): one condition a feature, bounds merged."""
    out: list[Condition] = []
    for feature in dict.fromkeys(node.feature for node, _ in path):
        steps = [(node, left) for node, left in path if node.feature == feature]
        name = forest.context[feature]
        missing = name in forest.with_missing and all(
            node.missing_left == left for node, left in steps
        )
        condition = _known(forest, name, steps)
        if condition is None:
            out.append(Condition(name, "missing"))
        else:
            out.append(replace(condition, or_missing=missing))
    return tuple(out)


def _known(forest: Forest, name: str, steps: list[tuple[Node, bool]]) -> Condition | None:
    """Return the condition on a value that is there, or None when no such value gets here."""
    if steps[0][0].left_categories:
        # Those that every step lets pass, or those that some step took away.
        passed = [set(node.left_categories) for node, left in steps if left]
        without = {code for node, left in steps if not left for code in node.left_categories}
        codes = set.intersection(*passed) - without if passed else without
        if passed and not codes:
            return None
        labels = forest.categories.get(name, ())
        named = tuple(labels[c] if c < len(labels) else str(c) for c in sorted(codes))
        return Condition(name, "in" if passed else "not in", labels=named)
    # A split without a threshold only tells missing values from all others.
    if any(math.isnan(node.threshold) and node.missing_left == left for node, left in steps):
        return None
    cuts = [(node.threshold, left) for node, left in steps if not math.isnan(node.threshold)]
    low = max((cut for cut, left in cuts if not left), default=None)
    high = min((cut for cut, left in cuts if left), default=None)
    return Condition(name, "range" if cuts else "known", low, high)


def _clear(node: Node) -> bool:
    """Return whether a node is a split whose sides differ beyond chance; of an old tree that is not known."""
    return not (node.leaf or node.chance > _CLEAR)


def doubts(forest: Forest) -> list[str]:
    """Return a line about splits whose sides may behave alike, if there are any."""
    splits = [node for node in forest.nodes if not node.leaf]
    clear = sum(map(_clear, splits))
    if clear == len(splits):
        return []
    return [
        f"groups: {clear} of {len(splits)} splits show a difference in behaviour beyond chance; the "
        "others mix models, which lowers the error, and their groups may behave alike"
    ]


def importance(forest: Forest) -> dict[str, float]:
    """Return each feature's share of the gains of splits beyond chance (0 for all when there are none)."""
    total = dict.fromkeys(forest.context, 0.0)
    for root, end in zip(forest.roots, [*forest.roots[1:], len(forest.nodes)], strict=True):
        # In shares of the undivided root's score: otherwise positions of large rewards would
        # outvote the rest.
        scale = abs(forest.nodes[root].objective + forest.nodes[root].gain) or 1
        for node in forest.nodes[root:end]:
            if _clear(node) and math.isfinite(node.gain):
                total[forest.context[node.feature]] += node.gain / scale
    total_gain = sum(total.values())
    return {name: gain / total_gain if total_gain > 0 else 0.0 for name, gain in total.items()}


@dataclass(frozen=True, slots=True)
class ModelMatrix(Record):
    """A behaviour model: its name, and which items matter to which reward."""

    name: str
    matrix: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Leaf(Record):
    """A group of rankings: its rule, its share of all, its model and the estimate for it."""

    rule: str
    rules: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    share: float = float("nan")
    model: str = ""
    #: The items that matter: a row of the model's matrix.
    items: tuple[int, ...] = ()
    estimate: float = float("nan")
    stderr: float = float("nan")
    low: float = float("nan")
    high: float = float("nan")


@dataclass(frozen=True, slots=True)
class Tree(Record):
    """The groups of one position."""

    position: int = 1
    groups: tuple[Leaf, ...] = ()


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
    #: Each feature's share of the gains of splits beyond chance.
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
        rows=forest.rows,
        models=tuple(
            ModelMatrix(model.name, tuple(tuple(map(int, row)) for row in model.mask))
            for model in forest.candidates
        ),
        positions=tuple(
            Tree(tree + 1, tuple(_leaf(forest, tree, *leaf) for leaf in leaves(forest, tree)))
            for tree in range(forest.K)
        ),
        importance=importance(forest),
        people=tuple(people(forest)),
        notes=(*forest.notes, *doubts(forest)),
    )


def people(forest: Forest) -> list[People]:
    """Return two kinds of rankings, told apart by the feature that brings most; or all as one.

    Trees of several positions split at slightly different values: a leaf belongs to the side that
    its first split on that feature sends it to, one that was not split on it to both. How many rankings
    a side has follows from the leaves that are on one: the shares of both sides add up to 1.
    """
    gains = importance(forest)
    best = max(gains, key=lambda name: gains[name], default="")
    if not gains.get(best):
        return [_kind_of(forest, None, True)]
    splits = [n for n in forest.nodes if _clear(n) and n.feature == forest.context.index(best)]
    main = max(splits, key=lambda node: node.gain)
    return [_kind_of(forest, main, left) for left in (True, False)]


def _kind_of(forest: Forest, main: Node | None, left: bool) -> People:
    """Return the rankings on one side of the main split; all of them where there is none."""
    sees, shares = np.zeros((forest.K, forest.K)), []
    for k in range(forest.K):
        by_side = {True: 0.0, False: 0.0, None: 0.0}
        for leaf, path in leaves(forest, k):
            side = None if main is None else _side(forest, path, main)
            share = float(np.nan_to_num(leaf.share))
            by_side[side] += share
            if side in (None, left):
                sees[k] += share * forest.masks[leaf.model, k]
        sees[k] /= (by_side[None] + by_side[left]) or 1.0
        if divided := by_side[True] + by_side[False]:
            shares.append(by_side[left] / divided)
    conditions = () if main is None else rules_of(forest, ((main, left),))
    rule = " and ".join(map(str, conditions)) or "all rankings"
    if conditions and conditions[0].or_missing and conditions[0].kind != "known":
        rule = rule[1:-1]  # a condition that stands alone needs no brackets
    matrix = tuple(map(tuple, sees.tolist()))
    return People(rule, conditions, float(np.mean(shares)) if shares else 1.0, matrix)


def _side(forest: Forest, path: Path, main: Node) -> bool | None:
    """Return the side of the main split that a path goes to at its first split on its feature."""
    for node, left in path:
        if node.feature == main.feature:
            apart = set(node.left_categories) ^ set(main.left_categories)
            # The left of a split of categories may rather be the right of the main one.
            labels = forest.categories.get(forest.context[node.feature], ())
            return left != (2 * len(apart) > len(labels))
    return None


def _leaf(forest: Forest, tree: int, leaf: Node, path: Path) -> Leaf:
    """Return a group of rankings: the rows for which all conditions of a path hold."""
    model, conditions = forest.candidates[leaf.model], rules_of(forest, path)
    rules = tuple(map(str, conditions))
    return Leaf(
        rule=" and ".join(rules) or "all rankings",
        rules=rules,
        conditions=conditions,
        share=leaf.share,
        model=model.name,
        items=tuple(map(int, model.mask[tree])),
        estimate=leaf.estimate,
        stderr=leaf.stderr,
        low=leaf.estimate - _Z * leaf.stderr,
        high=leaf.estimate + _Z * leaf.stderr,
    )


def text(forest: Forest) -> str:
    """Return the forest as lines of text: a line a group, the items that matter drawn beside it."""
    lines = [f"behaviour tree, objective '{forest.mse}', grown on {forest.rows} rankings"]
    for tree in describe(forest).positions:
        head = f"position {tree.position}"
        for leaf in tree.groups:
            share = in_percent(leaf.share, 0) if np.isfinite(leaf.share) else ""
            items = draw(np.array([leaf.items], dtype=bool))
            estimated = np.isfinite(leaf.estimate)
            value = f"{leaf.estimate:.4g} ± {_Z * leaf.stderr:.2g}" if estimated else ""
            lines.append(f"{head:13} {share:>5}  {leaf.model:12} {items}  {value:18} {leaf.rule}")
            head = ""
    return "\n".join([*lines, *doubts(forest)])
