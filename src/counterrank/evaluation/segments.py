"""Groups of rows: what each target would earn in every one of them."""

from collections.abc import Mapping

import numpy as np

from counterrank.common.findings import FAILED, PASSED
from counterrank.estimators import Estimate
from counterrank.estimators.weights.thresholds import THRESHOLDS
from counterrank.evaluation.result import Level, Segment, SegmentLift
from counterrank.evaluation.sweep import Group
from counterrank.statistics import benjamini_hochberg, contrast


def segment_table(groups: Mapping[str, Mapping[Group, Estimate]]) -> tuple[Segment, ...]:
    """Return a row for each target, column and group, largest lift first within a column.

    p-values are those of one group by itself; over all groups of a target, q-values are adjusted by
    Benjamini-Hochberg, and intervals of the lift (`adjusted_low`, `adjusted_high`) by Bonferroni.
    """
    rows = [row for found in groups.values() for row in _adjusted(found)]

    def order(row: Segment) -> tuple[str, str, float, str]:
        lift = -np.nan_to_num(row.lift.value, nan=-np.inf)
        return row.target, row.column, float(lift), row.label

    return tuple(sorted(rows, key=order))


def _adjusted(groups: Mapping[Group, Estimate]) -> list[Segment]:
    found = list(groups.values())
    raw = [_p_value(one) for one in found]
    rows = []
    for (column, label), one, p, q in zip(groups, found, raw, benjamini_hochberg(raw), strict=True):
        wide, _ = one.lift_at(one.level, len(found))
        lift = SegmentLift(
            value=one.lift.value,
            stderr=one.lift.stderr,
            low=one.lift.low,
            high=one.lift.high,
            relative=one.lift.relative,
            adjusted_low=wide.low,
            adjusted_high=wide.high,
            p_value=float(p),
            q_value=float(q),
        )
        rows.append(
            Segment(
                one.value, one.stderr, one.low, one.high, column=column, label=label, target=one.target,
                estimator=one.estimator, n=one.n, ess=one.ess, lift=lift, evidence=evidence_of(one),
                flags=one.flags,
            )
        )  # fmt: skip
    return rows


def _p_value(estimate: Estimate) -> float:
    """Return the p-value of no lift; 1 where nothing is known."""
    if estimate.pair is None:
        return 1.0
    lift, _ = contrast(*estimate.pair)
    return lift.p_value(estimate.level, estimate.looks)


def enough_rows(estimate: Estimate) -> Level:
    """Return the evidence level that the rows and effective rows of a group allow."""
    if estimate.not_estimable:
        return "insufficient"
    statuses = {THRESHOLDS["units"].status(estimate.n), THRESHOLDS["ess"].status(estimate.ess)}
    if FAILED in statuses:
        return "insufficient"
    return "reliable" if statuses == {PASSED} else "directional"


def evidence_of(estimate: Estimate) -> Level:
    """Return the evidence level of a group from its rows, effective rows and flags."""
    level = enough_rows(estimate)
    return "directional" if level == "reliable" and estimate.flags else level
