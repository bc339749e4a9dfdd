"""The estimators; `names` takes their names apart, `registry` makes them by name."""

from counterrank.estimators.auto.auto import Auto
from counterrank.estimators.base import (
    Estimate,
    Estimator,
    Fitted,
    Lift,
    PositionValue,
    View,
    Workspace,
    decisive,
    sums_of_fits,
)
from counterrank.estimators.clip import Clipped, Shrunk, Switch
from counterrank.estimators.columns import (
    ALL,
    SHOWN,
    Columns,
    LogSums,
    PositionColumns,
    Rows,
    logged,
    summed,
)
from counterrank.estimators.crossfit import ModelAverage, fit_pages, folds_of
from counterrank.estimators.doubly_robust import DM, DR, CascadeDR
from counterrank.estimators.examination import (
    ClickHistory,
    PositionBased,
    fit_examination,
    read_position_curve,
)
from counterrank.estimators.masked import (
    AIPS,
    IIPS,
    IPS,
    RIPS,
    AIPSPairs,
    OrderIPS,
    PseudoInverse,
)
from counterrank.estimators.names import Form, parse
from counterrank.estimators.pooled import (
    balance_weights,
    can_model,
    model_control,
    page_log_probs,
    refuse_unserved,
)
from counterrank.estimators.registry import get as get_estimator
from counterrank.estimators.registry import names as estimator_names
from counterrank.estimators.registry import with_position_curve
from counterrank.estimators.solution import Solution, Traits

__all__ = [
    "ALL",
    "SHOWN",
    "Columns",
    "LogSums",
    "PositionColumns",
    "Rows",
    "decisive",
    "logged",
    "summed",
    "sums_of_fits",
    "AIPS",
    "AIPSPairs",
    "DM",
    "DR",
    "IIPS",
    "IPS",
    "RIPS",
    "Auto",
    "CascadeDR",
    "ClickHistory",
    "Clipped",
    "Estimate",
    "Estimator",
    "Fitted",
    "Form",
    "Lift",
    "OrderIPS",
    "PositionBased",
    "PositionValue",
    "PseudoInverse",
    "Shrunk",
    "Solution",
    "Switch",
    "Traits",
    "View",
    "Workspace",
    "balance_weights",
    "can_model",
    "estimator_names",
    "fit_examination",
    "get_estimator",
    "model_control",
    "page_log_probs",
    "parse",
    "read_position_curve",
    "refuse_unserved",
    "ModelAverage",
    "fit_pages",
    "folds_of",
    "with_position_curve",
]
