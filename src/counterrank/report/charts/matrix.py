"""A behaviour model as a small matrix: rows are rewards, columns the items that matter to them."""

from collections.abc import Sequence

from markupsafe import Markup

from counterrank.report.charts.svg import tag


def chart(mask: Sequence[Sequence[bool]], *, size: int = 72, name: str = "") -> Markup:
    """Return a K x K matrix: full cells where item l matters to the reward at k, the own item outlined."""
    cell = size / max(len(mask[0]) if mask else 1, 1)
    height = round(cell * max(len(mask), 1), 2)
    parts = []
    for k, row in enumerate(mask):
        for column, on in enumerate(row):
            own = k == column and len(mask) > 1
            look = "own" if own else "on" if on else "off"
            parts.append(
                tag("rect", x=column * cell + 0.75, y=k * cell + 0.75, width=cell - 1.5, height=cell - 1.5,
                    rx=min(2.0, cell / 5), class_=look)
            )  # fmt: skip
    return tag(
        "svg", tag("title", name), *parts, width=size, height=height, viewBox=f"0 0 {size} {height:g}", class_="matrix",
        role="img",
    )  # fmt: skip
