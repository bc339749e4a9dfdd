"""Additive Gram matrices by fold, position and own action."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from counterrank.models.layout import Arrays, Layout

if TYPE_CHECKING:
    from counterrank.log import RankingLog

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Grams:
    """Sums over the rows of fold f with a_k = u.

    gram (F, K, A, D, D) of z z'; cover (F, K, A, D) of z r_k; square (F, K, A) of r_k^2; rows (F,).
    """

    gram: Floats
    cover: Floats
    square: Floats
    rows: Floats

    def __add__(self, other: "Grams") -> "Grams":
        return Grams(
            self.gram + other.gram,
            self.cover + other.cover,
            self.square + other.square,
            self.rows + other.rows,
        )


def grams_of(
    batch: "RankingLog", layout: Layout, *, weight: Floats | None = None, given: Arrays | None = None,
    reward: Floats | None = None,
) -> Grams:  # fmt: skip
    """Return the Grams of a batch.

    `weight` (n, K) weighs rows, position by position; `given` are its arrays, if known; `reward`
    (n, K) stands in for its rewards (the working responses of a Newton step).
    """
    from counterrank.models.kernels import grams as kernels

    given = layout.arrays(batch) if given is None else given
    shape = (layout.F, layout.K, layout.A, layout.width)
    gram, cover, square = np.zeros((*shape, layout.width)), np.zeros(shape), np.zeros(shape[:3])
    # F x K x A matrices rather than one: folds are left out by subtraction, and each own action has
    # a model of its own because the effect of a neighbour depends on what it stands next to.
    weights = np.ones(batch.action.shape) if weight is None else weight
    rewards = batch.reward if reward is None else reward
    kernels.add_grams(
        given.action, given.lengths, given.fold, rewards, weights, given.x, given.centre, given.logging,
        layout.slots, layout.cross, layout.squares, gram, cover, square,
    )  # fmt: skip
    rows = np.bincount(given.fold, minlength=layout.F).astype(np.float64)
    return Grams(gram, cover, square, rows)
