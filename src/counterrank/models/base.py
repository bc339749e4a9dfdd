"""What a fitted reward model gives: its value on the logged ranking and its mean under the target."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from counterrank.log import RankingLog

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """q (n, K): the model at the logged ranking; mean (n, K): E_pi of it; both out of fold, zero in the padding."""

    q: Floats
    mean: Floats


class RewardModel(Protocol):
    """A fitted, cross-fitted model of E[r_k | x, a_1..a_K]."""

    @property
    def details(self) -> dict[str, Any]:
        """What was fitted and how its mean is formed, in words and numbers."""

    def predict(self, batch: RankingLog, target: str) -> Prediction:
        """Return the model on the rows of a batch, by the folds that did not see them."""
