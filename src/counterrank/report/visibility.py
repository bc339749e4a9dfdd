"""What users see of which item, by kinds of users, as a reward model found it.

In every matrix a row is the reward at a position and a column the item that may matter to it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from counterrank import behavior as masks
from counterrank.arrays import Bools, Floats
from counterrank.report.numbers import known, percent, plain
from counterrank.report.parts import Section, figure, grid, section, table, tag
from counterrank.report.reading import Reading, rows, whole_matrix

#: Longer rankings have only every third position numbered.
ALL_NUMBERED = 10


@dataclass(frozen=True, slots=True)
class MatrixGrid:
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


#: Longer rankings would be a carpet.
LONGEST = 20


def visibility(reading: Reading) -> Section | None:
    """Return how far each item is seen from each position, and the kinds of users.

    Both are those of the first estimate whose model says so.
    """
    every = ((given, whole_matrix(given.get("visibility"))) for given in reading.regressions)
    regression, found = next(((given, seen) for given, seen in every if seen), (None, []))
    if regression is None or len(found) > LONGEST:
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
    cells = MatrixGrid(30.0, left=26.0, top=20.0, gap=1.0)
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
    found = [kind_of(share, sees, scale) for share, sees in joined if share >= RARE]
    return Kinds(tuple(found), sum((share for share, _ in joined if share < RARE), 0.0), scale)


def kind_of(share: float, sees: Floats, scale: float) -> UserKind:
    """Return a kind of user of what it sees (K, K)."""
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
    cells = MatrixGrid(min(_SIDE / length, _CELL), left=20.0, top=18.0)
    drawn = cells.numbered(shades(kind, cells, scale), length, told)
    head = tag("p", tag("strong", share), " ", words)
    return tag("div", head, drawn, class_="kind mark", data_tip=told)


def shades(kind: UserKind, cells: MatrixGrid, scale: float) -> list[Markup]:
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
