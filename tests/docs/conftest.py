"""Code blocks of Markdown pages, found with the line they start on."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def blocks(page, language):
    """Return (line, code) of the fenced blocks of a language in a page of the project."""
    text = (ROOT / page).read_text()
    found = re.finditer(rf"^```{language}\n(.*?)^```", text, flags=re.M | re.S)
    return [(text[: match.start()].count("\n") + 2, match[1]) for match in found]


def run_python(page, code, line, names):
    """Run a block as if it stood at its line of the page, so that a failure points there."""
    exec(compile("\n" * (line - 1) + code, str(ROOT / page), "exec"), names)
