"""What the histogram of weights in the moments can tell: survival, concentration, tail."""

import numpy as np
from numpy.typing import NDArray

from counterrank.moments import Moments

Floats = NDArray[np.float64]


def bin_edges() -> Floats:
    """Return the lower edges (BINS,) of the weight histogram; the first bin starts at zero."""
    from counterrank.kernels import accumulate as kernels

    index = np.arange(kernels.BINS - 1)
    octave, step = np.divmod(index, kernels.BINS_PER_OCTAVE)
    edges = 2.0 ** (octave + kernels.LOWEST_EXPONENT) * (1 + step / kernels.BINS_PER_OCTAVE)
    return np.concatenate([[0.0], edges])


def survival(moments: Moments) -> tuple[Floats, Floats]:
    """Return weights v and the share of rows whose mean |weight| is at least v, at every bin that holds a row."""
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
    """Return the Pareto shape k-hat of the largest weights: above 0.5 the variance, above 1 the mean may not exist.

    A generalised Pareto fit (Zhang & Stephens 2009) to the largest min(n/5, 3 sqrt(n)) rows, shrunk to 0.5 by ten
    rows' worth, as Vehtari et al. (2024) do. Rows come in bins of an eighth of an octave, each taken at its mean.
    Zero where the tail holds fewer than three different weights.
    """
    counts, sums = moments.histogram
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
    return (rows * _pareto_shape(excess[seen], size[seen]) + 5.0) / (rows + 10.0)


def _pareto_shape(excess: Floats, size: Floats) -> float:
    """Return the posterior-mean shape for ascending excesses (m,) that occur `size` (m,) times each."""
    rows = size.sum()
    grid = 30 + int(np.sqrt(rows))
    quartile = np.interp(0.25, np.cumsum(size) / rows, excess)
    spacing = 1 - np.sqrt(grid / (np.arange(1, grid + 1) - 0.5))
    theta = 1 / excess[-1] + spacing / (3 * quartile)  # (grid,), all below 1 / largest excess
    shape = np.log1p(-np.outer(theta, excess)) @ size / rows
    profile = rows * (np.log(-theta / shape) - shape - 1)
    weight = np.exp(profile - profile.max())
    best = float(theta @ weight / weight.sum())
    return float(np.log1p(-best * excess) @ size / rows)
