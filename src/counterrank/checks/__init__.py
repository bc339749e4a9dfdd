"""What is wrong with a log: every check, its finding, the likely cause and the remedy."""

from counterrank.checks.answers import Accept, Answer, answers_of, concluded
from counterrank.checks.auditor import (
    CHECKS,
    OF_REWARDS,
    REWARD_FINDINGS,
    VITAL,
    Auditor,
    audit,
    audit_file,
    audit_log,
    auditor_of,
)
from counterrank.checks.base import Audit, Check, Tallies
from counterrank.checks.rows import days_of
from counterrank.checks.scores import Coverage, count_scored, fitted_temperature, scored_rows
from counterrank.checks.weights import context_cuts
from counterrank.common.findings import Finding

__all__ = [
    "CHECKS",
    "OF_REWARDS",
    "REWARD_FINDINGS",
    "VITAL",
    "Accept",
    "Answer",
    "Audit",
    "Auditor",
    "Check",
    "Coverage",
    "Finding",
    "Tallies",
    "answers_of",
    "audit",
    "audit_file",
    "audit_log",
    "auditor_of",
    "concluded",
    "context_cuts",
    "count_scored",
    "days_of",
    "fitted_temperature",
    "scored_rows",
]
