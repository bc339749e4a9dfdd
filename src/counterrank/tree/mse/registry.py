"""MSE estimates by name."""

import difflib
from collections.abc import Callable

from counterrank.errors import BehaviorError
from counterrank.tree.mse.dr import DoublyRobust
from counterrank.tree.mse.gl import GoldenshlugerLepski
from counterrank.tree.mse.lepski import Lepski
from counterrank.tree.mse.ocv import CrossValidation
from counterrank.tree.mse.oracle import Oracle
from counterrank.tree.mse.pasif import PasIf
from counterrank.tree.mse.pasif_fitted import PasIfFitted
from counterrank.tree.mse.reference import Reference
from counterrank.tree.mse.slope import Slope
from counterrank.tree.objective import MSEEstimate

#: Those that work on any log. "oracle" and "dr" need values from outside and are given as objects.
FEASIBLE: dict[str, Callable[[], MSEEstimate]] = {
    "reference": Reference,
    "slope": Slope,
    "lepski": Lepski,
    "gl": GoldenshlugerLepski,
    "ocv": CrossValidation,
    "pasif": PasIf,
    "pasif-fitted": PasIfFitted,
}
DEFAULT = "gl"


def get(given: "str | MSEEstimate") -> MSEEstimate:
    """Return the MSE estimate called `given`, or `given` itself when it is one.

    >>> get("gl").name
    'gl'
    """
    if not isinstance(given, str):
        return given
    if given in FEASIBLE:
        return FEASIBLE[given]()
    if given in ("oracle", "dr"):
        kind = (Oracle if given == "oracle" else DoublyRobust).__name__
        raise BehaviorError(f"mse='{given}' needs values from outside the log: pass {kind}(values=...), one a position")
    near = difflib.get_close_matches(given, [*FEASIBLE, "oracle", "dr"], n=1)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    raise BehaviorError(f"there is no MSE estimate '{given}'{hint} Known: {', '.join([*FEASIBLE, 'oracle', 'dr'])}")
