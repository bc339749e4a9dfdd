"""Filling arrays inside kernels."""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit


@jit
def fill(out: NDArray[np.float64], value: float) -> None:
    """Put `value` into every entry of out (n,)."""
    for i in range(out.shape[0]):
        out[i] = value
