"""The tables of the ledger, each from results: claims, figures 2 to 4, and where AIPS helps."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.ledger import claims
from benchmarks.ledger.claims import CLASSIC, TOLD, Elsewhere
from benchmarks.ledger.results import Errors, geometric, of_figure, short, text
from counterrank.research import bench
from counterrank.research.paper import results
from counterrank.research.paper.figures import ESTIMATORS, FIGURES
from counterrank.research.summary import markdown, ratio_of_means

DOCS = Path(__file__).resolve().parents[2] / "docs" / "evidence"
MAIN = ("data-size", "slate-size", "behavior")
HEAD = (
    "claim",
    "command, seeds",
    "ours, with 95 % intervals",
    "published world",
    "text's worlds",
    "random worlds",
)
#: Tables of run times: number, parameter, AIPS over IPS as published.
RUN_TIMES = {
    "runtime-data-size": ("3", "n", "34 to 39"),
    "runtime-slate-size": ("4", "K", "30 to 36"),
}
_EVERYWHERE = ("yes", "yes", "yes")
#: Claims without an error over seeds: enumerated or arithmetic, in any world.
EXACT = (
    ("Proposition 3.1: unbiased with the true behaviour", "`-k 3_1`", "equal to 1e-12", *_EVERYWHERE),
    ("Theorem 3.2: variance below that of IPS by the stated amount", "`-k 3_2`", "equal to 1e-11", *_EVERYWHERE),
    ("Theorem 3.3: smallest variance of all unbiased masks", "`-k 3_3`", "no larger mask has less", *_EVERYWHERE),
    ("Theorem 3.4: bias with a wrong behaviour", "`-k 3_4`", "equal to 1e-11", *_EVERYWHERE),
    ("Table 2: a wrong behaviour model can have the lower MSE", "`reproduce toy`", "0.50 and 0.31", *_EVERYWHERE),
)  # fmt: skip


def study(folder: Path, name: str) -> Errors:
    """Return the results of a protocol file of the documentation; what is there is not run again."""
    return Errors(bench.repeat(DOCS / f"{name}.toml", folder / name, progress=False).rows)


def claims_table(folder: Path, where: Errors) -> str:
    """Return the ledger: a line for each claim whose results are there."""
    there = {name: errors for name in FIGURES if (errors := of_figure(folder, name))}
    elsewhere = [Elsewhere(study(folder, "claims"), kind) for kind in ("text", "random")]
    lines: list[tuple[str, ...]] = [*EXACT, claims.uniform_behaviours()]
    for claim in (*claims.COMPARED, *claims.CHANGES):
        if claim.figure in there:
            lines.append(claim.line(there[claim.figure], elsewhere))
    if "epsilon" in there:
        lines.append(claims.accurate(there["epsilon"], elsewhere))
    if {name for name, *_ in claims.TOLD_ERRORS} <= there.keys():
        lines.append(claims.told_error(there, elsewhere))
    lines += [run_time(there[name], name) for name in RUN_TIMES if name in there]
    if "real-world" in there:
        lines += real_world(there["real-world"])
    main = [there[name] for name in MAIN if name in there]
    if len(main) == len(MAIN):
        lines += [without_truth(main, where), searches(where)]
    return markdown(HEAD, sorted(lines, key=_order))


_ORDER = (
    "Prop",
    "Theo",
    "RQ1",
    "RQ2",
    "RQ3",
    "A1",
    "A2",
    "A3",
    "A4",
    "Sect",
    "Tabl",
    "Figu",
    "AIPS",
    "Algo",
)


def _order(line: Sequence[str]) -> int:
    return next(i for i, start in enumerate(_ORDER) if line[0].startswith(start))


def run_time(errors: Errors, figure: str) -> tuple[str, ...]:
    """Return the line of a table of run times: AIPS over IPS, the data drawn in both."""
    rows, parts = errors.rows, []
    printed = {
        "runtime-data-size": ("3", "n", "34 to 39"),
        "runtime-slate-size": ("4", "K", "30 to 36"),
    }
    table, parameter, published = printed[figure]
    factors = []
    for x in (errors.points[0], errors.points[-1]):
        times = {}
        for name in (TOLD, "ips"):
            cell = (rows["x"] == x) & (rows["estimator"] == name)
            times[name] = rows["seconds"][cell] + rows["drawing"][cell]
        number = ratio_of_means(times[TOLD], times["ips"])
        factors.append(number[0])
        parts.append(f"{parameter} = {x:,g}: {text(number)}")
    verdict = "yes, in order of magnitude" if 5 < min(factors) and max(factors) < 100 else "**no**"
    return (
        f"Table {table}: AIPS takes {published} times as long as IPS over {parameter}",
        f"`reproduce {figure}`, {errors.seeds(('ips', TOLD))}",
        "; ".join(parts),
        verdict,
        "not run",
        "not run",
    )


def real_world(errors: Errors) -> Iterator[tuple[str, ...]]:
    """Yield the lines of figure 5, on a simulated pair of logs."""
    squared = {
        name: (cell["value"] - cell["truth"]) ** 2 for _, name, cell in results.cells(errors.rows)
    }
    n = len(squared["ips"])
    four = results.wins({name: squared[name] for name in results.PAPERS_FIELD})
    every = results.wins(squared)
    command, paper = f"`reproduce real-world`, {n}", results.PAPERS_AIPS
    own = f"{four[paper]:.0%} among the paper's four (best: {_best(four)})"
    if len(every) > len(four):
        own += f"; {every[paper]:.0%} among all {len(every)} (best: {_best(every)})"
    elsewhere = ("not run", "not run")
    verdict = "**not on simulated logs of its shape**; the original ones are not public"
    yield ("Figure 5: AIPS with PAS-IF is best in 76 % of the trials on a real A/B test", command, own,
           verdict, *elsewhere)  # fmt: skip
    ratios = [
        results.cvar(squared[paper], alpha) / results.cvar(squared["rips"], alpha)
        for alpha in (0.1, 0.3, 0.5)
    ]
    spread = _bootstrap(squared[paper], squared["rips"], 0.3)
    yield ("Figure 5: its CVaR is 30 % below that of RIPS", command,
           f"CVaR of AIPS over that of RIPS at alpha .3: {text((ratios[1], spread))}",
           "yes" if max(ratios) < 0.7 else verdict, *elsewhere)  # fmt: skip


def _best(wins: dict[str, float]) -> str:
    name = max(wins, key=wins.__getitem__)
    return f"`{name}` {wins[name]:.0%}"


def _bootstrap(mine: Any, theirs: Any, alpha: float) -> tuple[float, float]:
    """Return the percentile interval of a ratio of CVaRs, by 1,000 bootstraps of the trials."""
    rng, ratios = np.random.default_rng(0), []
    for _ in range(1000):
        rows = rng.integers(0, len(mine), len(mine))
        ratios.append(results.cvar(mine[rows], alpha) / results.cvar(theirs[rows], alpha))
    low, high = np.quantile(ratios, [0.025, 0.975])
    return float(low), float(high)


def over_points(figures: Sequence[Errors], name: str, other: str) -> str:
    """Return the MSE over another's: the range over points of figures 2 to 4, and the geometric mean."""
    ratios = [e.ratio(name, other, x)[0] for e in figures for x in e.points]
    seeds = min(e.seeds((name, other)) for e in figures)
    return (
        f"geometric mean of {len(ratios)} points {text(geometric(ratios))}, each from {short(min(ratios))} to "
        f"{short(max(ratios))} ({seeds} seeds a point)"
    )


def _worlds(errors: Errors, kind: str) -> list[str]:
    return [x for x in errors.points if x.startswith(kind)]


def in_worlds(errors: Errors, kind: str, name: str, other: str) -> str:
    """Return in how many worlds an estimator has less MSE than another, and the ratio."""
    ratios = [errors.ratio(name, other, x)[0] for x in _worlds(errors, kind)]
    return f"{sum(r < 1.0 for r in ratios)} of {len(ratios)}; {text(geometric(ratios))}"


def without_truth(figures: Sequence[Errors], where: Errors) -> tuple[str, ...]:
    """Return the line of AIPS from the log alone."""
    names = ("aips", TOLD)
    ratios = [e.ratio(*names, x)[0] for e in figures for x in e.points]
    return (
        "AIPS can be used on a log without the truth (MSE over that of AIPS, which is told the bias)",
        f"`reproduce data-size`, `slate-size`, `behavior`, {min(e.seeds(names) for e in figures)}",
        over_points(figures, *names),
        f"yes, at {sum(r < 1 for r in ratios)} of {len(ratios)}",
        *(in_worlds(where, kind, "aips", claims.TOLD_ELSEWHERE) for kind in ("text", "random")),
    )


def searches(where: Errors) -> tuple[str, ...]:
    """Return the line of Algorithm 1: random partitions against an exhaustive search."""
    names = ("aips (printed)", "aips")
    ratios = [where.ratio(*names, x)[0] for x in where.points]
    return (
        "Algorithm 1 needs its random partitions (MSE over that of an exhaustive search, both from the log alone)",
        f"`reproduce docs/evidence/where-aips-helps.toml`, {where.seeds(names)}",
        f"{len(ratios)} worlds: {text(geometric(ratios))}",
        "not compared",
        *(in_worlds(where, kind, *names) for kind in ("text", "random")),
    )


def figure_table(folder: Path, name: str) -> str:
    """Return the MSE / V² of a figure: ours, the published value, and the number of seeds."""
    errors = of_figure(folder, name)
    assert errors is not None
    lines = []
    for estimator in dict.fromkeys([*ESTIMATORS[:5], *(n for _, n in errors.squares)]):
        if not errors.has(estimator):
            continue
        line = [f"{estimator}, {errors.seeds([estimator])}"]
        for x in errors.points:
            theirs = results.published(name, "mse", estimator, x)
            printed = "" if theirs is None else f" ({theirs:.3g})"
            line.append(f"{short3(errors.mse(estimator, x)[0])}{printed}")
        lines.append(line)
    return markdown(("estimator, seeds", *(f"{x:,g}" for x in errors.points)), lines)


def short3(value: float) -> str:
    """Return four decimals, or three digits of a larger number.

    >>> short3(0.00912), short3(1.1836), short3(0.0000421)
    ('0.0091', '1.18', '0.000042')
    """
    if value < 0.001:
        return short(value)
    return f"{value:.4f}" if value < 0.1 else f"{value:.3g}"


def agreement(folder: Path) -> str:
    """Return how many published values are how near to ours, figure by figure."""
    lines = []
    for figure in MAIN:
        errors = of_figure(folder, figure)
        assert errors is not None
        gaps: dict[bool, list[float]] = {False: [], True: []}
        for name in ESTIMATORS[:5]:
            for x in errors.points:
                theirs = results.published(figure, "mse", name, x)
                if theirs is not None:
                    gaps[name == TOLD].append(abs(errors.mse(name, x)[0] / theirs - 1.0))
        classic, oracle = np.array(gaps[False]), np.array(gaps[True])
        lines.append(
            (
                f"`{figure}`, {errors.seeds(ESTIMATORS[:5])}",
                *(_within(classic, share) for share in (0.03, 0.25)),
                *(_within(oracle, share) for share in (0.03, 0.25)),
            )
        )
    head = (
        "figure, seeds",
        "IPS, IIPS, RIPS, AIPS (true): within 3 %",
        "25 %",
        "AIPS: within 3 %",
        "25 %",
    )
    return markdown(head, lines)


def _within(gaps: Any, share: float) -> str:
    return f"{int((gaps < share).sum())} of {len(gaps)}"


@dataclass(frozen=True)
class Row:
    """A line of the page on where AIPS helps: an estimator and what it is."""

    name: str
    what: str


WHERE = (
    Row("aips (true)", "every user's behaviour is known"),
    Row("aips (oracle printed)", "Algorithm 1, told the true value with an error of .3"),
    Row("aips (truth)", "exhaustive, told the true value, more candidates"),
    Row("aips", "from the log alone, held against a reward model"),
    Row("aips (printed)", "the same, searched as Algorithm 1"),
    Row("aips (pairs)", "held against weights of pairs"),
    Row("aips (slope)", "held against the choice of SLOPE"),
    Row("aips (pasif)", "held against PAS-IF, as in the paper on real logs"),
    Row("aips-pairs", "`aips`, blended with the value from pairs"),
    Row("dr-aips", "the weights of `aips` around a reward model"),
    Row("dr-iips", "own-item weights around the same model"),
    Row("auto", "reward models, an aimed correction, bias allowed for"),
)
KINDS = ("text", "random", "groups")


def where_table(errors: Errors) -> str:
    """Return the MSE of each estimator over that of the best classic one in hindsight, by kind of world."""
    lines = []
    for row in WHERE:
        if not errors.has(row.name):
            continue
        line = [f"`{row.name}`: {row.what}"]
        for kind in KINDS:
            names = _worlds(errors, kind)
            ratios = [errors.ratio(row.name, errors.best(CLASSIC, x), x)[0] for x in names]
            line.append(
                f"{text(geometric(ratios))} [{sum(r < 1 for r in ratios)} of {len(ratios)}]"
            )
        held, asked = errors.coverage(row.name)
        line.append(f"{held} of {asked}")
        lines.append(line)
    return markdown(
        ("MSE / the best of IPS, IIPS and RIPS in hindsight", *KINDS, "contained"), lines
    )


def pair_table(errors: Errors) -> str:
    """Return the ratios that the page speaks of."""
    asked: tuple[tuple[str, str, str], ...] = (
        ("dr-aips", "aips", "what the reward model adds"),
        ("dr-aips", "dr-iips", "what the tree's weights add around it"),
        ("aips", "iips", "`aips` against the own item"),
        ("aips", "aips (oracle printed)", "from the log alone against told the value"),
        ("aips (printed)", "aips", "Algorithm 1 against the exhaustive search"),
        ("aips (pairs)", "aips", "pairs in place of a reward model"),
        ("aips (slope)", "aips", "SLOPE in place of a reward model"),
        ("aips (pasif)", "aips", "PAS-IF in place of a reward model"),
    )
    small: Callable[[str], bool] = lambda x: "n=2000" in x or "n=8000" in x  # noqa: E731
    lines = []
    for mine, other, what in asked:
        if not errors.has(mine, other):
            continue
        line = [f"`{mine}` / `{other}`: {what}"]
        for kind in KINDS:
            line.append(
                text(geometric([errors.ratio(mine, other, x)[0] for x in _worlds(errors, kind)]))
            )
        few = [x for x in _worlds(errors, "groups") if small(x)]
        line.append(text(geometric([errors.ratio(mine, other, x)[0] for x in few])))
        lines.append(line)
    return markdown(("MSE / MSE on the same logs", *KINDS, "groups, n ≤ 8,000"), lines)
