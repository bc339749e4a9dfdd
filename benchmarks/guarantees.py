"""Coverage of intervals, power of the negative tests, false alarms: one page, measured.

Run: python -m benchmarks.guarantees [repetitions] [FILE]      (default: out/guarantees.md;
docs/evidence/appendix.md has its main tables)
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy import stats

import counterrank as cr
from benchmarks.interval_coverage import LEVEL, World, by, fixed_normaliser, without_units
from counterrank.checks.auditor import audit
from counterrank.data.source import MemorySource
from counterrank.estimators import registry

PAGE = Path(__file__).resolve().parents[1] / "out" / "guarantees.md"
Log = cr.RankingLog
Interval = Callable[[Log], tuple[float, float]]
#: Logs behind one run of a test for bias or for the level of an interval.
GROUP = 25


def logs(world: World, n: int, count: int, seed: int, *, rows_per_unit: int = 1) -> list[Log]:
    """Return independent logs of a world."""
    return [
        world.draw(n, np.random.default_rng([seed, i]), rows_per_unit=rows_per_unit)
        for i in range(count)
    ]


def held(intervals: list[tuple[float, float]], truth: float) -> int:
    return sum(low <= truth <= high for low, high in intervals)


def share(hits: int, count: int) -> str:
    """Return a share with its exact 95 % interval (Clopper and Pearson 1934)."""
    ends = stats.binomtest(hits, count).proportion_ci(0.95)
    return f"{hits / count:.3f} ({ends.low:.3f} to {ends.high:.3f})"


def coverage(repetitions: int) -> list[str]:
    """Return rows: how often intervals hold the truth."""
    near, far, clustered = World(exploration=0.7), World(), World(exploration=0.9)
    alone, heavy = logs(near, 1500, repetitions, 11), logs(far, 1500, repetitions, 12)
    units = logs(clustered, 1500, repetitions, 13, rows_per_unit=10)
    wanted: list[tuple[str, World, list[Log], Interval]] = [
        *((f"`{name}`, t", near, alone, by(name)) for name in ("ips", "rips", "snips", "cv-rips", "auto")),
        ("`rips`, t, target far from the logger", far, heavy, by("rips")),
        ("`auto`, t, target far from the logger", far, heavy, by("auto")),
        ("`ips`, t, ten rows per unit", clustered, units, by("ips")),
        ("*wrong:* units ignored", clustered, units, without_units),
        ("*wrong:* `snips` with a fixed normaliser", near, alone, fixed_normaliser),
        ("*biased here:* `iips`, t", far, heavy, by("iips")),
    ]  # fmt: skip
    return [
        f"| {name} | {share(held([interval(log) for log in drawn], world.truth), len(drawn))} |"
        for name, world, drawn, interval in wanted
    ]


def bias_alarm(name: str, world: World, group: list[Log]) -> bool:
    """Whether the mean of estimates lies 5 standard errors from the truth: the test of
    unbiasedness.
    """
    values = np.array([registry.get(name).estimate(log, "new").value for log in group])
    return bool(abs(values.mean() - world.truth) > 5 * values.std(ddof=1) / np.sqrt(len(values)))


def level_alarm(interval: Interval, world: World, group: list[Log]) -> bool:
    """Whether a binomial test rejects the level at 1e-3: the test of intervals."""
    found = held([interval(log) for log in group], world.truth)
    return bool(stats.binomtest(found, len(group), LEVEL).pvalue < 1e-3)


def detection(repetitions: int) -> list[str]:
    """Return rows: how often tests reject what is wrong, and what is right."""
    count = max(repetitions // 10, 4)
    far, clustered = World(), World(exploration=0.9)
    groups = [logs(far, 4000, GROUP, 100 + g) for g in range(count)]
    units = [logs(clustered, 1000, 2 * GROUP, 300 + g, rows_per_unit=10) for g in range(count)]
    rows = []
    for name, wrong in (("iips", True), ("rips", False), ("ips", False)):
        alarms = sum(bias_alarm(name, far, group) for group in groups)
        rows.append(
            f"| unbiased? `{name}` on cascades, {GROUP} logs of 4000 | {_kind(wrong)} | "
            f"{share(alarms, count)} |"
        )
    for title, interval, wrong in (
        ("units ignored", without_units, True),
        ("by unit", by("ips"), False),
    ):
        alarms = sum(level_alarm(interval, clustered, group) for group in units)
        rows.append(
            f"| level 95 %? {title}, {2 * GROUP} logs of 1000 | {_kind(wrong)} | "
            f"{share(alarms, count)} |"
        )
    return rows


def _kind(wrong: bool) -> str:
    return "wrong" if wrong else "right"


def _spoil(log: Log, how: str, rng: np.random.Generator) -> Log:
    values = log.propensity.values  # type: ignore[union-attr]
    spoiled = {
        "as logged": values,
        "20 % too small": values * 0.8,
        "20 % too large": np.minimum(values * 1.2, 1.0),
        "of another row": values[rng.permutation(log.n)],
        "logarithms": np.clip(-np.log(values), 1e-6, None),
        "rounded to one digit": np.maximum(np.round(values, 1), 0.1),
        "of the target": log.targets["new"].values,  # type: ignore[union-attr]
    }[how]
    return replace(log, propensity=cr.Propensity("factored", np.minimum(spoiled, 1.0)), dists={})


def audits(repetitions: int) -> list[str]:
    """Return rows: how often the audit warns or fails on propensities that are right and wrong."""
    drawn = logs(World(exploration=0.7), 3000, max(repetitions // 2, 10), 17)
    rows = []
    for how in ("as logged", "20 % too small", "20 % too large", "of another row", "logarithms",
                "rounded to one digit", "of the target"):  # fmt: skip
        rng = np.random.default_rng(0)
        worst = []
        for log in drawn:
            found = {
                finding.status for finding in audit(MemorySource(_spoil(log, how, rng)), ["new"])
            }
            worst.append(
                "failed" if "failed" in found else "warned" if "warned" in found else "passed"
            )
        count = len(worst)
        rows.append(
            f"| {how} | {share(worst.count('failed'), count)} | "
            f"{share(worst.count('warned'), count)} |"
        )
    return rows


def page(repetitions: int) -> str:
    """Return the page."""
    blocks = {
        "COVERAGE": coverage(repetitions), "DETECTION": detection(repetitions), "AUDITS": audits(repetitions),
        "COUNT": [str(repetitions)], "GROUPS": [str(max(repetitions // 10, 4))],
        "HALF": [str(max(repetitions // 2, 10))],
    }  # fmt: skip
    text = TEMPLATE
    for name, rows in blocks.items():
        text = text.replace(f"@{name}@", "\n".join(rows))
    return text


TEMPLATE = """# Statistical guarantees, measured

Written by `make guarantees` (`python -m benchmarks.guarantees @COUNT@`); it measures the numbers of the
first three tables, those of the last stand in the tests. The world is that of `benchmarks/interval_coverage.py`: three
contexts, three items, rankings of three, clicks that depend on the item and those above it; its truth is known by
enumeration. Brackets are exact 95 % intervals of each share.

## Do 95 % intervals hold the truth?

@COUNT@ logs of 1500 rankings each. "Far" targets prefer what the logger shows least. Where the whole bracket lies
below 0.95, the interval is too short there.

| interval | share that holds the truth |
|---|---|
@COVERAGE@

## Do the negative tests have power?

A test suite that never rejects proves nothing. Here each statistical test of this project is run @GROUPS@ times on
something right and on something known to be wrong: the first line of each kind is its power, the others its false
alarms. Bias is tested at five standard errors (nominal false-alarm rate 6e-7), levels by a binomial test at 1e-3.

| test | is | rejected |
|---|---|---|
@DETECTION@

## Does the audit notice wrong propensities?

`counterrank check` on @HALF@ logs of 3000 rankings, without whole distributions, with propensities as they were logged
and spoiled in known ways. The first row is the false-alarm rate; the others are power.

| propensities | failed | warned |
|---|---|---|
@AUDITS@

What the audit cannot see from numbers alone it cannot report: propensities that are wrong but keep the mean of the
weights at one pass.

## Rates written into the tests

| test | false-alarm rate |
|---|---|
| draws of every policy (chi-square) | 1e-6 a policy |
| sampled subset probabilities | six of their stated errors, about 2e-9 a value |
| coverage of every registered interval (binomial, from below) | 1e-6 |
| coverage of intervals by estimator (binomial) | 1e-4 |
| unbiasedness by simulation | 6e-7 (five standard errors) |

All seeds are fixed, so a passing suite passes again; the rates say how likely a correct change is to be called wrong.
"""


def main(repetitions: int = 300, path: str | None = None) -> None:
    """Write the page."""
    file = Path(path or PAGE)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(page(repetitions))


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:2]), *sys.argv[2:3])
