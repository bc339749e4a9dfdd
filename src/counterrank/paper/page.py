"""One page with every figure and table of a run, made from its results."""

import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from counterrank import atomic
from counterrank.paper import sections


def write_page(out: Path, into: Path | None = None, *, preset: str = "published") -> Iterator[str]:
    """Write the page of the results in a folder, to DIR/reproduction.md or to the file `into`."""
    path = into or out / "reproduction.md"
    text = page(out, path.parent) if preset == "published" else plain_page(out, preset)
    atomic.write_text(path, re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n")
    yield f"wrote {path}"


def page(out: Path, beside: Path) -> str:
    """Return the page; links to pages that are not `beside` it become plain text."""
    text = files("counterrank.paper").joinpath("data/page.md").read_text(encoding="utf-8")
    for name, make in sections.SECTIONS.items():
        text = text.replace(f"<!-- {name} -->", make(out))
    return re.sub(r"\[([^\]]+)\]\(([\w-]+\.md)\)", lambda m: m[0] if (beside / m[2]).exists() else m[1], text)


def plain_page(out: Path, preset: str) -> str:
    """Return the tables of a world without published values."""
    title = f"# The figures of the paper in preset `{preset}`\n\nMSE divided by each world's V².\n"
    return f"{title}\n{sections.tables(out, preset, leave_out=set())}"
