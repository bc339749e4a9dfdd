"""The table of a test, read: lifts of each metric, in groups of rows, and what they say of guardrails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from counterrank.common.arrays import Ints
from counterrank.common.findings import WARNED, Finding
from counterrank.common.texts import in_percent
from counterrank.data.columns import segmentation
from counterrank.evaluation.abtest_result import UNKNOWN, Arm, ArmLift, ArmMetric
from counterrank.evaluation.arm_checks import CHECK, ROUNDING
from counterrank.evaluation.arm_table import ArmTable, Pair, ServedRows
from counterrank.evaluation.comparisons import lifts_in_groups
from counterrank.evaluation.metric_table import Rail
from counterrank.evaluation.result import Segment
from counterrank.metrics import Guardrail, Metric, Metrics
from counterrank.statistics import Looks, Quantity, contrast

#: Below this share of rows that both rankers could have shown, rows say nothing of each other.
HARDLY = 0.01
_CONTRADICT = (
    "in '{metric}' the plain difference and the pooled lift are further apart than three standard errors of "
    "their difference: the arms' probabilities are not those that served the pages, or the arms differ in "
    "more than the ranking"
)
_ALONE = (
    "both rankers could have shown the page in only {share} of the rows, so rows of one ranker say "
    "little about the other; only context and models make the interval shorter"
)
#: The rows of a group of a column, with the label of the group.
Group = tuple[str, str, Ints]


@dataclass(frozen=True, slots=True, eq=False)
class ArmLifts:
    """The lifts of a test: which pairs of arms, at which level, and what speaks against weights.

    `doubts` are findings against the weights of a pair; `groups` are rows by column and label.
    """

    rows: ServedRows
    table: ArmTable
    metrics: Metrics
    pairs: Sequence[Pair]
    level: float
    looks: Looks
    doubts: Mapping[Pair, Sequence[Finding]]

    def name(self, pair: Pair) -> str:
        """Return the arm that is compared with the baseline."""
        return self.rows.names[pair[1]]

    def metric(self, metric: Metric, segments: Sequence[str]) -> ArmMetric:
        """Return what is known of one metric."""
        units, counts = self.rows.strata.units_by_arm, np.bincount(self.rows.strata.arm)
        earned = [self.table.metric(metric, index) for index in range(len(self.rows.names))]
        groups = [group for column in segments for group in self.groups(column)]
        arms = tuple(
            Arm(name, int(n), int(size), value.value, value.stderr)
            for name, n, size, value in zip(self.rows.names, counts, units, earned, strict=True)
        )
        return ArmMetric(
            metric.name,
            metric.name == self.metrics.primary,
            arms,
            tuple(self.lift(metric, pair) for pair in self.pairs),
            metric.text,
            metric.unit,
            metric.lower_is_better,
            tuple(row for pair in self.pairs for row in self.segments(metric, pair, groups)),
        )

    def lift(self, metric: Metric, pair: Pair) -> ArmLift:
        """Return both readings of a lift, and which of them to report."""
        plain, pooled = (self.table.lift(metric, pair, pooled=pooled) for pooled in (False, True))
        wide, short = (quantity.number(self.level, self.looks) for quantity, _ in (plain, pooled))
        apart, slack = (plain[0] - pooled[0]).number(CHECK, self.looks), ROUNDING * wide.width
        apart = replace(apart, low=apart.low - slack, high=apart.high + slack)
        doubts, notes = [*self.doubts[pair]], []
        if not apart.low <= 0.0 <= apart.high:
            text = _CONTRADICT.format(metric=metric.name)
            doubts.append(Finding("arms-contradict", WARNED, text))
        # An honest log makes the pooled interval shorter; a longer one is chance, and no reason to change.
        trusted = not doubts and short.width < wide.width
        shared = float((self.rows.weights[:, [*pair]] > 0.0).all(axis=1).mean())
        if shared < HARDLY:
            text = _ALONE.format(share=in_percent(shared))
            notes.append(Finding("no-common-pages", WARNED, text))
        return ArmLift(
            self.rows.names[pair[0]],
            self.name(pair),
            plain=wide,
            pooled=short,
            apart=apart,
            headline="pooled" if trusted else "plain",
            saved=1.0 - (short.width / wide.width) ** 2 if trusted else 0.0,
            shared=shared,
            notes=(*doubts, *notes),
            relative=(pooled if trusted else plain)[1].number(self.level, self.looks),
        )

    def weighed(self, metric: Metric, pair: Pair) -> Pair | None:
        """Return the pair where the pooled lift is reported, None where the plain difference is."""
        return pair if self.lift(metric, pair).headline == "pooled" else None

    def reported(self, metric: Metric, pair: Pair) -> tuple[Quantity, Quantity]:
        """Return the lift and the relative lift that are reported, as quantities."""
        return self.table.lift(metric, pair, pooled=self.weighed(metric, pair) is not None)

    def groups(self, column: str) -> Iterator[Group]:
        """Yield the groups of rows of a column."""
        for label, inside in segmentation(self.rows.log, column).groups(self.rows.log):
            yield column, label, inside

    def segments(self, metric: Metric, pair: Pair, groups: Sequence[Group]) -> Iterator[Segment]:
        """Yield the lift in each group, adjusted for looking at all of them."""
        weighed = self.weighed(metric, pair)
        pairs = [self._in_group(metric, pair, weighed, inside) for *_, inside in groups]
        lifts = lifts_in_groups(pairs, self.level, self.looks)
        for (column, label, inside), values, lift in zip(groups, pairs, lifts, strict=True):
            earned = UNKNOWN if values is None else values[0].number(self.level, self.looks)
            yield Segment(
                earned.value,
                earned.stderr,
                earned.low,
                earned.high,
                column=column,
                label=label,
                target=self.name(pair),
                estimator="plain" if weighed is None else "pooled",
                n=len(inside),
                ess=float(len(inside)),
                lift=lift,
                evidence="insufficient" if values is None else "reliable",
            )

    def _in_group(
        self, metric: Metric, pair: Pair, weighed: Pair | None, inside: Ints
    ) -> tuple[Quantity, Quantity] | None:
        """Return what the second and the first arm of a pair earn in a group of rows.

        None where an arm is hardly there.
        """
        table = self.table.group(inside)
        if table is None:
            return None
        source, to = pair
        return table.metric(metric, to, weighed), table.metric(metric, source, weighed)

    def rails(self, pair: Pair) -> list[Rail]:
        """Return the lifts of an arm that guardrails limit."""
        return [
            rail for guardrail in self.metrics.guardrails for rail in self._rails(guardrail, pair)
        ]

    def _rails(self, guardrail: Guardrail, pair: Pair) -> Iterator[Rail]:
        """Yield the lift that a guardrail limits, in all rows or in each of its groups."""
        metric, name = self.metrics.metric(guardrail.metric), self.name(pair)
        which = 1 if guardrail.relative else 0
        if not guardrail.by:
            yield Rail(guardrail, name, self.reported(metric, pair)[which], "reliable")
            return
        weighed = self.weighed(metric, pair)
        groups = {label: inside for _, label, inside in self.groups(guardrail.by)}
        for label in guardrail.among([*groups]):
            values = self._in_group(metric, pair, weighed, groups[label])
            lift = None if values is None else contrast(*values)[which]
            evidence = "insufficient" if values is None else "reliable"
            yield Rail(guardrail, name, lift, evidence, label)
