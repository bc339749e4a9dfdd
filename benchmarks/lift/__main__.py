"""Run the study: python -m benchmarks.lift --data DIR [--draws dev] [--logs 4] [--only search,shop].

Results stay under --out, a file per log; run again to resume, `--again auto` estimates anew.
"""

import os

# One core is one core: threads of BLAS would only disturb each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path

from benchmarks.lift import groups, headlines, news, search, simulated
from benchmarks.lift.cells import DRAWS, Cell, Kept
from benchmarks.lift.running import STRONG, WEIGHTS, path_of, read, run
from benchmarks.lift.tables import table

POPULATIONS: dict[str, Callable[[str, Path | None, Kept], list[Cell]]] = {
    "search": search.cells,
    "rankers": search.rankers,
    "news": news.cells,
    "readers": news.trained,
    "headlines": headlines.cells,
    "shop": simulated.shop,
    "equal": simulated.equal,
    "shaped": simulated.shaped,
    "factored": simulated.factored,
    "groups": groups.cells,
    "premise": groups.premise,
    "close": simulated.close,
    "special": simulated.special,
}


def main() -> None:
    """Estimate what is not there yet, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data", type=Path, help=f"folder with {search.FILE}, {news.FILE}, {headlines.FILE}"
    )
    parser.add_argument("--draws", choices=sorted(DRAWS), default="dev")
    parser.add_argument("--only", default=",".join(POPULATIONS), help="populations, with commas")
    parser.add_argument("--cells", default="", help="only cells whose name holds this text")
    parser.add_argument("--logs", type=int, default=4, help="logs a cell")
    parser.add_argument("--first", type=int, default=0, help="number of the first log")
    parser.add_argument(
        "--estimators", default=",".join(["auto", *WEIGHTS]), help="names, with commas"
    )
    parser.add_argument(
        "--strong", action="store_true", help=f"and {', '.join(STRONG)}: needs LightGBM"
    )
    parser.add_argument("--again", default="", help="names to estimate anew")
    parser.add_argument("--of", default="auto", help="names to judge, with commas")
    parser.add_argument("--all", action="store_true", help="every cell, not the short sweep")
    parser.add_argument("--part", default="0/1", help="i/m: every m-th cell, for m processes")
    parser.add_argument("--out", type=Path, default=Path("out/lift"))
    parser.add_argument(
        "--record", type=Path, help="keep here what auto decided on, for benchmarks.lift.rules"
    )
    parser.add_argument("--report", action="store_true", help="only print what is there")
    given = parser.parse_args()
    unknown = set(given.only.split(",")) - set(POPULATIONS)
    if unknown:
        parser.error(f"no population is called {', '.join(sorted(unknown))}")
    warnings.simplefilter("ignore")
    kept, folder = Kept(given.out / "truths"), given.out / given.draws
    cells = [
        cell
        for name in given.only.split(",")
        for cell in POPULATIONS[name](given.draws, given.data, kept)
        if (given.all or cell.sweep) and given.cells in cell.name
    ]
    part, parts = (int(text) for text in given.part.split("/"))
    cells = cells[part::parts]
    names = [*given.estimators.split(","), *(STRONG if given.strong else ())]
    again = given.again.split(",")
    numbers = range(given.first, given.first + given.logs)
    found = {
        # Log by log, so that an interrupted study has as many cells as possible.
        (place, number): read(path_of(folder, cell, number))
        if given.report
        else run(cell, number, names, again, folder, given.record)
        for number in numbers
        for place, cell in enumerate(cells)
    }
    rows = [one for key in sorted(found) for one in found[key]]
    for name in given.of.split(","):
        print(f"\n{table(rows, name)}")


if __name__ == "__main__":
    main()
