"""Can the weights be trusted? Numbers first, words later."""

from counterrank.diagnostics.audit import audit
from counterrank.diagnostics.columns import by_label, column_of, segmentation
from counterrank.diagnostics.exploration import stderr_ratios
from counterrank.diagnostics.finding import FAILED, PASSED, WARNED, Finding
from counterrank.diagnostics.flags import ONE_UNIT, weight_flags
from counterrank.diagnostics.planning import plan_for
from counterrank.diagnostics.report import weight_report
from counterrank.diagnostics.support import support
from counterrank.diagnostics.tally import examples_at
from counterrank.diagnostics.top_rows import TopRows, top_rows_of
from counterrank.diagnostics.weights import effective_rows

__all__ = [
    "FAILED",
    "ONE_UNIT",
    "PASSED",
    "WARNED",
    "Finding",
    "TopRows",
    "audit",
    "by_label",
    "column_of",
    "effective_rows",
    "examples_at",
    "plan_for",
    "segmentation",
    "stderr_ratios",
    "support",
    "top_rows_of",
    "weight_flags",
    "weight_report",
]
