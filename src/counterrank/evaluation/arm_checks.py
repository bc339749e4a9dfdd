"""Can the arms of a test be compared? Their shares of the rows, their units, and the pages that each served."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

import numpy as np

from counterrank.checks import VITAL, audit, concluded, context_cuts
from counterrank.common.arrays import Bools, Ints
from counterrank.common.errors import ConfigError
from counterrank.common.findings import FAILED, WARNED, Finding, Findings
from counterrank.common.messages import say
from counterrank.common.records import Record
from counterrank.common.texts import comma_separated, in_percent
from counterrank.data.source import MemorySource
from counterrank.estimators import can_model
from counterrank.evaluation.arm_table import Pair, ServedRows
from counterrank.statistics import Looks, critical_value, mean_of, two_sided

#: Distances of mean weights from one, and differences below this share of an interval, are roundings.
ROUNDING = 1e-9
#: A check warns beyond 3.3 standard errors: chance does that in one of a thousand tests, so that the
#: coverage of the headline hardly depends on it.
CHECK = 0.999
#: False alarms per test of the shares of arms: over all rows, and over every group of every context
#: column together. At 52 to 48 of 20,000 rows the first finds 99 of 100.
MISMATCH, MISMATCH_BY_GROUP = 9.5e-4, 5e-5
#: Shares of the smaller of two arms that people plan.
PLANNED = (1 / 2, 1 / 3, 1 / 4, 1 / 5, 1 / 10, 1 / 20, 1 / 50, 1 / 100)


@dataclass(frozen=True, slots=True)
class SampleRatio(Record):
    """Whether the arms have the shares of rows, and of units, that were planned.

    `p_value` is the smallest of all pairs of arms, times their number; `counts` are what it is of, by arm,
    `planned` the planned shares, where they were given.
    """

    status: Literal["passed", "failed"] = "passed"
    p_value: float = math.nan
    counted: Literal["rankings", "units"] = "rankings"
    counts: dict[str, int] | None = None
    planned: dict[str, float] | None = None


def findings_of_test(rows: ServedRows) -> Findings:
    """Yield what has to be said of the test beside the shares of its arms; what invalidates it comes first."""
    yield from sample_ratio_by_group(rows)
    for index in range(len(rows.names)):
        yield from findings_of_arm(rows, index)
    strata = rows.strata
    if strata.shared_units:
        share = in_percent(strata.shared_units / (int(strata.unit.max()) + 1))
        yield Finding(
            "units-in-several-arms",
            WARNED,
            f"{strata.shared_units:,} units ({share}) have rows in more than one arm, so "
            "effects of one ranker may carry over to the other; standard errors are by unit",
        )
    elif rows.log.unit is not None:
        yield from visits(rows)
    if not can_model(rows.log, rows.names):
        yield Finding(
            "weights-only",
            WARNED,
            "the log has no scores of the arms, so no reward model can make the interval shorter; log "
            "them (NAME_scores) and give --policy NAME=KIND",
        )


def findings_of_arm(rows: ServedRows, index: int) -> Findings:
    """Yield what the checks of a log refute of the rows that one arm served, its policy being their logger.

    Only pages that the arm itself served are looked at, so that no arm is blamed for another.
    """
    name, inside = rows.names[index], rows.served_by(index)
    other_arms = [
        arm
        for number, arm in enumerate(rows.names)
        # Weights of an arm that shows pages which this one never shows do not average 1.
        if number != index and (rows.weights[rows.served_by(number), index] > 0).all()
    ]
    log = rows.log.take(inside)
    # What was missing of the logger's propensities is there: they are those of the arm.
    log = log.changed(
        propensity=log.target(name),
        targets={arm: log.targets[arm] for arm in other_arms},
        notes=(),
    )
    # Fixed orders may be tested, too.
    checks = [check for check in VITAL if check.code != "exploration"]
    for finding in concluded(audit(MemorySource(log), other_arms, checks=checks)):
        if finding.kind != "refuted" or not finding.stands:
            continue
        served = finding.about in ("propensities", "scores")
        text = f"in the rows of '{name}' {finding.text}"
        if served:
            text += (
                f", so '{name}' did not serve the pages that its scores or probabilities stand for"
            )
        yield replace(
            finding,
            text=text,
            target=name,
            fatal=served,
            status=FAILED if served else WARNED,
            cause="other scores were served than logged, perhaps for some of the time"
            if served
            else finding.cause,
            remedies=("log the scores that served, and repeat the test",)
            if served
            else finding.remedies,
        )


def wrong_weights(rows: ServedRows, pair: Pair, looks: Looks) -> Findings:
    """Warn where the weights of one of two arms do not average one.

    No reward enters, so that this finds wrong probabilities long before rewards do.
    """
    names = " or ".join(f"'{rows.names[index]}'" for index in sorted(pair))
    for index in pair:
        excess = mean_of(rows.weights[:, index] - 1.0, rows.strata)
        if abs(excess.value) > excess.half(CHECK, looks) + ROUNDING:
            yield Finding(
                "arm-weights",
                WARNED,
                f"over all rows the weights of '{rows.names[index]}' average {1.0 + excess.value:.4g} "
                f"and not 1, more than three standard errors away: the probabilities of {names} are not "
                "those that served the pages",
            )
            return


def planned_shares(text: str, names: Sequence[str]) -> dict[str, float]:
    """Return the planned share of each arm, from "a=60,b=40"; none where nothing was said.

    >>> planned_shares("a=60,b=40", ["a", "b"])
    {'a': 60.0, 'b': 40.0}
    """
    shares: dict[str, float] = {}
    for term in filter(None, text.split(",")):
        name, _, share = term.partition("=")
        with suppress(ValueError):
            shares[name.strip()] = float(share)
    positive = all(0 < share < math.inf for share in shares.values())
    if text and not (set(shares) == set(names) and positive):
        raise ConfigError(
            f"'{text}' does not give each of the arms {comma_separated(names)} a planned share",
            remedy=f"write {','.join(f'{name}=1' for name in names)} with the planned shares",
        )
    return shares


def sample_ratio(
    rows: ServedRows, planned: Mapping[str, float]
) -> tuple[SampleRatio, list[Finding]]:
    """Return whether two arms have other shares of the rows, or of the units, than were planned.

    Where no plan was given, one of the shares that people plan is taken for it.

    Rows of a unit come together: with m_u rows of unit u, the number of rows in an arm of share p has
    variance p (1 - p) sum m_u^2 (Fabijan et al. 2019 on why such a test says nothing).
    """
    names, strata = rows.names, rows.strata
    sizes, units = np.bincount(strata.arm), strata.units_by_arm
    # Where each unit has one row, both counts are the same.
    by_unit = int(units.sum()) < len(strata.arm) and not strata.shared_units
    pairs = list(combinations(range(len(sizes)), 2))
    tests = len(pairs) * (2 if by_unit else 1)
    tested: list[tuple[float, Literal["rankings", "units"], list[int]]] = []
    for pair in map(list, pairs):
        share = None
        if planned:
            share = planned[names[pair[0]]] / sum(planned[names[index]] for index in pair)
        left, right = sizes[pair].tolist()
        tested.append((_mismatch(left, right, _squares(rows, pair), share), "rankings", pair))
        if by_unit:
            left, right = units[pair].tolist()
            tested.append((_mismatch(left, right, float(left + right), share), "units", pair))
    p, counted, pair = min(tested, key=lambda entry: entry[0])
    counts = dict(zip(names, (sizes if counted == "rankings" else units).tolist(), strict=True))
    total = sum(planned.values())
    shares = {name: share / total for name, share in planned.items()}
    failed = p * tests <= MISMATCH
    ratio = SampleRatio(
        "failed" if failed else "passed", min(1.0, p * tests), counted, counts, shares or None
    )
    if not failed:
        return ratio, []
    plan = say("--arm", "COLUMN:" + ",".join(f"{name}=SHARE" for name in names))
    first, second = (names[index] for index in pair)
    finding = _invalid(
        "sample-ratio",
        f"'{first}' has {counts[first]:,} {counted} and '{second}' {counts[second]:,}, which is "
        f"unlikely by chance (p = {p:.1g})",
        "" if planned else f"; if other shares were planned, say so: {plan}",
    )
    return ratio, [finding]


def _squares(rows: ServedRows, pair: Sequence[int]) -> float:
    """Return the sum of squared rows of each unit in two arms; of each row where units are in both."""
    inside = np.isin(rows.strata.arm, pair)
    if rows.strata.shared_units:
        return float(inside.sum())
    return float((np.bincount(rows.strata.unit[inside]).astype(np.float64) ** 2).sum())


def _mismatch(left: int, right: int, squares: float, plan: float | None = None) -> float:
    """Return the p-value of the shares of two arms, against the first one's plan or the nearest usual share.

    >>> round(_mismatch(10_000, 10_100, 20_100.0), 2), _mismatch(9_600, 10_400, 20_000.0) < 1e-7
    (0.48, True)
    """
    total = left + right
    if plan is not None:
        return two_sided(left - total * plan, math.sqrt(plan * (1 - plan) * squares))
    smaller = min(left, right) / total
    nearest = min(PLANNED, key=lambda share: abs(share - smaller))
    # Within chance of a planned share that is not the nearest one, nothing is wrong either.
    return max(
        two_sided(total * (smaller - share), math.sqrt(share * (1 - share) * squares))
        for share in (nearest, 0.5)
    )


def sample_ratio_by_group(rows: ServedRows) -> Findings:
    """Fail where an arm has another share of the rows in a group of the context than in all."""
    arm = rows.strata.arm
    cuts = context_cuts(rows.log)
    tests = sum(len(cut.names) for cut in cuts) * len(rows.names)
    for cut in cuts:
        codes = cut.codes(rows.log)
        for code, label in enumerate(cut.names):
            for index, name in enumerate(rows.names):
                p, share = _share_inside(codes == code, arm == index, rows.strata.unit)
                if p * tests <= MISMATCH_BY_GROUP:
                    yield _invalid(
                        "sample-ratio-by-group",
                        f"where {cut.column} is {label}, '{name}' has {in_percent(share)} of the "
                        f"rankings and {in_percent(float(rows.shares[index]))} of all, which is "
                        f"unlikely by chance (p = {p:.1g})",
                    )
                    return


def _share_inside(inside: Bools, served: Bools, unit: Ints) -> tuple[float, float]:
    """Return the p-value of an arm's share of a group of rows, given its share of all, and that share."""
    size = int(inside.sum())
    if size < 100:
        return 1.0, math.nan
    share, overall = float(served[inside].mean()), float(served.mean())
    # Each row of the group adds its distance from the share of all rows, which is estimated too.
    weight = inside / size - 1.0 / len(inside)
    by_unit = np.bincount(unit, weights=weight * (served - overall))
    return two_sided(share - overall, math.sqrt(float((by_unit**2).sum()))), share


def _invalid(code: str, text: str, advice: str = "") -> Finding:
    repeat = "find out where rows of one arm were lost, or who was assigned otherwise, and repeat the test"
    return Finding(
        code,
        FAILED,
        text,
        (f"{repeat}{advice}",),
        cause="rows of one arm were lost or counted twice, or users were not assigned by chance; then "
        "no difference between the arms can be believed",
        kind="refuted",
        about="rows",
        fatal=True,
    )


def visits(rows: ServedRows) -> Findings:
    """Warn where units of one arm have more rows than those of another.

    Visits that the ranking brought are in no difference per ranking.
    """
    counts = np.bincount(rows.strata.unit)
    owner = np.zeros(len(counts), dtype=np.int64)
    owner[rows.strata.unit] = rows.strata.arm
    counts_by_arm = [counts[owner == index] for index in range(len(rows.names))]
    means = [float(of_arm.mean()) for of_arm in counts_by_arm]
    low, high = int(np.argmin(means)), int(np.argmax(means))
    error = math.sqrt(
        sum(float(counts_by_arm[i].var(ddof=1)) / len(counts_by_arm[i]) for i in (low, high))
    )
    if means[high] - means[low] > critical_value(CHECK) * error:
        yield Finding(
            "visits-differ",
            WARNED,
            f"units of '{rows.names[high]}' have {means[high]:.3g} rankings each and those of "
            f"'{rows.names[low]}' {means[low]:.3g}: lifts here are per ranking; compare what users "
            "earned as well",
        )
