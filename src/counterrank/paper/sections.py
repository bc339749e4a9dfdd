"""The parts of the page that depend on results; a part without results is empty."""

from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import fill

import numpy as np

from counterrank.paper import agreement, figures, real_world, special
from counterrank.paper.names import FIGURES
from counterrank.paper.outcome import accuracy_table, runtime_table
from counterrank.paper.published import published_seconds
from counterrank.paper.spec import ESTIMATORS
from counterrank.paper.summary import Summary, read_rows, seeds_in, summarise

_CLASSIC = ("ips", "iips", "rips", "aips (true)")
_WORLD = "paper"
_SUMMED_UP = {*agreement.MAIN, "runtime-data-size", "runtime-slate-size", "real-world"}


def classic(out: Path) -> str:
    """Return how IPS, IIPS, RIPS and AIPS (true) agree."""
    return _item(agreement.verdict(agreement.comparisons(out), _CLASSIC, 0.03))


def oracle(out: Path) -> str:
    """Return how the published AIPS agrees: within 25 %, and within 5 %."""
    found = agreement.comparisons(out)
    close = [c for c in found if c.summary.estimator == "aips (oracle)"]
    near = f" {sum(c.within(0.05) for c in close)} lie within 5%." if close else ""
    return _item(agreement.verdict(found, ["aips (oracle)"], 0.25) + near)


def main(out: Path) -> str:
    """Return the tables of the main figures."""
    return "\n".join(part for figure in agreement.MAIN if (part := _main_figure(out, figure)))


def _main_figure(out: Path, figure: str) -> str:
    compared = [c for c in agreement.comparisons(out) if c.figure == figure]
    every = agreement.summaries(out, figure)
    if not every:
        return ""
    title = FIGURES[figure].partition(" (")
    named = f"{figures.get(figure).label}, {title[2].removesuffix(')')}"
    parts = [f"### Over the {named}\n"]
    theirs = {(c.summary.estimator, c.summary.x): c for c in compared}
    of_the_paper = {name for name, _ in theirs}
    if theirs:
        shown = [
            s for s in agreement.summaries(out, figure, most=agreement.PUBLISHED_RUNS) if s.estimator in of_the_paper
        ]
        parts.append(_runs(shown) + "\n")
        parts.append(_grid(shown, lambda s: _compared(s, theirs.get((s.estimator, s.x)))))
    ours = [s for s in every if s.estimator not in of_the_paper]
    if ours:
        parts.append(_runs(ours) + "\n")
        parts.append(
            _grid(ours, lambda s: f"{s.metrics['mse']:.3g} ({s.bands['mse'][0]:.3g} to {s.bands['mse'][1]:.3g})")
        )
    gains = [s.metrics["mse"] / c.published for s in ours if s.estimator == "auto" and (c := _oracle_at(compared, s.x))]
    if gains:
        parts.append(f"`auto` divided by the published AIPS: {', '.join(f'{g:.3f}' for g in gains)}.\n")
    return "\n".join(parts)


def _compared(summary: Summary, found: agreement.Comparison | None) -> str:
    """Return our value beside the published one, or alone where that is hidden in the plot."""
    return f"{summary.metrics['mse']:.3g}" if found is None else agreement.cell(found)


def _oracle_at(compared: Sequence[agreement.Comparison], x: float) -> agreement.Comparison | None:
    return next((c for c in compared if c.summary.x == x and c.summary.estimator == "aips (oracle)"), None)


def _runs(found: Sequence[Summary]) -> str:
    counts: dict[int, list[str]] = {}
    for s in found:
        names = counts.setdefault(s.seeds, [])
        names += [] if s.estimator in names else [s.estimator]
    several = len(counts) > 1
    told = [f"{seeds} seeds{' (' + ', '.join(names) + ')' if several else ''}" for seeds, names in counts.items()]
    return f"{', '.join(told)}:"


def _grid(found: Sequence[Summary], show: Callable[[Summary], str]) -> str:
    values = sorted({s.x for s in found})
    lines = [f"| MSE / V² | {' | '.join(f'{x:g}' for x in values)} |", f"|---|{'---|' * len(values)}"]
    for name in dict.fromkeys(s.estimator for s in found):
        cells = {s.x: show(s) for s in found if s.estimator == name}
        lines.append(f"| {name} | {' | '.join(cells.get(x, '') for x in values)} |")
    return "\n".join(lines) + "\n"


def time(out: Path) -> str:
    """Return CPU seconds by estimator, of a whole trial, and what 1000 seeds of the main figures cost."""
    parts = []
    for name in ("runtime-data-size", "runtime-slate-size"):
        seeds = seeds_in(out / name, "published")
        if seeds:
            found = summarise(read_rows(out / name, "published", seeds), common_truth=True)
            table = runtime_table(figures.get(name), found, compare=True)
            parts += [
                f"CPU seconds, {FIGURES[name]}, {len(seeds)} seeds (in brackets: of the published time):\n",
                table,
            ]
    if not parts:
        return ""
    return "\n".join(["## Time\n", *parts, _whole(out)])


def _whole(out: Path) -> str:
    """Return what a trial costs with everything, and how that adds up."""
    at, total = _seconds(out, "runtime-data-size"), 0.0
    lengths = _seconds(out, "runtime-slate-size")
    if not at or not lengths:
        return ""
    total = sum(at.values()) + sum(lengths.values()) + len(figures.get("behavior").values) * at.get(8000.0, 0.0)
    rows = read_rows(out / "runtime-data-size", "published", seeds_in(out / "runtime-data-size", "published"))
    here = (rows["x"] == 8000) & (rows["estimator"] == "aips (oracle)")
    one = float(np.median((rows["seconds"] + rows["drawing"])[here]))
    theirs = published_seconds("aips", 8000) or np.nan
    return (
        fill(
            f"One whole trial, the data and all {len(ESTIMATORS)} estimators, takes "
            f"{', '.join(f'{s:.2f} s at n = {n:,.0f}' for n, s in at.items())}. "
            f"1000 seeds of the main figures' 18 points are then {1000 * total / 3600:.1f} CPU hours, "
            f"{1000 * total / 120:.0f} minutes on two cores; {_most(out)}. "
            "Drawing the data and one AIPS with its oracle at n = 8,000 took the public code "
            f"{theirs:g} s as published, and takes {one:.3f} s here: 1/{theirs / one:,.0f}.",
            118,
        )
        + "\n"
    )


def _most(out: Path) -> str:
    """Return which estimator takes most of the time, at all points of the two run-time figures."""
    spent: dict[str, float] = {}
    for name in ("runtime-data-size", "runtime-slate-size"):
        for summary in agreement.summaries(out, name):
            spent[summary.estimator] = spent.get(summary.estimator, 0.0) + summary.seconds
    first, second = sorted(spent, key=lambda name: -spent[name])[:2]
    total = sum(spent.values())
    return f"`{first}` takes {spent[first] / total:.0%} of that, `{second}` {spent[second] / total:.0%}"


def _seconds(out: Path, name: str) -> dict[float, float]:
    """Return the median CPU seconds of a whole trial at each value."""
    seeds = seeds_in(out / name, "published")
    rows = read_rows(out / name, "published", seeds) if seeds else {}
    if "drawing" not in rows:
        return {}
    found = {}
    for x in np.unique(rows["x"]):
        trials = [rows["x"] == x, rows["seed"]]
        each = [
            rows["seconds"][trials[0] & (trials[1] == seed)].sum() + rows["drawing"][trials[0] & (trials[1] == seed)][0]
            for seed in seeds
        ]
        found[float(x)] = float(np.median(each))
    return found


def ab_test(out: Path) -> str:
    """Return the real-world protocol and its table."""
    seeds = seeds_in(out / "real-world", "published")
    if not seeds:
        return ""
    rows = read_rows(out / "real-world", "published", seeds)
    table = real_world.table(rows)
    best, share = real_world.winner(rows)
    aips = real_world.wins(rows).get("aips (pasif)", 0.0)
    return f"""## The real-world protocol

The original A/B logs are proprietary. `counterrank reproduce real-world` runs the protocol of section 5 (bootstraps
of log A, squared error against what log B earned, CDF, CVaR, wins; candidates S, C, I, c′, c″; PAS-IF) on simulated
logs of their shape, or on your own:

```
counterrank reproduce real-world --seeds 100 --out DIR --log-a a.parquet --log-b b.parquet --target b
```

On the simulated pair, {len(seeds)} bootstraps, squared errors against what B earned:

{table}
The paper found AIPS best in 76 % of trials on its data. Here `{best}` wins most often ({share:.0%}), and AIPS with
PAS-IF in {aips:.0%}: the simulated users are our invention, and what PAS-IF can tell from a log is limited
([MSE estimates](mse-estimates.md)). The paper's c″ is, as printed, the cascade itself.
"""


def text_world(out: Path) -> str:
    """Return the figure over n in the world that the text describes."""
    found = agreement.summaries(out, "data-size", _WORLD)
    if not found:
        return ""
    seeds = max(s.seeds for s in found)
    table = accuracy_table(figures.get("data-size"), found, compare=False)
    return f"""## In the world the text describes

`counterrank reproduce data-size --preset paper --seeds {seeds} --out DIR`: parameters drawn afresh for each of {seeds}
worlds, MSE relative to each world's V². One world can dominate a cell.

{table}
The paper's ordering does not carry over: IIPS is among the best of the classic estimators at most sizes, and knowing
the true behaviour (`aips (true)`) does not help against the variance of its weights. `auto` is far better here because
this world, too, is a sum of pair effects.
"""


def more(out: Path) -> str:
    """Return the tables of every other figure that has results."""
    found = tables(out, "published", leave_out=_SUMMED_UP)
    return f"## The other figures\n\n{found}" if found else ""


def tables(out: Path, preset: str, *, leave_out: set[str]) -> str:
    """Return a heading and a table for each figure that has results."""
    parts = []
    for name, text in FIGURES.items():
        seeds = [] if name in leave_out else seeds_in(out / name, preset)
        if seeds:
            title = f"{text[0].upper()}{text[1:]}, {len(seeds)} seed{'s' if len(seeds) > 1 else ''}.\n"
            parts += [f"### {name}\n", title, _table(out, name, preset, seeds)]
    return "\n".join(parts)


def _table(out: Path, name: str, preset: str, seeds: list[int]) -> str:
    experiment, rows = figures.get(name), read_rows(out / name, preset, seeds)
    if experiment.kind in ("accuracy", "runtime"):
        make = accuracy_table if experiment.kind == "accuracy" else runtime_table
        common = preset == "published"
        return make(experiment, summarise(rows, common_truth=common), compare=common)
    return special.table(experiment, rows)


def _item(text: str) -> str:
    """Return text broken for an item of a list."""
    return fill(text, 118, initial_indent="  ", subsequent_indent="  ").lstrip()


SECTIONS: dict[str, Callable[[Path], str]] = {
    "classic": classic,
    "oracle": oracle,
    "main": main,
    "time": time,
    "real-world": ab_test,
    "paper": text_world,
    "more": more,
}
