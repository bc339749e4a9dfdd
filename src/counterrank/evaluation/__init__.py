"""The one orchestration: a log and targets in, an Evaluation out."""

from counterrank.evaluation.abtest_result import ABTest, ArmDecision, ArmLift, ArmMetric
from counterrank.evaluation.arm_test import abtest
from counterrank.evaluation.arms import Pair, Validation, ValidationSummary, validate
from counterrank.evaluation.curve import PositionCurve, position_curve
from counterrank.evaluation.exploration import detectable, rows_for, sensible
from counterrank.evaluation.request import DEFAULT_ESTIMATORS
from counterrank.evaluation.result import (
    COUNTED_UNITS,
    LEVELS,
    MORE_ROWS,
    Comparison,
    Diagnostics,
    Evaluation,
    GuardrailResult,
    LogSummary,
    MetricResult,
    OrderPoint,
    Provenance,
    SamplePlan,
    Segment,
    SegmentLift,
    Sensitivity,
    ShipDecision,
    Verdict,
)
from counterrank.evaluation.run import evaluate
from counterrank.evaluation.verdict import causes_first, meets, remedies, round_up, what_would_help

__all__ = [
    "COUNTED_UNITS",
    "ABTest",
    "ArmDecision",
    "ArmLift",
    "ArmMetric",
    "DEFAULT_ESTIMATORS",
    "LEVELS",
    "MORE_ROWS",
    "Comparison",
    "ShipDecision",
    "Diagnostics",
    "Evaluation",
    "GuardrailResult",
    "LogSummary",
    "MetricResult",
    "OrderPoint",
    "Pair",
    "PositionCurve",
    "Provenance",
    "SamplePlan",
    "Segment",
    "SegmentLift",
    "Sensitivity",
    "Validation",
    "ValidationSummary",
    "Verdict",
    "abtest",
    "causes_first",
    "detectable",
    "evaluate",
    "meets",
    "position_curve",
    "remedies",
    "round_up",
    "rows_for",
    "sensible",
    "validate",
    "what_would_help",
]
