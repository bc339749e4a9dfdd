"""Checks of an A/B test on its log: whether chance divided the users, and whether the weights are right."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

import numpy as np

from counterrank.arrays import Bools
from counterrank.audit import context_cuts
from counterrank.errors import ConfigError
from counterrank.estimators import can_model
from counterrank.evaluation.pooling import PooledTest
from counterrank.findings import FAILED, WARNED, Finding
from counterrank.messages import say
from counterrank.statistics import Looks, critical_value, mean_of, two_sided
from counterrank.texts import in_percent, listed

#: A check warns beyond 3.3 standard errors: chance does that in one of a thousand tests, so that the
#: coverage of the headline hardly depends on it.
CHECK = 0.999
#: Weights average one but for roundings.
_ROUNDING = 1e-9
#: False alarms per test of the shares of arms: over all rows, and over every group of every context
#: column together. At 52 to 48 of 20,000 rows the first finds 99 of 100.
MISMATCH, MISMATCH_BY_GROUP = 9.5e-4, 5e-5
#: Shares of the smaller of two arms that people plan.
PLANNED = (1 / 2, 1 / 3, 1 / 4, 1 / 5, 1 / 10, 1 / 20, 1 / 50, 1 / 100)


def wrong_weights(test: PooledTest, pair: Sequence[int], looks: Looks) -> Iterator[Finding]:
    """Warn where the weights of one of two arms do not average one.

    No reward enters, so that this finds wrong probabilities long before rewards do.
    """
    for index in pair:
        excess = mean_of(test.weights[:, index] - 1.0, test.strata)
        if abs(excess.value) > excess.half(CHECK, looks) + _ROUNDING:
            yield Finding(
                "arm-weights",
                WARNED,
                f"the weights of '{test.names[index]}' average {1.0 + excess.value:.4g} and not "
                "1, more than three standard errors away: its probabilities are not those that "
                "served the pages",
            )
            return


def checks_of(test: PooledTest, planned: Mapping[str, float]) -> Iterator[Finding]:
    """Yield what has to be said of the test as a whole; what invalidates it comes first."""
    yield from sample_ratio(test, planned)
    yield from sample_ratio_by_group(test)
    log, strata = test.log, test.strata
    if strata.shared_units:
        share = in_percent(strata.shared_units / (int(strata.unit.max()) + 1))
        yield Finding(
            "units-in-several-arms",
            WARNED,
            f"{strata.shared_units:,} units ({share}) have rows in more than one arm, so "
            "effects of one ranker may carry over to the other; standard errors are by unit",
        )
    elif log.unit is not None:
        yield from _visits(test)
    if not can_model(log, test.names):
        yield Finding(
            "weights-only",
            WARNED,
            "the log has no scores of the arms, so no reward model can make the interval shorter; log "
            "them (NAME_scores) and give --policy NAME=KIND",
        )


def planned_shares(given: str, names: Sequence[str]) -> dict[str, float]:
    """Return the planned share of each arm, from "a=60,b=40"; none where nothing was said.

    >>> planned_shares("a=60,b=40", ["a", "b"])
    {'a': 60.0, 'b': 40.0}
    """
    found: dict[str, float] = {}
    for part in filter(None, given.split(",")):
        name, _, share = part.partition("=")
        with suppress(ValueError):
            found[name.strip()] = float(share)
    if given and (
        set(found) != set(names) or not all(0 < one < math.inf for one in found.values())
    ):
        raise ConfigError(
            f"'{given}' does not give each of the arms {listed(names)} a planned share",
            remedy=f"write {','.join(f'{name}=1' for name in names)} with the planned shares",
        )
    return found


def sample_ratio(test: PooledTest, planned: Mapping[str, float]) -> Iterator[Finding]:
    """Fail where two arms have other shares of the rows, or of the units, than were planned.

    Where no plan was given, one of the shares that people plan is taken for it.

    Rows of a unit come together: with m_u rows of unit u, the number of rows in an arm of share p has
    variance p (1 - p) sum m_u^2 (Fabijan et al. 2019 on why such a test says nothing).
    """
    sizes = np.bincount(test.strata.arm)
    units = test.strata.units_by_arm
    # Where each unit has one row, both counts are the same.
    by_unit = int(units.sum()) < len(test.strata.arm) and not test.strata.shared_units
    pairs = len(sizes) * (len(sizes) - 1) // 2
    tests = pairs * (2 if by_unit else 1)
    plan = say("--arm", "COLUMN:" + ",".join(f"{name}=SHARE" for name in test.names))
    for one in range(len(sizes)):
        for other in range(one + 1, len(sizes)):
            counted = [("rankings", sizes[[one, other]], _squares(test, one, other))]
            if by_unit:
                counted.append(("units", units[[one, other]], float(units[[one, other]].sum())))
            for what, (left, right), squares in counted:
                names = test.names[one], test.names[other]
                share = (
                    planned[names[0]] / sum(planned[name] for name in names) if planned else None
                )
                p = _mismatch(int(left), int(right), squares, share)
                if p * tests <= MISMATCH:
                    yield _invalid(
                        "sample-ratio",
                        f"'{names[0]}' has {left:,} {what} and '{names[1]}' {right:,}, which is "
                        f"unlikely by chance (p = {p:.1g})",
                        "" if planned else f"; if other shares were planned, say so: {plan}",
                    )
                    return


def _squares(test: PooledTest, one: int, other: int) -> float:
    """Return the sum of squared rows of each unit in two arms; of each row where units are in both."""
    own = np.isin(test.strata.arm, (one, other))
    if test.strata.shared_units:
        return float(own.sum())
    return float((np.bincount(test.strata.unit[own]).astype(np.float64) ** 2).sum())


def _mismatch(left: int, right: int, squares: float, plan: float | None = None) -> float:
    """Return the p-value of the shares of two arms, against the first one's plan or the nearest usual share.

    >>> round(_mismatch(10_000, 10_100, 20_100.0), 2), _mismatch(9_600, 10_400, 20_000.0) < 1e-7
    (0.48, True)
    """
    total = left + right
    if plan is not None:
        return two_sided(left - total * plan, math.sqrt(plan * (1 - plan) * squares))
    share = min(left, right) / total
    planned = min(PLANNED, key=lambda one: abs(one - share))
    # Within chance of a planned share that is not the nearest one, nothing is wrong either.
    return max(
        two_sided(total * (share - one), math.sqrt(one * (1 - one) * squares))
        for one in (planned, 0.5)
    )


def sample_ratio_by_group(test: PooledTest) -> Iterator[Finding]:
    """Fail where an arm has another share of the rows in a group of the context than in all."""
    arm, strata = test.strata.arm, test.strata
    cuts = context_cuts(test.log)
    groups = [(cut, code) for cut in cuts for code in range(len(cut.names))]
    tests = max(len(groups) * len(test.names), 1)
    for cut in cuts:
        codes = cut.codes(test.log)
        for code, label in enumerate(cut.names):
            inside = codes == code
            for index, name in enumerate(test.names):
                p, share = _share_inside(inside, arm == index, strata.unit)
                if p * tests <= MISMATCH_BY_GROUP:
                    yield _invalid(
                        "sample-ratio-by-group",
                        f"where {cut.column} is {label}, '{name}' has {in_percent(share)} of the "
                        f"rankings and {in_percent(float(np.mean(arm == index)))} of all, which is "
                        f"unlikely by chance (p = {p:.1g})",
                    )
                    return


def _share_inside(
    inside: Bools, own: Bools, unit: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> tuple[float, float]:
    """Return the p-value of an arm's share of a group of rows, given its share of all, and that share."""
    rows = int(inside.sum())
    if rows < 100:
        return 1.0, math.nan
    share, overall = float(own[inside].mean()), float(own.mean())
    # Each row of the group adds its distance from the share of all rows, which is estimated too.
    weight = inside / rows - 1.0 / len(inside)
    by_unit = np.bincount(unit, weights=weight * (own - overall))
    return two_sided(share - overall, math.sqrt(float((by_unit**2).sum()))), share


def _invalid(code: str, text: str, more: str = "") -> Finding:
    repeat = "find out where rows of one arm were lost, or who was assigned otherwise, and repeat the test"
    return Finding(
        code,
        FAILED,
        text,
        (f"{repeat}{more}",),
        cause="rows of one arm were lost or counted twice, or users were not assigned by chance; then "
        "no difference between the arms can be believed",
        fatal=True,
    )  # fmt: skip


def _visits(test: PooledTest) -> Iterator[Finding]:
    """Warn where units of one arm have more rows than those of another.

    Visits that the ranking brought are in no difference per ranking.
    """
    rows = np.bincount(test.strata.unit)
    owner = np.zeros(len(rows), dtype=np.int64)
    owner[test.strata.unit] = test.strata.arm
    means, errors = [], []
    for index in range(len(test.names)):
        own = rows[owner == index]
        means.append(float(own.mean()))
        errors.append(float(own.var(ddof=1)) / len(own))
    low, high = int(np.argmin(means)), int(np.argmax(means))
    error = math.sqrt(errors[low] + errors[high])
    if means[high] - means[low] > critical_value(CHECK) * error:
        yield Finding(
            "visits-differ",
            WARNED,
            f"units of '{test.names[high]}' have {means[high]:.3g} rankings each and those of "
            f"'{test.names[low]}' {means[low]:.3g}: lifts here are per ranking; compare what users "
            "earned as well",
        )
