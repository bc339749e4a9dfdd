"""What a reward model is: its value on the logged ranking and its mean under the target.

A new model is one file: a fitted class with `details` and `predict`, and a line in
`choice.py` if logs should get it by default; without one, `DM(model=fitted)` and `DR(model=fitted)`
take it as it is.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from counterrank.data.log import RankingLog
from counterrank.records import Json

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """q (n, K): the model at the logged ranking; mean (n, K): E_pi of it; both out of fold, zero in the padding."""

    q: Floats
    mean: Floats


@runtime_checkable
class RewardModel(Protocol):
    """A fitted, cross-fitted model of E[r_k | x, a_1..a_K]."""

    @property
    def details(self) -> Json:
        """What was fitted and how its mean is formed, in words and numbers, for people."""

    def predict(self, batch: RankingLog, target: str) -> Prediction:
        """Return the model on the rows of a batch, by the folds that did not see them."""
