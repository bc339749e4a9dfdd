"""Several metrics of one evaluation: their lifts together, guardrails, and the decision."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from counterrank.common.findings import FAILED, PASSED, WARNED, Finding, Outcome, worst
from counterrank.common.messages import Message
from counterrank.common.texts import in_percent
from counterrank.estimators import Estimate, Solution, decisive
from counterrank.evaluation.comparisons import enough_rows
from counterrank.evaluation.judge import Judgement
from counterrank.evaluation.request import Options
from counterrank.evaluation.result import (
    LEVELS,
    MORE_ROWS,
    GuardrailResult,
    MetricResult,
    ShipDecision,
    Verdict,
    weakest,
)
from counterrank.evaluation.solve import Table
from counterrank.evaluation.verdict import verdict
from counterrank.metrics import IMPRESSIONS, Guardrail, Measure, Metric, Metrics
from counterrank.statistics import (
    Looks,
    Number,
    Quantity,
    contrast,
    correlations,
    simultaneous_level,
)

SHIP, HOLD, TEST = "ship", "hold", "test"
SAFE, BROKEN, OPEN = "safe", "broken", "open"
_ACTIONS = {PASSED: SHIP, WARNED: TEST, FAILED: HOLD}
#: A denominator whose error is more than these shares of it: a ratio's interval by the delta method
#: begins to be wrong at the first (Hayya, Armstrong & Gressis 1975), and means nothing at the second.
NEAR_ZERO, AT_ZERO = 0.1, 1.0 / 3.0


@dataclass(frozen=True, slots=True, eq=False)
class MetricTable:
    """The metrics of an evaluation: how they were written, their solutions, and what is said of each measure."""

    metrics: Metrics
    table: Table
    judgements: Mapping[Measure, Judgement]
    options: Options

    @property
    def candidates(self) -> list[str]:
        """The targets that are not the baseline."""
        return [target for target in self.options.targets if target != self.options.baseline]

    def uncertainty(self, metric: Metric, target: str) -> float:
        """Return how large the error of a ratio's denominator is, as a share of it."""
        below = metric.measures[1]
        parts = [self.table.value(below, name) for name in (target, self.options.baseline)]
        return max(
            quantity.stderr / abs(quantity.value) if quantity.value else math.inf
            for quantity in parts
        )

    def parts(self, metric: Metric) -> list[Judgement]:
        """Return what is said of the measures that a metric is made of."""
        return [self.judgements[m] for m in metric.measures if m.function is not IMPRESSIONS]


def metric_results(metric_table: MetricTable) -> tuple[MetricResult, ...]:
    """Return what was found of each metric, with intervals that hold for all of them together."""
    metrics, options, table = (
        metric_table.metrics.all_metrics,
        metric_table.options,
        metric_table.table,
    )
    levels = dict.fromkeys(options.targets, options.level)
    if len(metrics) > 1:
        for target in levels:
            lifts = [contrast(*table.pair(metric, target))[0] for metric in metrics]
            levels[target] = simultaneous_level(correlations(lifts), options.level)
    return tuple(_result(metric, metric_table, levels) for metric in metrics)


def _joint(estimate: Estimate, level: float) -> Estimate:
    """Return a recommended estimate with intervals that hold for all metrics together."""
    lift, relative = estimate.lift_at(level)
    joint = replace(
        estimate.lift,
        relative_stderr=relative.stderr,
        adjusted_low=lift.low,
        adjusted_high=lift.high,
        adjusted_relative_low=relative.low,
        adjusted_relative_high=relative.high,
    )
    return replace(estimate, lift=joint)


def _result(metric: Metric, metric_table: MetricTable, levels: Mapping[str, float]) -> MetricResult:
    judgements = metric_table.parts(metric)
    earned = metric_table.table.metric(metric, None)
    first = judgements[0]
    kind = "page" if first.fits.first.page_reward else "position"
    estimates: Iterable[Estimate] = first.shown
    verdict_of, segments, comparisons = first.verdict, first.segments, first.comparisons
    if metric.ratio:
        kind, segments, comparisons = "ratio", (), ()
        estimates = [_ratio_estimate(metric, target, metric_table) for target in levels]
        verdict_of = _weakest(metric, [judgement.verdict for judgement in judgements], metric_table)
    recommended = {target: fit.name for target, fit in first.fits.recommended.items()}
    joint = tuple(
        _joint(estimate, levels[estimate.target])
        if recommended[estimate.target] == estimate.estimator
        else estimate
        for estimate in estimates
    )
    return MetricResult(
        metric.name,
        metric.name == metric_table.metrics.primary,
        metric.text,
        kind,
        metric.unit,
        metric.lower_is_better,
        earned.value,
        earned.stderr,
        joint,
        recommended,
        verdict_of,
        segments,
        comparisons,
        first.fits.skipped,
    )


def _ratio_estimate(metric: Metric, target: str, metric_table: MetricTable) -> Estimate:
    """Return the estimate of a ratio: both parts together, by the delta method."""
    table, options, judgements = (
        metric_table.table,
        metric_table.options,
        metric_table.parts(metric),
    )
    numerator = judgements[0].fits.recommended[target]
    solution = table.solutions[numerator]
    value, base = table.pair(metric, target)
    flags: tuple[str, ...] = ()
    share = metric_table.uncertainty(metric, target)
    if share > NEAR_ZERO:
        precision = f"known to {in_percent(share, 0)} of itself only"
        precision = precision if math.isfinite(share) else "not known"
        text = (
            f"the denominator of '{metric.text}' is {precision}: the interval of the ratio is rough"
        )
        flags = (Message("denominator-near-zero", text),)
    missing = [
        judgement.recommended[name].not_estimable
        for judgement in judgements
        for name in (target, options.baseline or target)
    ]
    reason = next(filter(None, missing), "")
    if not reason and (share > AT_ZERO or math.isnan(value.value)):
        reason = "its denominator cannot be told from zero"
    ratio = Solution(
        value,
        base,
        ess=solution.ess,
        basis=solution.basis,
        traits=solution.traits,
        not_estimable=reason,
        flags=flags,
    )
    return Estimate.from_solution(
        ratio, target, numerator.name, level=options.level, looks=options.looks
    )


def _weakest(metric: Metric, verdicts: Sequence[Verdict], metric_table: MetricTable) -> Verdict:
    """Return the verdict of a ratio: no better than that of its parts, or than its denominator."""
    findings: dict[str, list[Finding]] = {}
    for target in metric_table.options.targets:
        rows = [
            row for verdict_of in verdicts for row in verdict_of.reasons if row.target == target
        ]
        share = metric_table.uncertainty(metric, target)
        if share > NEAR_ZERO:
            text = f"the denominator of '{metric.text}' is too uncertain"
            status = FAILED if share > AT_ZERO else WARNED
            rows.append(Finding("denominator-near-zero", status, text, (MORE_ROWS,), target))
        # What both parts say is said once.
        findings[target] = list({(row.code, row.text): row for row in rows}.values())
    return verdict(findings)


@dataclass(frozen=True, slots=True, eq=False)
class Rail:
    """A guardrail for one target, in all rows or in one group of them, before it is judged."""

    guardrail: Guardrail
    target: str
    #: The lift that it limits, relative where the guardrail is; None where nothing is known of it.
    lift: Quantity | None
    evidence: str
    group: str = ""

    @classmethod
    def of_values(
        cls,
        guardrail: Guardrail,
        target: str,
        values: tuple[Quantity, Quantity] | None,
        evidence: str,
        group: str = "",
    ) -> Self:
        """Return the lift of a value over another that a guardrail limits; nothing is known without these."""
        if values is None:
            return cls(guardrail, target, None, "insufficient", group)
        lift, relative = contrast(*values)
        return cls(guardrail, target, relative if guardrail.relative else lift, evidence, group)


def guardrail_results(
    metric_table: MetricTable, results: Sequence[MetricResult]
) -> tuple[GuardrailResult, ...]:
    """Return each guardrail for each target."""
    rows: list[GuardrailResult] = []
    by_name, options = {result.name: result for result in results}, metric_table.options
    for target in metric_table.candidates:
        rails = [
            rail
            for guardrail in metric_table.metrics.guardrails
            for rail in _rails(guardrail, by_name[guardrail.metric], target, metric_table)
        ]
        rows += judged(rails, options.level, options.looks)
    return tuple(rows)


def _rails(
    guardrail: Guardrail, result: MetricResult, target: str, metric_table: MetricTable
) -> list[Rail]:
    metric, evidence = (
        metric_table.metrics.metric(guardrail.metric),
        result.verdict.level_of(target),
    )
    if not guardrail.by:
        return [Rail.of_values(guardrail, target, result.estimate(target).pair, evidence)]
    groups = metric_table.judgements[metric.measures[0]].groups[target]
    by_label = {label: row for (column, label), row in groups.items() if column == guardrail.by}
    return [
        Rail.of_values(guardrail, target, row.pair, weakest(enough_rows(row), evidence), label)
        for label in guardrail.among([*by_label])
        for row in (by_label[label],)
    ]


def judged(rails: Sequence[Rail], level: float, looks: Looks) -> list[GuardrailResult]:
    """Return the guardrails of one target judged, with intervals that hold for all of them together."""
    if not rails:
        return []
    # Groups of rows stand there as independent of everything else.
    ungrouped = {
        i: rail.lift for i, rail in enumerate(rails) if rail.lift is not None and not rail.group
    }
    family = np.eye(len(rails))
    if ungrouped:
        family[np.ix_([*ungrouped], [*ungrouped])] = correlations([*ungrouped.values()])
    joint = simultaneous_level(family, level)
    return [_judged(rail, joint, looks) for rail in rails]


def _judged(rail: Rail, level: float, looks: Looks) -> GuardrailResult:
    guardrail = rail.guardrail
    # An interval that is not known leaves everything open.
    lift = Number(math.nan) if rail.lift is None else rail.lift.number(level, looks)
    return GuardrailResult(
        expression=guardrail.text,
        target=rail.target,
        status=status_of(guardrail, lift.low, lift.high),
        lift=lift.value,
        low=lift.low,
        high=lift.high,
        metric=guardrail.metric,
        limit=guardrail.limit,
        relative=guardrail.relative,
        evidence=rail.evidence,
        unit=guardrail.unit,
        column=guardrail.by,
        group=rail.group,
    )


#: What is known of a target in the primary metric, whose lifts are better when above zero: the lower end
#: of the lift's interval that holds for all candidates together, the upper end as it is shown, evidence.
Standing = tuple[float, float, str]


def decided(
    primary: MetricResult, guardrails: Sequence[GuardrailResult], metric_table: MetricTable
) -> ShipDecision:
    """Return what to do about the targets that are no baseline.

    Of several candidates the best is looked for: to be shipped, each must be better at a level that
    holds for all of them together (Bonferroni).
    """
    candidates, options = metric_table.candidates, metric_table.options
    standings = {}
    for target in candidates:
        estimate = primary.estimate(target)
        evidence = LEVELS[0] if estimate.not_estimable else primary.verdict.level_of(target)
        fatal = any(
            row.fatal and row.blamed for row in primary.verdict.reasons if row.target == target
        )
        # What is worth nothing does not say either that a target is worse.
        values = None if fatal else estimate.pair
        standings[target] = standing(
            values,
            evidence,
            options.level,
            options.looks,
            len(candidates),
            lower_is_better=primary.lower_is_better,
        )
    return decision(primary.name, standings, guardrails)


def standing(
    values: tuple[Quantity, Quantity] | None,
    evidence: str,
    level: float,
    looks: Looks,
    candidates: int,
    *,
    lower_is_better: bool,
) -> Standing:
    """Return what is known of a target in the primary metric from its value and that of the baseline, where known."""
    if values is None:
        return -math.inf, math.inf, evidence
    lift, relative = contrast(*values)
    joint, shown = (
        decisive(lift.number(level, looks, family), relative.interval(level, looks, family))
        for family in (candidates, 1)
    )
    if lower_is_better:
        return -joint[1], -shown[0], evidence
    return joint[0], shown[1], evidence


def status_of(guardrail: Guardrail, low: float, high: float) -> str:
    """Return what an interval of the lift says of a guardrail.

    >>> from counterrank.metrics import parse_guardrail
    >>> rail = parse_guardrail("revenue >= -0.01")
    >>> [status_of(rail, *ends) for ends in ((-0.005, 0.1), (-0.1, -0.02), (-0.1, 0.1))]
    ['safe', 'broken', 'open']
    """
    if not guardrail.above:
        low, high = -high, -low
    limit = guardrail.limit if guardrail.above else -guardrail.limit
    if low >= limit:
        return SAFE
    return BROKEN if high < limit else OPEN


def decision(
    primary: str, standings: Mapping[str, Standing], guardrails: Sequence[GuardrailResult] = ()
) -> ShipDecision:
    """Return what to do about every candidate, and about all of them.

    Of several that could be shipped, the one whose lift is surely largest is named.
    """
    # Passed: ship. Failed: the primary is worse, whatever the level of evidence, or a guardrail is broken
    # on evidence that is more than insufficient. Warned: for a test to find out.
    reasons = {
        target: [
            _of_primary(primary, target, *standing),
            *(_of_guardrail(row) for row in guardrails if row.target == target),
        ]
        for target, standing in standings.items()
    }
    actions = {
        target: _ACTIONS[worst(row.status for row in rows)] for target, rows in reasons.items()
    }
    action = overall(list(actions.values()))
    best = None
    if action == SHIP:
        best = max((t for t in standings if actions[t] == SHIP), key=lambda t: standings[t][0])
    # Those that the action is about come first, the one to ship before all.
    order = sorted(reasons, key=lambda target: (target != best, actions[target] != action))
    shown = [
        row
        for target in order
        for row in reasons[target]
        if _ACTIONS[row.status] == actions[target]
    ]
    return ShipDecision(action, tuple(shown), best, actions)


def overall(actions: Sequence[str]) -> str:
    """Return the action for all candidates: ship one if one can be shipped, hold where all are held.

    >>> overall(["hold", "test"]), overall(["hold", "ship"]), overall(["hold"])
    ('test', 'ship', 'hold')
    """
    if SHIP in actions:
        return SHIP
    return HOLD if actions and all(action == HOLD for action in actions) else TEST


#: What may be said of a number: whether it holds, its code, its status and the text.
_Saying = tuple[bool, str, Outcome, str]


def _of_primary(name: str, target: str, low: float, high: float, evidence: str) -> Finding:
    unknown = evidence == "insufficient"
    doubt = ", although the evidence is insufficient" if unknown else ""
    return _first_to_hold(
        "primary",
        # A copy needs no test: there is nothing to find out.
        (
            not unknown and max(abs(low), abs(high)) < 1e-12,
            "same",
            FAILED,
            f"'{target}' and what it is compared with do not differ on this log",
        ),
        (high < 0, "worse", FAILED, f"'{target}' is worse in '{name}', the primary{doubt}"),
        (unknown, "evidence", WARNED, f"the evidence on '{name}' of '{target}' is insufficient"),
        (
            not low > 0,
            "open",
            WARNED,
            f"the log cannot tell whether '{target}' is better in '{name}', the primary",
        ),
        (
            evidence != "reliable",
            "evidence",
            WARNED,
            f"'{target}' looks better in '{name}', but the evidence is {evidence}",
        ),
        (
            True,
            "better",
            PASSED,
            f"'{target}' is better in '{name}', the primary, on reliable evidence",
        ),
        target=target,
    )


def _of_guardrail(rail: GuardrailResult) -> Finding:
    group = f"{rail.column} = {rail.group}" if rail.column else ""
    title = f"'{rail.expression}'" + (f" in {group}" if group else "")
    evidence, status = rail.evidence, rail.status
    return _first_to_hold(
        "guardrail",
        (
            evidence == "insufficient",
            "evidence",
            WARNED,
            f"the evidence on {title} is insufficient",
        ),
        (status == BROKEN, "broken", FAILED, f"{title} is broken"),
        (
            status == OPEN,
            "open",
            WARNED,
            f"{title} is open: the interval reaches to both sides of the limit",
        ),
        (
            evidence != "reliable",
            "evidence",
            WARNED,
            f"{title} looks safe, but the evidence is {evidence}",
        ),
        (True, "safe", PASSED, f"{title} is safe"),
        target=rail.target,
        subject=group,
    )


def _first_to_hold(what: str, *sayings: _Saying, target: str, subject: str = "") -> Finding:
    """Return the finding of the first saying that holds."""
    _, code, status, text = next(saying for saying in sayings if saying[0])
    return Finding(f"{what}-{code}", status, text, target=target, subject=subject)
