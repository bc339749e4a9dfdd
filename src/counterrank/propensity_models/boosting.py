"""Boosted trees for propensities, from scikit-learn."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.errors import require
from counterrank.propensity_models.logistic import log_softmax

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Boosting:
    """A fitted classifier whose classes are a part of the items."""

    classifier: Any
    size: int

    def log_prob(self, x: Floats, available: Bools | None = None) -> Floats:
        """Return log-probabilities (n, A), renormalised over what is available."""
        table = np.full((len(x), self.size), 1e-12)
        table[:, self.classifier.classes_] = np.maximum(self.classifier.predict_proba(x), 1e-12)
        return log_softmax(np.log(table), available)


def fit_boosting(x: Floats, action: Ints, size: int, *, weight: Floats, seed: int) -> Boosting:
    """Return shallow boosted trees: their defaults are calibrated well enough for the temperature to finish."""
    ensemble = require("sklearn.ensemble", extra="models")
    classifier = ensemble.HistGradientBoostingClassifier(
        max_iter=60, learning_rate=0.1, max_leaf_nodes=8, l2_regularization=1.0, random_state=seed
    )
    return Boosting(classifier.fit(x, action, sample_weight=weight), size)


@dataclass(frozen=True, slots=True)
class Certain:
    """A position that showed one item only."""

    item: int
    size: int

    def log_prob(self, x: Floats, available: Bools | None = None) -> Floats:
        """Return zero for the item, a very small probability for all others."""
        scores = np.full((len(x), self.size), -30.0)
        scores[:, self.item] = 0.0
        return log_softmax(scores, available)
