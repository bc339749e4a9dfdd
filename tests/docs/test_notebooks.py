"""Every notebook of the gallery runs from top to bottom, and what its cells show can be shown."""

import ast
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
#: Packages that a notebook may need beyond those of the core: without them it is skipped.
NEEDS = {"duckdb_query": "duckdb", "spark_table": "pyspark"}


def cells(path, kind):
    """Return the texts of a notebook's cells of a kind."""
    return [
        "".join(cell["source"])
        for cell in json.loads(path.read_text())["cells"]
        if cell["cell_type"] == kind
    ]


def run(code, where, names):
    """Run a cell and return what a notebook would display: the value of its last line, if that is
    an expression.
    """
    tree = ast.parse(code, where)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, where, "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), where, "eval"), names)


@pytest.mark.cluster
@pytest.mark.timeout(900)
@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_notebook(path, tmp_path, monkeypatch):
    if path.stem in NEEDS:
        pytest.importorskip(NEEDS[path.stem])
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for number, code in enumerate(cells(path, "code"), start=1):
        shown = run(code, f"{path.name}, cell {number}", names)
        if shown is not None:
            assert repr(shown)
            if hasattr(shown, "_repr_html_"):
                assert shown._repr_html_().strip().startswith("<")


@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_a_notebook_starts_from_a_question_and_is_kept_without_outputs(path):
    book = json.loads(path.read_text())
    title = cells(path, "markdown")[0].splitlines()[0]
    assert title.startswith("# ") and title.endswith("?")
    assert book["nbformat"] == 4 and len({cell["id"] for cell in book["cells"]}) == len(
        book["cells"]
    )
    made = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in made)
    assert path.stat().st_size < 8_000 and len(book["cells"]) <= 14


def test_the_gallery_page_lists_every_notebook():
    page = (ROOT / "docs" / "howto" / "charts.md").read_text()
    assert set(re.findall(r"notebooks/(\w+)\.ipynb", page)) == {path.stem for path in BOOKS}


def test_the_gallery_is_not_empty():
    assert len(BOOKS) >= 6
