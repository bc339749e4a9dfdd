"""Who behaves how: groups of the behaviour tree, each with its model drawn as a small matrix.

And what users see of which item, by kinds, as a reward model found it.

In every matrix a row is the reward at a position and a column the item that may matter to it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from counterrank import behavior as masks
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
from counterrank.report.reading import Reading, column_name, rows, whole_matrix

if TYPE_CHECKING:
    from counterrank.behavior import ForestDescription, Leaf, People, Tree

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

#: Longer rankings have only every third position numbered.
ALL_NUMBERED = 10


@dataclass(frozen=True, slots=True)
class _Grid:
    """Where the cells of a matrix lie: their side, the corner of the first, what is left between."""

    cell: float
    left: float = 0.0
    top: float = 0.0
    gap: float = 0.75

    def corner(self, k: int, m: int) -> tuple[float, float]:
        """Return x and y of the cell of reward k and item m."""
        return self.left + m * self.cell + self.gap, self.top + k * self.cell + self.gap

    def box(self, k: int, m: int, rx: float) -> dict[str, float]:
        """Return the cell as a rectangle's attributes."""
        x, y = self.corner(k, m)
        return {"x": x, "y": y, "width": self.side, "height": self.side, "rx": rx}

    @property
    def side(self) -> float:
        """What is drawn of a cell."""
        return self.cell - 2 * self.gap

    def framed(
        self, marks: Sequence[Markup], size: tuple[float, float], title: str, look: str = ""
    ) -> Markup:
        """Return marks as a picture of this size with a name."""
        width, height = size
        return tag(
            "svg", tag("title", title), *marks, width=width, height=height,
            viewBox=f"0 0 {width:.6g} {height:.6g}", class_=f"matrix{look}", role="img",
        )  # fmt: skip

    def numbered(self, marks: Sequence[Markup], length: int, title: str) -> Markup:
        """Return marks as a matrix whose positions are numbered on the left and above."""
        shown = list(marks)
        for k in range(0, length, 1 if length <= ALL_NUMBERED else 3):
            middle = (k + 0.5) * self.cell
            for x, y, anchor in (
                (self.left + middle, self.top - 5, "middle"),
                (self.left - 6, self.top + middle + 4, "end"),
            ):
                shown.append(tag("text", str(k + 1), x=x, y=y, text_anchor=anchor, class_="tick"))
        size = self.left + length * self.cell, self.top + length * self.cell
        return self.framed(shown, size, title, " seen t0")


def mask_chart(mask: Sequence[Sequence[int] | None], *, size: int = 72, name: str = "") -> Markup:
    """Return a K x K matrix: full the own item, paler another that matters to the reward at k; None is no row."""
    cells = _Grid(size / max(len(mask), 1))
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
    if not found or not 2 <= len(found[0][2]) <= _LONGEST:
        return Markup("")
    cards = []
    for rule, share, sees in found:
        off = np.clip(np.array(sees) * ~np.eye(len(sees), dtype=bool), 0.0, 1.0)
        kind = _kind(share, off, 1.0)
        part = f"{percent(kind.share, digits=0)} of {reading.words()[1]}s"
        who = "Everyone" if rule == EVERYONE else f"{part}: {rule}"
        words = f"What a place earns depends on {_on_what(off)}."
        cells = _Grid(min(_WIDE / len(sees), _BROAD), left=20.0, top=18.0)
        drawn = cells.numbered(_shades(kind, cells, 1.0), len(sees), f"{who}. {words}")
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


#: Longer rankings would be a carpet.
_LONGEST = 20


def visibility(reading: Reading) -> Section | None:
    """Return how far each item is seen from each position, and the kinds of users.

    Both are those of the first estimate whose model says so.
    """
    every = ((given, whole_matrix(given.get("visibility"))) for given in reading.regressions)
    regression, found = next(((given, seen) for given, seen in every if seen), (None, []))
    if regression is None or len(found) > _LONGEST:
        return None
    shown = grid(_seen_figure(found))
    lead = (
        "The best reward model for this log weighs what one item does to another by how far it is "
        "seen. It was found from the log, and belongs to its users, not to a policy."
    )
    users = kinds(regression)
    if users is not None and len(users.found) > 1 and len(users.found[0].sees) == len(found):
        lead += (
            " Not everybody looks at the same things: this is the average over the kinds of "
            "users below."
        )
        shown += grid(_kinds_figure(reading, users))
    return section("visibility", "What is seen from where", lead, shown)


def _seen_figure(seen: list[list[float]]) -> Markup:
    aid = (
        "A row is the reward at a position, a column the position of another item. "
        "1 is average; a fuller colour counts more."
    )
    head = ("reward at", *(f"item at {m + 1}" for m in range(len(seen))))
    lines = [
        (str(k + 1), *("" if m == k else plain(v) for m, v in enumerate(row)))
        for k, row in enumerate(seen)
    ]
    return figure("How far each item is seen", aid, _seen_chart(seen), table(head, lines))


def _seen_chart(seen: list[list[float]]) -> Markup:
    most = max((abs(v) for line in seen for v in line), default=0.0) or 1.0
    cells = _Grid(30.0, left=26.0, top=20.0, gap=1.0)
    marks = [
        _seen_cell(cells.box(k, m, 3), (k, m), value, most)
        for k, line in enumerate(seen)
        for m, value in enumerate(line)
    ]
    drawn = cells.numbered(marks, len(seen), "How far each item is seen")
    return tag("div", drawn, class_="chart", role="group", tabindex="0")


def _seen_cell(box: dict[str, float], at: tuple[int, int], value: float, most: float) -> Markup:
    k, m = at
    if k == m:
        return tag("rect", **box, class_="own")
    opacity = round(max(value, 0.0) / most * _FULL, 3)
    shade = tag("rect", **box, class_="on-scale", fill_opacity=opacity)
    words = f"reward at {k + 1}, item at {m + 1}: {plain(value)} of the average"
    return tag("g", tag("rect", **box, class_="off"), shade, class_="mark", data_tip=words)


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


@dataclass(frozen=True, slots=True)
class UserKind:
    """Users who see the same.

    Their share of the rankings, how far they see (K, K), 1 = average, and what, in words.
    """

    share: float
    sees: tuple[tuple[float, ...], ...]
    looks_at: str


@dataclass(frozen=True, slots=True)
class Kinds:
    """The kinds, most common first; the share of all others; the largest number, which a colour scale ends at."""

    found: tuple[UserKind, ...]
    others: float
    scale: float


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
    found = [_kind(share, sees, scale) for share, sees in joined if share >= RARE]
    return Kinds(tuple(found), sum((share for share, _ in joined if share < RARE), 0.0), scale)


def _kind(share: float, sees: Floats, scale: float) -> UserKind:
    return UserKind(share, tuple(tuple(row) for row in sees.tolist()), looks_at(sees, scale))


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
        held, mean = out[same]
        total = held + share
        out[same] = total, (held * mean + share * sees) / total if total > 0.0 else mean
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


#: The side of a kind's whole matrix, and of its cells at most.
_SIDE, _CELL = 124.0, 22.0
#: The same where two of them stand alone.
_WIDE, _BROAD = 200.0, 32.0
#: Shades that are told apart, and the opacity of the last: an own item is darker still.
_STEPS, _FULL = 20, 0.85
#: The share from which others are mentioned, and how exact visibilities are written.
_WORTH_TELLING, _EXACT = 1e-3, 0.05


def _kinds_figure(reading: Reading, users: Kinds) -> Markup:
    """Return a small matrix for each kind of user, with its share and what it looks at.

    All share one colour scale; a table has the numbers.
    """
    cards = [_kind_card(reading, kind, users.scale) for kind in users.found]
    drawn = tag("div", *cards, class_="kinds chart", role="group", tabindex="0")
    aid = (
        f"Share of the {reading.words()[1]}s, and what their users look at. Rows and columns are "
        "those of the average above; "
        f"the full colour is {plain(users.scale, _EXACT)} times its mean in every matrix."
    )
    if users.others >= _WORTH_TELLING:
        aid += f" Others: {percent(users.others)}."
    length = len(users.found[0].sees) if users.found else 0
    head = ("look at", "share", "reward at", *(f"item at {m + 1}" for m in range(length)))
    lines = [
        (kind.looks_at, percent(kind.share), k + 1, *("" if m == k else plain(v, _EXACT) for m, v in enumerate(row)))
        for kind in users.found
        for k, row in enumerate(kind.sees)
    ]  # fmt: skip
    return figure("Kinds of users found", aid, drawn, table(head, lines))


def _kind_card(reading: Reading, kind: UserKind, scale: float) -> Markup:
    share, words = percent(kind.share, digits=0), f"look at {kind.looks_at}"
    told = f"{share} of the {reading.words()[1]}s: users {words}"
    length = len(kind.sees)
    cells = _Grid(min(_SIDE / length, _CELL), left=20.0, top=18.0)
    drawn = cells.numbered(_shades(kind, cells, scale), length, told)
    head = tag("p", tag("strong", share), " ", words)
    return tag("div", head, drawn, class_="kind mark", data_tip=told)


def _shades(kind: UserKind, cells: _Grid, scale: float) -> list[Markup]:
    """Return one path for all cells of a shade: eight matrices of 16 x 16 elements would make a heavy page."""
    shades: dict[float, list[str]] = {}
    own, others = [], []
    side = f"{cells.side:.4g}"
    for k, row in enumerate(kind.sees):
        for m, value in enumerate(row):
            x, y = cells.corner(k, m)
            box = f"M{x:.4g} {y:.4g}h{side}v{side}h-{side}z"
            if k == m:
                own.append(box)
                continue
            others.append(box)
            shade = round(min(max(value / scale, 0.0), 1.0) * _STEPS) / _STEPS * _FULL
            if shade:
                shades.setdefault(shade, []).append(box)
    return [
        tag("path", d="".join(others), class_="off"),
        tag("path", d="".join(own), class_="own"),
        *(tag("path", d="".join(boxes), class_="on-scale", fill_opacity=shade) for shade, boxes in shades.items()),
    ]  # fmt: skip
