"""The value of the target by a reward model, against which a tree holds its choice.

    V_q = mean of E_pi q_k + b_k (r_k - q_k)

q is the cross-fitted ridge (`counterrank.models`) and b_k the weight of the own item. It is unbiased where the
model is right, and where a reward depends on the own item alone. Its weights are single ratios, so its
noise does not grow with the length of the ranking, as that of the value from pairs does (`pairs.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from counterrank.common.arrays import Floats
from counterrank.estimators.behavior.settings import COMPARED_ROWS
from counterrank.estimators.weights.ratios import Ratios
from counterrank.models import RewardModel


@dataclass(frozen=True, slots=True, eq=False)
class Modelled:
    """The rows (n, K) of the value by the best model, and how wrong its total may be beyond them.

    `variance` is that of the fits (delete-a-fold jackknife) and what the log hardly shows of the target.
    `disagreement` is half of the range of the models that predict unseen rows about as well: a bias.
    """

    rows: Floats
    variance: float
    disagreement: float


def has_closed_form(ratios: Ratios, target: str) -> bool:
    """Return whether closed-form models apply: by position, independent, the target's whole distribution known."""
    by_position = ratios.kind == "factored" and not ratios.batch.page_reward
    return by_position and ratios.batch.distribution(target) is not None


def modelled_value(models: Sequence[RewardModel], ratios: Ratios, target: str) -> Modelled | None:
    """Return the value by models, the best of them first; None where it is no number."""
    log, weights, best = ratios.batch, ratios.position(), models[0]
    with np.errstate(over="ignore", invalid="ignore"):
        by_model = [m.corrected(log, target, log.bucket % m.folds, weights) for m in models]
        totals = [float((rows @ log.position_weights).mean()) for rows in by_model]
        compared = np.arange(0, log.n, max(1, -(-log.n // COMPARED_ROWS)))
        sample = log.take(compared)
        refits = best.refits(sample, target, weights[compared])
        variance = float(refits @ refits) + best.doubt(sample, target)
        disagreement = float(np.ptp(totals)) / 2
        size = float((by_model[0] ** 2).sum()) + variance + disagreement
    return Modelled(by_model[0], variance, disagreement) if np.isfinite(size) else None
