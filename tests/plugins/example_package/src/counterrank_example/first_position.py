"""An estimator in one file: rewards react to the own item and the one at the top."""

from dataclasses import dataclass

import numpy as np

from counterrank.estimators.masked import MaskEstimator


@dataclass(frozen=True)
class FirstPosition(MaskEstimator):
    """w_k = rho_1 rho_k: the own item and the first one matter."""

    name: str = "first-position"

    def mask(self, length):
        mask = np.eye(length, dtype=bool)
        mask[:, 0] = True
        return mask
