"""Small matrices: rows are rewards, columns the items that matter to them."""

from collections.abc import Sequence

from markupsafe import Markup

from counterrank.report.charts.svg import tag

#: Longer rankings have only every third position numbered.
ALL_NUMBERED = 10


def chart(mask: Sequence[Sequence[int] | None], *, size: int = 72, name: str = "") -> Markup:
    """Return a K x K matrix: dark the own item, light another that matters to the reward at k; None
    is no row.
    """
    cell = size / max(len(mask), 1)
    parts = []
    for k, row in enumerate(mask):
        for column in range(len(mask)):
            look = (
                "none"
                if row is None
                else "own"
                if k == column
                else "on"
                if any(row[column : column + 1])
                else "off"
            )
            parts.append(
                tag("rect", x=column * cell + 0.75, y=k * cell + 0.75, width=cell - 1.5, height=cell - 1.5,
                    rx=min(2.0, cell / 5), class_=look)
            )  # fmt: skip
    return tag(
        "svg",
        tag("title", name),
        *parts,
        width=size,
        height=size,
        viewBox=f"0 0 {size} {size}",
        class_="matrix",
        role="img",
    )


def numbered(
    cells: Sequence[Markup], length: int, cell: float, corner: tuple[float, float], title: str
) -> Markup:
    """Return drawn cells as a length x length matrix whose rows and columns have numbers.

    The first cell starts at `corner` (x, y); numbers stand left of it and above.
    """
    left, top = corner
    marks = list(cells)
    for k in range(0, length, 1 if length <= ALL_NUMBERED else 3):
        middle = (k + 0.5) * cell
        above, beside = (
            tag("text", str(k + 1), x=x, y=y, text_anchor=anchor, class_="tick")
            for x, y, anchor in (
                (left + middle, top - 5, "middle"),
                (left - 6, top + middle + 4, "end"),
            )
        )
        marks += [above, beside]
    width, height = left + length * cell, top + length * cell
    return tag(
        "svg",
        tag("title", title),
        *marks,
        width=width,
        height=height,
        viewBox=f"0 0 {width:.6g} {height:.6g}",
        class_="matrix seen t0",
        role="img",
    )
