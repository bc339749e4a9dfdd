"""A uniform sample of rankings as a pass like any other, the same on every engine."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from counterrank.log import RankingLog
from counterrank.readers import concat

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Sampled:
    """Rankings that were drawn, and their keys (n,): uniform numbers that decide who stays."""

    logs: tuple[RankingLog, ...]
    keys: Floats

    def __add__(self, other: Self) -> Self:
        return type(self)((*self.logs, *other.logs), np.concatenate([self.keys, other.keys]))

    def at_most(self, rows: int) -> RankingLog:
        """Return the rankings with the `rows` smallest keys, in the order of the log."""
        log = concat(self.logs)
        if log.n <= rows:
            return log
        return log.take(np.sort(np.argpartition(self.keys, rows - 1)[:rows]))


@dataclass(frozen=True, slots=True)
class Sampler:
    """Keeps each ranking with probability `share`, decided by the seed and the ranking's number alone."""

    seed: int
    share: float

    def __call__(self, batch: RankingLog) -> Sampled:
        """Return the rankings of a batch that stay."""
        keys = uniforms(self.seed, batch.start, batch.n)
        kept = np.flatnonzero(keys < self.share)
        return Sampled((batch.take(kept),) if len(kept) else (), keys[kept])


def share_for(rows: int, n: int) -> float:
    """Return the probability with which at least `rows` of n are kept, but for one time in a billion.

    >>> round(share_for(100, 10_000), 4), share_for(100, 50)
    (0.018, 1.0)
    """
    return min(1.0, (rows + 7 * rows**0.5 + 10) / n) if n > rows else 1.0


def uniforms(seed: int, start: int, n: int) -> Floats:
    """Return numbers in [0, 1) for rows start, start+1, ... (n,), by SplitMix64.

    >>> np.array_equal(uniforms(7, 2, 3), uniforms(7, 0, 5)[2:])
    True
    """
    z = np.arange(n, dtype=np.uint64) + np.uint64((start + seed * 0xD1342543DE82EF95) % 2**64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 0x9E3779B97F4A7C15)):
        z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
    return (z ^ (z >> np.uint64(32))).astype(np.float64) / 2.0**64


__all__ = ["Sampled", "Sampler", "share_for", "uniforms"]
