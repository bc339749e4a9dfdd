"""One page with every figure and table of a run, numbered as in the paper: `page.md`."""

from collections.abc import Iterator
from pathlib import Path

from counterrank import atomic
from counterrank.research.paper import figures
from counterrank.research.paper.figures import FIGURES
from counterrank.research.paper.results import read_rows, seeds_in

_TITLE = "The figures and tables of Kiyohara et al. (2023), made anew"


def write_page(out: Path) -> Iterator[str]:
    """Write the page of the results in a folder."""
    from counterrank.research.paper.runner import tables

    about = (
        "MSE, squared bias and variance are divided by V². In brackets: the published value, and "
        "ours divided by it."
    )
    parts = [f"# {_TITLE}\n\n{about}\n"]
    for name in FIGURES:
        folder, experiment = out / name, figures.get(name)
        seeds = seeds_in(folder)
        if not seeds:
            continue
        parts.append(
            f"## {experiment.title}\n\n`counterrank reproduce {name}`, {len(seeds)} "
            f"seed{'s' * (len(seeds) > 1)}.\n"
        )
        parts += [
            f"![{picture.title}]({name}/{picture.stem}.svg)\n"
            for picture in experiment.pictures
            if (folder / f"{picture.stem}.svg").exists()
        ]
        rows = read_rows(folder, seeds)
        parts += [table.markdown() for table in tables(experiment, rows)]
    atomic.write_text(out / "page.md", "\n".join(parts))
    yield f"wrote {out / 'page.md'}"
