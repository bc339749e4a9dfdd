"""Groups of rows: how a log is cut, and what each target would earn in every group."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from counterrank.data.columns import Segmentation, segmentation
from counterrank.data.log import RankingLog
from counterrank.data.source import Source, mapped
from counterrank.estimators import Estimate
from counterrank.estimators.weights.thresholds import THRESHOLDS
from counterrank.evaluation.passing import Group
from counterrank.evaluation.result import Level, Segment, SegmentLift
from counterrank.findings import FAILED, PASSED
from counterrank.statistics import benjamini_hochberg

#: Labels of a segment that the models tell apart; a column with more is an id.
MODELLED_LABELS = 20


@dataclass(frozen=True)
class SegmentContext:
    """Adds segments to the context, so that the models may find another lift in each."""

    cuts: tuple[Segmentation, ...]
    labels: tuple[tuple[str, ...], ...]

    @classmethod
    def added(cls, source: Source, names: Sequence[str]) -> Source:
        """Return the source with segments that are no context yet, by the labels of the first rows."""
        first, found = source.first, []
        for name in names:
            if name not in first.columns or f"x_{name}" in first.context_names:
                continue
            cut = segmentation(first, name)
            labels = tuple(sorted(label for label, _ in cut.groups(first)))
            if 1 < len(labels) <= MODELLED_LABELS:
                found.append((cut, labels))
        return mapped(source, cls(*map(tuple, zip(*found, strict=True)))) if found else source

    def __call__(self, batch: RankingLog) -> RankingLog:
        """Return the batch with a category for each segment; a label that is not known is missing."""
        codes = np.full((batch.n, len(self.cuts)), np.nan)
        for column, (cut, labels) in enumerate(zip(self.cuts, self.labels, strict=True)):
            for label, rows in cut.groups(batch):
                if label in labels:
                    codes[rows, column] = labels.index(label)
        names = [f"x_{cut.column}" for cut in self.cuts]
        context = codes if batch.context is None else np.hstack([batch.context, codes])
        return batch.changed(
            context=context,
            context_names=(*batch.context_names, *names),
            categories={**batch.categories, **dict(zip(names, self.labels, strict=True))},
        )


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
    raw = [
        1.0 if one.contrast is None else one.contrast.lift.p_value(one.level, one.looks)
        for one in found
    ]
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
