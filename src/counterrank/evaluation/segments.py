"""Groups of rows: how a log is cut, and what each target would earn in every group."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from counterrank.data.columns import Segmentation, segmentation
from counterrank.data.log import RankingLog
from counterrank.estimators import Estimate
from counterrank.estimators.weights.thresholds import THRESHOLDS
from counterrank.evaluation.comparing import over, pairing
from counterrank.evaluation.jobs import Job
from counterrank.evaluation.tables import Level, Segment, SegmentLift
from counterrank.findings import FAILED, PASSED
from counterrank.statistics import Sums

#: Labels of a segment that the models tell apart; a column with more is an id.
MODELLED_LABELS = 20


@dataclass(frozen=True)
class SegmentContext:
    """Adds segments to the context, so that the models may find another lift in each."""

    cuts: tuple[Segmentation, ...]
    labels: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, first: RankingLog, names: Sequence[str]) -> Self | None:
        """Return the change for segments that are no context yet, by the labels of the first rows."""
        found = []
        for name in names:
            if name not in first.columns or f"x_{name}" in first.context_names:
                continue
            cut = segmentation(first, name)
            labels = tuple(sorted(label for label, _ in cut.groups(first)))
            if 1 < len(labels) <= MODELLED_LABELS:
                found.append((cut, labels))
        return cls(*map(tuple, zip(*found, strict=True))) if found else None

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


#: A column and a label.
Group = tuple[str, str]


def group_estimates(
    whole: Mapping[Hashable, Any],
    states: Mapping[Group, Sequence[Any]],
    paired: Mapping[Group, Sums],
    main: Sequence[Sequence[Job]],
    recommended: Mapping[str, str],
    baseline: str | None = None,
) -> dict[str, dict[Group, Estimate]]:
    """Return the recommended estimates of each target in each group.

    `whole` are the states of all rows by plan, `states` and `paired` the sums of each group; lifts are
    those over the baseline.
    """
    jobs = {
        job.target: replace(job, plan=job.plan.within(whole[job.plan.key]))
        for group in main
        for job in group
        if recommended[job.target] == job.name
    }
    found: dict[str, dict[Group, Estimate]] = {target: {} for target in jobs}
    for key in sorted(states):
        own = {group[0].plan.key: state for group, state in zip(main, states[key], strict=True)}
        made = {target: job.plan.estimate(own[job.plan.key]) for target, job in jobs.items()}
        if baseline is not None:
            pairs, base = pairing([*jobs.values()], own, paired[key]), made[baseline]
            made = {
                target: over(jobs[target], one, jobs[baseline], base, pairs)
                for target, one in made.items()
            }
        for target, one in made.items():
            found[target][key] = one
    return found


def segment_table(
    groups: Mapping[str, Mapping[Group, Estimate]], recommended: Mapping[str, str]
) -> tuple[Segment, ...]:
    """Return a row for each target, column and group, largest lift first within a column.

    p-values are those of one group by itself; over all groups of a target, q-values are adjusted by
    Benjamini-Hochberg, and intervals of the lift (`adjusted_low`, `adjusted_high`) by Bonferroni.
    """
    rows = [
        row for target, found in groups.items() for row in _adjusted(found, recommended[target])
    ]

    def order(row: Segment) -> tuple[str, str, float, str]:
        lift = -np.nan_to_num(row.lift.value, nan=-np.inf)
        return row.target, row.column, float(lift), row.label

    return tuple(sorted(rows, key=order))


def _adjusted(groups: Mapping[Group, Estimate], estimator: str) -> list[Segment]:
    from scipy.stats import false_discovery_control

    found = list(groups.values())
    raw = [
        1.0 if one.contrast is None else one.contrast.lift.p_value(one.level, one.looks)
        for one in found
    ]
    rows = []
    for (column, label), one, p, q in zip(
        groups, found, raw, false_discovery_control(raw), strict=True
    ):
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
                estimator=estimator, n=one.n, ess=one.ess, lift=lift, evidence=evidence_of(one),
                flags=one.flags,
            )
        )  # fmt: skip
    return rows


def enough_rows(estimate: Estimate) -> Level:
    """Return the evidence level that the rows and effective rows of a group allow."""
    if not estimate.estimable:
        return "insufficient"
    statuses = {THRESHOLDS["units"].status(estimate.n), THRESHOLDS["ess"].status(estimate.ess)}
    if FAILED in statuses:
        return "insufficient"
    return "reliable" if statuses == {PASSED} else "directional"


def evidence_of(estimate: Estimate) -> Level:
    """Return the evidence level of a group from its rows, effective rows and flags."""
    level = enough_rows(estimate)
    return "directional" if level == "reliable" and estimate.flags else level
