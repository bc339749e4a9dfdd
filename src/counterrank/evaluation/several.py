"""Several metrics of one evaluation: their lifts together, guardrails, and the decision."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from counterrank.estimators import Estimate, Lift
from counterrank.evaluation.deciding import (
    HOLD,
    SHIP,
    JudgedTarget,
    Watched,
    decide,
    overall,
    status_of,
)
from counterrank.evaluation.jobs import Job
from counterrank.evaluation.passing import Pairing, RowTotals, enough_rows, lift_over
from counterrank.evaluation.tables import (
    LEVELS,
    Comparison,
    DecisionReason,
    GuardrailResult,
    JointLift,
    MetricResult,
    Reason,
    Segment,
    ShipDecision,
    Skipped,
    Verdict,
    weakest,
)
from counterrank.inference import Looks, bias_aware_half, correlation_of, together
from counterrank.messages import Message
from counterrank.metrics import IMPRESSIONS, Guardrail, Measure, Metric, Metrics, Ratio
from counterrank.texts import in_percent

Floats = NDArray[np.float64]

#: A denominator whose error is more than these shares of it: a ratio's interval by the delta method
#: begins to be wrong at the first (Hayya, Armstrong & Gressis 1975), and means nothing at the second.
NEAR_ZERO, AT_ZERO = 0.1, 1.0 / 3.0


@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """A value whose error is the mean of a combination of row totals.

    `gradient` (T,) says how each column of the totals moves it; `allowance` bounds its bias;
    `inflation` is how many times larger its standard error is known to be than rows alone say. The
    gradient of a ratio a / b is (g_a - (a / b) g_b) / b.
    """

    value: float
    gradient: Floats
    allowance: float = 0.0
    inflation: float = 1.0

    def __sub__(self, other: Self) -> Self:
        return replace(
            self,
            value=self.value - other.value,
            gradient=self.gradient - other.gradient,
            # The two biases may point in opposite ways.
            allowance=self.allowance + other.allowance,
            inflation=max(self.inflation, other.inflation),
        )

    def __truediv__(self, other: Self) -> Self:
        if other.value == 0 or not math.isfinite(other.value):
            return replace(self, value=math.nan, gradient=np.full_like(self.gradient, np.nan))
        ratio = self.value / other.value
        return replace(
            self,
            value=ratio,
            gradient=(self.gradient - ratio * other.gradient) / other.value,
            allowance=(self.allowance + abs(ratio) * other.allowance) / abs(other.value),
            inflation=max(self.inflation, other.inflation),
        )

    def relative_to(self, other: Self) -> Self:
        """Return this value over another, less one; unknown where the other is not above zero."""
        ratio = self / other
        return replace(ratio, value=ratio.value - 1.0 if other.value > 0 else math.nan)


def covariance(quantities: Sequence[Quantity], totals: RowTotals) -> Floats:
    """Return the covariance of estimated quantities (m, m), from rows or from units."""
    gradients = np.stack([one.gradient for one in quantities])
    scale = np.array([one.inflation for one in quantities])
    found: Floats = totals.covariance(gradients) * np.outer(scale, scale)
    return found


def stderr(quantity: Quantity, totals: RowTotals) -> float:
    """Return the standard error of a quantity."""
    if not np.isfinite(quantity.gradient).all():
        return math.nan
    return quantity.inflation * math.sqrt(totals.variance(quantity.gradient))


def ends(quantity: Quantity, totals: RowTotals, level: float) -> tuple[float, float]:
    """Return the interval of a quantity, with room for its bias."""
    half = bias_aware_half(
        stderr(quantity, totals), quantity.allowance, level, max(totals.units - 1, 1)
    )
    return quantity.value - half, quantity.value + half


def correlations_of(quantities: Sequence[Quantity], totals: RowTotals) -> Floats:
    """Return the correlations of estimated quantities (m, m); 0 where nothing is known."""
    gradients = [
        replace(one, gradient=np.nan_to_num(one.gradient), inflation=1.0) for one in quantities
    ]
    return correlation_of(covariance(gradients, totals))


def against(
    jobs: Sequence[Job], estimates: Sequence[Estimate], pairs: Pairing, baseline: str
) -> tuple[Estimate, ...]:
    """Return the estimates with lifts over the same estimator's value of the baseline policy.

    Both rest on the same rows.
    """
    base = {
        job.name: (job, one)
        for job, one in zip(jobs, estimates, strict=True)
        if job.target == baseline
    }
    return tuple(
        _over(job, one, *base[job.name], pairs)
        if job.name in base
        else one.without_evidence(f"'{job.name}' has no estimate of the baseline '{baseline}'")
        for job, one in zip(jobs, estimates, strict=True)
    )


def _over(job: Job, one: Estimate, base_job: Job, base: Estimate, pairs: Pairing) -> Estimate:
    if not one.estimable:
        return one
    if not base.estimable:
        return one.without_evidence(f"the baseline is {base.not_estimable}")
    left, right = (quantity(job_, one_, pairs) for job_, one_ in ((job, one), (base_job, base)))
    both = (left - right, left.relative_to(right))
    errors = [stderr(found, pairs.totals) for found in both]
    df = max(pairs.totals.units - 1, 1)
    return replace(one, lift=lift_over(one, base, errors[0], errors[1], df))


def quantity(job: Job, one: Estimate, pairs: Pairing) -> Quantity:
    """Return an estimate as a quantity over the columns of its pass."""
    gradient = pairs.error_combination(job)
    return _quantity(one, gradient, pairs.totals)


def _quantity(one: Estimate, gradient: Floats, totals: RowTotals) -> Quantity:
    raw = math.sqrt(totals.variance(gradient))
    # What an estimator knows of its error beyond the rows: folds, propensities that were estimated.
    inflation = one.stderr / raw if raw > 0 and one.stderr > raw else 1.0
    return Quantity(one.value, gradient, one.allowance, inflation)


@dataclass(frozen=True, slots=True, eq=False)
class Estimated:
    """What was found of one measure: jobs, estimates (silent ones too), states, verdict and segments."""

    measure: Measure
    jobs: Sequence[Job]
    estimates: tuple[Estimate, ...]
    recommended: dict[str, str]
    states: Mapping[Hashable, Any]
    #: The plans of the recommended estimates, in the order of the joint totals.
    main: Sequence[Hashable]
    page: bool
    verdict: Verdict
    segments: tuple[Segment, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    #: The recommended estimates of groups, by target, column and label.
    groups: Mapping[tuple[str, str, str], Estimate] | None = None

    def chosen(self, target: str) -> tuple[Job, Estimate]:
        """Return the recommended estimate of a target."""
        return next(
            (job, one)
            for job, one in zip(self.jobs, self.estimates, strict=True)
            if (job.target, job.name) == (target, self.recommended[target])
        )


@dataclass(frozen=True, slots=True, eq=False)
class Together:
    """All measures with the row totals behind them, and what they are compared with."""

    found: Mapping[Measure, Estimated]
    totals: RowTotals
    targets: tuple[str, ...]
    baseline: str | None
    level: float
    looks: Looks
    #: The first column of each measure and plan, and how its estimate combines those from there on;
    #: None stands for what the logger earned.
    places: Mapping[tuple[Measure, Hashable], tuple[int, Floats]]

    @classmethod
    def of(
        cls,
        found: Mapping[Measure, Estimated],
        totals: RowTotals,
        targets: tuple[str, ...],
        baseline: str | None,
        level: float,
        looks: Looks,
    ) -> "Together":
        """Return the measures with the places of their plans among the columns of the totals."""
        places: dict[tuple[Measure, Hashable], tuple[int, Floats]] = {}
        at = 0
        for measure, one in found.items():
            places[measure, None] = (at, np.ones(1))
            at += 1
            for key in one.main:
                job = next(job for job in one.jobs if job.plan.key == key)
                own = job.plan.error_combination(one.states[key])
                places[measure, key] = (at, own)
                at += len(own)
        return cls(found, totals, targets, baseline, level, looks, places)

    def _placed(self, place: tuple[int, Floats]) -> Floats:
        gradient = np.zeros(len(self.totals.sums))
        at, own = place
        gradient[at : at + len(own)] = own
        return gradient

    def logged(self, measure: Measure) -> Quantity:
        """Return what the logging policy earned of a measure."""
        last = len(self.totals.sums) - 1
        place = (
            (last, np.ones(1)) if measure.function is IMPRESSIONS else self.places[measure, None]
        )
        mean = float(self.totals.sums[place[0]] / self.totals.n)
        return Quantity(mean, self._placed(place))

    def value(self, measure: Measure, target: str | None) -> Quantity:
        """Return what a target would earn of a measure; the logger where it is None."""
        if target is None or measure.function is IMPRESSIONS:
            # Every policy shows as many items as were logged.
            return self.logged(measure)
        one = self.found[measure]
        job, estimate = one.chosen(target)
        gradient = self._placed(self.places[measure, job.plan.key])
        return _quantity(estimate, gradient, self.totals)

    def metric(self, metric: Metric, target: str | None) -> Quantity:
        """Return the value of a metric under a target, or under the logger."""
        parts = [self.value(measure, target) for measure in metric.measures]
        return parts[0] if len(parts) == 1 else parts[0] / parts[1]

    def lifts(self, metric: Metric, target: str) -> tuple[Quantity, Quantity]:
        """Return the absolute and the relative lift of a target over the baseline."""
        new, base = self.metric(metric, target), self.metric(metric, self.baseline)
        if target == self.baseline:
            nothing = Quantity(0.0, np.zeros_like(new.gradient))
            return nothing, nothing
        return new - base, new.relative_to(base)

    def shaky(self, metric: Metric, target: str) -> float:
        """Return how large the error of a ratio's denominator is, as a share of it; 0 of no ratio."""
        if not isinstance(metric.expression, Ratio):
            return 0.0
        below = metric.expression.denominator
        parts = [self.value(below, name) for name in (target, self.baseline)]
        return max(
            stderr(one, self.totals) / abs(one.value) if one.value else math.inf for one in parts
        )

    def stretch(self, lift: Lift, allowance: float, level: float) -> float:
        """Return how many times longer a lift's interval is at another level."""
        halves = [self._half(lift.stderr, allowance, wanted) for wanted in (level, self.level)]
        return halves[0] / halves[1] if halves[1] > 0 else 1.0

    def _half(self, stderr: float, allowance: float, level: float) -> float:
        wanted = self.looks.level(level, self.totals.n)
        if wanted < 1.0:
            return bias_aware_half(stderr, allowance, wanted, max(self.totals.units - 1, 1))
        # Few rows beside those that the looks are planned for: the level rounds to one, but the width
        # is known.
        return allowance + self.looks.critical(level, self.totals.n) * stderr

    def wider(self, one: Estimate, level: float) -> tuple[float, float, float, float]:
        """Return the ends of the lift and of the relative lift at another level."""
        lift = one.lift
        factor = self.stretch(lift, one.allowance, level)
        return (
            lift.value - factor * (lift.value - lift.low),
            lift.value + factor * (lift.high - lift.value),
            lift.relative - factor * (lift.relative - lift.relative_low),
            lift.relative + factor * (lift.relative_high - lift.relative),
        )


def metric_results(metrics: Metrics, all_of: Together) -> tuple[MetricResult, ...]:
    """Return what was found of each metric, with intervals that hold for all of them together."""
    made = [_result(metric, metrics, all_of) for metric in metrics.every]
    levels = {
        target: together(_correlations(metrics, all_of, target), all_of.level)
        for target in all_of.targets
    }
    return tuple(
        replace(result, joint=_joint(result, metric, all_of, levels))
        for result, metric in zip(made, metrics.every, strict=True)
    )


def _correlations(metrics: Metrics, all_of: Together, target: str) -> Floats:
    lifts = [all_of.lifts(metric, target)[0] for metric in metrics.every]
    return correlations_of(lifts, all_of.totals)


def correlations(metrics: Metrics, all_of: Together) -> dict[str, tuple[tuple[float, ...], ...]]:
    """Return for each target the correlations of its lifts in all metrics."""
    return {
        target: tuple(tuple(row) for row in _correlations(metrics, all_of, target).tolist())
        for target in all_of.targets
        if target != all_of.baseline
    }


def _joint(
    result: MetricResult, metric: Metric, all_of: Together, levels: Mapping[str, float]
) -> tuple[JointLift, ...]:
    rows = []
    for target in all_of.targets:
        one = result.estimate(target)
        relative = all_of.lifts(metric, target)[1]
        error = stderr(relative, all_of.totals)
        ends = all_of.wider(one, levels[target])
        rows.append(JointLift(target, one.estimator, error, *ends))
    return tuple(rows)


def _result(metric: Metric, metrics: Metrics, all_of: Together) -> MetricResult:
    found = [all_of.found[m] for m in metric.measures if m.function is not IMPRESSIONS]
    own = all_of.metric(metric, None)
    first = found[0]
    ratio = isinstance(metric.expression, Ratio)
    if ratio:
        estimates = tuple(_ratio_estimate(metric, target, all_of) for target in all_of.targets)
        verdict = _weakest(metric, [one.verdict for one in found], all_of)
        return MetricResult(
            metric.name, False, metric.text, "ratio", metric.unit, metric.lower_is_better, own.value,
            stderr(own, all_of.totals), estimates, dict(first.recommended),
            verdict=verdict, skipped=first.skipped,
        )  # fmt: skip
    asked = tuple(
        one for job, one in zip(first.jobs, first.estimates, strict=True) if not job.silent
    )
    return MetricResult(
        metric.name, metric.name == metrics.primary, metric.text, "page" if first.page else "position",
        metric.unit, metric.lower_is_better, own.value, stderr(own, all_of.totals), asked,
        dict(first.recommended), verdict=first.verdict, segments=first.segments,
        comparisons=first.comparisons, skipped=first.skipped,
    )  # fmt: skip


def _ratio_estimate(metric: Metric, target: str, all_of: Together) -> Estimate:
    """Return the estimate of a ratio: both parts together, by the delta method."""
    _, top = all_of.found[metric.measures[0]].chosen(target)
    value = all_of.metric(metric, target)
    n, level = all_of.totals.n, all_of.looks.level(all_of.level, all_of.totals.n)
    lift, relative = all_of.lifts(metric, target)
    error = stderr(lift, all_of.totals)
    made = Lift(
        lift.value,
        error,
        *ends(lift, all_of.totals, level),
        (),
        relative.value,
        *ends(relative, all_of.totals, level),
    )
    flags: tuple[str, ...] = ()
    share = all_of.shaky(metric, target)
    if share > NEAR_ZERO:
        known = (
            "not known"
            if not math.isfinite(share)
            else f"known to {in_percent(share, 0)} of itself only"
        )
        text = f"the denominator of '{metric.text}' is {known}: the interval of the ratio is rough"
        flags = (Message("denominator-near-zero", text),)
    found = Estimate(
        target=target, estimator=top.estimator, value=value.value,
        stderr=stderr(value, all_of.totals), by_position=(), ess=top.ess, n=n,
        level=all_of.level, lift=made, flags=flags, allowance=lift.allowance, basis=top.basis,
        interval_at=lambda wanted: ends(
            value, all_of.totals, all_of.looks.level(wanted, n)
        ),
    )  # fmt: skip
    parts = [all_of.found[m].chosen(t)[1] for m in metric.measures
             for t in dict.fromkeys((target, all_of.baseline or target))
             if m.function is not IMPRESSIONS]  # fmt: skip
    missing = next((one for one in parts if not one.estimable), None)
    if missing is not None:
        return found.without_evidence(missing.not_estimable)
    if share > AT_ZERO or math.isnan(value.value):
        return found.without_evidence("its denominator cannot be told from zero")
    return found


def _weakest(metric: Metric, verdicts: Sequence[Verdict], all_of: Together) -> Verdict:
    """Return the verdict of a ratio: no better than that of its parts."""
    targets = {}
    for target in all_of.targets:
        levels: list[str] = [one.of(target) for one in verdicts]
        share = all_of.shaky(metric, target)
        if share > NEAR_ZERO:
            levels.append("insufficient" if share > AT_ZERO else "directional")
        targets[target] = weakest(*levels)
    reasons: dict[tuple[str, str, str], Reason] = {}
    for verdict in verdicts:
        for row in verdict.reasons:
            reasons.setdefault((row.target, row.check, row.reason), row)
    summary = " ".join(
        f"The evidence on '{metric.name}' of '{target}' is {level}: no better than that of its parts."
        for target, level in targets.items()
    )
    return Verdict(weakest(*targets.values()), summary, targets, tuple(reasons.values()))


@dataclass(frozen=True, slots=True, eq=False)
class _Rail:
    """A guardrail for one target, or one group of it, before it is judged."""

    guardrail: Guardrail
    estimate: Estimate
    quantity: Quantity | None
    evidence: str
    label: str = ""


def guardrail_results(
    metrics: Metrics, results: Sequence[MetricResult], all_of: Together
) -> tuple[GuardrailResult, ...]:
    """Return each guardrail for each target, with intervals that hold for all of a target's together."""
    rows: list[GuardrailResult] = []
    by_name = {one.name: one for one in results}
    for target in all_of.targets:
        if target == all_of.baseline:
            continue
        rails = [
            rail
            for guardrail in metrics.guardrails
            for rail in _rails(guardrail, metrics, by_name, target, all_of)
        ]
        if not rails:
            continue
        level = together(_family(rails, all_of), all_of.level)
        rows += [_judged(rail, target, all_of, level) for rail in rails]
    return tuple(rows)


def _rails(
    guardrail: Guardrail, metrics: Metrics, by_name: Mapping[str, MetricResult], target: str,
    all_of: Together,
) -> list[_Rail]:  # fmt: skip
    result, metric = by_name[guardrail.metric], metrics.metric(guardrail.metric)
    if not guardrail.by:
        lifts = all_of.lifts(metric, target)
        known = lifts[1] if guardrail.relative else lifts[0]
        return [_Rail(guardrail, result.estimate(target), known, result.verdict.of(target))]
    groups = all_of.found[metric.measures[0]].groups or {}
    return [
        _Rail(
            guardrail, one, None,
            weakest(enough_rows(one), result.verdict.of(target)), label,
        )
        for (name, column, label), one in groups.items()
        if name == target and column == guardrail.by
    ]  # fmt: skip


def _family(rails: Sequence[_Rail], all_of: Together) -> Floats:
    """Return the correlations of a target's guardrails; groups of rows stand there as independent."""
    found = np.eye(len(rails))
    known = [index for index, rail in enumerate(rails) if rail.quantity is not None]
    if known:
        every = [rails[index].quantity for index in known]
        inside = correlations_of([one for one in every if one is not None], all_of.totals)
        found[np.ix_(known, known)] = inside
    return found


def _judged(rail: _Rail, target: str, all_of: Together, level: float) -> GuardrailResult:
    guardrail, lift = rail.guardrail, rail.estimate.lift
    low, high, relative_low, relative_high = all_of.wider(rail.estimate, level)
    value, ends = (
        (lift.relative, (relative_low, relative_high))
        if guardrail.relative
        else (lift.value, (low, high))
    )
    evidence = rail.evidence if rail.estimate.estimable else "insufficient"
    return GuardrailResult(
        expression=guardrail.text,
        target=target,
        # An interval that is not known leaves everything open.
        status=status_of(guardrail, *ends),
        lift=value,
        low=ends[0],
        high=ends[1],
        metric=guardrail.metric,
        limit=guardrail.limit,
        relative=guardrail.relative,
        evidence=evidence,
        unit=guardrail.unit,
        column=guardrail.by,
        group=rail.label,
    )


def decision(
    metrics: Metrics,
    primary: MetricResult,
    guardrails: Sequence[GuardrailResult],
    all_of: Together,
) -> ShipDecision:
    """Return what to do about the targets that are no baseline.

    Of several candidates the best is looked for: each must be better at a level that holds for all
    of them together (Bonferroni).
    """
    candidates = [target for target in all_of.targets if target != all_of.baseline]
    level = 1.0 - (1.0 - all_of.level) / max(len(candidates), 1)
    by_text = {one.text: one for one in metrics.guardrails}
    told: dict[str, tuple[str, tuple[Message, ...]]] = {}
    bounds: dict[str, float] = {}
    for target in candidates:
        one = primary.estimate(target)
        low, high, *_ = all_of.wider(one, level)
        if primary.lower_is_better:
            low, high = -high, -low
        watched = [
            Watched(
                by_text[row.expression], row.status, row.evidence,
                f"{row.column} = {row.group}" if row.column else "",
            )
            for row in guardrails
            if row.target == target
        ]  # fmt: skip
        evidence = primary.verdict.of(target) if one.estimable else LEVELS[0]
        told[target] = decide(JudgedTarget(target, primary.name, low, high, evidence, watched))
        bounds[target] = low
    actions = {target: action for target, (action, _) in told.items()}
    action = overall(list(actions.values()))
    named = [target for target in candidates if actions[target] == action]
    # Of several that could be shipped, the one whose lift is surely largest.
    best = max(named, key=lambda target: bounds[target]) if action == SHIP else None
    shown = [best] if best is not None else (named if action != HOLD else candidates)
    reasons = tuple(
        DecisionReason(target, reason.code, reason.text)
        for target in shown
        for reason in told[target][1]
    )
    return ShipDecision(action, reasons, best, actions)
