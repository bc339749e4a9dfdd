"""A forest for people: each group's rule, size, model and estimate as plain values and text; features that matter."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from counterrank.behavior.forest import Forest
from counterrank.behavior.masks import draw
from counterrank.records import Record, square
from counterrank.texts import in_percent

#: Index of each column of `Forest.facts`.
SHARE, OBJECTIVE, ESTIMATE, STDERR, GAIN = range(5)
#: Two-sided 95 % of the normal distribution.
_Z = 1.959964


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
        models=tuple(ModelMatrix(c.name, _rows(c.mask.astype(int))) for c in forest.candidates),
        positions=tuple(
            Tree(
                tree + 1 if forest.per_position else None,
                tuple(
                    _leaf(forest, tree, at, path)
                    for at, path in paths(forest, tree)
                    if forest.nodes[at, 0] < 0
                ),
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


def _leaf(forest: Forest, tree: int, at: int, path: Path) -> Leaf:
    """Return a group of rankings: the rows for which all conditions of a path hold."""
    share, _, estimate, stderr, _ = (float(v) for v in forest.facts[at])
    candidate, conditions = forest.candidates[int(forest.model[at])], rules_of(forest, path)
    mask, rules = candidate.mask.astype(int), tuple(map(str, conditions))
    return Leaf(
        rule=" and ".join(rules) or "all rankings",
        rules=rules,
        conditions=conditions,
        share=share,
        model=candidate.name,
        items=tuple(mask[tree].tolist()) if forest.per_position else _rows(mask),
        estimate=estimate,
        stderr=stderr,
        low=estimate - _Z * stderr,
        high=estimate + _Z * stderr,
    )


def text(forest: Forest) -> str:
    """Return the forest as lines of text: a line a group, the items that matter drawn beside it."""
    lines = [f"behaviour tree, objective '{forest.mse}', grown on {forest.n_grown} rankings"]
    for tree in describe(forest).positions:
        head = "all positions" if tree.position is None else f"position {tree.position}"
        for leaf in tree.groups:
            share = in_percent(leaf.share, 0) if np.isfinite(leaf.share) else ""
            items = "" if tree.position is None else draw(np.array([leaf.items], dtype=bool))
            known = np.isfinite(leaf.estimate)
            value = f"{leaf.estimate:.4g} ± {_Z * leaf.stderr:.2g}" if known else ""
            lines.append(f"{head:13} {share:>5}  {leaf.model:12} {items}  {value:18} {leaf.rule}")
            head = ""
    return "\n".join(lines)
