"""Who behaves how: what users see of which item, and the groups of the behaviour tree.

In every matrix a row is the reward at a position and a column the item that may matter to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from counterrank import behavior as masks
from counterrank.arrays import Bools, Floats
from counterrank.report.charts import Bars, Matrices, MatrixCard
from counterrank.report.document import Block, Figure, Table, notes, section
from counterrank.report.numbers import known, percent, plain
from counterrank.report.reading import Reading, column_name, rows, whole_matrix

if TYPE_CHECKING:
    from counterrank.behavior import Condition, ForestDescription, Leaf, People, Tree

#: Longer rankings would be a carpet.
LONGEST = 20
#: Classes whose numbers differ by less than this share of the scale coincide.
SAME = 0.15
#: Kinds rarer than this are "others": what so few users see is mostly noise.
RARE = 0.01
#: What counts less than this share of the scale everywhere is not seen at all.
NOTHING = 0.25
#: Share of pairs of positions on which what is seen must agree with a simple model to be called so.
ALIKE = 0.9
#: Larger numbers are damage.
_LARGEST = 1e9


def visibility(reading: Reading) -> list[Block]:
    """Return how far each item is seen from each position, and the kinds of users.

    Both are those of the first estimate whose model says so.
    """
    every = ((given, whole_matrix(given.get("visibility"))) for given in reading.regressions)
    regression, found = next(((given, seen) for given, seen in every if seen), ({}, []))
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
    users = kinds(regression)
    more = None
    if users is not None and len(users.found) > 1 and len(users.found[0].sees) == len(found):
        more = _kinds_figure(reading, users)
    return section("What is seen from where", "visibility", figure, more, lead=lead)


@dataclass(frozen=True, slots=True)
class UserKind:
    """Users who see the same: their share, how far they see (K, K), 1 = average, and what, in words."""

    share: float
    sees: tuple[tuple[float, ...], ...]
    looks_at: str


@dataclass(frozen=True, slots=True)
class Kinds:
    """The kinds, most common first; the share of all others; the largest number, which a colour scale ends at."""

    found: tuple[UserKind, ...]
    others: float
    scale: float


def _kinds_figure(reading: Reading, users: Kinds) -> Figure:
    ranking = reading.words()[1]
    cards = [
        MatrixCard(f"{percent(kind.share, digits=0)} of the {ranking}s", f"look at {kind.looks_at}",
                   [[v / users.scale for v in row] for row in kind.sees])
        for kind in users.found
    ]  # fmt: skip
    aid = f"Share of the {ranking}s, and what their users look at, all on one scale."
    if users.others >= 1e-3:
        aid += f" Others: {percent(users.others)}."
    return Figure("kinds", "Kinds of users found", aid, Matrices(cards))


def kinds(regression: Mapping[str, Any]) -> Kinds | None:
    """Return the kinds of users of a model's details, coinciding classes joined.

    None where it has no classes or damaged ones.

    >>> everything, nothing = [[0, 2], [2, 0]], [[0, 0.01], [0, 0]]
    >>> classes = [{"share": s, "sees": m} for s, m in ((0.5, everything), (0.3, nothing), (0.2, everything))]
    >>> [(round(kind.share, 2), kind.looks_at) for kind in kinds({"behaviors": classes}).found]
    [(0.7, 'everything'), (0.3, 'the item itself only')]
    """
    classes = list(_classes(regression.get("behaviors")))
    if not classes or len({sees.shape for _, sees in classes}) > 1:
        return None
    # A class hardly anybody is of may hold any numbers: it has no say in the scale.
    common = [sees for share, sees in classes if share >= RARE]
    scale = float(max((np.abs(sees).max() for sees in common), default=0.0))
    if scale <= 0.0:
        return None
    # Joined before the rare are left out: several rare classes may be one common kind.
    joined = sorted(_joined(classes, scale), key=lambda one: -one[0])
    found = [
        UserKind(share, tuple(map(tuple, sees.tolist())), looks_at(sees, scale))
        for share, sees in joined
        if share >= RARE
    ]
    return Kinds(tuple(found), sum((share for share, _ in joined if share < RARE), 0.0), scale)


def _classes(given: Any) -> Iterator[tuple[float, Floats]]:
    """Yield share and matrix of every class that has both, whole."""
    for row in rows(given):
        share, sees = row.get("share"), whole_matrix(row.get("sees"))
        if not known(share) or not 0.0 <= share <= 1.0 or len(sees) < 2:
            continue
        if np.abs(sees).max() < _LARGEST:
            yield float(share), np.array(sees) * ~np.eye(len(sees), dtype=bool)


def _joined(classes: list[tuple[float, Floats]], scale: float) -> list[tuple[float, Floats]]:
    """Return classes with those that coincide made one: shares added, numbers averaged."""
    out: list[tuple[float, Floats]] = []
    for share, sees in sorted(classes, key=lambda one: -one[0]):
        same = next((j for j, (_, other) in enumerate(out) if _coincide(sees, other, scale)), None)
        if same is None:
            out.append((share, sees))
            continue
        before, mean = out[same]
        total = before + share
        out[same] = total, (before * mean + share * sees) / total if total > 0.0 else mean
    return out


def _coincide(one: Floats, other: Floats, scale: float) -> bool:
    """Return whether all numbers are close, or the same items are seen and the numbers are close on average.

    A rare class's numbers are noisy: one of them may be far off where the others leave no doubt.
    """
    apart = np.abs(one - other) / scale
    return bool(
        apart.max() < SAME
        or (apart.mean() < SAME and (seen(one, scale) == seen(other, scale)).all())
    )


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


def looks_at(sees: Floats, scale: float) -> str:
    """Return what is seen, in words that follow "look at": the simple behaviour model that agrees best, or how much.

    >>> looks_at(np.tri(4, k=-1), 1.0), looks_at(np.eye(4, k=1) + np.eye(4, k=-1), 1.0)
    ('what stands above', 'direct neighbours')
    """
    if (simple := simple_model(sees, scale)) is not None:
        return simple
    share = seen(sees, scale)[~np.eye(len(sees), dtype=bool)].mean()
    if share >= 0.6:
        return "most things, with gaps"
    return "few things here and there" if share < 0.3 else "some things here and there"


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
    gains = sorted(
        ((column_name(n), v) for n, v in described.importance.items() if v > 0),
        key=lambda one: -one[1],
    )
    bars = [
        (n, min(v, 1.0), percent(v, digits=0), f"{n}: {percent(v, digits=0)} of the gain")
        for n, v in gains
    ]
    apart = Figure("features", "what tells the groups apart", "Share of the improvement that splits on it bring.",
                   Bars(bars, mark.look), mark=mark)  # fmt: skip
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
