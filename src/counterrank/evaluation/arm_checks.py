"""Checks of an A/B test on its log: whether chance divided the users, and whether the weights are right."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from counterrank.arrays import Bools, Floats
from counterrank.audit import context_cuts
from counterrank.estimators import can_model
from counterrank.evaluation.pooling import PooledTest
from counterrank.findings import FAILED, WARNED, Finding
from counterrank.policies import Scored, TeamDraft
from counterrank.statistics import Looks, critical_value, mean_of, two_sided
from counterrank.texts import in_percent, listed

#: A check warns beyond 3.3 standard errors: chance does that in one of a thousand tests, so that the
#: coverage of the headline hardly depends on it.
CHECK = 0.999
#: Weights average one but for roundings.
_ROUNDING = 1e-9
#: An item is a candidate of one arm alone when chance would do that to any item this rarely.
_CHANCE = 1e-6
#: False alarms per test of the shares of arms: over all rows, and over every group of every context
#: column together. At 52 to 48 of 20,000 rows the first finds 99 of 100.
MISMATCH, MISMATCH_BY_GROUP = 9e-4, 1e-4
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


def checks_of(test: PooledTest) -> Iterator[Finding]:
    """Yield what has to be said of the test as a whole; what invalidates it comes first."""
    yield from sample_ratio(test)
    yield from sample_ratio_by_group(test)
    log, strata = test.log, test.strata
    if strata.shared_units:
        share = in_percent(strata.shared_units / (int(strata.unit.max()) + 1))
        yield Finding(
            "units-in-several-arms",
            WARNED,
            f"{strata.shared_units:,} units ({share}) have rows in more than one arm: what one "
            "ranker taught them the other earns; errors count units all the same",
        )
    elif log.unit is not None:
        yield from _visits(test)
    if test.context is not None:
        yield from _who(test, test.context.sum(axis=1))
    if not can_model(log, test.names):
        yield Finding(
            "weights-only",
            WARNED,
            "no pages of the arms can be drawn from what the log holds of them, so that no "
            "reward model helps; with their scores (NAME_scores and --policy NAME=KIND) it may",
        )
    yield from _candidates(test)
    mixed = [name for name in test.names if isinstance(log.target(name), TeamDraft)]
    if mixed:
        yield Finding(
            "interleaved",
            WARNED,
            f"pages of {listed(mixed)} are drafted from two rankers: such a row tells of a "
            "ranker as far as that ranker could have shown the whole page; whose items were "
            "clicked says which is liked better, not what a page of its own would earn",
        )


def sample_ratio(test: PooledTest) -> Iterator[Finding]:
    """Fail where two arms have other shares of the rows, or of the units, than anybody plans.

    Rows of a unit come together: with m_u rows of unit u, the number of rows in an arm of share p has
    variance p (1 - p) sum m_u^2 (Fabijan et al. 2019 on why such a test says nothing).
    """
    sizes = np.bincount(test.strata.arm)
    units = test.strata.units_by_arm
    by_unit = test.log.unit is not None and not test.strata.shared_units
    pairs = len(sizes) * (len(sizes) - 1) // 2
    tests = pairs * (2 if by_unit else 1)
    for one in range(len(sizes)):
        for other in range(one + 1, len(sizes)):
            counted = [("rankings", sizes[[one, other]], _squares(test, one, other))]
            if by_unit:
                counted.append(("units", units[[one, other]], float(units[[one, other]].sum())))
            for what, (left, right), squares in counted:
                p = _mismatch(int(left), int(right), squares)
                if p * tests <= MISMATCH:
                    names = test.names[one], test.names[other]
                    yield _invalid(
                        "sample-ratio",
                        f"'{names[0]}' has {left:,} {what} and '{names[1]}' {right:,}: chance does not "
                        f"divide them so (p = {p:.1g})",
                    )
                    return


def _squares(test: PooledTest, one: int, other: int) -> float:
    """Return the sum of squared rows of each unit in two arms; of each row where units are in both."""
    own = np.isin(test.strata.arm, (one, other))
    if test.strata.shared_units:
        return float(own.sum())
    return float((np.bincount(test.strata.unit[own]).astype(np.float64) ** 2).sum())


def _mismatch(left: int, right: int, squares: float) -> float:
    """Return the p-value of the shares of two arms, against the planned share that is nearest.

    >>> round(_mismatch(10_000, 10_100, 20_100.0), 2), _mismatch(9_600, 10_400, 20_000.0) < 1e-7
    (0.48, True)
    """
    total = left + right
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
                        f"rankings and {in_percent(float(np.mean(arm == index)))} of all: chance does "
                        f"not divide them so (p = {p:.1g})",
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


def _invalid(code: str, text: str) -> Finding:
    return Finding(
        code,
        FAILED,
        text,
        ("find out where rows of one arm were lost, or who was assigned otherwise, and repeat the test",),
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


def _who(test: PooledTest, expected: Floats) -> Iterator[Finding]:
    """Warn where the arms differ in what their contexts alone would earn: chance did not divide the rows."""
    for index, name in enumerate(test.names):
        coin = (test.strata.arm == index) / test.shares[index] - 1.0
        away = mean_of(coin * (expected - expected.mean()), test.strata)
        if abs(away.value) > critical_value(CHECK, away.df) * away.stderr > 0.0:
            yield Finding(
                "arms-differ",
                WARNED,
                f"rows of '{name}' differ from the others in their context, by more than three "
                "standard errors of what it lets expect: were users divided by chance?",
            )
            return


def _candidates(test: PooledTest) -> Iterator[Finding]:
    """Warn where an arm's rows, or an arm's scores, leave out what others could show."""
    log, sets = test.log, test.log.candidates
    if sets is None:
        return
    policies = [log.target(name) for name in test.names]
    barred = [np.isneginf(p.scores) for p in policies if isinstance(p, Scored) and p.candidates is sets]  # fmt: skip
    if len(barred) > 1 and any((one != barred[0]).any() for one in barred):
        some = np.logical_or.reduce([one != barred[0] for one in barred])
        rows = np.unique(np.repeat(np.arange(log.n), sets.counts)[some])
        yield Finding(
            "candidates-differ",
            WARNED,
            f"in {in_percent(len(rows) / log.n)} of the rows an arm cannot show what another can: "
            "pages with such items tell of the arms that can show them",
        )
    arm = np.repeat(test.strata.arm, sets.counts)
    counts = np.zeros((int(sets.items.max()) + 1, len(test.names)))
    np.add.at(counts, (sets.items, arm), 1.0)
    total = counts.sum(axis=1)
    # An item of m rows is missing in an arm of share p by chance (1 - p)^m of the time.
    with np.errstate(divide="ignore"):
        rare = total[:, None] * np.log1p(-test.shares) < math.log(
            _CHANCE / max((total > 0).sum(), 1)
        )
    missing = (counts == 0) & rare
    if missing.any():
        index = int(np.argmax(missing.any(axis=0)))
        names = log.action_names or range(len(missing))
        items = [str(names[i]) for i in np.flatnonzero(missing[:, index])]
        yield Finding(
            "candidates-by-arm",
            WARNED,
            f"{len(items):,} items are never candidates in rows of '{test.names[index]}' "
            f"({listed(items, most=3)}): list in every row what any arm could have shown, with an "
            "empty score where one could not; otherwise the other arms' probabilities are those "
            "of another page",
        )
