"""What to think of weights: numbers first, then the lines they are held against."""

from counterrank.diagnostics.columns import (
    MAX_GROUPS,
    by_label,
    column_of,
    epoch_unit,
    interval_names,
    segmentation,
)
from counterrank.diagnostics.exploration import (
    WHAT_IS_POSSIBLE,
    plan_for,
    refuse_deterministic,
    stderr_ratios,
    support,
)
from counterrank.diagnostics.sensitivity import curve
from counterrank.diagnostics.thresholds import (
    FAILED,
    PASSED,
    POSITION_ESS,
    SIGNIFICANT,
    SKIPPED,
    THRESHOLDS,
    WARNED,
    Outcome,
)
from counterrank.diagnostics.weights import (
    ONE_UNIT,
    TopRows,
    effective_rows,
    effective_rows_by_position,
    largest_weight_share,
    mean_weight_test,
    tail_index,
    top_rows_of,
    weight_flags,
    weight_report,
)

__all__ = [
    "FAILED",
    "PASSED",
    "SKIPPED",
    "WARNED",
    "MAX_GROUPS",
    "ONE_UNIT",
    "POSITION_ESS",
    "SIGNIFICANT",
    "THRESHOLDS",
    "WHAT_IS_POSSIBLE",
    "Outcome",
    "TopRows",
    "by_label",
    "column_of",
    "curve",
    "effective_rows",
    "effective_rows_by_position",
    "epoch_unit",
    "interval_names",
    "largest_weight_share",
    "mean_weight_test",
    "plan_for",
    "refuse_deterministic",
    "segmentation",
    "stderr_ratios",
    "support",
    "tail_index",
    "top_rows_of",
    "weight_flags",
    "weight_report",
]
