"""Weights named in one word or number: "ips", "rips", "aips", a mask, or an interaction order."""

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.behavior import Bools, as_mask, cascade, independent, standard
from counterrank.errors import ConfigError, EstimatorError
from counterrank.estimators.aips import AIPS
from counterrank.estimators.base import View, Workspace
from counterrank.estimators.masked import supported_mask, weights_of_mask
from counterrank.ratios import ratios_of

Floats = NDArray[np.float64]
Weigh = Callable[[View], Floats]

_FIXED = {"ips": standard, "iips": independent, "rips": cascade}


def mask_called(weights: Any, length: int) -> Bools:
    """Return the mask (K, K) of "ips", "iips" or "rips", or the mask that was given by itself or by
    its name.
    """
    return (
        _FIXED[weights](length)
        if isinstance(weights, str) and weights in _FIXED
        else as_mask(weights, length)
    )


def weights_for(
    workspace: Workspace, weights: Any, *, behavior: Any = "S", on_missing: str = "error"
) -> tuple[Weigh, Hashable]:
    """Return the weighing function and a key that is equal for equal weights.

    `behavior` is the mask inside which an interaction order acts, or the behaviour model of "aips".
    """
    length = workspace.first.K
    if isinstance(weights, int):
        return _ordered(workspace, weights, behavior)
    if isinstance(weights, str) and weights == "aips":
        return AIPS(
            behavior="fit" if isinstance(behavior, str) and behavior == "S" else behavior
        )._weights(workspace)
    wanted = mask_called(weights, length)
    mask = supported_mask(ratios_of(workspace.first, workspace.target), wanted, on_missing)
    return weights_of_mask(mask), ("mask", mask.tobytes())


def _ordered(workspace: Workspace, order: int, behavior: Any) -> tuple[Weigh, Hashable]:
    if order < 1:
        raise ConfigError(f"the interaction order must be 1 or more, got {order}")
    kind = ratios_of(workspace.first, workspace.target).kind
    if kind != "factored":
        raise EstimatorError(
            f"interaction order {order} needs independent positions ('factored' propensities); "
            f"these are '{kind}', for which the truncated product is biased; use ips, rips or auto"
        )
    length = workspace.first.K
    mask, used = as_mask(behavior, length), min(order, length)
    return lambda view: view.ratios.ordered(mask, used), (
        "order",
        used,
        np.packbits(mask).tobytes(),
    )
