"""One random swap of two places of a ranking (swap interventions; Joachims, Swaminathan, Schnabel 2017)."""

import numpy as np
from numpy.typing import ArrayLike

from counterrank.errors import PolicyError
from counterrank.policies.base import Bools, Floats, Ints
from counterrank.policies.ranked import RankedPolicy


class RandomSwap(RankedPolicy):
    """Places i < j of the base change items with probability weights[i, j]; otherwise it is shown as it is.

    P(L) adds the swaps that agree with the items at L: any swap outside L when nothing is out of place; the
    one swap that explains one or two items out of place; none for more. `weights` (R, R) uses the upper
    triangle; a single number is the probability of a swap, every pair equally likely.

    >>> policy = RandomSwap([[0, 1, 2]], 0.6)
    >>> np.exp(policy.position_log_prob(np.array([[0, 1, 2], [1, 0, 2]]))).round(2).tolist()
    [[0.6, 0.6, 0.6], [0.2, 0.2, 0.6]]
    """

    shared_fields = ("n_items", "weights")

    def __init__(self, ranking: ArrayLike, weights: ArrayLike, n_actions: int | None = None) -> None:
        R = np.shape(ranking)[-1]
        values = np.asarray(weights, dtype=np.float64)
        upper = np.triu(np.ones((R, R)), 1)
        self.weights: Floats = values * upper / max(upper.sum(), 1) if values.ndim == 0 else np.triu(values, 1)
        super().__init__(ranking, n_actions)

    def check(self) -> None:
        super().check()
        R = self.ranking.shape[1]
        total = self.weights.sum()
        if self.weights.shape != (R, R) or not (self.weights >= 0).all() or not total <= 1 + 1e-12:
            raise PolicyError(
                f"swap weights must be ({R}, {R}), not negative, with sum at most 1; "
                f"got {self.weights.shape} with sum {total:.6g}"
            )
        short = self.lengths < R
        if short.any():
            raise PolicyError(
                f"row {int(np.argmax(short))}: the base ranking is padded; swaps need rankings of one length"
            )

    def event(self, items: Ints, rows: Ints, mask: Bools) -> Floats:
        R = self.ranking.shape[1]
        K = len(mask)
        asked = mask & (items != -1)
        both = self.weights + self.weights.T
        outside = np.ones((len(items), R))
        outside[:, : min(K, R)] = ~asked[:, :R]
        untouched = np.einsum("nr,rs,ns->n", outside, self.weights, outside)
        stay = untouched + max(1 - self.weights.sum(), 0.0)
        wrong = asked & (items != np.arange(K))
        count = wrong.sum(axis=1)
        k = np.argmax(wrong, axis=1)
        line = np.arange(len(items))
        j = items[line, k]
        possible = (j >= 0) & (k < R)
        partner_asked = (j < K) & asked[line, np.clip(j, 0, K - 1)]
        partner_holds = items[line, np.clip(j, 0, K - 1)] == k
        one = possible & (count == 1) & ~partner_asked
        two = possible & (count == 2) & partner_asked & partner_holds
        swapped = np.where(one | two, both[np.clip(k, 0, R - 1), np.clip(j, 0, R - 1)], 0.0)
        return np.log(np.where(count == 0, stay, swapped))

    def sample(self, length: int, rng: np.random.Generator, *, size: int = 1) -> Ints:
        drawn = self.base(length, size)
        R = drawn.shape[2]
        flat = drawn.reshape(-1, R)
        edges = np.cumsum(self.weights.reshape(-1))
        cell = np.searchsorted(edges, rng.random(len(flat)), side="right")
        swap = np.flatnonzero(cell < R * R)
        i, j = cell[swap] // R, cell[swap] % R
        flat[swap, i], flat[swap, j] = flat[swap, j], flat[swap, i]
        return flat.reshape(drawn.shape)[:, :, :length]
