"""Effective sample size, tail index and concentration of the weights, from additive moments."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
    """Is E[w_k] = 1 at each position? z statistics (K,) and the smallest p-value, Holm-adjusted."""

    mean: Floats
    z: Floats
    p_value: float

    @property
    def passed(self) -> bool:
        """No position contradicts E[w] = 1 at the 1 % level after adjustment."""
        return self.p_value > 0.01


def mean_weight_test(moments: Moments) -> MeanWeightTest:
    """Test E[w_k] = 1 at every position: z_k = (mean w_k - 1) / se, family-wise p by Holm's step-down."""
    from scipy import special

    mean = moments.mean("w")
    error = np.sqrt(spread(moments.mean("ww"), mean**2, moments.n) / moments.n)
    off = mean - 1.0
    z = np.divide(off, error, out=np.where(np.abs(off) > 1e-9, np.inf, 0.0), where=error > 0)
    p = 2 * special.ndtr(-np.abs(z))
    return MeanWeightTest(mean, z, float(min(1.0, len(p) * p.min())))


def bin_edges() -> Floats:
    """Return the lower edges (BINS,) of the weight histogram; the first bin starts at zero."""
    from counterrank.kernels import accumulate as kernels

    index = np.arange(kernels.BINS - 1)
    octave, step = np.divmod(index, kernels.BINS_PER_OCTAVE)
    edges = 2.0 ** (octave + kernels.LOWEST_EXPONENT) * (1 + step / kernels.BINS_PER_OCTAVE)
    return np.concatenate([[0.0], edges])


def share_of_rows_carrying(moments: Moments, share: float = 0.9) -> float:
    """Return the smallest share of rows whose weights add up to `share` of all weight."""
    counts, sums = moments.histogram[:, ::-1]  # heaviest first
    total = sums.sum()
    if total <= 0:
        return 0.0
    carried = np.cumsum(sums) / total
    last = int(np.searchsorted(carried, share))
    before = carried[last - 1] if last else 0.0
    inside = (share - before) * total / sums[last]
    return float((counts[:last].sum() + inside * counts[last]) / moments.n)


def largest_weight_share(moments: Moments) -> float:
    """Return max over positions of the largest weight's share of all weight."""
    sums = np.abs(moments.mean("w")) * moments.n
    return float(np.max(np.divide(moments.peaks[:-1], sums, out=np.zeros_like(sums), where=sums > 0)))


def tail_index(moments: Moments) -> float:
    """Return the Pareto shape k-hat of the largest weights: above 0.5 the variance, above 1 the mean may not exist.

    Binned Hill estimate over the largest min(n/5, 3 sqrt(n)) rows (the number used by Vehtari et al. 2024),
    shrunk towards 0.5 as they do: k = (m k_hill + 5) / (m + 10).
    """
    counts, sums = moments.histogram
    wanted = min(moments.n / 5, 3 * np.sqrt(moments.n))
    tail = np.cumsum(counts[::-1])[::-1]  # rows at or above each bin
    candidates = np.flatnonzero(tail >= max(wanted, 1.0))
    start = int(candidates[-1]) if len(candidates) else 1
    edges = bin_edges()
    above = (counts > 0) & (np.arange(len(counts)) >= max(start, 1))
    size = counts[above].sum()
    if size < 5:
        return 0.0
    typical = sums[above] / counts[above]
    hill = float((counts[above] * np.log(typical / edges[max(start, 1)])).sum() / size)
    return float((size * hill + 5.0) / (size + 10.0))
