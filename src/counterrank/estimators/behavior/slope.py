"""SLOPE over nested behaviour models: a choice by overlapping intervals instead of an estimated bias."""

from dataclasses import dataclass

import numpy as np

from counterrank.common.arrays import Bools, Floats, Ints
from counterrank.estimators.behavior.objective import Objective
from counterrank.estimators.behavior.settings import SLOPE_WIDTH
from counterrank.estimators.behavior.training import Position


@dataclass(frozen=True, slots=True)
class Slope:
    """MSE = Var(V_c) + (V_c - V_s)^2, where V_s is the estimate that SLOPE selects.

    Su, Srinath and Krishnamurthy (2020), Adaptive estimator selection for off-policy evaluation, ICML.
    The models of a nested chain, from the mask with the most items to the one with the fewest, have
    estimates V_1, V_2, ... and confidence half-widths CNF_i. SLOPE selects the last i for which the
    intervals V_j ± 2 CNF_j, j <= i, have a point in common. It assumes that the bias does not
    decrease along the chain, and that the first model is unbiased; the half-widths decrease by
    Theorem 3.3 of Kiyohara et al. (2023). Its error is then at most 6 min_i (|bias_i| + CNF_i) if all
    intervals V_i ± CNF_i contain their expectations. The assumption fails if two omitted items have
    effects of opposite sign: leaving out both may then have less bias than leaving out one.
    """

    width: float = SLOPE_WIDTH
    name: str = "slope"

    def objective(self, position: Position) -> Objective:
        """Return the objective with the selected estimate as its reference."""
        masks = np.stack(
            [
                position.data.candidates[m].mask[position.index]
                for m in position.data.models[position.index]
            ]
        )
        chain = nested_chain(masks)
        y = position.y[:, chain]
        means = y.mean(axis=0)
        second = (y**2).mean(axis=0) * position.tails[chain]
        stderr = np.sqrt(np.maximum(second - means**2, 0.0) / position.n_apply)
        return Objective(position, value=float(means[selected(means, self.width * stderr)]))


def nested_chain(masks: Bools) -> Ints:
    """Return the indices of a chain of masks (M, K), each a subset of the one before, largest first.

    >>> nested_chain(np.array([[1, 0, 0], [1, 1, 1], [0, 1, 1], [1, 1, 0]], dtype=bool)).tolist()
    [1, 3, 0]
    """
    # Among masks of one size the one that contains the most smaller masks keeps the chain longest.
    contains = (masks[:, None, :] | ~masks[None, :, :]).all(axis=2).sum(axis=1)
    order = np.lexsort((-contains, -masks.sum(axis=1)))
    chain = [int(order[0])]
    for index in order[1:]:
        if (
            not (masks[index] & ~masks[chain[-1]]).any()
            and (masks[index] != masks[chain[-1]]).any()
        ):
            chain.append(int(index))
    return np.array(chain)


def selected(means: Floats, half_widths: Floats) -> int:
    """Return the last i for which the intervals means[j] ± 2 half_widths[j], j <= i, have a common point.

    >>> selected(np.array([1.0, 1.2, 3.0]), np.array([0.5, 0.2, 0.1]))
    1
    """
    low = np.maximum.accumulate(means - 2.0 * half_widths)
    high = np.minimum.accumulate(means + 2.0 * half_widths)
    return int(np.flatnonzero(low <= high)[-1])
