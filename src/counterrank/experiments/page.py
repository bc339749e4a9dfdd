"""One page with every figure and table of a run."""

from collections.abc import Iterator
from pathlib import Path

from counterrank import atomic
from counterrank._version import __version__
from counterrank.experiments.names import FIGURES


def write_page(out: Path, preset: str, seeds: int) -> Iterator[str]:
    """Write DIR/reproduction.md from the figures' own tables."""
    parts = [
        "# The paper, reproduced\n",
        f"counterrank {__version__}, preset `{preset}`, {seeds} seeds. In brackets: the published value, read off the "
        "plots (1 to 2 %), and ours divided by it. Everything is divided by V².\n",
    ]
    for name, text in FIGURES.items():
        table = out / name / f"{name}.md"
        if table.exists():
            picture = f"![{name}]({name}/{name}.svg)\n" if (out / name / f"{name}.svg").exists() else ""
            parts += [f"## {name}\n", f"{text[0].upper()}{text[1:]}.\n", picture, table.read_text(encoding="utf-8")]
    path = out / "reproduction.md"
    atomic.write_text(path, "\n".join(parts))
    yield f"wrote {path}"
