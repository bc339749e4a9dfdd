"""The one orchestration: a log and targets in, an Evaluation out."""

from counterrank.evaluation.audit_file import audit_file, audit_log
from counterrank.evaluation.result import Evaluation
from counterrank.evaluation.run import evaluate
from counterrank.evaluation.verdict import meets

__all__ = [
    "Evaluation",
    "audit_file",
    "audit_log",
    "evaluate",
    "meets",
]
