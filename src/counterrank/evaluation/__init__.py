"""The one orchestration: a log and targets in, an Evaluation out."""

from counterrank.evaluation.arms import Validation, validate
from counterrank.evaluation.jobs import DEFAULT_ESTIMATORS
from counterrank.evaluation.judging import meets
from counterrank.evaluation.result import Evaluation, Verdict
from counterrank.evaluation.run import evaluate

__all__ = [
    "DEFAULT_ESTIMATORS",
    "Evaluation",
    "Validation",
    "Verdict",
    "evaluate",
    "meets",
    "validate",
]
