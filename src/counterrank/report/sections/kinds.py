"""Kinds of users found: what each class of a reward model sees, as small matrices on one colour
scale.
"""

from markupsafe import Markup

from counterrank.report.charts.matrix import numbered
from counterrank.report.charts.svg import tag
from counterrank.report.kinds import Kind, Kinds
from counterrank.report.numbers import percent, plain
from counterrank.report.reading import Reading
from counterrank.report.sections import parts

#: The side of a whole matrix, and of its cells at most.
_SIDE, _CELL = 124.0, 22.0
_LEFT, _TOP = 20.0, 18.0
#: Shades that are told apart, and the opacity of the last: an own item is darker still.
_STEPS, _FULL = 20, 0.85
#: The share from which others are mentioned, and how exact visibilities are written.
_WORTH_TELLING, _EXACT = 1e-3, 0.05


def figure(reading: Reading, kinds: Kinds) -> Markup:
    """Return a small matrix for each kind, with its share and what it looks at, and all numbers as
    a table.
    """
    cards = [_card(reading, kind, kinds.scale) for kind in kinds.found]
    drawn = tag("div", *cards, class_="kinds chart", role="group", tabindex="0")
    ranking = reading.words()[1]
    aid = (
        f"Share of the {ranking}s, and what their users look at. Rows and columns are those of "
        "the average above; "
        f"the full colour is {plain(kinds.scale, _EXACT)} times its mean in every matrix."
    )
    if kinds.others >= _WORTH_TELLING:
        aid += f" Others: {percent(kinds.others)}."
    length = len(kinds.found[0].sees) if kinds.found else 0
    head = ("look at", "share", "reward at", *(f"item at {m + 1}" for m in range(length)))
    lines = [
        (
            kind.looks_at,
            percent(kind.share),
            k + 1,
            *("" if m == k else plain(v, _EXACT) for m, v in enumerate(row)),
        )
        for kind in kinds.found
        for k, row in enumerate(kind.sees)
    ]
    return parts.figure("Kinds of users found", aid, drawn, parts.table(head, lines))


def _card(reading: Reading, kind: Kind, scale: float) -> Markup:
    share, words = percent(kind.share, digits=0), f"look at {kind.looks_at}"
    told = f"{share} of the {reading.words()[1]}s: users {words}"
    return tag(
        "div", tag("p", tag("strong", share), " ", words), _matrix(kind, scale, told), class_="kind mark", data_tip=told
    )  # fmt: skip


def _matrix(kind: Kind, scale: float, told: str) -> Markup:
    length = len(kind.sees)
    cell = min(_SIDE / length, _CELL)
    return numbered(_shades(kind, cell, scale), length, cell, (_LEFT, _TOP), told)


def _shades(kind: Kind, cell: float, scale: float) -> list[Markup]:
    """Return one path for all cells of a shade: eight matrices of 16 x 16 elements would make a
    heavy page.
    """
    shades: dict[float, list[str]] = {}
    own: list[str] = []
    others: list[str] = []
    side = f"{cell - 1.5:.4g}"
    for k, row in enumerate(kind.sees):
        for m, value in enumerate(row):
            box = (
                f"M{_LEFT + m * cell + 0.75:.4g} "
                f"{_TOP + k * cell + 0.75:.4g}h{side}v{side}h-{side}z"
            )
            (own if k == m else others).append(box)
            shade = round(min(max(value / scale, 0.0), 1.0) * _STEPS) / _STEPS * _FULL
            if k != m and shade:
                shades.setdefault(shade, []).append(box)
    drawn = [
        tag("path", d="".join(boxes), class_="on-scale", fill_opacity=shade)
        for shade, boxes in shades.items()
    ]
    return [
        tag("path", d="".join(others), class_="off"),
        tag("path", d="".join(own), class_="own"),
        *drawn,
    ]
