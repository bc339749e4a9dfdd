"""The one orchestration: a log and targets in, an Evaluation out."""

from counterrank.evaluation.judging import meets
from counterrank.evaluation.result import Evaluation
from counterrank.evaluation.run import evaluate

__all__ = [
    "Evaluation",
    "evaluate",
    "meets",
]
