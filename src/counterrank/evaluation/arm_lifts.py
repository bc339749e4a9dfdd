"""The lifts of a test: how each is read, in groups of rows, what they say of guardrails, and what to do."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from counterrank.common.findings import FAILED, WARNED, Finding
from counterrank.common.texts import in_percent
from counterrank.data.columns import segmentation
from counterrank.evaluation.abtest_result import (
    UNKNOWN,
    Action,
    Arm,
    ArmDecision,
    ArmLift,
    ArmMetric,
)
from counterrank.evaluation.arm_checks import CHECK, ROUNDING, wrong_weights
from counterrank.evaluation.arm_table import ArmTable, Pair, ServedRows
from counterrank.evaluation.comparisons import lifts_in_groups
from counterrank.evaluation.exploration import rows_for
from counterrank.evaluation.metric_table import (
    HOLD,
    OPEN,
    SHIP,
    TEST,
    Rail,
    decision,
    judged,
    standing,
)
from counterrank.evaluation.result import GuardrailResult, Segment
from counterrank.metrics import Metric, Metrics
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
_ACTIONS: dict[str, Action] = {SHIP: "ship", HOLD: "stop", TEST: "go on"}


@dataclass(frozen=True, eq=False)
class ArmLifts:
    """The lifts of a test over its baseline: each pair of arms is the baseline and another.

    `segments` are the columns whose groups are reported; `findings` are those about the test.
    """

    rows: ServedRows
    table: ArmTable
    metrics: Metrics
    pairs: Sequence[Pair]
    segments: Sequence[str]
    level: float
    looks: Looks
    findings: Sequence[Finding]

    @property
    def primary(self) -> Metric:
        """The metric that decides."""
        return self.metrics.metric(self.metrics.primary)

    @cached_property
    def groups(self) -> dict[tuple[str, str], tuple[int, ArmTable | None]]:
        """How many rows are in each group, by column and label, and their table."""
        log, columns = self.rows.log, dict.fromkeys([*self.segments, *self.metrics.columns])
        return {
            (column, label): (len(inside), self.table.group(inside))
            for column in columns
            for label, inside in segmentation(log, column).groups(log)
        }

    @cached_property
    def doubts(self) -> dict[Pair, list[Finding]]:
        """What speaks against the weights of each pair."""
        names = self.rows.names
        return {
            pair: [
                *(
                    row
                    for row in self.findings
                    if row.fatal and row.target in [names[i] for i in pair]
                ),
                *wrong_weights(self.rows, pair, self.looks),
            ]
            for pair in self.pairs
        }

    @cached_property
    def lifts(self) -> dict[tuple[str, Pair], ArmLift]:
        """Both readings of every lift, and which of them to report, by metric and pair."""
        return {
            (metric.name, pair): self._lift(metric, pair)
            for metric in self.metrics.all_metrics
            for pair in self.pairs
        }

    def metric(self, metric: Metric) -> ArmMetric:
        """Return what is known of one metric."""
        units, counts = self.rows.strata.units_by_arm, np.bincount(self.rows.strata.arm)
        earned = [self.table.metric(metric, index) for index in range(len(self.rows.names))]
        arms = tuple(
            Arm(name, int(n), int(size), value.value, value.stderr)
            for name, n, size, value in zip(self.rows.names, counts, units, earned, strict=True)
        )
        return ArmMetric(
            metric.name,
            metric.name == self.metrics.primary,
            arms,
            tuple(self.lifts[metric.name, pair] for pair in self.pairs),
            metric.text,
            metric.unit,
            metric.lower_is_better,
            tuple(row for pair in self.pairs for row in self._segments(metric, pair)),
        )

    def _lift(self, metric: Metric, pair: Pair) -> ArmLift:
        """Return both readings of a lift, and which of them to report."""
        plain, pooled = (
            contrast(*self.table.pair(metric, pair, pooled=pooled)) for pooled in (False, True)
        )
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
        source, to = pair
        return ArmLift(
            self.rows.names[source],
            self.rows.names[to],
            plain=wide,
            pooled=short,
            apart=apart,
            headline="pooled" if trusted else "plain",
            saved=1.0 - (short.width / wide.width) ** 2 if trusted else 0.0,
            shared=shared,
            notes=(*doubts, *notes),
            relative=(pooled if trusted else plain)[1].number(self.level, self.looks),
        )

    def values(
        self, metric: Metric, pair: Pair, table: ArmTable | None
    ) -> tuple[Quantity, Quantity] | None:
        """Return what an arm and the baseline earn by the reported reading; None where an arm is hardly there."""
        pooled = self.lifts[metric.name, pair].headline == "pooled"
        return None if table is None else table.pair(metric, pair, pooled=pooled)

    def _segments(self, metric: Metric, pair: Pair) -> Iterator[Segment]:
        """Yield the lift in each group, adjusted for looking at all of them."""
        reading = self.lifts[metric.name, pair]
        groups = {group: rows for group, rows in self.groups.items() if group[0] in self.segments}
        pairs = [self.values(metric, pair, table) for _, table in groups.values()]
        lifts = lifts_in_groups(pairs, self.level, self.looks)
        for ((column, label), (n, _)), values, lift in zip(
            groups.items(), pairs, lifts, strict=True
        ):
            earned = UNKNOWN if values is None else values[0].number(self.level, self.looks)
            yield Segment(
                *earned.figures,
                column=column,
                label=label,
                target=reading.to,
                estimator=reading.headline,
                n=n,
                ess=float(n),
                lift=lift,
                evidence="insufficient" if values is None else "reliable",
            )

    @cached_property
    def guardrails(self) -> dict[str, list[tuple[Rail, GuardrailResult]]]:
        """What guardrails limit of each arm, and what they say of it."""
        rails = {self.rows.names[pair[1]]: [*self._rails(pair)] for pair in self.pairs}
        return {
            name: list(zip(rows, judged(rows, self.level, self.looks), strict=True))
            for name, rows in rails.items()
        }

    def _rails(self, pair: Pair) -> Iterator[Rail]:
        """Yield the lifts of an arm that guardrails limit, in all rows or in each of their groups."""
        name = self.rows.names[pair[1]]
        for guardrail in self.metrics.guardrails:
            tables: dict[str, ArmTable | None] = {"": self.table}
            if guardrail.by:
                tables = {
                    label: table
                    for (column, label), (_, table) in self.groups.items()
                    if column == guardrail.by
                }
            metric = self.metrics.metric(guardrail.metric)
            for label in guardrail.among([*tables]):
                values = self.values(metric, pair, tables[label])
                yield Rail.of_values(guardrail, name, values, "reliable", label)

    def rows_to_see(self, size: float, lift: Quantity | None) -> int | None:
        """Return the rows in all from which a lift of this size is seen with a chance of 80 %."""
        n = self.rows.log.n
        if lift is None or not (size > 0 and lift.stderr > 0):
            return None
        level = min(self.looks.level(self.level, n), 1 - 1e-12)
        return rows_for(size, n, lift.stderr, level=level)


def decide(lifts: ArmLifts, *, practical: float, rows_a_day: float | None) -> ArmDecision:
    """Return what to do; of several arms that could be shipped, the one whose lift is surely largest is named.

    An arm that is not better although the test is large enough to see a lift of `practical` is stopped.
    """
    primary, n = lifts.primary, lifts.rows.log.n
    candidates = {lifts.rows.names[pair[1]]: pair for pair in lifts.pairs}
    if broken := tuple(finding for finding in lifts.findings if finding.status is FAILED):
        stopped = dict.fromkeys(candidates, "stop")
        return ArmDecision("stop", broken, None, stopped, practical=practical)
    values = {name: lifts.values(primary, pair, lifts.table) for name, pair in candidates.items()}
    rules = "reliable", lifts.level, lifts.looks, len(candidates)
    standings = {
        name: standing(pair, *rules, lower_is_better=primary.lower_is_better)
        for name, pair in values.items()
    }
    guardrails = [result for rails in lifts.guardrails.values() for _, result in rails]
    proposed = decision(primary.name, standings, guardrails)
    actions = {name: _ACTIONS[action] for name, action in proposed.targets.items()}
    reasons = [*proposed.reasons]
    totals: list[int | None] = [n + 1]
    for name, pair in values.items():
        if actions[name] != "go on" or pair is None:
            continue
        undecided = standings[name][0] <= 0
        total = lifts.rows_to_see(practical, contrast(*pair)[1]) if undecided else 0
        if undecided and total is not None and total <= n:
            actions[name] = "stop"
            reasons = [reason for reason in reasons if reason.target != name]
            reasons.append(_enough(name, primary.name, practical))
            continue
        # Open guardrails are settled later where nothing changes.
        totals += [total] + [
            lifts.rows_to_see(abs(result.limit), rail.lift)
            for rail, result in lifts.guardrails[name]
            if result.status == OPEN
        ]
    order: tuple[Action, ...] = ("ship", "go on", "stop")
    action = next(possible for possible in order if possible in actions.values())
    # Beyond reach where one of them is.
    rows = None if action != "go on" or None in totals else max(filter(None, totals)) - n
    return ArmDecision(
        action,
        tuple(reason for reason in reasons if actions.get(str(reason.target)) == action),
        proposed.target,
        dict(actions),
        rows,
        None if rows is None or not rows_a_day else float(math.ceil(rows / rows_a_day)),
        practical,
    )


def _enough(name: str, metric: str, practical: float) -> Finding:
    return Finding(
        "primary-enough",
        FAILED,
        f"'{name}' is not better in '{metric}', the primary, although the test would show a lift of "
        f"{in_percent(practical)} four times in five",
        target=name,
    )
