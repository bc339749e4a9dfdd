"""Tags, escaped."""

from typing import Any

from markupsafe import Markup, escape


def tag(name: str, *children: Any, **attributes: Any) -> Markup:
    """Return an element; attribute names lose a trailing underscore, others become hyphens; None is
    left out.

    >>> str(tag("text", "a < b", class_="tick", text_anchor="end", y=None))
    '<text class="tick" text-anchor="end">a &lt; b</text>'
    """
    # Joined by hand: a page has thousands of elements, and formatting Markup is ten times slower.
    parts = ["<", name]
    for key, value in attributes.items():
        if value is not None:
            shown = f"{value:.6g}" if isinstance(value, float) else escape(value)
            parts.append(f' {key.rstrip("_").replace("_", "-")}="{shown}"')
    parts.append(">")
    parts.extend(escape(child) for child in children)
    parts.append(f"</{name}>")
    return Markup("".join(parts))


def percent(share: float) -> str:
    """Return a position as SVG wants it.

    >>> percent(0.12345)
    '12.35%'
    """
    return f"{share * 100:.4g}%"


def marker(shape: int, x: str, y: float, **attributes: Any) -> Markup:
    """Return one of five shapes at (x, y): circle, diamond, square, triangle, inverted triangle."""
    paths = (
        "M-6 0a6 6 0 1 0 12 0a6 6 0 1 0-12 0z",
        "M0-7.5 7.5 0 0 7.5-7.5 0z",
        "M-5.5-5.5h11v11h-11z",
        "M0-7 7 5.5H-7z",
        "M0 7 7-5.5H-7z",
    )
    shown = tag("path", d=paths[shape % len(paths)], **attributes)
    return tag("svg", shown, x=x, y=y, overflow="visible", class_="at")


def line(x1: str, y1: float, x2: str, y2: float, class_: str) -> Markup:
    """Return a straight line."""
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def text(content: Any, x: str, y: float, class_: str, anchor: str = "middle") -> Markup:
    """Return a piece of text."""
    return tag("text", content, x=x, y=y, class_=class_, text_anchor=anchor)
