"""What reports ask of an evaluation: the recommended estimate of a target, its evidence, how it looks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from counterrank.common.findings import FAILED, SEVERITY, Finding, Outcome
from counterrank.estimators import Estimate, Form, Lift, parse
from counterrank.evaluation import Evaluation
from counterrank.report.document import PAGE, Mark, Row
from counterrank.report.words import known, percent
from counterrank.statistics import Number


def column_name(name: Any) -> str:
    """Return a column as people call it; a bare number keeps its prefix.

    >>> column_name("x_tenure_days"), column_name("x_3")
    ('tenure days', 'x_3')
    """
    text = str(name)
    short = text.removeprefix("x_")
    return text if not short or short.isdigit() else short.replace("_", " ")


@dataclass(frozen=True, slots=True)
class Target:
    """One policy as a report reads it."""

    name: str
    mark: Mark
    #: The recommended estimate, also where it has no value, and all that have one, the recommended first.
    best: Estimate
    lift: Lift
    estimates: Sequence[Estimate]
    #: The evidence level, empty where no verdict was made, and the reasons behind it.
    evidence: str
    reasons: Sequence[Finding]
    #: What to do about it, of `forest.STATES`: what the decision says, "unknown" or "same".
    state: str
    #: Why the recommended estimate has no value; nothing where it has one.
    missing: str
    #: The evidence is insufficient.
    doubtful: bool


def no_difference(lift: Number) -> bool:
    """Return whether a lift is zero with an interval of zero width, up to rounding."""
    return max(abs(lift.value), abs(lift.low), abs(lift.high)) < 1e-12


class Reading:
    """An evaluation as a report reads it; blocks of more detail than is shown need not be made."""

    def __init__(self, result: Evaluation, detail: int = PAGE) -> None:
        self.result, self.log, self.detail = result, result.log, detail
        #: A second reading of the lift of a target in a metric, where there is one.
        self.seconds: dict[tuple[str, str], Row] = {}
        self.metric = metric = result.metric()
        #: The findings of the audit by what they came to; what a cause explains is folded into it.
        self.findings: dict[Outcome, list[Finding]] = {status: [] for status in SEVERITY}
        for finding in result.audit:
            if not finding.explained_by:
                self.findings[finding.status].append(finding)
        #: What is refuted, causes first: nothing else is to be believed before this is mended.
        self.failed = sorted(
            self.findings[FAILED], key=lambda finding: (not finding.where, not finding.explains)
        )
        #: All estimates that have a value.
        self.estimates = [estimate for estimate in metric.estimates if known(estimate.value)]
        #: The policies in the order they were given, and those that are compared with the baseline.
        self.targets = [self._target(name) for name in metric.recommended]
        self.candidates = [target for target in self.targets if target.name != result.baseline]
        #: Whether lifts are against the policy that served the log; what it and the baseline are called.
        self.over_logger = result.baseline == "logger"
        self.baseline = "today's policy" if self.over_logger else result.baseline
        self.logger = "today's policy" if self.over_logger else "the logging policy"
        #: The confidence level, which all estimates of a run share, and as text.
        self.level = self.estimates[0].level if self.estimates else 0.95
        whole_percent = round(self.level * 100, 6) % 1 == 0
        self.level_words = percent(self.level, digits=0 if whole_percent else 1)
        #: What a reward and a ranking are called.
        self.reward = result.log.words.get("reward") or "reward"
        self.ranking = result.log.words.get("ranking") or "ranking"
        self.unit = f"{self.reward} per {self.ranking}"

    def _target(self, name: str) -> Target:
        """Return a policy."""
        metric, decision = self.metric, self.result.decision
        by_name = {row.estimator: row for row in metric.estimates if row.target == name}
        best = by_name.pop(metric.recommended[name])
        reasons = [reason for reason in metric.verdict.reasons if reason.target == name]
        level = metric.verdict.targets.get(name, metric.verdict.level)
        missing, state = "", decision.targets.get(name, decision.action)
        if not known(best.value):
            missing = best.not_estimable or "the log has no evidence on it"
        # Nothing can be said where what the estimate rests on is worth nothing.
        if missing or any(reason.fatal and reason.blamed for reason in reasons):
            state = "unknown"
        elif no_difference(best.lift):
            state = "same"
        return Target(
            name,
            Mark(name),
            best,
            best.lift,
            [row for row in (best, *by_name.values()) if known(row.value)],
            "" if level == "none" else level,
            reasons,
            state,
            missing,
            level == "insufficient",
        )


def family(name: str) -> str:
    """Return "weights", "model" or "biased": the group an estimator is shown in.

    >>> family("ips"), family("dr-order-2"), family("iips")
    ('weights', 'model', 'biased')
    """
    return "biased" if known_bias(name) else "model" if parse(name).uses_model else "weights"


def known_bias(name: str) -> str:
    """Return why an estimator is off as soon as items act on each other, nothing where it is not.

    >>> known_bias("sniips"), known_bias("dr-iips")
    ('ignores every other item', '')
    """
    parsed = parse(name)
    if parsed.weights == "iips" and parsed.form in (Form.PLAIN, Form.RATIO, Form.CONTROL):
        return "ignores every other item"
    return "trusts its reward model alone" if name == "dm" else ""
