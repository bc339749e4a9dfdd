"""One page with every figure and table of a run, made from its results; a part without results is empty.

What the page says about our numbers is computed from them: a sentence that no run measured is not
there.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from textwrap import fill

import numpy as np

from counterrank import atomic
from counterrank.research.paper import figures, results, special, times
from counterrank.research.paper.figures import FIGURES
from counterrank.research.paper.results import (
    PointSummary,
    accuracy_table,
    read_rows,
    seeds_in,
    summarise,
)
from counterrank.research.paper.special import figure_table

_CLASSIC = ("ips", "iips", "rips", "aips (true)")
_WORLD = "paper"
_NOTHING = "no results yet."
_TOY = {"bias": "bias", "variance": "variance", "MSE": "mse"}
_RUNS = results.PUBLISHED_RUNS
_SUMMED_UP = {*results.MAIN, "runtime-data-size", "runtime-slate-size", "real-world"}


def write_page(out: Path, into: Path | None = None, *, preset: str = "published") -> Iterator[str]:
    """Write the page of the results in a folder, to DIR/reproduction.md or to the file `into`."""
    path = into or out / "reproduction.md"
    text = page(out, path.parent) if preset == "published" else plain_page(out, preset)
    # Parts without results leave their empty lines behind.
    atomic.write_text(path, re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n")
    yield f"wrote {path}"


def page(out: Path, beside: Path) -> str:
    """Return the page; links to pages that are not `beside` it become plain text."""
    text = files("counterrank.research.paper").joinpath("data/page.md").read_text(encoding="utf-8")
    for name, make in SECTIONS.items():
        text = text.replace(f"<!-- {name} -->", make(out))
    return re.sub(
        r"\[([^\]]+)\]\(([\w/-]+\.md)\)", lambda m: m[0] if (beside / m[2]).exists() else m[1], text
    )


def plain_page(out: Path, preset: str) -> str:
    """Return the tables of a world without published values."""
    title = f"# The figures of the paper in preset `{preset}`\n\nMSE divided by each world's V².\n"
    return f"{title}\n{tables(out, preset, leave_out=set())}"


def classic(out: Path) -> str:
    """Return how IPS, IIPS, RIPS and AIPS (true) agree."""
    return _item(results.verdict(results.comparisons(out), _CLASSIC, 0.03))


def oracle(out: Path) -> str:
    """Return how the published AIPS agrees: within 25 %, and within 5 %."""
    found = results.comparisons(out)
    close = [c for c in found if c.summary.estimator == "aips (oracle)"]
    near = f" {sum(c.within(0.05) for c in close)} lie within 5%." if close else ""
    return _item(results.verdict(found, ["aips (oracle)"], 0.25) + near)


def toy(out: Path) -> str:
    """Return the numbers of the toy table."""
    if not seeds_in(out / "toy", "published"):
        return _item(_NOTHING)
    rows = read_rows(out / "toy", "published", [0])
    told = [
        f"{word} {abs(rows[key][0]):.2f} and {abs(rows[key][1]):.2f}" for word, key in _TOY.items()
    ]
    return _item(", ".join(told) + ".")


def twice(out: Path) -> str:
    """Return the point that stands in all three figures: what is published, and ours seeded and cached."""
    points = {"data-size": 8000.0, "slate-size": 8.0, "behavior": 0.6}
    theirs = [
        f"{results.published(figure, 'mse', 'aips (oracle)', x):.3g}"
        for figure, x in points.items()
    ]
    found = [
        s
        for figure, x in points.items()
        for s in results.summaries(out, figure, most=_RUNS)
        if s.x == x
    ]
    ours = {s.estimator: f"{s.metrics['mse']:.3g}" for s in found}
    text = f"as {theirs[0]}, {theirs[1]} and {theirs[2]}."
    if "aips (oracle)" in ours:
        text += f" Ours gives {ours['aips (oracle)']}"
        told = ours.get("aips (oracle, cached)")
        text += (
            f"; with one generator for all runs (`aips (oracle, cached)`), {told}." if told else "."
        )
    return _item(text)


def listing(out: Path) -> str:
    """Return how Algorithm 1 as printed compares with the code, on runs that both were grown on."""
    text, code = figures.OracleForm(algorithm="text").name, figures.OracleForm().name
    told = []
    for figure in results.MAIN:
        seeds = seeds_in(out / figure, "published")
        rows = read_rows(out / figure, "published", seeds) if seeds else {"estimator": np.empty(0)}
        both = (
            [set(rows["seed"][rows["estimator"] == name]) for name in (text, code)] if seeds else []
        )
        common = sorted(set.intersection(*both)) if both else []
        if not common:
            continue
        here = np.isin(rows["seed"], common) & np.isin(rows["estimator"], (text, code))
        found = summarise({key: value[here] for key, value in rows.items()}, common_truth=True)
        mse = {(s.estimator, s.x): s.metrics["mse"] for s in found}
        ratios = [f"{mse[text, x] / mse[code, x]:.2f}" for x in sorted({s.x for s in found})]
        told.append(f"over {figures.get(figure).label} {', '.join(ratios)} ({len(common)} seeds)")
    if not told:
        return _item(_NOTHING)
    return _item(f"its MSE divided by that of the code, {'; '.join(told)}.")


def from_log(out: Path) -> str:
    """Return how the tree chosen from the log alone compares with the oracle and with the classic estimators."""
    ratios, lost = [], 0
    for figure in results.MAIN:
        by_point: dict[float, dict[str, float]] = {}
        for s in results.summaries(out, figure):
            by_point.setdefault(s.x, {})[s.estimator] = s.metrics["mse"]
        for mse in by_point.values():
            if {"aips", "aips (oracle)", "ips", "iips", "rips"} <= mse.keys():
                ratios.append(mse["aips"] / mse["aips (oracle)"])
                lost += mse["aips"] > min(mse[name] for name in ("ips", "iips", "rips"))
    if not ratios:
        return _item(_NOTHING)
    return _item(
        f"its MSE is {min(ratios):.2g} to {max(ratios):.2g} times the oracle's (median "
        f"{np.median(ratios):.2g}), and "
        f"above that of the best of IPS, IIPS and RIPS at {lost} of {len(ratios)} points."
    )


def main(out: Path) -> str:
    """Return the tables of the main figures."""
    return "\n".join(part for figure in results.MAIN if (part := _main_figure(out, figure)))


def _main_figure(out: Path, figure: str) -> str:
    compared = [c for c in results.comparisons(out) if c.figure == figure]
    every = results.summaries(out, figure)
    if not every:
        return ""
    title = FIGURES[figure].partition(" (")
    named = f"{figures.get(figure).label}, {title[2].removesuffix(')')}"
    of_the_paper = {c.summary.estimator for c in compared}
    ours = [s for s in every if s.estimator not in of_the_paper]
    parts = [*_beside_published(out, figure, of_the_paper), *_ours_alone(ours, compared)]
    return "\n".join([f"### Over the {named}\n", *parts])


def _beside_published(out: Path, figure: str, names: set[str]) -> Iterator[str]:
    """Yield the tables of the paper's estimators over the published runs, one a metric."""
    runs = results.summaries(out, figure, most=results.PUBLISHED_RUNS)
    shown = [s for s in runs if s.estimator in names]
    if not shown:
        return
    yield _runs(shown) + "\n"
    for metric, title in results.TITLES.items():
        found = [c for c in results.comparisons(out, metric) if c.figure == figure]
        theirs = {(c.summary.estimator, c.summary.x): c for c in found}
        yield results.grid(title, shown, partial(_compared, theirs, metric))


def _ours_alone(
    ours: Sequence[PointSummary], compared: Sequence[results.BesidePublished]
) -> Iterator[str]:
    """Yield the table of what the paper does not have, and `auto` beside the published AIPS."""
    if not ours:
        return
    yield _runs(ours) + "\n"
    yield results.grid("MSE / V²", ours, _with_band)
    gains = [
        f"{s.metrics['mse'] / c.published:.3f}"
        for s in ours
        if s.estimator == "auto" and (c := _oracle_at(compared, s.x))
    ]
    if gains:
        yield f"`auto` divided by the published AIPS: {', '.join(gains)}.\n"


def _with_band(summary: PointSummary) -> str:
    low, high = summary.bands["mse"]
    return f"{summary.metrics['mse']:.3g} ({low:.3g} to {high:.3g})"


def _compared(
    theirs: dict[tuple[str, float], results.BesidePublished], metric: str, summary: PointSummary
) -> str:
    """Return our value beside the published one, or alone where that is hidden in the plot.

    Only the MSE has room for the interval of the ratio.
    """
    found, ours = theirs.get((summary.estimator, summary.x)), f"{summary.metrics[metric]:.3g}"
    if found is None:
        return ours
    return results.cell(found) if metric == "mse" else f"{ours} ({found.published:.3g})"


def _oracle_at(
    compared: Sequence[results.BesidePublished], x: float
) -> results.BesidePublished | None:
    return next(
        (c for c in compared if c.summary.x == x and c.summary.estimator == "aips (oracle)"), None
    )


def _runs(found: Sequence[PointSummary]) -> str:
    counts: dict[int, list[str]] = {}
    for s in found:
        names = counts.setdefault(s.seeds, [])
        names += [] if s.estimator in names else [s.estimator]
    several = len(counts) > 1
    told = [
        f"{seeds} seeds{' (' + ', '.join(names) + ')' if several else ''}"
        for seeds, names in counts.items()
    ]
    return f"{', '.join(told)}:"


def time(out: Path) -> str:
    """Return CPU seconds by estimator, of a whole trial, and what 1000 seeds of the main figures cost."""
    parts = []
    for name in ("runtime-data-size", "runtime-slate-size"):
        seeds = seeds_in(out / name, "published")
        if seeds:
            rows = read_rows(out / name, "published", seeds)
            parts += [
                f"CPU seconds, {FIGURES[name]}: mean and deviation over {len(seeds)} seeds.\n",
                times.runtime_table(figures.get(name), rows, compare=True),
            ]
    if not parts:
        return ""
    return "\n".join(["## Time\n", *parts, _whole(out)])


def _whole(out: Path) -> str:
    """Return what a trial costs with everything, and how that adds up."""
    at, lengths = _seconds(out, "runtime-data-size"), _seconds(out, "runtime-slate-size")
    if not at or not lengths:
        return ""
    # Six points each: behaviour varies at n = 8000 and K = 8, so all of them cost what that one
    # does.
    total = (
        sum(at.values())
        + sum(lengths.values())
        + len(figures.get("behavior").values) * at.get(8000.0, 0.0)
    )
    rows = read_rows(
        out / "runtime-data-size", "published", seeds_in(out / "runtime-data-size", "published")
    )
    here = (rows["x"] == 8000) & (rows["estimator"] == "aips (oracle)")
    one = float(np.median((rows["seconds"] + rows["drawing"])[here]))
    theirs, _ = times.published_seconds("n", "aips", 8000) or (np.nan, np.nan)
    return (
        fill(
            f"One whole trial, the data and {', '.join(dict.fromkeys(rows['estimator']))}, takes "
            f"{', '.join(f'{s:.2f} s at n = {n:,.0f}' for n, s in at.items())}. 1000 seeds of the "
            f"main figures' 18 points are then {1000 * total / 3600:.1f} CPU hours, "
            f"{1000 * total / 120:.0f} minutes on two cores; {_most(out)}. Drawing the data and "
            f"one AIPS with its oracle at n = 8,000 took the public code {theirs:g} s as "
            f"published, and takes {one:.3f} s here: 1/{theirs / one:,.0f}.",
            118,
        )
        + "\n"
    )


def _most(out: Path) -> str:
    """Return which estimator takes most of the time, at all points of the two run-time figures."""
    spent: dict[str, float] = {}
    for name in ("runtime-data-size", "runtime-slate-size"):
        for summary in results.summaries(out, name):
            spent[summary.estimator] = spent.get(summary.estimator, 0.0) + summary.seconds
    first, second = sorted(spent, key=lambda name: -spent[name])[:2]
    total = sum(spent.values())
    return (
        f"`{first}` takes {spent[first] / total:.0%} of that, `{second}` "
        f"{spent[second] / total:.0%}"
    )


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
            rows["seconds"][trials[0] & (trials[1] == seed)].sum()
            + rows["drawing"][trials[0] & (trials[1] == seed)][0]
            for seed in seeds
        ]
        found[float(x)] = float(np.median(each))
    return found


def ab_test(out: Path) -> str:
    """Return the real-world protocol and its table."""
    seeds = seeds_in(out / "real-world", "published")
    if not seeds:
        found = real_pages(out)
        return f"## The real-world protocol\n{found}" if found else ""
    rows = read_rows(out / "real-world", "published", seeds)
    table = special.ab_table(rows)
    won = special.wins(rows)
    best, aips = max(won, key=won.__getitem__), won.get("aips (pasif)", 0.0)
    return f"""## The real-world protocol

The original A/B logs are proprietary. `counterrank reproduce real-world` runs the protocol of section 5 (bootstraps
of log A, squared error against what log B earned, CDF, CVaR, wins; candidates S, C, I, c′, c″; PAS-IF) on simulated
logs of their shape, on your own, or on a file of real search sessions or news pages:

```
counterrank reproduce real-world --seeds 100 --out DIR --log-a a.parquet --log-b b.parquet --target b
counterrank reproduce real-world --seeds 100 --out DIR --log pages.csv
```

On the simulated pair, {len(seeds)} bootstraps, squared errors against what B earned:

{table}
The paper found AIPS best in 76 % of trials on its data. Here `{best}` wins most often ({won[best]:.0%}), and AIPS with
PAS-IF in {aips:.0%}; the simulated users are our invention. The paper's c″ is, as printed, the cascade itself.
{real_pages(out)}"""


def real_pages(out: Path) -> str:
    """Return the tables of files of real pages."""
    parts = []
    for folder in sorted(out.glob("real-world-*")):
        if seeds := seeds_in(folder, "logs"):
            rows = read_rows(folder, "logs", seeds)
            parts.append(
                f"\nOn real pages, `{folder.name.removeprefix('real-world-')}`, {len(seeds)} "
                f"bootstraps:\n\n{special.ab_table(rows)}"
            )
    return "".join(parts)


def text_world(out: Path) -> str:
    """Return the figure over n in the world that the text describes."""
    found = results.summaries(out, "data-size", _WORLD)
    if not found:
        return ""
    seeds = max(s.seeds for s in found)
    table = accuracy_table(figures.get("data-size"), found, compare=False)
    told = fill(_in_words(found), 118)
    return f"""## In the world the text describes

`counterrank reproduce data-size --preset paper --seeds {seeds} --out DIR`: parameters drawn afresh for each of {seeds}
worlds, MSE relative to each world's V². One world can dominate a cell.

{table}
{told}
"""


def _in_words(found: Sequence[PointSummary]) -> str:
    """Return which of the classic estimators is best how often, and `auto` relative to the best of them."""
    mse: dict[float, dict[str, float]] = {}
    for s in found:
        mse.setdefault(s.x, {})[s.estimator] = s.metrics["mse"]
    best = [_best_classic(at) for at in mse.values()]
    counts = ", ".join(f"{name} at {best.count(name)}" for name in _CLASSIC if name in best)
    text = f"Best of {', '.join(_CLASSIC)}: {counts} of {len(mse)} sizes."
    pairs = zip(mse.values(), best, strict=True)
    gains = [at["auto"] / at[name] for at, name in pairs if name and "auto" in at]
    if gains:
        told = ", ".join(f"{gain:.2g}" for gain in gains)
        text += (
            f" `auto` divided by the best of them: {told}; this world, too, is a sum of pair "
            "effects."
        )
    return text


def _best_classic(mse: dict[str, float]) -> str:
    """Return the classic estimator of least MSE; "" where none has been run."""
    return min((name for name in _CLASSIC if name in mse), key=mse.__getitem__, default="")


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
            title = (
                f"{text[0].upper()}{text[1:]}, {len(seeds)} seed{'s' if len(seeds) > 1 else ''}.\n"
            )
            parts += [
                f"### {name}\n",
                title,
                figure_table(figures.get(name), read_rows(out / name, preset, seeds), preset),
            ]
    return "\n".join(parts)


def _item(text: str) -> str:
    """Return text broken for an item of a list."""
    return fill(text, 118, initial_indent="  ", subsequent_indent="  ").lstrip()


SECTIONS: dict[str, Callable[[Path], str]] = {
    "classic": classic,
    "oracle": oracle,
    "toy": toy,
    "twice": twice,
    "from-log": from_log,
    "listing": listing,
    "main": main,
    "time": time,
    "real-world": ab_test,
    "paper": text_world,
    "more": more,
}
