"""Writes the tables of the ledger into the pages, after running its commands if asked to."""

import argparse
import re
import shlex
import subprocess
import sys
from pathlib import Path

from benchmarks.ledger import tables

PAGES = ("reproduction", "where-aips-helps")


def commands() -> list[list[str]]:
    """Return the commands of the page as written, one for each line of its blocks."""
    page = (tables.DOCS / "reproduction.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```bash\n(.*?)^```", page, flags=re.M | re.S)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line)) and words[0] == "counterrank"]


def moved(words: list[str], folder: Path) -> list[str]:
    """Return a command with its folder, out/..., below another one."""
    return [
        str(folder / word.removeprefix("out")[1:]) if word.split("/")[0] == "out" else word
        for word in words
    ]


def written(page: str, made: dict[str, str]) -> str:
    """Return a page with what stands between its marks made anew."""
    for name, text in made.items():
        mark = re.compile(
            rf"(<!-- {name}: made by benchmarks.ledger -->\n).*?(\n?<!-- end -->)", re.S
        )
        page, count = mark.subn(
            lambda m, text=text: m[1] + text.strip("\n") + "\n<!-- end -->", page
        )
        if count != 1:
            raise SystemExit(f"the page has {count} places for {name}")
    return page


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("--run", action="store_true", help="run every command of the page first")
    options = parser.parse_args()
    if options.run:
        for words in commands():
            subprocess.run([sys.executable, "-m", *moved(words, options.results)], check=True)
    where = tables.study(options.results, "where-aips-helps")
    made = {
        "reproduction": {
            "claims": tables.claims_table(options.results, where),
            "agreement": tables.agreement(options.results),
            **{name: tables.figure_table(options.results, name) for name in tables.MAIN},
        },
        "where-aips-helps": {
            "errors": tables.where_table(where),
            "pairs": tables.pair_table(where),
        },
    }
    for name, parts in made.items():
        path = tables.DOCS / f"{name}.md"
        path.write_text(written(path.read_text(encoding="utf-8"), parts), encoding="utf-8")


if __name__ == "__main__":
    main()
