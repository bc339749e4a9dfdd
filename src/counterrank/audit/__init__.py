"""What is wrong with a log: every check, its finding, the likely cause and the remedy."""

from counterrank.audit.auditor import (
    CHECKS,
    OF_REWARDS,
    REWARD_FINDINGS,
    VITAL,
    Auditor,
    audit,
    auditor_of,
)
from counterrank.audit.files import audit_file, audit_log
from counterrank.audit.findings import Audit, Check, Tallies
from counterrank.audit.groups import context_cuts
from counterrank.audit.target_scores import Coverage, scored_rows
from counterrank.findings import Finding

__all__ = [
    "CHECKS",
    "OF_REWARDS",
    "REWARD_FINDINGS",
    "VITAL",
    "Audit",
    "Auditor",
    "Check",
    "Coverage",
    "Finding",
    "Tallies",
    "audit",
    "audit_file",
    "audit_log",
    "auditor_of",
    "context_cuts",
    "scored_rows",
]
