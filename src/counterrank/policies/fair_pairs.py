"""FairPairs: neighbouring results in random order (Radlinski, Joachims 2006)."""

import numpy as np

from counterrank.policies.base import Bools, Floats, Ints
from counterrank.policies.ranked import RankedPolicy


class FairPairs(RankedPolicy):
    """A coin pairs places (1,2), (3,4), .. or (2,3), (4,5), ..; a coin per pair swaps it.

    P(L) = 1/2 sum over the two pairings of (1/2)^(pairs touched by L), if each asked item stands within its
    pair.

    >>> policy = FairPairs([[0, 1, 2, 3]])
    >>> np.exp(policy.position_log_prob(np.array([[1, 0, 2, 3]]))).round(3).tolist()
    [[0.25, 0.25, 0.5, 0.75]]
    """

    def event(self, items: Ints, rows: Ints, mask: Bools) -> Floats:
        lengths = self.spread(self.lengths, rows)[:, None]
        asked = mask & (items != -1)
        return np.log(0.5 * (self._paired(items, asked, lengths, 0) + self._paired(items, asked, lengths, 1)))

    def _paired(self, items: Ints, asked: Bools, lengths: Ints, offset: int) -> Floats:
        """Return (r,) the probability given that pairs start at `offset`."""
        position = np.arange(items.shape[1])
        partner = np.where((position - offset) % 2 == 0, position + 1, position - 1)
        alone = (partner < 0) | (partner >= lengths)
        fits = ~asked | (items == position) | (~alone & (items == partner))
        value = np.where(fits.all(axis=1), 1.0, 0.0)
        for k in range(offset, items.shape[1], 2):
            pair = asked[:, k : k + 2] & ~alone[:, k : k + 2]
            value *= np.where(pair.any(axis=1), 0.5, 1.0)
            if pair.shape[1] == 2:
                value *= ~(pair.all(axis=1) & (items[:, k] == items[:, k + 1]))
        return value

    def sample(self, length: int, rng: np.random.Generator, *, size: int = 1) -> Ints:
        drawn = self.base(length, size)
        offset = rng.integers(0, 2, size=drawn.shape[:2])
        coin = rng.random(drawn.shape) < 0.5
        lengths = self.lengths[:, None]
        for k in range(drawn.shape[2] - 1):
            swap = ((k - offset) % 2 == 0) & coin[:, :, k] & (k + 1 < lengths)
            here, there = drawn[:, :, k].copy(), drawn[:, :, k + 1].copy()
            drawn[:, :, k] = np.where(swap, there, here)
            drawn[:, :, k + 1] = np.where(swap, here, there)
        return drawn[:, :, :length]
