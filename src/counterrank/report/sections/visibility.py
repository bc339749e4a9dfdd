"""What is seen from where: how far each item matters to the reward at each position, as the reward
model found it.
"""

from markupsafe import Markup

from counterrank.report.charts.matrix import numbered
from counterrank.report.charts.svg import tag
from counterrank.report.kinds import kinds as kinds_of
from counterrank.report.numbers import plain
from counterrank.report.reading import Reading, whole_matrix
from counterrank.report.sections import parts
from counterrank.report.sections.kinds import figure

#: Longer rankings would be a carpet.
_LONGEST = 20
_SIDE, _LEFT, _TOP = 30.0, 26.0, 20.0


def section(reading: Reading) -> parts.Section | None:
    """Return the matrix of visibilities of the first estimate whose model has one, and its kinds of
    users.
    """
    every = ((given, whole_matrix(given.get("visibility"))) for given in reading.regressions)
    regression, found = next(((given, seen) for given, seen in every if seen), (None, []))
    if regression is None or len(found) > _LONGEST:
        return None
    aid = (
        "A row is the reward at a position, a column the position of another item. "
        "1 is average; a fuller colour counts more."
    )
    head = ("reward at", *(f"item at {m + 1}" for m in range(len(found))))
    lines = [
        (str(k + 1), *("" if m == k else plain(v) for m, v in enumerate(row)))
        for k, row in enumerate(found)
    ]
    drawn = parts.figure("How far each item is seen", aid, _chart(found), parts.table(head, lines))
    lead = (
        "The best reward model for this log weighs what one item does to another by how far it is "
        "seen. It was found from the log, and belongs to its users, not to a policy."
    )
    shown, kinds = parts.grid(drawn), kinds_of(regression)
    if kinds is not None and len(kinds.found) > 1 and len(kinds.found[0].sees) == len(found):
        lead += (
            " Not everybody looks at the same things: this is the average over the kinds of "
            "users below."
        )
        shown += parts.grid(figure(reading, kinds))
    return parts.Section("visibility", "What is seen from where", lead, shown)


def _chart(seen: list[list[float]]) -> Markup:
    most = max((abs(v) for line in seen for v in line), default=0.0) or 1.0
    marks = [
        _cell(k, m, value, most) for k, line in enumerate(seen) for m, value in enumerate(line)
    ]
    drawn = numbered(marks, len(seen), _SIDE, (_LEFT, _TOP), "How far each item is seen")
    return tag("div", drawn, class_="chart", role="group", tabindex="0")


def _cell(k: int, m: int, value: float, most: float) -> Markup:
    box = {
        "x": _LEFT + m * _SIDE + 1,
        "y": _TOP + k * _SIDE + 1,
        "width": _SIDE - 2,
        "height": _SIDE - 2,
        "rx": 3,
    }
    if k == m:
        return tag("rect", **box, class_="own")
    shade = tag(
        "rect", **box, class_="on-scale", fill_opacity=round(max(value, 0.0) / most * 0.85, 3)
    )
    words = f"reward at {k + 1}, item at {m + 1}: {plain(value)} of the average"
    return tag("g", tag("rect", **box, class_="off"), shade, class_="mark", data_tip=words)
