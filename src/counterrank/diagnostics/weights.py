"""Effective sample size, tail index and concentration of the weights, from additive moments."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterrank.diagnostics.histogram import bin_edges, share_of_rows_carrying, survival, tail_index
from counterrank.moments import Moments, spread

Floats = NDArray[np.float64]


def effective_rows(moments: Moments) -> float:
    """Return (sum w)^2 / sum w^2 of the rows' mean weights (Kish 1965): n when all weights are equal."""
    square = moments.row_mean("weight2")
    return float(moments.n * moments.row_mean("weight") ** 2 / square) if square > 0 else 0.0


def effective_rows_by_position(moments: Moments) -> Floats:
    """Return (sum w_k)^2 / sum w_k^2 (K,)."""
    square = moments.mean("ww")
    first = moments.mean("w") ** 2
    return moments.n * np.divide(first, square, out=np.zeros_like(first), where=square > 0)


@dataclass(frozen=True, slots=True)
class MeanWeightTest:
    """Is E[w_k] = 1 at each position? Means and z statistics (K,), and the family-wise p-value (Holm 1979)."""

    mean: Floats
    z: Floats
    p_value: float

    @property
    def passed(self) -> bool:
        """No position contradicts E[w] = 1 at the 1 % level after adjustment."""
        return self.p_value > 0.01

    @property
    def adjusted(self) -> Floats:
        """P-values (K,) adjusted for the false-discovery rate over positions (Benjamini & Hochberg 1995)."""
        from scipy import special, stats

        found: Floats = stats.false_discovery_control(2 * special.ndtr(-np.abs(self.z)))
        return found


def mean_weight_test(moments: Moments) -> MeanWeightTest:
    """Test E[w_k] = 1 at every position: z_k = (mean w_k - 1) / se, by unit where rows belong to units.

    A single row or unit shows no spread, and so cannot contradict it: z = 0.
    """
    from scipy import special

    mean = moments.mean("w")
    error = np.sqrt(_variance_of_mean_weight(moments))
    off = np.where(np.isnan(error), 0.0, mean - 1.0)
    z = np.divide(off, error, out=np.where(np.abs(off) > 1e-9, np.inf, 0.0), where=error > 0)
    p = 2 * special.ndtr(-np.abs(z))
    return MeanWeightTest(mean, z, float(min(1.0, len(p) * p.min())))


def _variance_of_mean_weight(moments: Moments) -> Floats:
    n, length, mean = moments.n, moments.K, moments.mean("w")
    if moments.buckets is not None:
        used = moments.buckets[moments.buckets[:, -1] > 0]
        if len(used) < 2:
            return np.full(length, np.nan)
        scores = used[:, length : 2 * length] - used[:, -1:] * mean
        squares: Floats = (scores**2).sum(axis=0)
        return squares * len(used) / (len(used) - 1) / n**2
    return spread(moments.mean("ww"), mean**2, n) / n if n > 1 else np.full(length, np.nan)


def largest_weight_share(moments: Moments) -> float:
    """Return max over positions of the largest weight's share of all weight."""
    sums = np.abs(moments.mean("w")) * moments.n
    return float(np.max(np.divide(moments.peaks[:-1], sums, out=np.zeros_like(sums), where=sums > 0)))


__all__ = [
    "MeanWeightTest",
    "bin_edges",
    "effective_rows",
    "effective_rows_by_position",
    "largest_weight_share",
    "mean_weight_test",
    "share_of_rows_carrying",
    "survival",
    "tail_index",
]
