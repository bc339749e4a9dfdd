"""A forest as a picture: SVG made of text, lines and small matrices, without any library."""

from html import escape

import numpy as np
from numpy.typing import NDArray

from counterrank.tree.forest import Forest
from counterrank.tree.words import ESTIMATE, SHARE, STDERR, last_rule, paths

_WIDTH, _HEIGHT, _GAP, _CELL = 190, 118, 22, 6


def svg(forest: Forest, tree: int = 0) -> str:
    """Return one tree as an SVG document: each box has share, model, estimate with interval and the
    model's matrix.
    """
    where, depth, leaves = _layout(forest, int(forest.roots[tree]))
    width, height = leaves * (_WIDTH + _GAP) + _GAP, (depth + 1) * (_HEIGHT + 3 * _GAP) + 2 * _GAP
    title = (
        f"Behaviour at position {tree + 1}" if forest.per_position else "Behaviour at all positions"
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" '
        f'height="{height:.0f}" role="img" font-family="system-ui, sans-serif" font-size="12">',
        f"<title>{title}</title>",
        f'<rect width="100%" height="100%" fill="white"/><text x="{_GAP}" y="18" '
        f'font-weight="600">{title}</text>',
    ]
    parts += [
        _branch(where[path[-1][0]], where[at], last_rule(forest, path))
        for at, path in paths(forest, tree)
        if path
    ]
    highlighted = tree if forest.per_position else None
    parts += [_box(forest, at, x, y, highlighted) for at, (x, y) in where.items()]
    return "\n".join([*parts, "</svg>"])


def _layout(forest: Forest, root: int) -> tuple[dict[int, tuple[float, float]], int, int]:
    """Return the centre-top of each box, the depth and the number of leaves; leaves stand side by
    side.
    """
    where: dict[int, tuple[float, float]] = {}
    state = {"leaves": 0, "depth": 0}

    def place(at: int, level: int) -> float:
        state["depth"] = max(state["depth"], level)
        if forest.nodes[at, 0] < 0:
            x = _GAP + (_WIDTH + _GAP) * state["leaves"] + _WIDTH / 2
            state["leaves"] += 1
        else:
            x = (
                place(int(forest.nodes[at, 1]), level + 1)
                + place(int(forest.nodes[at, 2]), level + 1)
            ) / 2
        where[at] = (x, 2 * _GAP + level * (_HEIGHT + 3 * _GAP))
        return x

    place(root, 0)
    return where, state["depth"], state["leaves"]


def _branch(start: tuple[float, float], end: tuple[float, float], rule: str) -> str:
    y0, y1 = start[1] + _HEIGHT, end[1]
    return (
        f'<path d="M{start[0]:.1f},{y0:.1f} V{(y0 + y1) / 2:.1f} H{end[0]:.1f} V{y1:.1f}" '
        f'fill="none" stroke="#667"/><text x="{end[0]:.1f}" y="{y1 - 8:.1f}" text-anchor="middle" '
        f'fill="#334" paint-order="stroke" stroke="white" stroke-width="4">{escape(rule)}</text>'
    )


def _box(forest: Forest, at: int, x: float, y: float, row: int | None) -> str:
    candidate = forest.candidates[int(forest.model[at])]
    leaf = forest.nodes[at, 0] < 0
    facts = forest.facts[at]
    lines = [f"{facts[SHARE]:.0%} of rankings" if np.isfinite(facts[SHARE]) else ""]
    if leaf and np.isfinite(facts[ESTIMATE]):
        lines += [f"value {facts[ESTIMATE]:.4g}", f"± {1.959964 * facts[STDERR]:.2g} (95 %)"]
    left = x - _WIDTH / 2
    words = "".join(
        f'<text x="{left + 10:.1f}" y="{y + 42 + 17 * i:.1f}" fill="#334">{escape(line)}</text>'
        for i, line in enumerate(lines)
    )
    cell = min(_CELL, 90 / len(candidate.mask))
    matrix = (
        _matrix(candidate.mask, left + _WIDTH - cell * len(candidate.mask) - 10, y + 12, row)
        if leaf
        else ""
    )
    title = candidate.label if leaf else f"by {forest.context_names[int(forest.nodes[at, 0])]}"
    return (
        f'<rect x="{left:.1f}" y="{y:.1f}" width="{_WIDTH}" height="{_HEIGHT}" rx="6" '
        f'fill="{"#eef4fb" if leaf else "#f6f6f6"}" stroke="#889"/>'
        f'<text x="{left + 10:.1f}" y="{y + 22:.1f}" font-weight="600">{escape(title)}</text>'
        f"{words}{matrix}"
    )


def _matrix(mask: NDArray[np.bool_], x: float, y: float, row: int | None) -> str:
    """Draw c[k, l]: dark where item l matters to reward k; the rows of other positions are pale."""
    cells, size = [], min(_CELL, 90 / len(mask))
    for k in range(len(mask)):
        for m in range(len(mask)):
            colour = ("#1f4e8c" if row is None or row == k else "#b9cbe4") if mask[k, m] else "#fff"
            cells.append(
                f'<rect x="{x + size * m:.1f}" y="{y + size * k:.1f}" width="{size:.2f}" '
                f'height="{size:.2f}" fill="{colour}" stroke="#ccd" stroke-width=".5"/>'
            )
    return "".join(cells)
