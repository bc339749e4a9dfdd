"""Evidence: all that an interval of one estimate may be made of."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterrank.moments import Moments

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """A value, its standard error, the moments behind them, and the value as a function of the column means.

    `value_at(y, w)` gives values (B,) for means y and w (B, K); `linear` says that the value is the plain mean of
    row totals; `clustered` that rows belong to units; `seed` starts the resampling, the same for the same evidence.
    """

    value: float
    stderr: float
    moments: Moments
    value_at: Callable[[Floats, Floats], Floats]
    linear: bool = True
    clustered: bool = False
    seed: int = 0
