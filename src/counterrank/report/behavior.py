"""Who behaves how: groups of the behaviour tree, each with its model drawn as a small matrix.

In every matrix a row is the reward at a position and a column the item that may matter to it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from counterrank.arrays import Floats
from counterrank.behavior import Condition
from counterrank.report.numbers import known, percent, plain
from counterrank.report.parts import (
    Section,
    bars,
    bullets,
    figure,
    folded,
    grid,
    named,
    section,
    style_of,
    table,
    tag,
    twin,
)
from counterrank.report.reading import Reading, column_name
from counterrank.report.visibility import LONGEST, MatrixGrid, kind_of, shades, simple_model

if TYPE_CHECKING:
    from counterrank.behavior import ForestDescription, Leaf, People, Tree


def mask_chart(mask: Sequence[Sequence[int] | None], *, size: int = 72, name: str = "") -> Markup:
    """Return a K x K matrix: full the own item, paler another that matters to the reward at k; None is no row."""
    cells = MatrixGrid(size / max(len(mask), 1))
    marks = [
        tag("rect", **cells.box(k, m, min(2.0, cells.cell / 5)), class_=_mask_look(row, k, m))
        for k, row in enumerate(mask)
        for m in range(len(mask))
    ]
    return cells.framed(marks, (size, size), name)


def _mask_look(row: Sequence[int] | None, k: int, m: int) -> str:
    if row is None:
        return "none"
    return "own" if k == m else "on" if any(row[m : m + 1]) else "off"


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

Mask = tuple[tuple[int, ...] | None, ...]


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """Users for whom a rule holds; `mask` has a row for each position, None where another rule decides."""

    rule: str
    share: float
    models: tuple[str, ...]
    mask: Mask
    positions: tuple[int, ...] = ()


def by_target(found: "ForestDescription | None") -> "list[ForestDescription]":
    """Return the forests of all targets: the first one's description holds the others."""
    return [] if found is None else [found, *found.others.values()]


def groups(forest: "ForestDescription") -> list[RuleGroup]:
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


def _shared(rule: str, members: "list[Tree]", length: int) -> RuleGroup:
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


def rule_of(leaf: "Leaf | People") -> str:
    """Return a group's rule in words."""
    return ", ".join(map(condition_words, leaf.conditions)) or EVERYONE


def condition_words(one: Condition) -> str:
    """Return a condition as people say it.

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
    ('the items above matter', '2 neighbours on either side matter', 'every item matters, at most 2
    at a time')
    """
    name, _, order = name.partition(", order ")
    if order:
        return f"{model_words(name)}, at most {order} at a time"
    found = re.fullmatch(r"(IC|[SCINWPR])(\d*)", name)
    if not found:
        return name
    kind, number = found[1], found[2]
    return _SIZED.get(kind, name).format(number) if number else _WHOLE.get(kind, name)


def ranges(positions: tuple[int, ...]) -> str:
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


#: More groups than this, of all targets, are listed in the table only.
MOST = 18
#: A target shows this many at least, however many targets share the page.
FEWEST = 6
#: The side of a matrix of which two stand alone, and of its cells at most.
_WIDE, _BROAD = 200.0, 32.0


def behavior(reading: Reading) -> Section | None:
    """Return for each target the groups as cards, what decides, and the whole forest as a table."""
    found = [one for one in by_target(reading.result.behavior) if groups(one)]
    lead = "Whose rewards depend on which items of the page."
    if len(found) > 1:
        lead += (
            " Users are the same whichever policy is judged; each policy's groups are those "
            "that judge it best."
        )
    most = max(MOST // max(len(found), 1), FEWEST)
    body = [_of_target(reading, described, most) for described in found]
    return section("behavior", "Who behaves how", lead, Markup("").join(body))


def _of_target(reading: Reading, described: "ForestDescription", most: int) -> Markup:
    """Return one target's groups, named when the page has several targets."""
    several, target = len(reading.targets) > 1, described.target
    title = tag("h3", named(reading, target), class_="of-target") if several else Markup("")
    look = style_of(reading, target).look
    people = _people(reading, described)
    cards = (_card(reading, group, look) for group in groups(described)[:most])
    shown = tag("p", _MATRIX, class_="aid") + tag("div", *cards, class_="groups")
    shown += grid(_features(reading, target if several else "", described))
    remarks, data = bullets(described.notes), twin(_forest_table(described))
    # One picture says it; the groups of every position are for those who want to know more.
    shown = people + folded("Show every group", shown) if people else shown
    return title + shown + remarks + data


_MATRIX = (
    "In a matrix a row is the reward at a position; the full colour is its own item, a paler one "
    "another item that matters to it, empty one that does not."
)


def _people(reading: Reading, described: "ForestDescription") -> Markup:
    """Return a matrix for each side of the split that matters most, with what counts there in words.

    Nothing where an older result has none.
    """
    found = [(rule_of(one), one.share, one.sees) for one in described.people]
    if not found or not 2 <= len(found[0][2]) <= LONGEST:
        return Markup("")
    cards = []
    for rule, share, sees in found:
        off = np.clip(np.array(sees) * ~np.eye(len(sees), dtype=bool), 0.0, 1.0)
        kind = kind_of(share, off, 1.0)
        part = f"{percent(kind.share, digits=0)} of {reading.words()[1]}s"
        who = "Everyone" if rule == EVERYONE else f"{part}: {rule}"
        words = f"What a place earns depends on {_on_what(off)}."
        cells = MatrixGrid(min(_WIDE / len(sees), _BROAD), left=20.0, top=18.0)
        drawn = cells.numbered(shades(kind, cells, 1.0), len(sees), f"{who}. {words}")
        told = tag("p", tag("strong", who)) + tag("p", words)
        cards.append(tag("div", told, drawn, class_="kind mark", data_tip=f"{who}\n{words}"))
    picture = tag("div", *cards, class_="kinds wide chart", role="group", tabindex="0")
    aid = (
        "A row is a place on the page, a column the place of an item. A filled square: that item "
        f"changes what the row's place earns, the fuller for the more {reading.words()[1]}s. Empty: it "
        "does not. The darkest squares are the place's own item."
    )
    head = ("who", "reward at", *(f"item at {m + 1}" for m in range(len(found[0][2]))))
    lines = [
        (rule, k + 1, *(percent(v, digits=0) for v in row))
        for rule, _, sees in found
        for k, row in enumerate(sees)
    ]
    return grid(figure("Which items count, and for whom", aid, picture, table(head, lines)))


def _on_what(sees: Floats) -> str:
    """Return what a reward depends on, in words that follow "depends on": a simple model, or how many other items."""
    length = len(sees)
    plain_words = simple_model(sees, 1.0)
    if plain_words is not None:
        return plain_words
    count = round(float(sees.sum()) / length)
    return f"its own item and about {count} of the {length - 1} others"


def _card(reading: Reading, group: RuleGroup, look: str) -> Markup:
    facts = []
    if known(group.share):
        facts.append(f"{percent(group.share, digits=0)} of {reading.words()[1]}s")
    if group.positions and len(group.positions) < len(group.mask):
        many = "positions" if len(group.positions) > 1 else "position"
        facts.append(f"{many} {ranges(group.positions)}")
    words = "; ".join(model_words(name) for name in group.models)
    drawn = mask_chart(group.mask, size=84, name=f"behaviour of {group.rule}") if group.mask else ""
    rule, soft = tag("p", group.rule, class_="rule"), tag("p", ", ".join(facts), class_="soft")
    told = tag("div", rule, soft, tag("p", words))
    return tag("div", tag("div", drawn, class_="models"), told, class_=f"group {look}")


def _features(reading: Reading, target: str, described: "ForestDescription") -> Markup:
    gains = described.importance
    found = [(column_name(name), v) for name, v in gains.items() if v > 0]
    found.sort(key=lambda item: -item[1])
    lines = []
    for name, share in found:
        shown = percent(share, digits=0)
        lines.append((name, min(share, 1.0), shown, f"{name}: {shown} of the gain"))
    data = table(
        ("context", "share of the gain"), [(name, percent(share)) for name, share in found]
    )
    topic, aid = "what tells the groups apart", "Share of the improvement that splits on it bring."
    title = named(reading, target, topic) if target else topic.capitalize()
    return figure(title, aid, bars(lines, style_of(reading, target).look), data, target)


def _forest_table(forest: "ForestDescription") -> Markup:
    head = ("group", "model", "position", "share", "value", "low", "high")
    body = []
    for tree in forest.positions:
        for leaf in tree.groups:
            numbers = (plain(v, leaf.stderr) for v in (leaf.estimate, leaf.low, leaf.high))
            where = tree.position or "all"
            body.append((rule_of(leaf), leaf.model, where, percent(leaf.share), *numbers))
    return table(head, body, texts=2)
