"""What is wrong with a log: every check, its finding, the likely cause and the remedy."""

from counterrank.audit.auditor import audit
from counterrank.audit.files import audit_file, audit_log
from counterrank.audit.findings import Finding

__all__ = [
    "Finding",
    "audit",
    "audit_file",
    "audit_log",
]
