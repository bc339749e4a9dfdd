"""Evaluation: everything that was found, as typed data that renders itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from counterrank.audit import Audit
from counterrank.estimators import Estimate
from counterrank.estimators.behavior import ForestDescription
from counterrank.evaluation.provenance import Provenance
from counterrank.evaluation.tables import (
    Comparison,
    Diagnostics,
    GuardrailResult,
    LogSummary,
    MetricResult,
    SamplePlan,
    Segment,
    Sensitivity,
    ShipDecision,
    Verdict,
    estimate_of,
    not_recommended,
    rows_of,
    unknown,
    with_lifts,
)
from counterrank.findings import AUDIT, ESTIMATORS_SKIPPED, Finding
from counterrank.records import Json, RecordResult, value_of

#: The baseline that is no target: the policy whose rankings were logged.
LOGGER = "logger"


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(RecordResult):
    """The result of `counterrank.evaluate`: estimates, lifts, comparisons, diagnostics, verdict.

    >>> import counterrank as cr
    >>> log = cr.RankingLog(action=[[0, 1], [1, 0]] * 50, reward=[[1, 0], [0, 1]] * 50, propensity=[[.5, .5]] * 100)
    >>> cr.evaluate(log, {"new": [[.5, .5]] * 100}, estimators=["ips"])
    Evaluation(n=100, K=2, targets=['new'], estimators=['ips'], verdict='directional')
    """

    SCHEMA, NAME, ROWS = "counterrank/evaluation/1", "evaluation", "estimates"
    REPORT = "counterrank.report.evaluation"

    log: LogSummary
    estimates: tuple[Estimate, ...]
    #: The recommended estimator of each target.
    recommended: dict[str, str]
    verdict: Verdict
    comparisons: tuple[Comparison, ...] = ()
    segments: tuple[Segment, ...] = ()
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    #: The fitted behaviour tree in words, where there is one.
    behavior: ForestDescription | None = None
    #: What this log can detect, for each target.
    planning: dict[str, SamplePlan] = field(default_factory=dict)
    sensitivity: dict[str, Sensitivity] = field(default_factory=dict)
    audit: Audit = field(default_factory=Audit, metadata={"rows": AUDIT})
    skipped: tuple[Finding, ...] = field(default=(), metadata={"rows": ESTIMATORS_SKIPPED})
    provenance: Provenance = field(default_factory=Provenance)
    #: Every metric, the primary among them; all other fields speak of the primary.
    metrics: tuple[MetricResult, ...] = ()
    guardrails: tuple[GuardrailResult, ...] = ()
    decision: ShipDecision = field(default_factory=ShipDecision)
    #: The policy that lifts are against; "logger" for the one that served the log.
    baseline: str = LOGGER

    def estimate(self, target: str | None = None, estimator: str | None = None) -> Estimate:
        """Return one estimate; by default the recommended estimator of the first target."""
        return estimate_of(self.estimates, self.recommended, target, estimator)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """Return the result that `to_dict` or a JSON file of `evaluate --json` describes.

        Raises
        ------
        ConfigError
            It is no evaluation, or a damaged one.
        """
        cls.check_schema(found)
        n = value_of(LogSummary, found.get("log"), "log").n
        diagnostics = value_of(Json, found.get("diagnostics") or {}, "diagnostics")
        weights = {key: one for key, one in diagnostics.items() if "/" in key}
        own = {"estimates": found.get("estimates")}
        metrics = [
            # What was fitted of the primary stands at the top.
            {**one, "estimates": with_lifts({**one, **own} if one.get("primary") else one, n)}
            for one in value_of(tuple[Json, ...], found.get("metrics") or [], "metrics")
        ]
        whole = {**found, "diagnostics": {**diagnostics, "weights": weights}, "metrics": metrics}
        return super().from_dict({**whole, "estimates": with_lifts(found, n)})

    def flaw(self) -> tuple[str, str] | None:
        """Return what is missing where a target has no recommended estimate."""
        return not_recommended(self.estimates, self.recommended)

    def to_dict(self) -> Json:
        """Return the JSON form: plain types only, NaN and infinities as null."""
        return {**super().to_dict(), **rows_of(self.estimates)}

    def metric(self, name: str | None = None) -> MetricResult:
        """Return what was found of a metric; by default of the primary."""
        for one in self.metrics:
            if one.primary if name is None else one.name == name:
                return one
        raise unknown("metric", name or "primary", [one.name for one in self.metrics])

    def called(self, **words: str) -> Self:
        """Return the same result, whose reports call a `reward` or a `ranking` by these words."""
        return replace(self, log=replace(self.log, words={**self.log.words, **words}))

    def _rows(self) -> list[Json]:
        """Return a row for each estimate: value and lift, each with its error and interval."""
        return [_row(estimate) for estimate in self.estimates]

    def to_frame(self) -> Any:
        """Return `table`."""
        return self.table

    def __repr__(self) -> str:
        """Return what there is to ask for; `print` shows the whole table."""
        names = list(dict.fromkeys(e.estimator for e in self.estimates))
        size = f"n={self.log.n}, K={self.log.K}"
        return (
            f"Evaluation({size}, targets={list(self.recommended)}, estimators={names}, "
            f"verdict={self.verdict.level!r})"
        )


def _row(estimate: Estimate) -> Json:
    value, lift = estimate.to_dict(), estimate.lift.to_dict()
    for found, names in ((value, ("by_position", "details")), (lift, ("by_position",))):
        for name in names:
            found.pop(name, None)
    return {
        **value,
        "lift": lift.pop("value"),
        **{f"lift_{key}": item for key, item in lift.items()},
    }
