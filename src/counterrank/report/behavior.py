"""Who behaves how: what users see of which item, and the groups of the behaviour tree.

In every matrix a row is the reward at a position and a column the item that may matter to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from counterrank import behavior as masks
from counterrank.arrays import Bools, Floats
from counterrank.report.charts import Matrices, MatrixCard
from counterrank.report.document import Block, Figure, Table, notes, section
from counterrank.report.numbers import known, percent, plain
from counterrank.report.reading import Reading, column_name, whole_matrix

if TYPE_CHECKING:
    from counterrank.behavior import Condition, ForestDescription, Leaf, People, Tree

#: Longer rankings would be a carpet.
LONGEST = 20
#: What counts less than this share of the scale everywhere is not seen at all.
NOTHING = 0.25
#: Share of pairs of positions on which what is seen must agree with a simple model to be called so.
ALIKE = 0.9


def visibility(reading: Reading) -> list[Block]:
    """Return how far each item is seen from each position, by the first estimate whose model says so."""
    every = (whole_matrix(given.get("visibility")) for given in reading.regressions)
    found = next((seen for seen in every if seen), [])
    if not found or len(found) > LONGEST:
        return []
    lead = (
        "The best reward model for this log weighs what one item does to another by how far it is "
        "seen. It was found from the log, and belongs to its users, not to a policy."
    )
    most = max((abs(v) for line in found for v in line), default=0.0) or 1.0
    card = MatrixCard(
        "All users", "how far each item is seen", [[v / most for v in row] for row in found]
    )
    aid = "A row is the reward at a position, a column the position of another item; a fuller colour counts more."
    head = ("reward at", *(f"item at {m + 1}" for m in range(len(found))))
    lines = [
        (str(k + 1), *("" if m == k else plain(v) for m, v in enumerate(row)))
        for k, row in enumerate(found)
    ]
    figure = Figure(
        "visibility",
        "How far each item is seen",
        aid,
        Matrices([card]),
        Table("1 is average", head, lines),
    )
    return section("What is seen from where", "visibility", figure, lead=lead)


def seen(sees: Floats, scale: float) -> Bools:
    """Return which other items are seen from where (K, K): at least half as far as those seen best.

    >>> seen(np.array([[0.0, 1.4], [0.1, 0.0]]), 1.5).tolist()
    [[False, True], [False, False]]
    """
    off = ~np.eye(len(sees), dtype=bool)
    # The mean of K - 1 numbers, not the largest alone: one outlier must not hide all the others.
    best = float(np.sort(sees[off])[-(len(sees) - 1) :].mean())
    if best < NOTHING * scale:
        return np.zeros_like(off)
    return np.asarray((sees >= 0.5 * best) & off)


def simple_model(sees: Floats, scale: float) -> str | None:
    """Return the simple behaviour model that agrees best, in words; None where none agrees well."""
    length, shown = len(sees), seen(sees, scale)
    off = ~np.eye(length, dtype=bool)
    agreement = {words: float((shown == mask)[off].mean()) for words, mask in _simple(length)}
    best = max(agreement, key=lambda words: agreement[words])
    return best if agreement[best] >= ALIKE else None


def _simple(length: int) -> Iterator[tuple[str, Bools]]:
    """Yield simple behaviour models in words, the plainest first: of two that agree equally, it is named."""
    yield "everything", masks.standard(length)
    yield "the item itself only", masks.independent(length)
    yield "what stands above", masks.cascade(length)
    yield "what stands below", masks.inverse_cascade(length)
    yield "direct neighbours", masks.neighbors(length, 1)
    for h in range(1, length - 1):
        items = f"{h} items" if h > 1 else "1 item"
        yield f"what stands above and {items} below", masks.cascade(length, h)
        yield f"what stands below and {items} above", masks.cascade(length, h).T
        yield f"{items} just above", masks.window_above(length, h)
        yield f"{items} just below", masks.window_above(length, h).T
        yield f"the first {items}" if h > 1 else "the first item", masks.first_items(length, h)
        if h > 1:
            yield f"neighbours up to {h} away", masks.neighbors(length, h)


#: Models of `counterrank.behavior` in words.
_WHOLE = {
    "S": "every item matters",
    "C": "the items above matter",
    "I": "only the own item matters",
    "IC": "the items below matter",
}
_SIZED = {
    "N": "{} neighbours on either side matter",
    "I": "{} neighbours on either side matter",
    "C": "the items above and {} below matter",
    "W": "the {} items just above matter",
    "P": "the first {} items matter",
    "R": "{} other items matter",
}
EVERYONE = "everyone"
#: Groups that are drawn; the table has all.
MOST = 12


def behavior(reading: Reading) -> list[Block]:
    """Return for each target what counts for whom, the groups, and what tells them apart."""
    first = reading.result.behavior
    described = [] if first is None else [first, *first.others.values()]
    blocks: list[Block | None] = []
    for one in described:
        blocks += _of_target(reading, one)
    lead = (
        "Whose rewards depend on which items of the page. In a matrix a row is the reward at a position; the "
        "darkest squares are its own item, filled ones other items that matter to it."
    )
    return section("Who behaves how", "behavior", *blocks, lead=lead)


def _of_target(reading: Reading, described: ForestDescription) -> list[Block | None]:
    mark, ranking = reading.mark(described.target), reading.words()[1]
    cards = [
        _people_card(one, ranking) for one in described.people if 2 <= len(one.sees) <= LONGEST
    ]
    aid = f"Fuller squares matter to more {ranking}s."
    who = Figure(
        "people", "which items count, and for whom", aid, Matrices(cards, mark.look), mark=mark
    )
    every = groups(described)
    drawn = Matrices([_group_card(one, ranking) for one in every[:MOST]], mark.look)
    all_groups = Figure(
        "groups",
        "groups of the behaviour tree",
        "One matrix for each rule.",
        drawn,
        _forest_table(described),
        mark,
    )
    gains = sorted(described.importance.items(), key=lambda one: -one[1])
    apart = Table(
        f"What tells the groups of {described.target} apart: shares of the improvement",
        ("context", "share"),
        [(column_name(name), percent(share, digits=0)) for name, share in gains if share > 0],
    )
    return [who, all_groups, apart, *notes(described.notes)]


def _people_card(one: People, ranking: str) -> MatrixCard:
    off = np.clip(np.array(one.sees) * ~np.eye(len(one.sees), dtype=bool), 0.0, 1.0)
    rule = rule_of(one)
    who = (
        "Everyone" if rule == EVERYONE else f"{percent(one.share, digits=0)} of {ranking}s: {rule}"
    )
    length = len(off)
    other = f"its own item and about {round(float(off.sum()) / length)} of the {length - 1} others"
    return MatrixCard(
        who, f"What a place earns depends on {simple_model(off, 1.0) or other}.", off.tolist()
    )


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """Users for whom a rule holds; `mask` has a row for each position, None where another rule decides."""

    rule: str
    share: float
    models: tuple[str, ...]
    mask: tuple[tuple[int, ...] | None, ...]
    positions: tuple[int, ...] = ()


def _group_card(group: RuleGroup, ranking: str) -> MatrixCard:
    facts = [f"{percent(group.share, digits=0)} of {ranking}s"] if known(group.share) else []
    if group.positions and len(group.positions) < len(group.mask):
        many = "positions" if len(group.positions) > 1 else "position"
        facts.append(f"{many} {ranges(group.positions)}")
    facts.append("; ".join(model_words(name) for name in group.models))
    return MatrixCard(group.rule, ", ".join(facts), group.mask)


def groups(forest: ForestDescription) -> list[RuleGroup]:
    """Return the groups of a forest; positions split by the same rules share their groups."""
    # Trees of several positions often split alike: a card for each would say one thing many times.
    partitions: dict[tuple[str, ...], list[Tree]] = {}
    found = []
    for tree in forest.positions:
        if tree.position is not None:
            key = tuple(sorted(rule_of(leaf) for leaf in tree.groups))
            partitions.setdefault(key, []).append(tree)
        else:
            found += [
                RuleGroup(rule_of(leaf), leaf.share, (leaf.model,), tuple(map(tuple, leaf.items)))
                for leaf in tree.groups
            ]
    for members in partitions.values():
        found += [
            _shared(rule_of(leaf), members, len(forest.positions)) for leaf in members[0].groups
        ]
    return sorted(found, key=_order)


def _order(group: RuleGroup) -> tuple[bool, tuple[int, ...], float]:
    share = group.share if known(group.share) else 0.0
    return group.rule != EVERYONE, group.positions[:1], -share


def _shared(rule: str, members: list[Tree], length: int) -> RuleGroup:
    leaves = {
        tree.position: leaf
        for tree in members
        for leaf in tree.groups
        if tree.position is not None and rule_of(leaf) == rule
    }
    shares = [leaf.share for leaf in leaves.values() if known(leaf.share)]
    mask = tuple(tuple(leaves[k].items) if k in leaves else None for k in range(1, length + 1))
    models = tuple(dict.fromkeys(leaf.model for leaf in leaves.values()))
    share = sum(shares) / len(shares) if shares else float("nan")
    return RuleGroup(rule, share, models, mask, tuple(sorted(leaves)))


def rule_of(leaf: Leaf | People) -> str:
    """Return a group's rule in words."""
    return ", ".join(map(condition_words, leaf.conditions)) or EVERYONE


def condition_words(one: Condition) -> str:
    """Return a condition as people say it.

    >>> from counterrank.behavior import Condition
    >>> condition_words(Condition("x_device", "in", labels=("mobile", "tablet")))
    'device is mobile or tablet'
    >>> condition_words(Condition("x_tenure_days", "range", high=29.5, or_missing=True))
    '(tenure days ≤ 29.5 or missing)'
    """
    name = column_name(one.column)
    if one.labels:
        words = f"{name} is {'not ' if one.kind == 'not in' else ''}{' or '.join(one.labels)}"
    elif one.or_missing and one.kind == "known":
        return f"{name} anything"
    else:
        words = one.text(name, at_most="≤")
    return f"({words} or missing)" if one.or_missing else words


def model_words(name: str) -> str:
    """Return what the name of a behaviour model means.

    >>> model_words("C"), model_words("N2"), model_words("S, order 2")
    ('the items above matter', '2 neighbours on either side matter', 'every item matters, at most 2 at a time')
    """
    name, _, order = name.partition(", order ")
    if order:
        return f"{model_words(name)}, at most {order} at a time"
    found = re.fullmatch(r"(IC|[SCINWPR])(\d*)", name)
    if not found:
        return name
    kind, number = found[1], found[2]
    return _SIZED.get(kind, name).format(number) if number else _WHOLE.get(kind, name)


def ranges(positions: Sequence[int]) -> str:
    """Return positions as people write them.

    >>> ranges((1, 2, 3, 5)), ranges((4,))
    ('1–3, 5', '4')
    """
    runs: list[list[int]] = []
    for k in positions:
        if runs and runs[-1][-1] == k - 1:
            runs[-1].append(k)
        else:
            runs.append([k])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)


def _forest_table(forest: ForestDescription) -> Table:
    lines = [
        (rule_of(leaf), leaf.model, str(tree.position or "all"), percent(leaf.share),
         *(plain(v, leaf.stderr) for v in (leaf.estimate, leaf.low, leaf.high)))
        for tree in forest.positions for leaf in tree.groups
    ]  # fmt: skip
    head = ("group", "model", "position", "share", "value", "low", "high")
    return Table("Every group of the behaviour tree", head, lines, texts=2)
