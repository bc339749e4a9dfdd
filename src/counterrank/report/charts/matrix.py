"""A behaviour model as a small matrix: rows are rewards, columns the items that matter to them."""

from collections.abc import Sequence

from markupsafe import Markup

from counterrank.report.charts.svg import tag


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
