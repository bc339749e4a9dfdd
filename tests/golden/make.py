"""Write the golden numbers anew, with the reason why they changed.

    python -m tests.golden.make                        which cases differ, and by how much
    python -m tests.golden.make --reason "..." [CASE ...]   write those that differ

Where two branches changed numbers: take those of main (`git checkout main -- tests/golden`), and run it again.

The reason is a sentence for whoever reads the history: what changed, in which direction, and what shows
that the new numbers are the right ones. It is added to REASONS.md with the names of the cases.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.golden.cases import CASES, numbers_of
from tests.golden.documents import FLAT, FOLDER, TOLERANCE, differences, leaves, written

REASONS = Path(__file__).parent / "REASONS.md"


def largest(stored: Any, now: Any) -> str:
    """Return the number that moved most, relative to itself."""
    before, after = dict(leaves(stored)), dict(leaves(now))
    moved = {
        path: abs(value - after[path]) / (abs(value) or 1.0)
        for path, value in before.items()
        if isinstance(value, float) and isinstance(after.get(path), float)
    }
    worst = max(moved, key=lambda path: moved[path], default=None)
    return "" if worst is None or not moved[worst] else f"; most: {worst} by {moved[worst]:.2g}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("cases", nargs="*", help="cases to look at (default: all)")
    parser.add_argument("--reason", help="why the numbers change; without it nothing is written")
    parser.add_argument("--lines", type=int, default=3, help="differences to print of each case")
    asked = parser.parse_args(arguments)
    changed = []
    for name in asked.cases or CASES:
        path, now = FOLDER / f"{name}.json", numbers_of(name)
        stored = json.loads(path.read_text()) if path.exists() else {}
        found = differences(stored, now, FLAT.get(name, TOLERANCE))
        # What is new in a row is no difference, but is pinned as soon as there is a reason to write.
        if not found and stored and (not asked.reason or stored.keys() == now.keys()):
            continue
        print(f"{name}: {len(found)} differ{largest(stored, now)}")
        for line in found[: asked.lines if stored else 0]:
            print(f"    {line}")
        if asked.reason:
            FOLDER.mkdir(exist_ok=True)
            path.write_text(written(json.loads(json.dumps(now))) + "\n")
            changed.append(name)
    if changed and asked.reason:
        few = len(changed) <= 8
        cases = ", ".join(changed) if few else f"{len(changed)} of {len(CASES)} cases"
        with REASONS.open("a") as file:
            file.write(f"- {asked.reason} ({cases})\n")


if __name__ == "__main__":
    main()
