"""The tables: a line per cell, a line a population."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.lift.running import FOUR, Row, half_width, held, rounding

#: A lift is known well enough to act on: its half-width, as a share of what the logger earns, or of
#: the lift itself; as in `benchmarks/verdicts.py`.
PRECISE, OF_LIFT = 0.05, 0.5
#: A lift below this part of an A/B test's half-width is none.
NOTHING = 0.1
#: Distance from the interval's middle, in half-widths, from which on an estimate is in the outer tenth.
OUTER = 0.8


@dataclass(frozen=True, slots=True)
class Measures:
    """One estimator in one cell; counts are of logs."""

    logs: int
    silent: int
    failed: int
    lift: float
    base: float
    rmse: float
    bias: float
    #: The same over logs of targets that are better.
    gains: float
    #: Logs whose estimate stands in the outer tenth of its interval.
    outer: int
    four: float
    #: The same relative to whom the other logs of the cell would have chosen: nobody is best by luck.
    chosen: float
    all: float
    best: str
    held: int
    width: float
    sign: tuple[int, int]
    better: tuple[int, int]
    reliable: int
    missed: int
    deserving: tuple[int, int]
    cpu: float


def measures(rows: Sequence[Row], name: str) -> Measures:
    """Return the measures of an estimator in the rows of one cell."""
    mine = [one for one in rows if one.estimator == name]
    said = [one for one in mine if np.isfinite(one.lift) and np.isfinite(one.low)]
    spoke = {one.log for one in said}
    # One who was asked about some of the logs only could be the best by luck.
    asked: dict[str, list[Row]] = {}
    for one in rows:
        if one.log in spoke:
            asked.setdefault(one.estimator, []).append(one)
    errors = {other: _mse(some) for other, some in asked.items() if len(some) == len(spoke)}
    rivals = {other: e for other, e in errors.items() if other != name and np.isfinite(e)}
    best = min(rivals, key=rivals.__getitem__, default="")
    zero = [one for one in said if nothing_to_find(one)]
    true = [
        one for one in said if abs(one.true_lift) > 2 * one.true_stderr and not nothing_to_find(one)
    ]
    reliable = [one for one in said if one.verdict == "reliable"]
    deserving = [one for one in said if one.fresh and held(one) and precise(one)]
    nothing = float("nan")
    return Measures(
        logs=len(mine),
        silent=len(mine) - len(said),
        failed=sum(one.failed for one in mine),
        lift=_mean([one.true_lift for one in mine]),
        base=_mean([one.base for one in mine]),
        # In half-widths of an A/B test with as many pages in each arm.
        rmse=float(np.sqrt(_mean([_away(one) ** 2 for one in said]))) if said else nothing,
        bias=_mean([_away(one) for one in said]),
        gains=_mean([_away(one) for one in true if one.true_lift > 0]),
        outer=sum(_eccentric(one) > OUTER for one in said),
        four=_ratio(errors.get(name, nothing), [rivals[r] for r in FOUR if r in rivals]),
        chosen=_ratio(
            errors.get(name, nothing), [_chosen([asked[r] for r in FOUR if r in rivals])]
        ),
        all=_ratio(errors.get(name, nothing), list(rivals.values())),
        best=best,
        held=sum(map(held, said)),
        width=float(np.median([half_width(one) / one.test_half_width for one in said]))
        if said
        else nothing,
        sign=(sum(one.lift * one.true_lift > 0 for one in true), len(true)),
        better=(sum(one.low > rounding(one) for one in zero), len(zero)),
        reliable=len(reliable),
        missed=sum(not held(one) for one in reliable),
        deserving=(sum(one.verdict == "reliable" for one in deserving), len(deserving)),
        cpu=_mean([one.cpu for one in mine]),
    )


def nothing_to_find(one: Row) -> bool:
    """Return whether the true lift is known to be a tenth of what an A/B test can see, or less."""
    return abs(one.true_lift) + 2 * one.true_stderr <= NOTHING * one.test_half_width


def precise(one: Row) -> bool:
    """Return whether the interval is short enough to act on."""
    return half_width(one) <= max(PRECISE * abs(one.base), OF_LIFT * abs(one.lift))


def _away(one: Row) -> float:
    return (one.lift - one.true_lift) / one.test_half_width


def _eccentric(one: Row) -> float:
    """Return how far the estimate is from the middle of its interval, in half-widths."""
    half = half_width(one)
    return abs(one.lift - (one.low + one.high) / 2) / half if half > rounding(one) else 0.0


def _chosen(rivals: Sequence[Sequence[Row]]) -> float:
    """Return the mean squared error of whoever has the least error on the other logs, log by log."""
    if not rivals or len(rivals[0]) < 2:
        return float("nan")
    by_log = [sorted(some, key=lambda one: one.log) for some in rivals]
    squares = np.array([[(one.lift - one.true_lift) ** 2 for one in some] for some in by_log])
    choice = (squares.sum(axis=1, keepdims=True) - squares).argmin(axis=0)
    return float(squares[choice, np.arange(squares.shape[1])].mean())


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


def _mse(rows: Sequence[Row]) -> float:
    found = [(one.lift - one.true_lift) ** 2 for one in rows if np.isfinite(one.lift)]
    return _mean(found)


def _ratio(own: float, rivals: Sequence[float]) -> float:
    """Return the MSE relative to the least of the rivals'; NaN where that is nothing, as for a
    target that is the logger.
    """
    best = min(rivals, default=float("nan"))
    return own / best if best > 1e-12 else float("nan")


def geometric(values: Iterable[float]) -> float:
    """Return the geometric mean of those that are numbers."""
    found = [v for v in values if np.isfinite(v) and v > 0]
    return float(np.exp(np.mean(np.log(found)))) if found else float("nan")


HEAD = (
    "logs", "true lift %", "MSE / best of four", "/ chosen by other logs", "/ best of all (which)",
    "RMSE, bias / A-B", "of gains", "outer tenth", "held", "width / A-B",
    "sign right", '"better" at 0', "reliable, missed", "deserving told", "CPU s",
)  # fmt: skip


def cells_of(rows: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    """Return the rows by population and cell."""
    out: dict[tuple[str, str], list[Row]] = {}
    for one in rows:
        out.setdefault((one.population, one.cell), []).append(one)
    return out


def table(rows: Sequence[Row], name: str) -> str:
    """Return a line per cell, and after each population a line about it."""
    lines = [
        f"### {name}",
        "",
        "| | " + " | ".join(HEAD) + " |",
        "|" + "---|" * (1 + len(HEAD)),
    ]
    cells = cells_of(rows)
    totals = []
    for population in dict.fromkeys(p for p, _ in cells):
        found = {c: measures(some, name) for (p, c), some in cells.items() if p == population}
        found = {c: m for c, m in found.items() if m.logs}
        if found:
            lines += [_line(f"{population}: {c}", m) for c, m in found.items()]
            totals.append(summary(population, list(found.values())))
            lines.append(totals[-1])
    return "\n".join(
        [*lines, "", *lines[2:4], *totals, "", *against(rows, name), *_failures(rows, name)]
    )


def against(rows: Sequence[Row], name: str) -> list[str]:
    """Return a line a population with the MSE relative to each other estimator, as if one had
    always used that one: geometric means over cells.
    """
    cells = cells_of(rows)
    others = [e for e in dict.fromkeys(one.estimator for one in rows) if e != name]
    lines = [_row("MSE / that of", *others), "|" + "---|" * (1 + len(others))]
    for population in dict.fromkeys(p for p, _ in cells):
        pairs = [
            {other: _paired(some, name, other) for other in others}
            for (p, _), some in cells.items()
            if p == population
        ]
        means = [geometric(pair[other] for pair in pairs) for other in others]
        lines.append(_row(population, *(f"{mean:.2f}" for mean in means)))
    return lines


def _paired(rows: Iterable[Row], name: str, other: str) -> float:
    """Return the ratio of two MSEs over the logs on which both gave a lift."""
    said = {
        who: {one.log: one for one in rows if one.estimator == who and np.isfinite(one.lift)}
        for who in (name, other)
    }
    both = said[name].keys() & said[other].keys()
    own, its = (_mse([said[who][log] for log in sorted(both)]) for who in (name, other))
    return _ratio(own, [its])


def _line(label: str, m: Measures) -> str:
    silent = f" ({m.silent} silent)" if m.silent else ""
    return _row(
        label, f"{m.logs}{silent}", f"{100 * m.lift / m.base:+.1f}" if m.base else "",
        f"{m.four:.2f}", f"{m.chosen:.2f}", f"{m.all:.2f} ({m.best})", f"{m.rmse:.2f}, {m.bias:+.2f}",
        f"{m.gains:+.2f}", f"{m.outer}",
        _of(m.held, m.logs - m.silent), f"{m.width:.2f}", _of(*m.sign), _of(*m.better),
        f"{m.reliable}, {m.missed}", _of(*m.deserving), f"{m.cpu:.1f}",
    )  # fmt: skip


def summary(population: str, found: Sequence[Measures]) -> str:
    """Return one line about a population: geometric means with the worst cell, and counts."""
    spoke = sum(m.logs - m.silent for m in found)

    def ratio(values: Sequence[float]) -> str:
        worst = max((v for v in values if np.isfinite(v)), default=float("nan"))
        return f"{geometric(values):.2f}, worst {worst:.2f}"

    def added(pairs: Iterable[tuple[int, int]]) -> str:
        counts = np.array(list(pairs)).sum(axis=0)
        return _of(int(counts[0]), int(counts[1]))

    reliable, missed = sum(m.reliable for m in found), sum(m.missed for m in found)
    share = f" ({missed / reliable:.0%})" if reliable else ""
    silent = sum(m.silent for m in found)
    return _row(
        f"**{population}**", f"{sum(m.logs for m in found)}" + (f" ({silent} silent)" if silent else ""),
        f"{len(found)} cells", ratio([m.four for m in found]), ratio([m.chosen for m in found]),
        ratio([m.all for m in found]), f"{np.sqrt(_mean([m.rmse**2 for m in found if np.isfinite(m.rmse)])):.2f}",
        f"{_mean([m.gains for m in found if np.isfinite(m.gains)]):+.2f}", f"{sum(m.outer for m in found)}",
        _share(sum(m.held for m in found), spoke),
        f"{np.median([m.width for m in found if np.isfinite(m.width)] or [float('nan')]):.2f}",
        added(m.sign for m in found), added(m.better for m in found), f"{reliable}, {missed}{share}",
        added(m.deserving for m in found), f"{_mean([m.cpu for m in found]):.1f}",
    )  # fmt: skip


def _failures(rows: Iterable[Row], name: str) -> list[str]:
    failed = [one for one in rows if one.estimator == name and one.failed]
    if not failed:
        return []
    first = failed[0]
    return [
        "",
        f"{name}: {len(failed)} logs ended in an unexpected error, the first "
        f"({first.population} {first.cell} log {first.log}): {first.why}",
    ]


def _row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def _of(count: int, of: int) -> str:
    return f"{count} of {of}" if of else "–"


def _share(count: int, of: int) -> str:
    return f"{count / of:.2f} of {of}" if of else "–"
