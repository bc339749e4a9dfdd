"""Estimates beside each other: those that assume less, of other targets on the same rows, of groups of rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from counterrank.common.findings import FAILED, PASSED
from counterrank.estimators import Estimate, Traits
from counterrank.estimators.weights.diagnostics import mean_weight_test, tail_index
from counterrank.estimators.weights.thresholds import SIGNIFICANT, THRESHOLDS
from counterrank.evaluation.result import (
    Comparison,
    Level,
    OrderPoint,
    Segment,
    SegmentLift,
    weakest,
)
from counterrank.statistics import (
    ONCE,
    Looks,
    Quantity,
    benjamini_hochberg,
    contrast,
    holm,
    two_sided,
)

if TYPE_CHECKING:
    from counterrank.evaluation.fit import Fit, MetricFits
    from counterrank.evaluation.solve import Table
    from counterrank.evaluation.sweep import Group


@dataclass(frozen=True, slots=True)
class Rival:
    """An estimate of the same value that assumes less, and how far the recommended one is from it."""

    name: str
    difference: float
    stderr: float
    #: Its own weights are good enough for the difference to mean something.
    usable: bool


def weighed_like(
    fit: Fit, estimates: Mapping[Fit, Estimate], among: Sequence[Fit] | Mapping[Fit, Estimate] = ()
) -> Fit | None:
    """Return the fit of the weights behind an estimate, or None where it was not run.

    Parameters
    ----------
    fit
        The estimator.
    estimates
        What the fits of the metric say.
    among
        The fits to look at; by default all.
    """
    chosen = estimates[fit]
    length, basis = len(chosen.by_position), chosen.traits or fit.traits
    for weighed in among or estimates:
        same_target = weighed.target == fit.target and estimates[weighed].moments is not None
        if same_target and weighed.traits.same_weights(basis, length):
            return weighed
    return None


def rivals(fit: Fit, judges: Mapping[Fit, Estimate], table: Table) -> list[Rival]:
    """Return those among other estimates of the same target that assume less than the chosen one.

    One whose own assumption is contradicted, by a usable estimate that assumes still less, is no
    judge of others: where people do not read from the top, RIPS is wrong, and its difference to
    anything says nothing.
    """
    solution = table.solutions[fit]
    length = len(solution.positions)
    # Self-normalised whole rankings assume as little as IPS, and are often far more precise.
    plain = [
        rival_fit
        for rival_fit in judges
        if rival_fit.traits.weighs_alone or rival_fit.name == "snips"
    ]

    def assuming_less(than: Traits) -> list[Fit]:
        return [rival_fit for rival_fit in plain if rival_fit.traits.assumes_less(than, length)]

    def contradicted(rival: Fit) -> bool:
        stricter = (judge for judge in assuming_less(rival.traits) if usable(judges[judge]))
        gaps = (table.distance(rival, judge) for judge in stricter)
        return any(two_sided(gap.value, gap.stderr) < SIGNIFICANT for gap in gaps)

    judged = []
    for rival_fit in assuming_less(solution.traits or fit.traits):
        gap = table.distance(fit, rival_fit)
        judging = usable(judges[rival_fit]) and not contradicted(rival_fit)
        # An interval is contradicted by what is far from its centre.
        judged.append(Rival(rival_fit.name, gap.value + gap.shift, gap.stderr, judging))
    return judged


def usable(estimate: Estimate) -> bool:
    """Return whether an estimate's weights are good enough to test others against it.

    Beyond the reliable tail index the variance is not to be believed, and a difference in standard
    errors says nothing.
    """
    good = estimate.ess >= THRESHOLDS["ess"].directional
    if estimate.moments is None:
        return good
    # Rivals judge others, so they have to be beyond doubt themselves.
    light = tail_index(estimate.moments) <= THRESHOLDS["tail"].reliable
    return good and light and mean_weight_test(estimate.moments).p_value > SIGNIFICANT


def path_of(target: str, estimates: Mapping[Fit, Estimate]) -> tuple[OrderPoint, ...]:
    """Return the estimates from interaction order 1 (IIPS) to K (IPS) that were made, in that order."""
    points = []
    for fit, estimate in estimates.items():
        order = fit.traits.order(len(estimate.by_position))
        if fit.target == target and fit.traits.weighs_alone and order is not None:
            points.append(
                OrderPoint(
                    estimate.value,
                    estimate.stderr,
                    *estimate.interval(),
                    order=order,
                    ess=estimate.ess,
                    estimator=estimate.estimator,
                )
            )
    return tuple(sorted(points, key=lambda point: (point.order, point.estimator)))


def compare(
    table: Table, fits: MetricFits, level: float, looks: Looks = ONCE
) -> tuple[Comparison, ...]:
    """Return a row for each pair of targets: difference of their recommended estimates on the same rows.

    Intervals are Bonferroni-adjusted over the pairs, p-values by Holm (1979). What the estimates
    allow for bias is added to the interval and taken off the difference before it is tested: the
    biases may point in opposite ways.
    """
    pairs = list(combinations(fits.recommended.values(), 2))
    gaps = [table.distance(*pair) for pair in pairs]
    p_values = holm([gap.p_value(level, looks) for gap in gaps])
    numbers = [gap.number(level, looks, len(pairs)) for gap in gaps]
    return tuple(
        Comparison(
            *number.figures,
            better=better.target,
            than=than.target,
            bias_allowance=gap.allowance,
            p_value=float(p),
        )
        for (better, than), gap, number, p in zip(pairs, gaps, numbers, p_values, strict=True)
    )


def segment_table(
    groups: Mapping[str, Mapping[Group, Estimate]], level: float, looks: Looks
) -> tuple[Segment, ...]:
    """Return a row for each target, column and group, largest lift first within a column."""
    rows = [
        Segment(
            estimate.value,
            estimate.stderr,
            *estimate.interval(),
            column=column,
            label=label,
            target=estimate.target,
            estimator=estimate.estimator,
            n=estimate.n,
            ess=estimate.ess,
            lift=lift,
            # Flags keep a group from being reliable.
            evidence=weakest(
                enough_rows(estimate), "directional" if estimate.flags else "reliable"
            ),
            flags=estimate.flags,
        )
        for estimates in groups.values()
        for ((column, label), estimate), lift in zip(
            estimates.items(),
            lifts_in_groups([estimate.pair for estimate in estimates.values()], level, looks),
            strict=True,
        )
    ]

    def order(row: Segment) -> tuple[str, str, float, str]:
        lift = -np.nan_to_num(row.lift.value, nan=-np.inf)
        return row.target, row.column, float(lift), row.label

    return tuple(sorted(rows, key=order))


def lifts_in_groups(
    pairs: Sequence[tuple[Quantity, Quantity] | None], level: float, looks: Looks
) -> list[SegmentLift]:
    """Return the lift of a value over a base in each group of rows; None where nothing is known of a group.

    p-values are those of one group by itself; over all groups q-values are adjusted by
    Benjamini-Hochberg, and intervals of the lift (`adjusted_low`, `adjusted_high`) by Bonferroni.
    """
    lifts = [None if pair is None else contrast(*pair) for pair in pairs]
    raw = [1.0 if lift is None else lift[0].p_value(level, looks) for lift in lifts]
    rows = []
    for lift, p, q in zip(lifts, raw, benjamini_hochberg(raw), strict=True):
        adjusted = {"p_value": float(p), "q_value": float(q)}
        if lift is None:
            rows.append(SegmentLift(math.nan, **adjusted))
            continue
        shown, wide = (lift[0].number(level, looks, family) for family in (1, len(pairs)))
        adjusted |= {"adjusted_low": wide.low, "adjusted_high": wide.high}
        rows.append(SegmentLift(*shown.figures, relative=lift[1].value, **adjusted))
    return rows


def enough_rows(estimate: Estimate) -> Level:
    """Return the evidence level that the rows and effective rows of a group allow."""
    if estimate.not_estimable:
        return "insufficient"
    statuses = {THRESHOLDS["units"].status(estimate.n), THRESHOLDS["ess"].status(estimate.ess)}
    if FAILED in statuses:
        return "insufficient"
    return "reliable" if statuses == {PASSED} else "directional"
