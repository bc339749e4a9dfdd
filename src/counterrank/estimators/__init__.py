"""The estimators; `names` takes their names apart, `registry` makes them by name."""

from counterrank.estimators.aips import AIPS
from counterrank.estimators.auto.auto import Auto
from counterrank.estimators.base import Estimator, Plan, View, Workspace
from counterrank.estimators.cascade_dr import CascadeDR
from counterrank.estimators.clip import Clipped, Shrunk
from counterrank.estimators.dm import DM
from counterrank.estimators.dr import DR
from counterrank.estimators.estimate import Estimate, Lift, PositionValue, nothing_known
from counterrank.estimators.examination import ClickHistory, PositionBased, read_position_curve
from counterrank.estimators.interpol import Interpolated
from counterrank.estimators.marginal import Marginalised
from counterrank.estimators.masked import IIPS, IPS, RIPS
from counterrank.estimators.names import EstimatorName, Form, order_path, parse
from counterrank.estimators.order import OrderIPS
from counterrank.estimators.pseudo_inverse import PseudoInverse
from counterrank.estimators.registry import get as get_estimator
from counterrank.estimators.registry import names as estimator_names
from counterrank.estimators.registry import with_position_curve
from counterrank.estimators.switch import Switch

__all__ = [
    "AIPS",
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
    "EstimatorName",
    "Form",
    "Interpolated",
    "Lift",
    "Marginalised",
    "OrderIPS",
    "Plan",
    "PositionBased",
    "PositionValue",
    "PseudoInverse",
    "Shrunk",
    "Switch",
    "View",
    "Workspace",
    "estimator_names",
    "get_estimator",
    "nothing_known",
    "order_path",
    "parse",
    "read_position_curve",
    "with_position_curve",
]
