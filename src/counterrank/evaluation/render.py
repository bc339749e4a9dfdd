"""The bridge to the report package, which may not be imported from below."""

import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from counterrank.evaluation.result import Evaluation


def _report(module: str) -> Any:
    return importlib.import_module(f"counterrank.report.{module}")


def html(model: dict[str, Any]) -> str:
    """Return the self-contained report."""
    page: str = _report("html").render(model)
    return page


def notebook(model: dict[str, Any]) -> str:
    """Return a small HTML fragment for a notebook cell."""
    fragment: str = _report("notebook").render(model)
    return fragment


def picture(model: dict[str, Any], kind: str) -> "Figure":
    """Return one of the report's charts as a matplotlib figure."""
    figure: Figure = _report("pictures").draw(model, kind)
    return figure


def terminal(model: dict[str, Any]) -> Iterator[Any]:
    """Yield rich renderables."""
    yield from _report("terminal").renderables(model)


def text(evaluation: "Evaluation") -> str:
    """Return the terminal report as plain text."""
    import io

    from rich.console import Console

    stream = io.StringIO()
    Console(file=stream, width=110, color_system=None).print(evaluation)
    return stream.getvalue()
