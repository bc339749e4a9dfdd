"""What an experiment is: which parameter varies, over which values, for which estimators."""

from dataclasses import dataclass, field
from typing import Any

#: The six of the main figures, in the paper's order, then ours.
ESTIMATORS = ("ips", "iips", "rips", "aips (true)", "aips (oracle)", "aips", "auto")

#: On request only: the oracle of published runs whose logs were read back from disk.
ON_REQUEST = ("aips (oracle, cached)",)

DEFAULTS: dict[str, Any] = {"n": 8000, "K": 8, "delta": 0.6, "sigma": 0.5, "epsilon": 0.3, "noise": 0.3}


@dataclass(frozen=True, slots=True)
class Experiment:
    """A figure: `parameter` takes `values`, everything else stands at its default.

    `kind` says how it is made: "accuracy" (MSE over seeds), "distribution", "runtime", "toy" or "real-world".
    """

    name: str
    title: str
    parameter: str = ""
    label: str = ""
    values: tuple[float, ...] = ()
    estimators: tuple[str, ...] = ESTIMATORS
    kind: str = "accuracy"
    log_x: bool = False
    fixed: dict[str, Any] = field(default_factory=dict)

    def setting(self, value: float) -> dict[str, Any]:
        """Return all parameters at one value of the varied one."""
        setting = {**DEFAULTS, **self.fixed}
        if self.parameter:
            whole = self.parameter in ("n", "K")
            setting[self.parameter] = int(value) if whole else value
        return setting
