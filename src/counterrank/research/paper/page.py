"""One page with every figure and table of a run, numbered as in the paper: `page.md` and `page.html`."""

import base64
from collections.abc import Iterator
from html import escape
from pathlib import Path

from counterrank import atomic
from counterrank.research.paper import figures
from counterrank.research.paper.figures import FIGURES, Picture
from counterrank.research.paper.results import read_rows, seeds_in
from counterrank.research.summary import TextTable

_TITLE = "The figures and tables of Kiyohara et al. (2023), made anew"
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;font-size:13px;margin:.7rem 0}"
    "td,th{border:1px solid #ccc;padding:.2rem .5rem;text-align:left}img{max-width:100%}"
)


def write_page(out: Path, preset: str = "published") -> Iterator[str]:
    """Write the page of the results in a folder."""
    parts = list(_parts(out, preset))
    about = f"World: {preset}. MSE, squared bias and variance are divided by V². "
    about += "In brackets: the published value, and ours divided by it." * (preset == "published")
    markdown, html = [f"# {_TITLE}\n\n{about}\n"], [f"<h1>{_TITLE}</h1>\n<p>{escape(about)}</p>\n"]
    for number, text, pictures, tables in parts:
        markdown.append(f"## {number}\n\n{text}\n")
        html.append(f"<h2>{escape(number)}</h2>\n<p>{escape(text)}</p>\n")
        for picture, path in pictures:
            title = escape(picture.title)
            data = base64.b64encode(path.read_bytes()).decode()
            markdown.append(f"![{picture.title}]({path.relative_to(out).as_posix()})\n")
            html.append(f'<img alt="{title}" src="data:image/svg+xml;base64,{data}">\n')
        markdown += [table.markdown() for table in tables]
        html += [table.html() for table in tables]
    atomic.write_text(out / "page.md", "\n".join(markdown))
    head = f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{_TITLE}</title>'
    body = "".join(html)
    atomic.write_text(
        out / "page.html", f"{head}<style>{_STYLE}</style></head><body>\n{body}</body></html>\n"
    )
    yield f"wrote {out / 'page.md'} and {out / 'page.html'}"


def _parts(
    out: Path, preset: str
) -> Iterator[tuple[str, str, list[tuple[Picture, Path]], list[TextTable]]]:
    """Yield title, what was run, pictures and tables of each figure that has results."""
    from counterrank.research.paper.runner import tables

    for name, kind in [*((name, preset) for name in FIGURES), ("real-world", "logs")]:
        folder = out / name
        experiment, seeds = figures.get(name), seeds_in(folder, kind)
        if not seeds:
            continue
        stems = (
            (p, folder / f"{p.number.lower().replace(' ', '-')}.svg") for p in experiment.pictures
        )
        text = f"`counterrank reproduce {name}`, {len(seeds)} seed{'s' * (len(seeds) > 1)}."
        yield (
            experiment.title,
            text,
            [(picture, path) for picture, path in stems if path.exists()],
            list(tables(experiment, read_rows(folder, kind, seeds), kind)),
        )
