"""Evaluation: everything that was found, as typed data that renders itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Self

from counterrank.audit import Audit
from counterrank.behavior import ForestDescription
from counterrank.errors import UnknownNameError
from counterrank.estimators import Estimate
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
)
from counterrank.findings import ESTIMATORS_SKIPPED, Finding
from counterrank.records import Json, Result, plain
from counterrank.texts import suggestion

if TYPE_CHECKING:
    from counterrank.report.document import Document

#: The baseline that is no target: the policy whose rankings were logged.
LOGGER = "logger"


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation(Result):
    """The result of `counterrank.evaluate`: estimates, lifts, comparisons, diagnostics, verdict.

    >>> import counterrank as cr
    >>> log = cr.RankingLog(action=[[0, 1], [1, 0]] * 50, reward=[[1, 0], [0, 1]] * 50, propensity=[[.5, .5]] * 100)
    >>> cr.evaluate(log, {"new": [[.5, .5]] * 100}, estimators=["ips"])
    Evaluation(n=100, K=2, targets=['new'], estimators=['ips'], verdict='directional')
    """

    SCHEMA, NAME, ROWS = "counterrank/evaluation/1", "evaluation", "estimates"

    log: LogSummary
    estimates: tuple[Estimate, ...]
    #: The recommended estimator of each target.
    recommended: dict[str, str]
    comparisons: tuple[Comparison, ...] = ()
    segments: tuple[Segment, ...] = ()
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    #: The fitted behaviour tree in words, where there is one.
    behavior: ForestDescription | None = None
    verdict: Verdict = field(default_factory=Verdict)
    #: What this log can detect, for each target.
    planning: dict[str, SamplePlan] = field(default_factory=dict)
    sensitivity: dict[str, Sensitivity] = field(default_factory=dict)
    audit: Audit = field(default_factory=Audit)
    skipped: tuple[Finding, ...] = ()
    provenance: Provenance = field(default_factory=Provenance)
    #: Every metric, the primary among them; all other fields speak of the primary.
    metrics: tuple[MetricResult, ...] = ()
    guardrails: tuple[GuardrailResult, ...] = ()
    decision: ShipDecision = field(default_factory=ShipDecision)
    #: The policy that lifts are against; "logger" for the one that served the log.
    baseline: str = LOGGER
    #: For each target, the correlations of its relative lifts in all metrics, in their order.
    correlations: dict[str, tuple[tuple[float, ...], ...]] = field(default_factory=dict)

    def estimate(self, target: str | None = None, estimator: str | None = None) -> Estimate:
        """Return one estimate; by default the recommended estimator of the first target."""
        wanted = target or self.estimates[0].target
        if wanted not in self.recommended:
            raise _unknown("target", wanted, self.recommended)
        name = estimator or self.recommended[wanted]
        of_target = {found.estimator: found for found in self.estimates if found.target == wanted}
        if name not in of_target:
            raise _unknown("estimator", name, of_target)
        return of_target[name]

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """Return the result that `to_dict` or a JSON file of `evaluate --json` describes.

        Raises
        ------
        ConfigError
            It is no evaluation, or a damaged one.
        """
        from counterrank.evaluation.stored import evaluation_from

        return evaluation_from(cls, found)

    def to_dict(self) -> Json:
        """Return the JSON form: plain types only, NaN and infinities as null."""
        lifts = [
            {"target": e.target, "estimator": e.estimator, **e.lift.to_dict()}
            for e in self.estimates
        ]
        rows = {
            one.name: plain(getattr(self, one.name))
            for one in fields(self)
            if one.name not in ("log", "estimates", "metrics", "audit", "skipped")
        }
        return {
            "schema": self.SCHEMA,
            "log": self.log.to_dict(),
            "estimates": [plain(e.to_dict()) for e in self.estimates],
            "lift": lifts,
            **rows,
            "audit": self.audit.rows(),
            "skipped": ESTIMATORS_SKIPPED.write(self.skipped),
            "metrics": [one.to_dict() for one in self.metrics],
        }

    def metric(self, name: str | None = None) -> MetricResult:
        """Return what was found of a metric; by default of the primary."""
        for one in self.metrics:
            if one.primary if name is None else one.name == name:
                return one
        raise _unknown("metric", name or "primary", [one.name for one in self.metrics])

    def called(self, **words: str) -> Self:
        """Return the same result, whose reports call a `reward` or a `ranking` by these words."""
        return replace(self, log=replace(self.log, words={**self.log.words, **words}))

    def _rows(self) -> list[Json]:
        """Return a row for each estimate: value and lift, each with its error and interval."""
        return [_row(estimate) for estimate in self.estimates]

    def to_frame(self) -> Any:
        """Return `table`."""
        return self.table

    def document(self) -> Document:
        """Return what was found, as blocks."""
        from counterrank.report import evaluation

        return evaluation.document(self)

    def __repr__(self) -> str:
        """Return what there is to ask for; `print` shows the whole table."""
        names = list(dict.fromkeys(e.estimator for e in self.estimates))
        size = f"n={self.log.n}, K={self.log.K}"
        return (
            f"Evaluation({size}, targets={list(self.recommended)}, estimators={names}, "
            f"verdict={self.verdict.level!r})"
        )


def _unknown(what: str, name: str, known: Iterable[str]) -> UnknownNameError:
    names = list(known)
    return UnknownNameError(
        f"there is no {what} '{name}'{suggestion(name, names)}; {what}s are {', '.join(names)}"
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
