"""Draws the pictures of idea.md and auto.md: run python docs/pictures.py [FOLDER].

With --report REPORT.html (of `counterrank demo`) it photographs the top of the report instead, with
--gallery the pages of gallery.md, whose commands it runs; both need chromium.
"""

import contextlib
import itertools
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from counterrank.estimators.behavior import mask

INK, SOFT, BLUE, ORANGE = "#3b4252", "#d8dee9", "#2a6fb0", "#c8641c"
FONT = 'font-family="system-ui, sans-serif" font-size="13"'


def svg(width: int, height: int, parts: list[str]) -> str:
    """Wrap shapes into a document on white, readable on dark pages too."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}">'
    )
    return "\n".join(
        [head, f'<rect width="{width}" height="{height}" rx="6" fill="white"/>', *parts, "</svg>\n"]
    )


def text(x: float, y: float, words: str, *, anchor: str = "middle", color: str = INK) -> str:
    """Words at a place."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}" {FONT}>{words}</text>'
    )


def masks(names: tuple[str, ...] = ("S", "C", "I", "N1", "P1"), K: int = 4, cell: int = 26) -> str:
    """One grid a mask: rows are rewards, columns are items."""
    parts, step = [], K * cell + 42
    for j, name in enumerate(names):
        left, matrix = 36 + j * step, mask(name, K)
        parts.append(text(left + K * cell / 2, 22, name))
        for k, m in itertools.product(range(K), repeat=2):
            fill = (BLUE if k == m else INK) if matrix[k, m] else SOFT
            x, y = left + m * cell, 34 + k * cell
            parts.append(
                f'<rect x="{x}" y="{y}" width="{cell - 3}" height="{cell - 3}" rx="3" '
                f'fill="{fill}"/>'
            )
        parts.append(text(left + K * cell / 2, 34 + K * cell + 16, "items"))
    parts.append(
        '<g transform="rotate(-90 20 '
        f'{34 + K * cell / 2})">{text(20, 38 + K * cell / 2, "rewards")}</g>'
    )
    return svg(36 + len(names) * step, 34 + K * cell + 28, parts)


def line(points: list[tuple[float, float]], color: str) -> str:
    """A line through points, with dots."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{color}"/>' for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2.2"/>{dots}'


def world(K: int = 5, A: int = 3, seed: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Squared bias and variance of one row for masks of 1..K items, exact, at the middle of a small
    world.

    Rewards: the own item, pairs that fade with distance. Positions are independent under both
    policies.
    """
    rng = np.random.default_rng(seed)
    old, new = rng.dirichlet(np.full(A, 4.0)), rng.dirichlet(np.full(A, 2.0))
    rankings = np.array(list(itertools.product(range(A), repeat=K)))
    k, rho = K // 2, new / old
    own, pair = rng.normal(1, 0.5, A), rng.normal(0, 1, (A, A))
    q = own[rankings[:, k]]
    for m in range(K):
        if m != k:
            q = q + pair[rankings[:, k], rankings[:, m]] * 0.6 ** (abs(m - k) - 1)
    p0, p1 = old[rankings].prod(axis=1), new[rankings].prod(axis=1)
    ratios, truth = rho[rankings], p1 @ q
    others = [m for m in range(K) if m != k]
    bias, variance = [], []
    # Items are taken into account one after another, nearest first: from IIPS to IPS along masks.
    chosen = [k, *sorted(others, key=lambda m: abs(m - k))]
    for count in range(1, K + 1):
        weight = ratios[:, chosen[:count]].prod(axis=1)
        mean = p0 @ (weight * q)
        bias.append((mean - truth) ** 2)
        variance.append(p0 @ (weight * q) ** 2 - mean**2)
    return np.array(bias), np.array(variance)


def trade(n: int = 2000) -> str:
    """Squared bias, variance / n and their sum over the number of items taken into account."""
    bias, variance = world()
    curves = {
        "bias²": (bias, ORANGE, 4),
        "variance": (variance / n, BLUE, 14),
        "MSE": (bias + variance / n, INK, -8),
    }
    top = max(float(values.max()) for values, *_ in curves.values())
    left, bottom, width, height = 60, 230, 420, 190
    parts = [
        f'<path d="M{left} {bottom - height} V{bottom} H{left + width}" stroke="{INK}" '
        'fill="none"/>'
    ]
    count = len(bias)
    for name, (values, color, drop) in curves.items():
        points = [(left + 30 + i * (width - 80) / (count - 1), bottom - 6 - v / top * (height - 20))
                  for i, v in enumerate(values)]  # fmt: skip
        parts += [
            line(points, color),
            text(points[-1][0] + 10, points[-1][1] + drop, name, anchor="start", color=color),
        ]
    for i in range(count):
        parts.append(text(left + 30 + i * (width - 80) / (count - 1), bottom + 18, str(i + 1)))
    parts.append(text(left + width / 2, bottom + 38, "items taken into account (1: IIPS, 5: IPS)"))
    return svg(left + width + 40, bottom + 50, parts)


def order_path() -> str:
    """The three shapes of an order path: values and intervals at orders 1 to 5."""
    shapes = {
        "flat": ([1.0, 1.01, 0.99, 1.0, 1.02], [0.03, 0.05, 0.09, 0.16, 0.28]),
        "levels off": ([0.55, 0.98, 1.0, 0.99, 1.02], [0.04, 0.06, 0.09, 0.15, 0.24]),
        "funnel": ([0.55, 0.8, 1.1, 0.7, 1.3], [0.04, 0.12, 0.3, 0.55, 0.8]),
    }
    parts, width, bottom = [], 210, 190
    for j, (name, (values, halves)) in enumerate(shapes.items()):
        left = 24 + j * (width + 12)
        places = [left + 20 + i * (width - 44) / 4 for i in range(5)]
        heights = [bottom - 20 - v * 80 for v in values]
        upper = [(x, max(y - h * 80, 30)) for x, y, h in zip(places, heights, halves, strict=True)]
        lower = [
            (x, min(y + h * 80, bottom - 2))
            for x, y, h in zip(places, heights, halves, strict=True)
        ]
        band = " ".join(f"{x:.1f},{y:.1f}" for x, y in [*upper, *lower[::-1]])
        parts += [
            text(left + width / 2, 20, name),
            f'<path d="M{left} 30 V{bottom} H{left + width}" stroke="{SOFT}" fill="none"/>',
            f'<polygon points="{band}" fill="{BLUE}" opacity="0.18"/>',
            line(list(zip(places, heights, strict=True)), BLUE),
            *(text(x, bottom + 16, str(i + 1)) for i, x in enumerate(places)),
        ]
    parts.append(text((24 + 3 * (width + 12)) / 2, bottom + 36, "interaction order"))
    return svg(24 + 3 * (width + 12) + 10, bottom + 48, parts)


def auto() -> str:
    """From what was earned to an estimate and its interval, step by step; a sketch without a scale."""
    steps = (
        ("measured", "what today's policy earned", 0, 170, INK),
        ("+ models of your users", "the change they expect of the new pages", 170, 250, BLUE),
        ("+ pages both would show", "what was earned there corrects the models", 250, 225, ORANGE),
    )
    left, parts = 290, []
    for j, (name, words, first, last, color) in enumerate(steps):
        y, x = 30 + 44 * j, left + min(first, last)
        parts += [
            text(left - 14, y + 7, name, anchor="end"),
            text(left - 14, y + 23, words, anchor="end", color="#6b7280").replace('"13"', '"11"'),
            f'<rect x="{x}" y="{y}" width="{abs(last - first)}" height="20" rx="3" fill="{color}"/>',
            f'<path d="M{left + last} {y + 20} v24" stroke="{INK}" stroke-dasharray="3 3"/>',
        ]
    y, x = 30 + 44 * len(steps) + 10, left + steps[-1][3]
    for reach, color in ((95, "#b9d3ea"), (55, BLUE)):
        parts.append(
            f'<rect x="{x - reach}" y="{y - 4}" width="{2 * reach}" height="8" rx="4" '
            f'fill="{color}"/>'
        )
    parts += [
        f'<circle cx="{x}" cy="{y}" r="7" fill="{INK}" stroke="white" stroke-width="2"/>',
        text(left - 14, y + 5, "the estimate and its interval", anchor="end"),
        text(x, y + 28, "dark: chance", color=BLUE),
        text(x, y + 46, "pale: what no log can show, the bias allowance", color="#5b8fbf"),
    ]
    return svg(left + 400, y + 60, parts)


def draw(folder: Path) -> None:
    """Write all pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    for picture in (masks, trade, order_path, auto):
        (folder / f"{picture.__name__}.svg").write_text(picture())


def photograph(report: Path, picture: Path) -> None:
    """Save the top of a report as it looks in a browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 720}, device_scale_factor=1)
        page.goto(report.resolve().as_uri())
        page.screenshot(path=str(picture))
        browser.close()


def gallery(images: Path) -> None:
    """Run the commands of docs/gallery.md, and save the top of the page that each section shows."""
    pages = Path(__file__).parent
    fence = re.compile(r"^```(?:python)?\n(.*?)^```", flags=re.M | re.S)
    with tempfile.TemporaryDirectory() as folder:
        # The log of the A/B test is made by the tutorial.
        tutorial = (pages / "tutorials" / "first-ab-test.md").read_text(encoding="utf-8")
        with contextlib.chdir(folder):
            exec(fence.findall(tutorial)[0], {})
        for section in (pages / "gallery.md").read_text(encoding="utf-8").split("\n## ")[1:]:
            for command in fence.findall(section)[0].splitlines():
                words = shlex.split(command)
                # Learning ends with 1 where nothing could be certified, and has a page all the same.
                subprocess.run(
                    [sys.executable, "-m", *words], cwd=folder, stdout=subprocess.DEVNULL
                )
            page = words[-1] if "--html" in words else "demo/report.html"
            picture = re.search(r"\(images/(\S+\.png)\)", section)[1]
            photograph(Path(folder) / page, images / picture)


if __name__ == "__main__" and sys.argv[1:2] == ["--report"]:
    photograph(Path(sys.argv[2]), Path(__file__).parent / "images" / "report.png")
elif __name__ == "__main__" and sys.argv[1:2] == ["--gallery"]:
    gallery(Path(__file__).parent / "images")
elif __name__ == "__main__":
    draw(Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parent / "images")
