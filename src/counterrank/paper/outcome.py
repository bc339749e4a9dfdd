"""What a finished figure leaves behind: a table, a picture, and lines of text for the terminal."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from counterrank import atomic
from counterrank.paper import plots, special
from counterrank.paper.figures import Experiment
from counterrank.paper.published import published, published_seconds
from counterrank.paper.summary import METRICS, Summary, read_rows, summarise


def write_outcome(experiment: Experiment, preset: str, seeds: range, folder: Path) -> Iterator[str]:
    """Write the summary of a figure (Markdown, CSV, SVG, PNG), yielding what was written."""
    yield f"{experiment.name}: {experiment.about} ({len(seeds)} seeds, {preset})"
    rows = read_rows(folder, preset, seeds)
    if experiment.kind in ("accuracy", "runtime"):
        found = summarise(rows, common_truth=preset == "published")
        make = accuracy_table if experiment.kind == "accuracy" else runtime_table
        table = make(experiment, found, compare=preset == "published")
        atomic.write_text(folder / f"{experiment.name}.csv", as_csv(found))
        drawn = (
            plots.plot_accuracy(experiment, found, folder, preset)
            if experiment.kind == "accuracy"
            else []
        )
    else:
        table, drawn = special.outcome(experiment, rows, folder)
    atomic.write_text(folder / f"{experiment.name}.md", table)
    yield table
    for path in (folder / f"{experiment.name}.md", *drawn):
        yield f"  wrote {path}"


def accuracy_table(experiment: Experiment, found: Sequence[Summary], *, compare: bool) -> str:
    """Return MSE / V^2 by estimator and value; to `compare`, the published value and our ratio to
    it in brackets.
    """
    values = sorted({s.x for s in found})
    head = f"| estimator | {' | '.join(f'{x:g}' for x in values)} |\n|---|{'---|' * len(values)}"
    lines = [head]
    for name in dict.fromkeys(s.estimator for s in found):
        cells = [_cell(experiment, s, compare) for s in found if s.estimator == name]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(experiment: Experiment, summary: Summary, compare: bool) -> str:
    ours = summary.metrics["mse"]
    theirs = published(experiment.name, "mse", summary.estimator, summary.x) if compare else None
    return f"{ours:.3g}" if theirs is None else f"{ours:.3g} ({theirs:.3g}, x{ours / theirs:.2f})"


def runtime_table(experiment: Experiment, found: Sequence[Summary], *, compare: bool) -> str:
    """Return median CPU seconds of one estimate; to `compare`, how many times less that is than
    published.
    """
    values = sorted({s.x for s in found})
    lines = [f"| estimator | {' | '.join(f'{x:g}' for x in values)} |\n|---|{'---|' * len(values)}"]
    for name in dict.fromkeys(s.estimator for s in found):
        cells = []
        for summary in (s for s in found if s.estimator == name):
            theirs = _published_time(experiment, name, summary.x) if compare else None
            gain = "" if theirs is None else f" (1/{theirs / max(summary.seconds, 1e-6):,.0f})"
            cells.append(f"{summary.seconds:.4f}{gain}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _published_time(experiment: Experiment, name: str, x: float) -> float | None:
    """Return the published seconds of what this estimator corresponds to: IPS, and AIPS however its
    tree is grown.
    """
    same = {"ips": "ips", "aips (oracle)": "aips", "aips": "aips"}.get(name)
    return published_seconds(same, x) if same and experiment.parameter == "n" else None


def as_csv(found: Sequence[Summary]) -> str:
    """Return every number of the summaries as CSV."""
    columns = [f"{m}{end}" for m in METRICS for end in ("", "_low", "_high")]
    lines = [",".join(["x", "estimator", "seeds", *columns, "coverage", "width", "seconds"])]
    for s in found:
        numbers = [value for m in METRICS for value in (s.metrics[m], *s.bands[m])]
        cells = [
            f"{s.x:g}",
            s.estimator,
            str(s.seeds),
            *(repr(v) for v in [*numbers, s.coverage, s.width, s.seconds]),
        ]
        lines.append(",".join(cells))
    return "\n".join(lines) + "\n"
