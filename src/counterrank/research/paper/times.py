"""The run-time tables 3 and 4: mean and deviation over seeds, AIPS relative to IPS, the published numbers beside."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.research.paper.figures import Experiment
from counterrank.research.paper.results import markdown, published_table

Rows = dict[str, NDArray[Any]]
#: The two of the published tables, by our names: the published AIPS is the one with its oracle.
_PUBLISHED = {"ips": "ips", "aips (oracle)": "aips"}


def published_seconds(
    parameter: str | None, estimator: str, x: float
) -> tuple[float, float] | None:
    """Return the published run time, mean and deviation over 100 seeds; None where there is none.

    >>> published_seconds("K", "aips", 14)
    (351.5, 3.059)
    """
    found = _at(parameter, estimator, x)
    return None if found is None else (float(found[0]), float(found[1]))


def published_relative(parameter: str | None, x: float) -> float | None:
    """Return the published run time of AIPS divided by that of IPS."""
    found = _at(parameter, "relative", x)
    return None if found is None else float(found)


def _at(parameter: str | None, row: str, x: float) -> Any:
    table = published_table()["runtime"].get(parameter, {})
    return table[row][table["x"].index(x)] if row in table and x in table["x"] else None


def runtime_table(experiment: Experiment, rows: Rows, *, compare: bool) -> str:
    """Return the published table with our rows in it, then the estimates alone: CPU seconds.

    The published clock includes drawing the data, so ours does in the first table; the second has
    every estimator without it.
    """
    values = [float(x) for x in np.unique(rows["x"])]
    names = list(dict.fromkeys(rows["estimator"].tolist()))
    parts = []
    if shown := [name for name in _PUBLISHED if name in names]:
        lines = [line for name in shown for line in _beside(experiment, rows, name, compare)]
        if len(shown) == len(_PUBLISHED):
            lines += _relative(experiment, rows, compare)
        parts.append(_table("with the data drawn", values, lines))
    alone = [(name, [_told(_seconds(rows, x, name, 0.0)) for x in values]) for name in names]
    parts.append(_table("the estimate alone", values, alone))
    return "\n".join(parts)


def _beside(
    experiment: Experiment, rows: Rows, name: str, compare: bool
) -> list[tuple[str, list[str]]]:
    values = np.unique(rows["x"])
    lines = [(name, [_told(_seconds(rows, x, name, 1.0)) for x in values])]
    if compare:
        theirs = [published_seconds(experiment.parameter, _PUBLISHED[name], x) for x in values]
        told = ["" if t is None else f"{t[0]:.4g} (± {t[1]:.3g})" for t in theirs]
        lines.append((f"published {_PUBLISHED[name]}", told))
    return lines


def _relative(experiment: Experiment, rows: Rows, compare: bool) -> list[tuple[str, list[str]]]:
    """Return AIPS divided by IPS, of the means."""
    values = np.unique(rows["x"])
    both = [[_seconds(rows, x, name, 1.0) for name in _PUBLISHED] for x in values]
    ours = [f"{b.mean() / a.mean():.2f}" if len(a) and len(b) else "" for a, b in both]
    lines = [("relative", ours)]
    if compare:
        theirs = [published_relative(experiment.parameter, x) for x in values]
        lines.append(("published relative", ["" if t is None else f"{t:.2f}" for t in theirs]))
    return lines


def _seconds(rows: Rows, x: float, name: str, drawing: float) -> NDArray[np.float64]:
    here = (rows["x"] == x) & (rows["estimator"] == name)
    seconds: NDArray[np.float64] = rows["seconds"][here] + drawing * rows["drawing"][here]
    return seconds


def _told(seconds: NDArray[np.float64]) -> str:
    """Return mean and deviation; one seed has no deviation."""
    if not len(seconds):
        return ""
    spread = f" (± {seconds.std(ddof=1):.4f})" if len(seconds) > 1 else ""
    return f"{seconds.mean():.4f}{spread}"


def _table(title: str, values: list[float], lines: list[tuple[str, list[str]]]) -> str:
    head = (title, *(f"{x:g}" for x in values))
    return markdown(head, [(name, *cells) for name, cells in lines])
