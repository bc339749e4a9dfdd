"""The one orchestration: a log and targets in, an Evaluation out."""

from counterrank.evaluation.abtesting import abtest
from counterrank.evaluation.arms import Validation, ValidationReport, ValidationSummary, validate
from counterrank.evaluation.curve import PositionCurve, position_curve
from counterrank.evaluation.exploration import detectable, rows_for, sensible
from counterrank.evaluation.jobs import DEFAULT_ESTIMATORS
from counterrank.evaluation.judging import meets
from counterrank.evaluation.lifts import ABTest, ArmLift, Difference, Note
from counterrank.evaluation.result import Evaluation
from counterrank.evaluation.run import evaluate
from counterrank.evaluation.tables import (
    LEVELS,
    MORE_ROWS,
    Comparison,
    DecisionReason,
    Diagnostics,
    GuardrailResult,
    JointLift,
    LogSummary,
    MetricResult,
    OrderPoint,
    Reason,
    SamplePlan,
    Segment,
    SegmentLift,
    Sensitivity,
    ShipDecision,
    Skipped,
    Verdict,
)
from counterrank.evaluation.tracking import log_to_mlflow

__all__ = [
    "ABTest",
    "ArmLift",
    "DEFAULT_ESTIMATORS",
    "LEVELS",
    "MORE_ROWS",
    "Comparison",
    "ShipDecision",
    "DecisionReason",
    "Diagnostics",
    "Difference",
    "Evaluation",
    "GuardrailResult",
    "JointLift",
    "LogSummary",
    "MetricResult",
    "Note",
    "OrderPoint",
    "PositionCurve",
    "Reason",
    "SamplePlan",
    "Segment",
    "SegmentLift",
    "Sensitivity",
    "Skipped",
    "Validation",
    "ValidationReport",
    "ValidationSummary",
    "Verdict",
    "abtest",
    "detectable",
    "evaluate",
    "log_to_mlflow",
    "meets",
    "position_curve",
    "rows_for",
    "sensible",
    "validate",
]
