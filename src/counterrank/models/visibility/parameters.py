"""The parameters of the visibility model, and its parts on given rankings."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Nobody sees less than nothing, or more than this many times the average.
_MOST_SEEN = 5.0


@dataclass(frozen=True, slots=True, eq=False)
class Parameters:
    """own (F, A, p), shift (F, K), pair (F, A, A), triple (F, A, A, A) or (F, 0, 0, 0); sight (K, K), tilt (2, m).

    sight_kl is how far the item at l is seen at k, on average 1; tilt how that varies with the context, for items
    above and below. Folds share sight and tilt: few numbers, to which no fold gives much of itself.
    """

    own: Floats
    shift: Floats
    pair: Floats
    triple: Floats
    sight: Floats
    tilt: Floats

    @property
    def shape(self) -> tuple[int, int, int]:
        """K, A and p."""
        return self.sight.shape[0], self.own.shape[1], self.own.shape[2]

    def scale(self, moods: Floats) -> Floats:
        """Return how much of the items above and below each row's user sees (n, 2)."""
        return np.ascontiguousarray(np.clip(1.0 + moods @ self.tilt.T, 0.0, _MOST_SEEN))

    def parts(self, x: Floats, action: Ints, fold: Ints) -> Floats:
        """Return own part, pairs above and pairs below, as an average user sees them: (3, n, K)."""
        from counterrank.models.kernels.visibility import parts

        out = np.empty((3, *action.shape))
        parts(action, fold, x, self.own, self.shift, self.sight, self.pair, out)
        return out

    def triples(self, action: Ints, fold: Ints, scale: Floats) -> Floats:
        """Return the three-way part (n, K)."""
        from counterrank.models.kernels.visibility import triples

        out = np.zeros(action.shape)
        if self.triple.shape[1]:
            triples(action, fold, scale, self.sight, self.triple, out)
        return out
