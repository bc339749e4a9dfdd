"""Effective rows, tail index, concentration and mean of the weights, from additive moments."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterrank.inference import clustered_variances
from counterrank.moments import Moments, spread

Floats = NDArray[np.float64]


def bin_edges() -> Floats:
    """Return the lower edges (BINS,) of the weight histogram; the first bin starts at zero."""
    from counterrank.kernels import accumulate as kernels

    index = np.arange(kernels.BINS - 1)
    octave, step = np.divmod(index, kernels.BINS_PER_OCTAVE)
    edges = 2.0 ** (octave + kernels.LOWEST_EXPONENT) * (1 + step / kernels.BINS_PER_OCTAVE)
    return np.concatenate([[0.0], edges])


def survival(moments: Moments) -> tuple[Floats, Floats]:
    """Return weights v and the share of rows whose mean |weight| is at least v, at every bin that
    holds a row.
    """
    counts = moments.histogram[0]
    used = counts > 0
    share = np.cumsum(counts[::-1])[::-1] / moments.n
    return bin_edges()[used], share[used]


def share_of_rows_carrying(moments: Moments, share: float = 0.9) -> float:
    """Return the smallest share of rows whose weights add up to `share` of all weight."""
    counts, sums = moments.histogram[:, ::-1]  # heaviest first
    total = sums.sum()
    if total <= 0:
        return 0.0
    carried = np.cumsum(sums) / total
    # The shares may add up to a little less than one.
    last = min(int(np.searchsorted(carried, share)), len(carried) - 1)
    before = carried[last - 1] if last else 0.0
    inside = (share - before) * total / sums[last] if sums[last] > 0 else 0.0
    return float((counts[:last].sum() + inside * counts[last]) / moments.n)


def tail_index(moments: Moments) -> float:
    """Return the Pareto shape k-hat of the largest weights: above 0.5 the variance, above 1 the
    mean may not exist.

    A generalised Pareto fit (Zhang & Stephens 2009) to the largest min(n/5, 3 sqrt(n)) rows, shrunk
    to 0.5 by ten rows' worth, as Vehtari et al. (2024) do. Rows come in bins of an eighth of an
    octave, each taken at its mean. Zero where the tail holds fewer than three different weights.
    """
    counts, sums = moments.histogram
    # Vehtari et al.'s tail: few enough rows to be tail, enough to fit two parameters.
    wanted = max(min(moments.n / 5, 3 * np.sqrt(moments.n)), 1.0)
    above = np.cumsum(counts[::-1])[::-1]  # rows at or above each bin
    reaching = np.flatnonzero(above >= wanted)
    start = max(int(reaching[-1]), 1) if len(reaching) else 1
    tail = (counts > 0) & (np.arange(len(counts)) >= start)
    threshold = bin_edges()[start]
    size, excess = counts[tail], sums[tail] / np.maximum(counts[tail], 1.0) - threshold
    seen = excess > 1e-12 * threshold
    if seen.sum() < 3 or size.sum() < 5:
        return 0.0
    rows = float(size[seen].sum())
    # Their weak prior: ten rows that say 0.5.
    return (rows * _pareto_shape(excess[seen], size[seen]) + 5.0) / (rows + 10.0)


def _pareto_shape(excess: Floats, size: Floats) -> float:
    """Return the posterior-mean shape for ascending excesses (m,) that occur `size` (m,) times
    each.
    """
    rows = size.sum()
    grid = 30 + int(np.sqrt(rows))
    quartile = np.interp(0.25, np.cumsum(size) / rows, excess)
    spacing = 1 - np.sqrt(grid / (np.arange(1, grid + 1) - 0.5))
    # Zhang & Stephens' grid: data-dependent, and every point has a finite likelihood.
    theta = 1 / excess[-1] + spacing / (3 * quartile)  # (grid,), all below 1 / largest excess
    shape = np.log1p(-np.outer(theta, excess)) @ size / rows
    profile = rows * (np.log(-theta / shape) - shape - 1)
    weight = np.exp(profile - profile.max())
    best = float(theta @ weight / weight.sum())
    return float(np.log1p(-best * excess) @ size / rows)


def effective_rows(moments: Moments) -> float:
    """Return (sum w)^2 / sum w^2 of the rows' mean weights (Kish 1965): n when all weights are
    equal.
    """
    square = moments.row_mean("weight2")
    return float(moments.n * moments.row_mean("weight") ** 2 / square) if square > 0 else 0.0


def effective_rows_by_position(moments: Moments) -> Floats:
    """Return (sum w_k)^2 / sum w_k^2 (K,)."""
    square = moments.mean("ww")
    first = moments.mean("w") ** 2
    return moments.n * np.divide(first, square, out=np.zeros_like(first), where=square > 0)


@dataclass(frozen=True, slots=True)
class MeanWeightTest:
    """Is E[w_k] = 1 at each position? Means and z statistics (K,), and the family-wise p-value
    (Holm 1979).
    """

    mean: Floats
    z: Floats
    p_value: float

    @property
    def passed(self) -> bool:
        """No position contradicts E[w] = 1 at the 1 % level after adjustment."""
        return self.p_value > 0.01

    @property
    def adjusted(self) -> Floats:
        """P-values (K,) adjusted for the false-discovery rate over positions (Benjamini & Hochberg
        1995).
        """
        from scipy import special, stats

        found: Floats = stats.false_discovery_control(2 * special.ndtr(-np.abs(self.z)))
        return found


def mean_weight_test(moments: Moments) -> MeanWeightTest:
    """Test E[w_k] = 1 at every position: z_k = (mean w_k - 1) / se, by unit where rows belong to
    units.

    A single row or unit shows no spread, and so cannot contradict it: z = 0.
    """
    from scipy import special

    mean = moments.mean("w")
    # Equal weights have a variance of rounding, which may be negative: zero, not unknown.
    error = np.sqrt(np.maximum(_variance_of_mean_weight(moments), 0.0))
    off = np.where(np.isnan(error), 0.0, mean - 1.0)
    # No spread and a mean that is not one is certain: z is infinite, not unknown.
    z = np.divide(off, error, out=np.where(np.abs(off) > 1e-9, np.inf, 0.0), where=error > 0)
    p = 2 * special.ndtr(-np.abs(z))
    return MeanWeightTest(mean, z, float(min(1.0, len(p) * p.min())))


def _variance_of_mean_weight(moments: Moments) -> Floats:
    n, length = moments.n, moments.K
    if moments.buckets is not None:
        return clustered_variances(moments.buckets[:, length : 2 * length], moments.buckets[:, -1])
    return (
        spread(moments.mean("ww"), moments.mean("w") ** 2, n) / n
        if n > 1
        else np.full(length, np.nan)
    )


def largest_weight_share(moments: Moments) -> float:
    """Return max over positions of the largest weight's share of all weight."""
    sums = np.abs(moments.mean("w")) * moments.n
    return float(
        np.max(np.divide(moments.peaks[:-1], sums, out=np.zeros_like(sums), where=sums > 0))
    )


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
